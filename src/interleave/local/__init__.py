"""What the backends that run models in this process share: devices, checkpoints, batching, decoding."""

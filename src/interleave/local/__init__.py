"""Backends that run models in this process, and their devices, checkpoints, batching and decoding."""

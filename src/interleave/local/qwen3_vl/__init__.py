"""A faster Qwen3-VL: prefill into a KV cache, decoding with CUDA graphs, batched vision."""

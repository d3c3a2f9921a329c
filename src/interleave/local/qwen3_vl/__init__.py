"""Qwen3-VL, faster than its library: prefill into a KV cache, decode by CUDA graphs, batched vision."""

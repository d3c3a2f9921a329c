"""Qwen3-VL computed faster than its library does: prefill, CUDA graph decoding, batched vision."""

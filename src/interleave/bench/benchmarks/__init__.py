"""The benchmarks, one file each, with their judge prompts and published numbers."""

"""The benchmarks, a file each, with the words of their judges and published numbers."""

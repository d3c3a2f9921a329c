"""Batches of runs: requests from a file, their assignment to generators and shards, the worker."""

from interleave.lazy_names import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)

"""Runs on disk: their journal, images and record; starting, continuing and limiting them."""

from interleave.lazy_names import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)

"""Drift of chained edits: measures, and control by masks, compositing, colour alignment and anchors."""

from interleave.lazy_names import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)

"""What chained edits lose, measured and held against: masks, compositing, colour alignment, anchors."""

from interleave.lazy_names import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)

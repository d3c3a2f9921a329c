"""A run on disk: its journal, images and record; how it is started, continued and limited."""

from interleave.lazy_names import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)

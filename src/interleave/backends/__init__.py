"""Models behind two protocols, named by spec strings and loaded on demand."""

from interleave.lazy_names import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)

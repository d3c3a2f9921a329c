"""Stable names for packages and rooms, besides those of `interleave`. `plugin.pyi` lists them.

All other names may change between versions. docs/reference/plugin.md describes each name.
"""

from interleave.lazy_names import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)

"""Configuration: spec strings, profiles, and what a run is made with."""

from interleave.lazy_names import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)

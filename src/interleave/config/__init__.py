"""Configuration: spec strings, profiles and the configuration of a run."""

from interleave.lazy_names import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)

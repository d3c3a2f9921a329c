"""Planner, critic and scorer: how a vision-language model is prompted, and how its reply is parsed."""

from interleave.lazy_names import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)

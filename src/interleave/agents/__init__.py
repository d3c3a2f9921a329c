"""Planner, critic and scorer: prompts for a vision-language model and parsers for its replies."""

from interleave.lazy_names import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)

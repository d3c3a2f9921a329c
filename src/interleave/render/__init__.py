"""Documents from runs: HTML, Markdown, and a gallery of a batch."""

from interleave.lazy_names import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)

"""What packages and rooms build on beside the names of `interleave`; `plugin.pyi` lists it.

Everything else may change from one version to the next. docs/reference/plugin.md says what each name is for.
"""

from interleave.lazy_names import lazy_names

__all__, __getattr__ = lazy_names(__name__, __file__)

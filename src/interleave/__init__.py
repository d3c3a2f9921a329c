"""Interleaved text-and-image generation for any image generator: plan, draw, judge, redraw.

>>> import interleave
>>> run = interleave.generate("How a frog grows up, in three images", profile="dry-run")  # doctest: +SKIP
>>> run.document  # doctest: +SKIP
PosixPath('runs/20261115-120000-how-a-frog-grows-up-in-three-images/document.html')
"""

import sys

from interleave.lazy_names import lazy_names
from interleave.moved import MovedModules
from interleave.version import __version__

sys.meta_path.insert(0, MovedModules())  # before the finder that would load a moved package's files again

_names, __getattr__ = lazy_names(__name__, __file__)
__all__ = ["__version__", *_names]


def __dir__() -> list[str]:
    return __all__

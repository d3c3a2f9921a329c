"""torchvision and torchaudio beside a CPU build of torch: import this before anything that imports them.

PyPI's wheels for x86-64 are built for CUDA, and their libraries cannot be loaded beside a CPU build of torch.
torchvision then fails on import because two operators are not declared; torchaudio fails outright. No trainer
calls those operators, or sounds, for our rows. Where the libraries can be loaded, nothing is done.
"""

from __future__ import annotations

import importlib.machinery
import sys
import types

import torch

library: torch.library.Library | None = None
try:
    import torchvision  # noqa: F401
except ImportError:
    pass
except RuntimeError:
    library = torch.library.Library("torchvision", "DEF")  # declared for as long as this is held
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

try:
    import torchaudio  # noqa: F401
except ImportError:
    pass
except OSError:
    silent = types.ModuleType("torchaudio")
    silent.__spec__ = importlib.machinery.ModuleSpec("torchaudio", None)
    sys.modules["torchaudio"] = silent

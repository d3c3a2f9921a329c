"""Blocks of a pipeline, compiled when there is so much to draw that it pays.

Compiling an image model takes half a minute and makes each picture a fifth faster. For one document that is a
loss, for a hundred a gain, and nobody knows beforehand which it will be. So the first pictures are drawn as
they are; who goes on drawing will have drawn as many again before the half minute is lost.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)

Drawn = TypeVar("Drawn")

COMPILE_AFTER = 64
"""Pictures: about as many as have to be drawn faster to make up for compiling."""
LARGE = 1_000_000_000
"""Weights of a model that is worth compiling for."""


def is_large(model: torch.nn.Module) -> bool:
    """Whether compiling pays at all: a small model is done before it is compiled."""
    return bool(sum(weights.numel() for weights in model.parameters()) >= LARGE)


def denoiser_of(pipeline: Any) -> Any | None:
    """The part of a pipeline that does most of the work."""
    return getattr(pipeline, "transformer", None) or getattr(pipeline, "unet", None)


def compile_blocks(pipeline: Any) -> None:
    """Compile the blocks that repeat: nearly all of the gain, in a fraction of the time the whole takes.

    For pictures of all sizes, with and without sources, at once: that is as fast, and each would take as
    long to compile for as the first.
    """
    denoiser = denoiser_of(pipeline)
    if getattr(denoiser, "_repeated_blocks", None):
        denoiser.compile_repeated_blocks(fullgraph=False, dynamic=True)  # type: ignore[union-attr]
    elif denoiser is not None:
        denoiser.compile(dynamic=True)


def uncompile(pipeline: Any) -> None:
    """As if nothing had been compiled."""
    for module in denoiser_of(pipeline).modules():  # type: ignore[union-attr]
        module._compiled_call_impl = None


class CompileLater:
    """Counts the pictures of a pipeline, and compiles it when there have been enough."""

    def __init__(self, pipeline: Any) -> None:
        self.pipeline = pipeline
        self._drawn = 0
        self._on_trial = False

    def draw(self, pictures: int, work: Callable[[], Drawn]) -> Drawn:
        """Draw so many pictures; what fails when it is first compiled is drawn again without."""
        if self._drawn < COMPILE_AFTER <= self._drawn + pictures:
            self._on_trial = True
            compile_blocks(self.pipeline)
        self._drawn += pictures
        try:
            made = work()
        except Exception as error:
            if not self._on_trial or not _is_of_compiling(error):
                raise
            log.warning("pictures are drawn as before, the model cannot be compiled: %s", str(error)[:300])
            uncompile(self.pipeline)
            made = work()
        self._on_trial = False
        return made


def _is_of_compiling(error: Exception) -> bool:
    """Whether a compiler is to blame: it says so, or what it needs is not on this machine."""
    return type(error).__module__.startswith(("torch._dynamo", "torch._inductor", "triton")) or isinstance(
        error, ImportError | OSError
    )

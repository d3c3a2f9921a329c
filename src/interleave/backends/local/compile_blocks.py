"""Blocks of a pipeline, compiled when there is so much to draw that it pays.

Compiling an image model takes many seconds, and spares a fraction of one for each picture. For one document
that is a loss, for a hundred a gain, and nobody knows beforehand which it will be. So the first pictures are
drawn as they are; who has drawn many will probably draw as many again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from subprocess import SubprocessError
from typing import TYPE_CHECKING, Any, TypeVar

from interleave.backends.local.library_errors import causes, forget_frames

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)

Drawn = TypeVar("Drawn")

COMPILE_AFTER = 64
"""Pictures. With FLUX.2-klein-9B on an H200 compiling takes 17 s for pictures drawn alone and 14 s for those
drawn together, and spares 0.2 to 0.3 s a picture: 50 to 90 pictures make up for one of the two."""
LARGE = 1_000_000_000
"""Weights of a model that is worth compiling for."""


def is_large(model: torch.nn.Module) -> bool:
    """Whether compiling pays at all: a small model is done before it is compiled."""
    return bool(sum(weights.numel() for weights in model.parameters()) >= LARGE)


def has_blocks(denoiser: Any) -> bool:
    """Whether it repeats blocks, so that compiling one compiles them all."""
    return bool(getattr(denoiser, "_repeated_blocks", None))


def denoiser_of(pipeline: Any) -> Any | None:
    """The part of a pipeline that does most of the work."""
    return getattr(pipeline, "transformer", None) or getattr(pipeline, "unet", None)


def compile_blocks(pipeline: Any) -> None:
    """Compile the blocks that repeat: nearly all of the gain, in a fraction of the time the whole takes.

    For pictures of all sizes, with and without sources, at once: that is as fast, and each would take as
    long to compile for as the first.
    """
    denoiser = denoiser_of(pipeline)
    if has_blocks(denoiser):
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
        self._compiled = False
        self._given_up = False

    def draw(self, pictures: int, work: Callable[[], Drawn]) -> Drawn:
        """Draw so many pictures; what cannot be compiled is drawn without.

        Compilers begin when a shape is first drawn, so one may fail long after others have been compiled.
        """
        self._drawn += pictures
        if self._drawn >= COMPILE_AFTER and not (self._compiled or self._given_up):
            self._compile()
        try:
            return work()
        except Exception as error:
            if not self._compiled or not _is_of_compiling(error):
                raise
            self._give_up(error)
            forget_frames(error)
        return work()

    def _compile(self) -> None:
        self._compiled = True
        try:
            compile_blocks(self.pipeline)
        except Exception as error:  # for this platform, or these blocks, there is no compiler
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        log.warning("pictures are drawn as before, the model cannot be compiled: %s", str(error)[:300])
        uncompile(self.pipeline)
        self._compiled, self._given_up = False, True


def _is_of_compiling(error: Exception) -> bool:
    """Whether a compiler is to blame: it says so, or what it needs is not on this machine."""
    return any(
        type(each).__module__.startswith(("torch._dynamo", "torch._inductor", "triton"))
        or isinstance(each, ImportError | OSError | SubprocessError)
        or "compiler" in str(each)
        for each in causes(error)
    )

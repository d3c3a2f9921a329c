"""Compile the repeated blocks of a pipeline after it has generated enough images for that to pay off.

Compiling an image model takes many seconds and saves a fraction of a second per image: a loss for one
document, a gain for a hundred, and the number is not known in advance. So the first images are generated
uncompiled; a process that has generated many will probably generate as many more.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from subprocess import SubprocessError
from typing import TYPE_CHECKING, Any, TypeVar

from interleave.local.library_errors import clear_frames
from interleave.plugin import errors

if TYPE_CHECKING:
    import torch

log = logging.getLogger(__name__)

Result = TypeVar("Result")

COMPILE_AFTER = 64
"""Images before compiling. With FLUX.2-klein-9B on an H200, compiling takes 17 s for single images and 14 s
for batches, and saves 0.2 to 0.3 s per image: each pays off after 50 to 90 images."""
LARGE = 1_000_000_000
"""Minimum number of weights of a model worth compiling."""


def is_large(model: torch.nn.Module) -> bool:
    """Return whether compiling can pay off: a small model generates images faster than it compiles."""
    tensors = (*model.parameters(), *model.buffers())  # weights in float8 are buffers
    return bool(sum(each.numel() for each in tensors) >= LARGE)


def has_blocks(denoiser: Any) -> bool:
    """Return whether a denoiser repeats blocks, so that compiling one compiles them all."""
    return bool(getattr(denoiser, "_repeated_blocks", None))


def denoiser_of(pipeline: Any) -> Any | None:
    """Return the transformer or U-Net of a pipeline, which does most of the work."""
    return getattr(pipeline, "transformer", None) or getattr(pipeline, "unet", None)


def compile_blocks(pipeline: Any) -> None:
    """Compile the repeated blocks: nearly all of the gain, in a fraction of the time of the whole model.

    Shapes are dynamic, for images of all sizes with and without sources. That is as fast, and every static
    shape would take as long to compile as the first.
    """
    denoiser = denoiser_of(pipeline)
    if has_blocks(denoiser):
        denoiser.compile_repeated_blocks(fullgraph=False, dynamic=True)  # type: ignore[union-attr]
    elif denoiser is not None:
        denoiser.compile(dynamic=True)


def uncompile(pipeline: Any) -> None:
    """Undo `compile_blocks`."""
    for module in denoiser_of(pipeline).modules():  # type: ignore[union-attr]
        module._compiled_call_impl = None


class CompileLater:
    """Counts a pipeline's images, and compiles it after `COMPILE_AFTER` of them."""

    def __init__(self, pipeline: Any) -> None:
        self.pipeline = pipeline
        self._drawn = 0
        self._compiled = False
        self._given_up = False

    def draw(self, images: int, work: Callable[[], Result]) -> Result:
        """Call `work`, which generates this many images; without compiled blocks if the compiler fails.

        A shape is compiled when it is first used, so one may fail long after others have succeeded.
        """
        self._drawn += images
        if self._drawn >= COMPILE_AFTER and not (self._compiled or self._given_up):
            self._compile()
        try:
            return work()
        except Exception as error:
            if not self._compiled or not _is_compiler_error(error):
                raise
            self._give_up(error)
            clear_frames(error)
        return work()

    def _compile(self) -> None:
        self._compiled = True
        try:
            compile_blocks(self.pipeline)
        except Exception as error:  # no compiler for this platform, or for these blocks
            self._give_up(error)

    def _give_up(self, error: Exception) -> None:
        log.warning("the model cannot be compiled, continuing uncompiled: %s", str(error)[:300])
        uncompile(self.pipeline)
        self._compiled, self._given_up = False, True


def _is_compiler_error(error: Exception) -> bool:
    """Return whether an error comes from the compiler, or from a missing tool that it needs."""
    return any(
        type(each).__module__.startswith(("torch._dynamo", "torch._inductor", "triton"))
        or isinstance(each, ImportError | OSError | SubprocessError)
        or "compiler" in str(each)
        for each in errors.causes(error)
    )

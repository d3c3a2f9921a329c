"""What the libraries raise, said in our words."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from interleave.errors import BackendError, ConfigurationError, InterleaveError, OutOfMemory


def is_out_of_memory(error: BaseException) -> bool:
    """Whether a device has too little memory, as torch or a library that allocates by itself says it."""
    import torch

    told = str(error)
    return isinstance(error, torch.OutOfMemoryError) or "out of memory" in told or "ALLOC_FAILED" in told


def causes(error: BaseException) -> Iterator[BaseException]:
    """An error, and those that it came of."""
    seen: set[int] = set()
    current: BaseException | None = error
    while current is not None and id(current) not in seen:
        seen.add(id(current))
        yield current
        current = current.__cause__ or current.__context__


def forget_frames(error: BaseException) -> None:
    """Let go of what the functions that failed held in their hands, while the error itself is kept."""
    for each in causes(error):
        traceback.clear_frames(each.__traceback__)


@contextmanager
def as_backend_error(
    what: str, batch: int, *, let_through: type[Exception] = InterleaveError
) -> Iterator[None]:
    """A failure while a model works."""
    try:
        yield
    except (InterleaveError, let_through):
        raise
    except Exception as error:  # the libraries raise anything at all
        if is_out_of_memory(error):
            raise OutOfMemory(
                f"{what} ran out of memory{f' with {batch} calls at once' if batch > 1 else ''}: "
                "use a smaller ?batch= or picture size, ?quantization=, or (diffusers) ?offload=model"
            ) from None
        raise BackendError(f"{what} failed: {_said(error)}") from error


@contextmanager
def as_configuration_error(what: str) -> Iterator[None]:
    """A failure while a model is loaded."""
    try:
        yield
    except InterleaveError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise ConfigurationError(
                f"{what}: there is not enough memory on the device. "
                "Use ?quantization=, ?device=, or (diffusers) ?offload=model"
            ) from None
        raise ConfigurationError(f"{what}: {_said(error)}") from error


def _said(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__

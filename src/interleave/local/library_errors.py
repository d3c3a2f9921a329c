"""Conversion of the libraries' errors to errors of this package."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager

from interleave import BackendError, ConfigurationError, InterleaveError
from interleave.plugin import errors


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether a device has run out of memory, in torch or in a library with its own allocator."""
    torch = sys.modules.get("torch")  # never imported for it: a model may run without torch
    if torch is not None and isinstance(error, torch.OutOfMemoryError):
        return True
    message = str(error)
    return "out of memory" in message or "ALLOC_FAILED" in message


def clear_frames(error: BaseException) -> None:
    """Drop the local variables, including tensors, of the frames in an error's tracebacks."""
    for each in errors.causes(error):
        traceback.clear_frames(each.__traceback__)


@contextmanager
def as_backend_error(
    what: str, batch: int, *, let_through: type[Exception] = InterleaveError
) -> Iterator[None]:
    """Turn a failure while a model computes into a `BackendError`."""
    try:
        yield
    except (InterleaveError, let_through):
        raise
    except Exception as error:  # the libraries raise any type
        if is_out_of_memory(error):
            raise errors.OutOfMemory(
                f"{what} ran out of memory{f' with a batch of {batch} calls' if batch > 1 else ''}: "
                "use a smaller ?batch= or image size, ?quantization=, or (diffusers) ?offload=model"
            ) from None
        raise BackendError(f"{what} failed: {_summary(error)}") from error


@contextmanager
def as_configuration_error(what: str) -> Iterator[None]:
    """Turn a failure while a model is loaded into a `ConfigurationError`."""
    try:
        yield
    except InterleaveError:
        raise
    except Exception as error:
        if is_out_of_memory(error):
            raise ConfigurationError(
                f"{what}: the device has too little memory. "
                "Use ?quantization=, ?device=, or (diffusers) ?offload=model"
            ) from None
        raise ConfigurationError(f"{what}: {_summary(error)}") from error


def _summary(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[0][:300]}" if lines else type(error).__name__

"""Errors of the libraries become errors of this package."""

from __future__ import annotations

import pytest
import torch

from interleave.errors import BackendError, OutOfMemory, StorageError
from interleave.local.library_errors import as_backend_error


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"),
        RuntimeError("CUDA error: out of memory"),
        RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    ],
    ids=lambda error: str(error)[:24],
)
def test_out_of_memory_is_recognized_in_every_form(error: Exception) -> None:
    told = "the model ran out of memory with a batch of 4 calls: use a smaller"
    with pytest.raises(OutOfMemory, match=told) as caught, as_backend_error("the model", 4):
        raise error
    assert not isinstance(caught.value, StorageError)


def test_any_other_error_is_a_failure_of_the_model() -> None:
    told = "the model failed: ValueError: no"
    with pytest.raises(BackendError, match=told) as caught, as_backend_error("the model", 4):
        raise ValueError("no")
    assert not isinstance(caught.value, OutOfMemory)

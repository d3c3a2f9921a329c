"""What the libraries raise, said in our words."""

from __future__ import annotations

import weakref

import pytest
import torch

from interleave.backends.local.failures import OutOfMemory, as_backend_error


class Activations:
    """Much memory."""


def test_what_ran_out_of_memory_lets_go_of_it_while_its_error_is_handled() -> None:
    held: list[weakref.ref[Activations]] = []

    def compute() -> None:
        activations = Activations()
        held.append(weakref.ref(activations))
        raise torch.OutOfMemoryError("CUDA out of memory")

    try:
        with as_backend_error("the model", 4):
            compute()
    except OutOfMemory as error:
        assert "with 4 calls at once" in str(error)
        assert held[0]() is None
    else:
        pytest.fail("nothing was raised")

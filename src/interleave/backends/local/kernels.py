"""Which kernels of torch a model is computed with where a CPU lacks the instructions for the usual ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@contextmanager
def kernels_for(dtype: torch.dtype, device: torch.device) -> Iterator[None]:
    """Compute without oneDNN where it has no kernels for this number format on this CPU.

    Torch would find that out at the first product, warn, and do without oneDNN for all models of the
    process from there on. The setting is the process's, but all models on a CPU take turns in one lane.
    """
    import torch

    if onednn_can(dtype, device):
        yield
        return
    before = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = before


def onednn_can(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether oneDNN computes with this number format, which asks for instructions only in bfloat16."""
    import torch

    if device.type != "cpu" or dtype != torch.bfloat16 or not torch.backends.mkldnn.is_available():
        return True
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())

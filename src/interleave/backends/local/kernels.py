"""Kernels of torch for CPUs that lack the instructions of the usual ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


@contextmanager
def kernels_for(dtype: torch.dtype, device: torch.device) -> Iterator[None]:
    """Turn oneDNN off where it has no kernels for this dtype on this CPU.

    Torch would find that out at the first product, warn, and turn oneDNN off for all models of the process
    from there on. The setting is the process's, but all models on a CPU are computed in one thread.
    """
    import torch

    if onednn_supports(dtype, device):
        yield
        return
    before = torch.backends.mkldnn.enabled
    torch.backends.mkldnn.enabled = False
    try:
        yield
    finally:
        torch.backends.mkldnn.enabled = before


def onednn_supports(dtype: torch.dtype, device: torch.device) -> bool:
    """Whether oneDNN has kernels for this dtype; only bfloat16 needs special instructions."""
    import torch

    if device.type != "cpu" or dtype != torch.bfloat16 or not torch.backends.mkldnn.is_available():
        return True
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())

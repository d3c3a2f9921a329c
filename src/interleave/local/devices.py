"""The device and dtype of a model, its memory, and the kernels of CPUs."""

from __future__ import annotations

import gc
import importlib.util
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from interleave import ConfigurationError
from interleave.local.fp8 import supports_float8
from interleave.local.options import Quantization


def choose_device(wanted: str) -> torch.device:
    """The device that a spec names; refuses one that does not exist."""
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "mps" if _has_mps() else "cpu"
    if wanted.startswith("cuda"):
        count = torch.cuda.device_count()
        index = int(wanted.partition(":")[2] or 0)
        if index >= count:
            raise ConfigurationError(
                f"the device {wanted!r} is not there ({count} CUDA devices are): use ?device=cpu or another"
            )
        return torch.device("cuda", index)
    if wanted == "mps" and not _has_mps():
        raise ConfigurationError("the device 'mps' is not there: use ?device=cpu")
    return torch.device(wanted)


def choose_dtype(wanted: str, device: torch.device) -> torch.dtype:
    """The dtype of the weights."""
    if wanted == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    dtypes = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
    return dtypes[wanted]


def check_quantization(wanted: Quantization, device: torch.device) -> None:
    """Refuse quantized weights without the device or the package they need."""
    if wanted == "none":
        return
    if wanted == "fp8":
        if not supports_float8(device):
            raise ConfigurationError(
                "?quantization=fp8 needs a GPU that multiplies float8 numbers (NVIDIA Ada, Hopper or later), "
                f"and this {device.type!r} device does not: leave it out"
            )
        return
    if device.type != "cuda":
        raise ConfigurationError(
            f"?quantization={wanted} needs a CUDA device, and this is {device.type!r}: leave it out"
        )
    if importlib.util.find_spec("bitsandbytes") is None:
        raise ConfigurationError(
            f"?quantization={wanted} needs a package. Install it with: pip install bitsandbytes"
        )


def release_memory(device: torch.device) -> None:
    """Return memory that is no longer used to the device."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _has_mps() -> bool:
    return bool(torch.backends.mps.is_available())


@contextmanager
def kernels_for(dtype: torch.dtype, device: torch.device) -> Iterator[None]:
    """Turn oneDNN off where it has no kernels for this dtype on this CPU.

    Torch would find that out at the first product, warn, and turn oneDNN off for all models of the process
    from there on. The setting is the process's, but all models on a CPU are computed in one thread.
    """
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
    if device.type != "cpu" or dtype != torch.bfloat16 or not torch.backends.mkldnn.is_available():
        return True
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())

"""Device and dtype of a model, device memory, and CPU kernels."""

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
    """Return the device named by a spec; raise `ConfigurationError` if it does not exist."""
    if wanted == "auto":
        wanted = "cuda" if torch.cuda.is_available() else "mps" if _has_mps() else "cpu"
    if wanted.startswith("cuda"):
        count = torch.cuda.device_count()
        index = int(wanted.partition(":")[2] or 0)
        if index >= count:
            raise ConfigurationError(
                f"the device {wanted!r} does not exist ({count} CUDA devices found): try ?device=cpu"
            )
        return torch.device("cuda", index)
    if wanted == "mps" and not _has_mps():
        raise ConfigurationError("the device 'mps' does not exist: use ?device=cpu")
    return torch.device(wanted)


def choose_dtype(wanted: str, device: torch.device) -> torch.dtype:
    """Return the dtype of the weights."""
    if wanted == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    dtypes = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
    return dtypes[wanted]


def check_quantization(wanted: Quantization, device: torch.device) -> None:
    """Reject a quantization whose device or package is missing."""
    if wanted == "none":
        return
    if wanted == "fp8":
        if not supports_float8(device):
            raise ConfigurationError(
                "?quantization=fp8 needs a GPU with float8 products (NVIDIA Ada, Hopper or later), "
                f"and this is a {device.type!r} device: omit it"
            )
        return
    if device.type != "cuda":
        raise ConfigurationError(
            f"?quantization={wanted} needs a CUDA device, and this is {device.type!r}: omit it"
        )
    if importlib.util.find_spec("bitsandbytes") is None:
        raise ConfigurationError(
            f"?quantization={wanted} needs the package 'bitsandbytes': pip install bitsandbytes"
        )


def release_memory(device: torch.device) -> None:
    """Release unused memory to the device."""
    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _has_mps() -> bool:
    return bool(torch.backends.mps.is_available())


@contextmanager
def kernels_for(dtype: torch.dtype, device: torch.device) -> Iterator[None]:
    """Turn oneDNN off if it has no kernels for this dtype on this CPU.

    Otherwise torch would warn at the first product and turn oneDNN off for all models of the process. The
    setting is global, but all models on a CPU run in one thread.
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
    """Return whether oneDNN has kernels for this dtype; only bfloat16 needs special instructions."""
    if device.type != "cpu" or dtype != torch.bfloat16 or not torch.backends.mkldnn.is_available():
        return True
    return bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())

"""The options that all models in this process share, and the device and dtype they resolve to."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from interleave.config.specs import BackendOptions
from interleave.errors import ConfigurationError

if TYPE_CHECKING:
    import torch

Quantisation = Literal["none", "8bit", "4bit"]


class LocalOptions(BackendOptions):
    """Options of a model that runs in this process."""

    device: str = Field(default="auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")
    """`cpu`, `mps`, `cuda` or `cuda:1`; `auto` takes a GPU where there is one."""
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    """`auto`: bfloat16 on a GPU, float32 on a CPU, where half precision is many times slower."""
    revision: str | None = None
    """A branch, tag or commit on the Hub."""
    batch: int | None = Field(default=None, ge=1, le=1024)
    """How many calls are computed together at most."""
    compile: bool | None = None
    """Whether to compile the model: some time at the start, faster afterwards. Unset: where that pays."""
    quantization: Quantisation = "none"
    """Weights in fewer bits, with bitsandbytes on a CUDA device."""
    trust_remote_code: bool = False
    """Whether code that comes with the model may be run."""


def choose_device(wanted: str) -> torch.device:
    """The device that a spec names; refuses one that does not exist."""
    import torch

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
    import torch

    if wanted == "auto":
        return torch.float32 if device.type == "cpu" else torch.bfloat16
    dtypes = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
    return dtypes[wanted]


def refuse_quantisation(wanted: Quantisation, device: torch.device) -> None:
    """Refuse quantised weights without a CUDA device or the package they need."""
    import importlib.util

    if wanted == "none":
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
    import gc

    import torch

    gc.collect()
    if device.type == "cuda":
        torch.cuda.empty_cache()


def _has_mps() -> bool:
    import torch

    return bool(torch.backends.mps.is_available())

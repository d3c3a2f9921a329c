"""Options shared by all models in this process."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from interleave.plugin import BackendOptions

Quantization = Literal["none", "fp8", "8bit", "4bit"]
"""`fp8`: matrix products in float8, if the GPU supports it; `8bit`, `4bit`: weights, with bitsandbytes."""


class LocalOptions(BackendOptions):
    """Options of a model that runs in this process."""

    device: str = Field(default="auto", pattern=r"^(auto|cpu|mps|cuda(:\d+)?)$")
    """`cpu`, `mps`, `cuda` or `cuda:1`; `auto` uses a GPU if there is one."""
    dtype: Literal["auto", "float32", "float16", "bfloat16"] = "auto"
    """`auto`: bfloat16 on a GPU, float32 on a CPU, which is many times slower in half precision."""
    revision: str | None = None
    """A branch, tag or commit on the Hub."""
    batch: int | None = Field(default=None, ge=1, le=1024)
    """Maximum calls per batch."""
    compile: bool | None = None
    """Whether to compile the model: slower to start, faster afterwards. Unset: if that is worthwhile."""
    trust_remote_code: bool = False
    """Whether code that comes with the model may run."""

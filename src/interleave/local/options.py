"""The options that all models in this process share."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from interleave.plugin import BackendOptions

Quantization = Literal["none", "fp8", "8bit", "4bit"]
"""`fp8`: products in float8, where a GPU has them; `8bit`, `4bit`: weights, with bitsandbytes."""


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
    trust_remote_code: bool = False
    """Whether code that comes with the model may be run."""

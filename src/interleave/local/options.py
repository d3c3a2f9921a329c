"""Options of models in this process; light to import."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from interleave.local.source_images import SIDE_MULTIPLE
from interleave.plugin import BackendOptions, backends

Quantization = Literal["none", "fp8", "8bit", "4bit"]
"""`fp8`: matrix products in float8, if the GPU supports it; `8bit`, `4bit`: weights, with bitsandbytes."""
Offload = Literal["none", "model", "sequential"]
LEAST_SIDE, MOST_SIDE = 64, 4096
TRAINED_PIXELS = 1024 * 1024
"""The image size in the training of the planner and critic checkpoints; larger images are scaled down."""


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


class DiffusersOptions(LocalOptions):
    """Options of an image model."""

    quantization: Quantization = "none"
    steps: int | None = Field(default=None, ge=1, le=1000)
    guidance: float | None = Field(default=None, ge=0, le=100)
    image_guidance: float | None = Field(default=None, ge=0, le=100)
    """Guidance by the sources, for OmniGen and OmniGen2."""
    size: int | None = Field(default=None, ge=LEAST_SIDE, le=MOST_SIDE, multiple_of=SIDE_MULTIPLE)
    """Both width and height."""
    width: int | None = Field(default=None, ge=LEAST_SIDE, le=MOST_SIDE, multiple_of=SIDE_MULTIPLE)
    height: int | None = Field(default=None, ge=LEAST_SIDE, le=MOST_SIDE, multiple_of=SIDE_MULTIPLE)
    shape: Literal["fixed", "source"] = "fixed"
    """Whether an edit has the fixed size, or as many pixels in the aspect ratio of its first source."""
    negative_prompt: str | None = None
    prompt_tokens: int | None = Field(default=None, ge=8, le=65_536)
    """Maximum prompt tokens that are read."""
    mask: str | None = None
    """For FLUX.1 Fill: an image with the area to redraw in white; `request` if every request has one."""
    transformer: str | None = None
    """The transformer's weights as a single file, e.g. in float8: a file, ORG/NAME or ORG/NAME/FILE."""
    lora: str | None = None
    """LoRA weights: a file, a folder, ORG/NAME or ORG/NAME/FILE.safetensors."""
    lora_scale: float = Field(default=1.0, ge=-10, le=10)
    offload: Offload = "none"
    """`model` keeps only the active part on the GPU, `sequential` only the active layer; both slower."""


class TransformersOptions(LocalOptions, backends.SamplingOptions):
    """Options of a vision-language model."""

    attention: Literal["auto", "sdpa", "eager", "flash_attention_2", "flash_attention_3"] = "auto"
    quantization: Quantization = "none"
    adapter: str | None = None
    """A LoRA adapter for the model: a folder, or ORG/NAME."""
    adapter_revision: str | None = None
    max_pixels: int | None = Field(default=TRAINED_PIXELS, ge=1024)
    """Images with more pixels are scaled down to this."""
    cache: Literal["auto", "dynamic", "static"] = "auto"
    """Whether the KV cache has a fixed size; `auto`: if that makes decoding faster."""
    reuse: bool | None = None
    """Whether to cache prompt prefixes for later prompts; by default not with ?batch=1, which guarantees
    the same bits for a call regardless of earlier calls."""

"""How a pipeline is called, once everybody has been heard: the spec, the model folder, the family."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from pydantic import Field

from interleave.backends.generators.families import Family, Lightning
from interleave.backends.local.canvases import STEP
from interleave.backends.local.options import LocalOptions
from interleave.backends.local.pipeline_settings import CallSettings
from interleave.backends.local.pipelines import Offload


class DrawingOptions(LocalOptions):
    """What a spec can say."""

    steps: int | None = Field(default=None, ge=1, le=1000)
    guidance: float | None = Field(default=None, ge=0, le=100)
    size: int | None = Field(default=None, ge=64, le=4096, multiple_of=STEP)
    """Width and height at once."""
    width: int | None = Field(default=None, ge=64, le=4096, multiple_of=STEP)
    height: int | None = Field(default=None, ge=64, le=4096, multiple_of=STEP)
    shape: Literal["fixed", "source"] = "fixed"
    """Whether an edit is of the usual size, or as large but of the shape of its first source."""
    negative_prompt: str | None = None
    prompt_tokens: int | None = Field(default=None, ge=8, le=65_536)
    """How many tokens of a prompt are read."""
    mask: str | None = None
    """A black-and-white picture for FLUX.1 Fill: white is redrawn."""
    lora: str | None = None
    """LoRA weights: a file, a folder, ORG/NAME or ORG/NAME/FILE.safetensors."""
    lora_scale: float = Field(default=1.0, ge=-10, le=10)
    offload: Offload = "none"
    """`model` keeps only the part at work on the GPU, `sequential` only the layer: slower."""


@dataclass(frozen=True)
class Settings:
    """What every picture is drawn with."""

    steps: int
    guidance: float
    size: tuple[int, int]
    prompt_tokens: int | None
    max_sources: int
    more: dict[str, Any]


def settle(
    family: Family,
    model: str,
    options: DrawingOptions,
    folder: CallSettings,
    lightning: Lightning | None,
) -> Settings:
    """A spec comes first, then a Lightning LoRA, the folder, what is known of the model, and its family."""
    advice = family.advice(model)
    prompt_tokens = _first(
        options.prompt_tokens, folder.max_sequence_length, advice.prompt_tokens, family.prompt_tokens
    )
    return Settings(
        steps=_first(
            options.steps,
            lightning and lightning.steps,
            folder.num_inference_steps,
            advice.steps,
            family.steps,
        ),
        guidance=_first(
            options.guidance,
            lightning and lightning.guidance,
            folder.guidance_scale,
            advice.guidance,
            family.guidance,
        ),
        size=(
            _first(options.width, options.size, folder.width, family.side),
            _first(options.height, options.size, folder.height, family.side),
        ),
        prompt_tokens=prompt_tokens,
        max_sources=min(family.most_sources, _first(folder.max_sources, family.most_sources)),
        more={"text_encoder_out_layers": folder.text_encoder_out_layers}
        if folder.text_encoder_out_layers
        else {},
    )


def _first(*values: Any) -> Any:
    """The first that is there."""
    return next((value for value in values if value is not None), None)

"""The diffusers pipelines we know how to call: one row per family. Adding one is adding a row.

A row says what the pipeline's `__call__` names things and what its makers advise; everything else, batches,
seeds, sizes, masks, progress, is the same for all of them and is written once, in `diffusers.py`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from interleave.errors import ConfigurationError, did_you_mean


@dataclass(frozen=True)
class Advice:
    """Where one model of a family wants to be called differently from the others."""

    steps: int | None = None
    guidance: float | None = None
    prompt_tokens: int | None = None


@dataclass(frozen=True)
class Family:
    """How the pipelines of one class are called."""

    summary: str
    models: Mapping[str, Advice]
    """Models of this family on the Hub, as examples and for what they want different."""
    steps: int
    guidance: float
    side: int = 1024
    """Width and height of a picture, unless a model folder or a user says otherwise."""
    guidance_parameter: str | None = "guidance_scale"
    """None where there is no such knob."""
    most_sources: int = 0
    source_parameter: str = "image"
    source_mark: str | None = None
    """What stands in the prompt for a source, where the pipeline wants it named; {} is its number."""
    text_to_image: bool = True
    starts_on_white: bool = False
    """Whether it can only edit, so that a first picture is drawn on a white canvas."""
    takes_size: bool = True
    takes_mask: bool = False
    """Whether it redraws only where a mask is white."""
    batches: Literal["nothing", "text", "everything"] = "nothing"
    """What can be drawn together: nothing, pictures from text, or edits of different sources as well."""
    prompt_tokens: int | None = 512
    """How many tokens of a prompt are read; None where there is no such limit."""
    prompt_tokens_parameter: str | None = "max_sequence_length"
    chat: bool = False
    """Whether the pipeline puts a prompt into its tokenizer's chat template, whose words are read too."""
    tokenizer: str = "tokenizer"
    cut_prompts: bool = False
    """Whether a prompt that is too long must be cut before it is passed on."""
    negative: str | None = None
    """The negative prompt its makers advise; None where it takes none."""
    other: Mapping[str, object] = field(default_factory=dict)
    """Further arguments of every call."""

    def advice(self, model: str) -> Advice:
        return self.models.get(model, Advice())


FAMILIES: dict[str, Family] = {
    "Flux2KleinPipeline": Family(
        "FLUX.2 klein: draws and edits in 4 steps",
        {
            "black-forest-labs/FLUX.2-klein-9B": Advice(),
            "black-forest-labs/FLUX.2-klein-4B": Advice(),
            "black-forest-labs/FLUX.2-klein-base-9B": Advice(steps=50, guidance=4.0),
            "black-forest-labs/FLUX.2-klein-base-4B": Advice(steps=50, guidance=4.0),
        },
        steps=4,
        guidance=1.0,
        most_sources=4,
        batches="everything",
        chat=True,
    ),
    "Flux2Pipeline": Family(
        "FLUX.2: draws and edits, up to ten sources",
        {"black-forest-labs/FLUX.2-dev": Advice()},
        steps=50,
        guidance=4.0,
        most_sources=10,
        batches="everything",
    ),
    "QwenImagePipeline": Family(
        "Qwen-Image: draws from text",
        {"Qwen/Qwen-Image": Advice(), "Qwen/Qwen-Image-2512": Advice()},
        steps=50,
        guidance=4.0,
        guidance_parameter="true_cfg_scale",
        side=1328,
        negative=" ",
        batches="text",
    ),
    "QwenImageEditPipeline": Family(
        "Qwen-Image-Edit: edits one source",
        {"Qwen/Qwen-Image-Edit": Advice()},
        steps=50,
        guidance=4.0,
        guidance_parameter="true_cfg_scale",
        negative=" ",
        most_sources=1,
        starts_on_white=True,
    ),
    "QwenImageEditPlusPipeline": Family(
        "Qwen-Image-Edit 2509 and 2511: edits up to three sources",
        {"Qwen/Qwen-Image-Edit-2509": Advice(), "Qwen/Qwen-Image-Edit-2511": Advice()},
        steps=40,
        guidance=4.0,
        guidance_parameter="true_cfg_scale",
        negative=" ",
        most_sources=3,
        starts_on_white=True,
    ),
    "FluxPipeline": Family(
        "FLUX.1: draws from text (dev, Krea, schnell)",
        {
            "black-forest-labs/FLUX.1-Krea-dev": Advice(guidance=4.5),
            "black-forest-labs/FLUX.1-dev": Advice(),
            "black-forest-labs/FLUX.1-schnell": Advice(steps=4, guidance=0.0, prompt_tokens=256),
        },
        steps=28,
        guidance=3.5,
        batches="text",
        tokenizer="tokenizer_2",
    ),
    "FluxKontextPipeline": Family(
        "FLUX.1 Kontext: draws, and edits one source",
        {"black-forest-labs/FLUX.1-Kontext-dev": Advice()},
        steps=28,
        guidance=2.5,
        most_sources=1,
        batches="text",
        tokenizer="tokenizer_2",
    ),
    "FluxFillPipeline": Family(
        "FLUX.1 Fill: redraws a source where a mask is white",
        {"black-forest-labs/FLUX.1-Fill-dev": Advice()},
        steps=50,
        guidance=30.0,
        most_sources=1,
        text_to_image=False,
        takes_mask=True,
        tokenizer="tokenizer_2",
    ),
    "LongCatImagePipeline": Family(
        "LongCat-Image: draws from text",
        {"meituan-longcat/LongCat-Image": Advice()},
        steps=50,
        guidance=4.5,
        negative="",
        prompt_tokens_parameter=None,
        # Rewriting would draw something else than the prompt that the critic is shown and may refine.
        other={"enable_prompt_rewrite": False},
    ),
    "LongCatImageEditPipeline": Family(
        "LongCat-Image-Edit: edits one source",
        {"meituan-longcat/LongCat-Image-Edit": Advice()},
        steps=50,
        guidance=4.5,
        negative="",
        most_sources=1,
        starts_on_white=True,
        takes_size=False,
        prompt_tokens_parameter=None,
        cut_prompts=True,  # diffusers 0.42 fails on one that is too long
    ),
    "OmniGenPipeline": Family(
        "OmniGen: draws, and edits up to three sources",
        {"Shitao/OmniGen-v1-diffusers": Advice()},
        steps=50,
        guidance=2.5,
        most_sources=3,
        source_parameter="input_images",
        source_mark="<img><|image_{}|></img>",
        prompt_tokens=None,
        prompt_tokens_parameter=None,
        other={"img_guidance_scale": 1.6},
    ),
}

ABSENT = {
    "OmniGen2Pipeline": "OmniGen2 is not a part of diffusers: serve it with its own code and use the server, "
    "http://host:8011, or use another generator",
}


def family_of(pipeline: str) -> Family:
    """The row of a pipeline class; says what to do where there is none."""
    if pipeline in ABSENT:
        raise ConfigurationError(ABSENT[pipeline])
    if pipeline not in FAMILIES:
        raise ConfigurationError(
            f"the pipeline {pipeline!r} is not known. {did_you_mean(pipeline, FAMILIES)} To add it, write a "
            "row for it in interleave/backends/generators/families.py (docs/add-a-generator.md shows one)"
        )
    return FAMILIES[pipeline]


def pipeline_of(model: str) -> str | None:
    """The pipeline class of a model that a row names."""
    return next((name for name, family in FAMILIES.items() if model in family.models), None)


@dataclass(frozen=True)
class Lightning:
    """What the Lightning LoRAs of Qwen-Image want: few steps, no guidance, a fixed shift of the schedule."""

    steps: int
    guidance: float = 1.0

    @classmethod
    def named(cls, lora: str) -> Lightning | None:
        name = lora.lower()
        if "lightning" not in name:
            return None
        return cls(4 if "4step" in name.replace("-", "") else 8)

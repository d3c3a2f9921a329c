"""The supported diffusers pipelines, one row per family. To support another one, add a row.

A row has the parameter names of the pipeline's `__call__` and the settings its authors recommend. Everything
else (batches, seeds, sizes, masks, progress) is the same for all families, in `diffusers_generator.py`.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from interleave import ConfigurationError, MissingDependency
from interleave.plugin import did_you_mean


@dataclass(frozen=True)
class Advice:
    """Recommended settings of one model that differ from its family's."""

    steps: int | None = None
    guidance: float | None = None
    prompt_tokens: int | None = None


@dataclass(frozen=True)
class OwnCode:
    """The classes of a pipeline outside diffusers, in a package that its authors publish.

    They replace the code next to the weights, which is never run.
    """

    package: str
    pipeline: str
    """The pipeline class as `package.module:Class`."""
    parts: Mapping[str, str]
    """The classes of parts that are neither in diffusers nor in transformers."""
    install: str


@dataclass(frozen=True)
class Family:
    """The calling convention of one pipeline class."""

    summary: str
    models: Mapping[str, Advice]
    """Models of this family on the Hub, with their recommended settings."""
    steps: int
    guidance: float
    side: int = 1024
    """Default width and height, which the model folder or the spec may override."""
    guidance_parameter: str | None = "guidance_scale"
    """None if the pipeline has no such parameter."""
    max_sources: int = 0
    source_parameter: str = "image"
    source_mark: str | None = None
    """The placeholder of a source in the prompt, if the pipeline needs one; {} is its number."""
    text_to_image: bool = True
    starts_on_white: bool = False
    """Whether it can only edit, so that an image without a source starts from a white canvas."""
    side_multiple: int = 16
    """Sizes derived from an image have sides that are multiples of this; others are cropped or shifted."""
    sizes: tuple[tuple[int, int], ...] = ()
    """The trained sizes, if the pipeline scales sources to one of them."""
    takes_size: bool = True
    takes_mask: bool = False
    """Whether it redraws only the white area of a mask."""
    batches: Literal["nothing", "text", "everything"] = "nothing"
    """The requests that can share a batch: none, images from text, or also edits of different sources."""
    prompt_tokens: int | None = 512
    """Maximum prompt tokens that are read; None if unlimited."""
    prompt_tokens_parameter: str | None = "max_sequence_length"
    chat_template: bool = False
    """Whether the pipeline puts a prompt into its tokenizer's chat template, whose tokens count as well."""
    tokenizer: str = "tokenizer"
    truncate_prompts: bool = False
    """Whether a prompt that is too long must be truncated before it is passed on."""
    negative_prompt: str | None = None
    """The recommended negative prompt; None if the pipeline takes none."""
    image_guidance: float | None = None
    """Guidance by the sources, if that is a separate setting."""
    image_guidance_parameter: str = "image_guidance_scale"
    extra_arguments: Mapping[str, object] = field(default_factory=dict)
    """Further arguments of every call."""
    global_noise: bool = False
    """Whether some of its noise comes from torch's global generator, which must then be seeded."""
    own_code: OwnCode | None = None

    def advice(self, model: str) -> Advice:
        return self.models.get(model, Advice())

    def require_code(self) -> None:
        """Raise `MissingDependency` if its package is needed and not installed."""
        own = self.own_code
        if own is not None and importlib.util.find_spec(own.package) is None:
            raise MissingDependency(
                f"{self.summary.partition(':')[0]} is not part of diffusers, and its package "
                f"{own.package!r} is not installed: {own.install}"
            )


_KONTEXT_HALF = (
    *((672, 1568), (688, 1504), (720, 1456), (752, 1392)),
    *((800, 1328), (832, 1248), (880, 1184), (944, 1104)),
)
KONTEXT_SIZES = (*_KONTEXT_HALF, (1024, 1024), *((high, wide) for wide, high in reversed(_KONTEXT_HALF)))

FAMILIES: dict[str, Family] = {
    "Flux2KleinPipeline": Family(
        "FLUX.2 klein: generates and edits in 4 steps",
        {
            "black-forest-labs/FLUX.2-klein-9B": Advice(),
            "black-forest-labs/FLUX.2-klein-4B": Advice(),
            "black-forest-labs/FLUX.2-klein-base-9B": Advice(steps=50, guidance=4.0),
            "black-forest-labs/FLUX.2-klein-base-4B": Advice(steps=50, guidance=4.0),
        },
        steps=4,
        guidance=1.0,
        side_multiple=32,
        max_sources=4,
        batches="everything",
        chat_template=True,
    ),
    "Flux2KleinKVPipeline": Family(
        "FLUX.2 klein KV: reads its sources in the first of 4 steps, and caches their keys and values",
        {"black-forest-labs/FLUX.2-klein-9b-kv": Advice()},
        steps=4,
        guidance=1.0,
        guidance_parameter=None,
        side_multiple=32,
        max_sources=4,
        batches="everything",
        chat_template=True,
    ),
    "Flux2Pipeline": Family(
        "FLUX.2: generates and edits, up to ten sources",
        {"black-forest-labs/FLUX.2-dev": Advice()},
        steps=50,
        guidance=4.0,
        side_multiple=32,
        max_sources=10,
        batches="everything",
    ),
    "QwenImagePipeline": Family(
        "Qwen-Image: generates from text",
        {"Qwen/Qwen-Image": Advice(), "Qwen/Qwen-Image-2512": Advice()},
        steps=50,
        guidance=4.0,
        guidance_parameter="true_cfg_scale",
        side=1328,
        negative_prompt=" ",
        batches="text",
    ),
    "QwenImageEditPipeline": Family(
        "Qwen-Image-Edit: edits one source",
        {"Qwen/Qwen-Image-Edit": Advice()},
        steps=50,
        guidance=4.0,
        guidance_parameter="true_cfg_scale",
        negative_prompt=" ",
        side_multiple=32,
        max_sources=1,
        starts_on_white=True,
    ),
    "QwenImageEditPlusPipeline": Family(
        "Qwen-Image-Edit 2509 and 2511: edits up to three sources",
        {"Qwen/Qwen-Image-Edit-2509": Advice(), "Qwen/Qwen-Image-Edit-2511": Advice()},
        steps=40,
        guidance=4.0,
        guidance_parameter="true_cfg_scale",
        negative_prompt=" ",
        side_multiple=32,
        max_sources=3,
        starts_on_white=True,
    ),
    "FluxPipeline": Family(
        "FLUX.1: generates from text (dev, Krea, schnell)",
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
        "FLUX.1 Kontext: generates, and edits one source",
        {"black-forest-labs/FLUX.1-Kontext-dev": Advice()},
        steps=28,
        guidance=2.5,
        sizes=KONTEXT_SIZES,
        max_sources=1,
        batches="text",
        tokenizer="tokenizer_2",
    ),
    "FluxFillPipeline": Family(
        "FLUX.1 Fill: redraws the white area of a mask in a source",
        {"black-forest-labs/FLUX.1-Fill-dev": Advice()},
        steps=50,
        guidance=30.0,
        max_sources=1,
        text_to_image=False,
        takes_mask=True,
        tokenizer="tokenizer_2",
    ),
    "LongCatImagePipeline": Family(
        "LongCat-Image: generates from text",
        {"meituan-longcat/LongCat-Image": Advice()},
        steps=50,
        guidance=4.5,
        negative_prompt="",
        prompt_tokens_parameter=None,
        # The critic must see, and may refine, the prompt that is used.
        extra_arguments={"enable_prompt_rewrite": False},
    ),
    "LongCatImageEditPipeline": Family(
        "LongCat-Image-Edit: edits one source",
        {"meituan-longcat/LongCat-Image-Edit": Advice()},
        steps=50,
        guidance=4.5,
        negative_prompt="",
        max_sources=1,
        starts_on_white=True,
        takes_size=False,
        prompt_tokens_parameter=None,
        truncate_prompts=True,  # diffusers 0.42 fails on a longer prompt
    ),
    "OmniGenPipeline": Family(
        "OmniGen: generates, and edits up to three sources",
        {"Shitao/OmniGen-v1-diffusers": Advice()},
        steps=50,
        guidance=2.5,
        max_sources=3,
        source_parameter="input_images",
        source_mark="<img><|image_{}|></img>",
        prompt_tokens=None,
        prompt_tokens_parameter=None,
        image_guidance=1.6,
        image_guidance_parameter="img_guidance_scale",
    ),
    "OmniGen2Pipeline": Family(
        "OmniGen2: generates, and edits up to three sources",
        {"OmniGen2/OmniGen2": Advice()},
        steps=50,
        guidance=5.0,
        guidance_parameter="text_guidance_scale",
        image_guidance=2.0,
        max_sources=3,
        source_parameter="input_images",
        prompt_tokens=1024,
        chat_template=True,
        tokenizer="processor",
        negative_prompt="",
        # Otherwise an edit of one source would have the size of the source.
        extra_arguments={"align_res": False},
        global_noise=True,
        own_code=OwnCode(
            package="omnigen2",
            pipeline="omnigen2.pipelines.omnigen2.pipeline_omnigen2:OmniGen2Pipeline",
            parts={
                "transformer": "omnigen2.models.transformers.transformer_omnigen2:OmniGen2Transformer2DModel",
                "scheduler": "omnigen2.schedulers.scheduling_flow_match_euler_discrete:"
                "FlowMatchEulerDiscreteScheduler",
            },
            install="git clone https://github.com/VectorSpaceLab/OmniGen2, pip install einops, and add the "
            "folder OmniGen2 to PYTHONPATH",
        ),
    ),
}


def family_of(pipeline: str) -> Family:
    """Return the row of a pipeline class; raise `ConfigurationError` with the fix if it is unknown."""
    if pipeline not in FAMILIES:
        raise ConfigurationError(
            f"unknown pipeline {pipeline!r}. {did_you_mean(pipeline, FAMILIES)} To support it, add a "
            "row in interleave/local/families.py (see docs/tutorial/add-a-generator.md)"
        )
    return FAMILIES[pipeline]


def own_code_of(pipeline: object) -> OwnCode | None:
    """Return the classes of a pipeline outside diffusers; None for others."""
    row = FAMILIES.get(pipeline) if isinstance(pipeline, str) else None
    return row.own_code if row else None


def pipeline_of(model: str) -> str | None:
    """Return the pipeline class of a model named in a row; None for others."""
    return next((name for name, family in FAMILIES.items() if model in family.models), None)


@dataclass(frozen=True)
class Lightning:
    """Settings of Qwen-Image's Lightning LoRAs: few steps, no guidance, a schedule with a fixed shift."""

    steps: int
    guidance: float = 1.0

    @classmethod
    def named(cls, lora: str) -> Lightning | None:
        """Return the settings that the name of a LoRA implies; None for other LoRAs."""
        name = lora.lower()
        if "lightning" not in name:
            return None
        return cls(4 if "4step" in name.replace("-", "") else 8)

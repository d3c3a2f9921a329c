"""Registry rows of this room's backends, named by the entry points in `pyproject.toml`; cheap to import."""

from __future__ import annotations

from interleave import BackendInfo

NEEDS = ("torch", "transformers", "diffusers", "accelerate", "peft")

DIFFUSERS = BackendInfo(
    "interleave.local.diffusers_generator:DiffusersGenerator",
    "an image model in this process: FLUX.2 and FLUX.1, Qwen-Image, LongCat-Image, OmniGen2",
    needs=NEEDS,
    extra="local",
    finds="interleave.local.look_for_pipeline:look_for_pipeline",
    tiny="interleave.local.tiny.specs:tiny_generator",
)
TRANSFORMERS = BackendInfo(
    "interleave.local.transformers_vlm:TransformersVlm",
    "a vision-language model in this process, such as Qwen3-VL",
    needs=NEEDS,
    extra="local",
    tiny="interleave.local.tiny.specs:tiny_vlm",
    identity="interleave.local.embeddings:EmbeddingIdentity",
)

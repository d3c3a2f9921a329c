"""The spec of a real model → the spec of a tiny model of the same classes, with the same options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from interleave.backends.generators.families import family_of, pipeline_of
from interleave.backends.tiny.pipelines import build_tiny_lora, build_tiny_pipeline
from interleave.backends.tiny.vlms import ANSWERS, VERDICT, build_tiny_adapter, build_tiny_vlm
from interleave.config.specs import Spec
from interleave.errors import ConfigurationError

DROPPED_OPTIONS = {"revision", "adapter_revision", "size", "width", "height"}
"""Options that only the real model can follow."""
GPU_OPTIONS = {"offload", "quantization", "compile"}
DOUBLES = {"solid", "scripted"}


def tiny_spec(spec: Spec, role: str, folder: Path) -> Spec:
    """Build a tiny model for a spec below `folder`; returns the spec that names it."""
    if spec.name in DOUBLES:
        return spec
    if spec.name not in BUILDERS:
        raise ConfigurationError(
            f"no toy can be built of the {role} {str(spec)!r}: only of 'transformers' and 'diffusers' models"
        )
    if not spec.model:
        raise ConfigurationError(f"the {role} {str(spec)!r} names no model")
    dropped = DROPPED_OPTIONS | (set() if _has_gpu() else GPU_OPTIONS)
    options = {key: value for key, value in spec.options.items() if key not in dropped}
    return BUILDERS[spec.name](replace(spec, options=options), role, folder)


def options_that_need_a_gpu(spec: Spec) -> list[str]:
    """The options of a spec that need a GPU, where this machine has none."""
    if _has_gpu():
        return []
    return [f"{key}={spec.options[key]}" for key in sorted(GPU_OPTIONS & set(spec.options))]


def _tiny_vlm(spec: Spec, role: str, folder: Path) -> Spec:
    base = build_tiny_vlm(folder / role, answer=ANSWERS.get(role, VERDICT))
    options = dict(spec.options)
    if "adapter" in options:
        options["adapter"] = str(build_tiny_adapter(folder / f"{role}-adapter", base))
    return replace(spec, model=str(base), options=options)


def _tiny_generator(spec: Spec, role: str, folder: Path) -> Spec:
    pipeline = pipeline_of(spec.model or "")
    if pipeline is None:
        raise ConfigurationError(
            f"the pipeline class of {spec.model!r} is not known without its files: name one of the models in "
            "interleave/backends/generators/families.py, or add it there"
        )
    family_of(pipeline)
    built = build_tiny_pipeline(folder / role, pipeline)
    options = dict(spec.options)
    if "lora" in options:
        options["lora"] = str(build_tiny_lora(folder / f"{role}-lora", built))
    return replace(spec, model=str(built), options=options)


def _has_gpu() -> bool:
    import torch

    return bool(torch.cuda.is_available())


BUILDERS: dict[str, Callable[[Spec, str, Path], Spec]] = {
    "transformers": _tiny_vlm,
    "diffusers": _tiny_generator,
}

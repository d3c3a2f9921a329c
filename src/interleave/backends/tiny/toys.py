"""A spec of a real model → the spec of a toy of the same classes, with the same options."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from interleave.backends.generators.families import family_of, pipeline_of
from interleave.backends.tiny.pipelines import build_tiny_lora, build_tiny_pipeline
from interleave.backends.tiny.vlms import ANSWERS, VERDICT, build_tiny_adapter, build_tiny_vlm
from interleave.config.specs import Spec
from interleave.errors import ConfigurationError

OF_THE_REAL_ONE = {"revision", "adapter_revision", "size", "width", "height"}
"""What means nothing for a toy."""
NEED_A_GPU = {"offload", "quantization", "compile"}
DOUBLES = {"solid", "scripted"}


def toy_spec(spec: Spec, role: str, folder: Path) -> Spec:
    """Build the toy of a spec below `folder`; returns the spec that names it."""
    if spec.name in DOUBLES:
        return spec
    if spec.name not in MAKERS:
        raise ConfigurationError(
            f"no toy can be built of the {role} {str(spec)!r}: only of 'transformers' and 'diffusers' models"
        )
    if not spec.model:
        raise ConfigurationError(f"the {role} {str(spec)!r} names no model")
    left_out = OF_THE_REAL_ONE | (set() if _has_gpu() else NEED_A_GPU)
    options = {key: value for key, value in spec.options.items() if key not in left_out}
    return MAKERS[spec.name](replace(spec, options=options), role, folder)


def left_out(spec: Spec) -> list[str]:
    """The options of a spec that cannot be tried on this machine."""
    return (
        [] if _has_gpu() else [f"{key}={spec.options[key]}" for key in sorted(NEED_A_GPU & set(spec.options))]
    )


def _toy_vlm(spec: Spec, role: str, folder: Path) -> Spec:
    base = build_tiny_vlm(folder / role, answer=ANSWERS.get(role, VERDICT))
    options = dict(spec.options)
    if "adapter" in options:
        options["adapter"] = str(build_tiny_adapter(folder / f"{role}-adapter", base))
    return replace(spec, model=str(base), options=options)


def _toy_generator(spec: Spec, role: str, folder: Path) -> Spec:
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


MAKERS: dict[str, Callable[[Spec, str, Path], Spec]] = {
    "transformers": _toy_vlm,
    "diffusers": _toy_generator,
}

"""Replace the spec of a model by the spec of a tiny model of the same classes, with the same options."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from interleave import ConfigurationError
from interleave.local.families import family_of, pipeline_of
from interleave.local.tiny.pipelines import build_tiny_lora, build_tiny_pipeline
from interleave.local.tiny.vlms import ANSWERS, VERDICT, build_tiny_adapter, build_tiny_vlm
from interleave.plugin import Spec, say

DROPPED_OPTIONS = {"revision", "adapter_revision", "size", "width", "height"}
"""Options that only the full model supports."""
GPU_OPTIONS = {"offload", "quantization", "compile"}


def tiny_vlm(spec: Spec, role: str, folder: Path) -> Spec:
    """Build a tiny vision-language model for a spec below `folder`; return its spec."""
    options = _kept_options(spec, role)
    base = build_tiny_vlm(folder / role, answer=ANSWERS.get(role, VERDICT))
    if "adapter" in options:
        options["adapter"] = str(build_tiny_adapter(folder / f"{role}-adapter", base))
    return replace(spec, model=str(base), options=options)


def tiny_generator(spec: Spec, role: str, folder: Path) -> Spec:
    """Build a tiny pipeline for a spec below `folder`; return its spec."""
    options = _kept_options(spec, role)
    pipeline = pipeline_of(spec.model or "")
    if pipeline is None:
        raise ConfigurationError(
            f"the pipeline class of {spec.model!r} is unknown without its files: use one of the models in "
            "interleave/local/families.py, or add it there"
        )
    family_of(pipeline)
    built = build_tiny_pipeline(folder / role, pipeline)
    if "lora" in options:
        options["lora"] = str(build_tiny_lora(folder / f"{role}-lora", built))
    return replace(spec, model=str(built), options=options)


def _kept_options(spec: Spec, role: str) -> dict[str, str]:
    """Return the options that a tiny model supports on this machine; print which others need a GPU."""
    import torch

    if not spec.model:
        raise ConfigurationError(f"the {role} {str(spec)!r} names no model")
    without = set() if torch.cuda.is_available() else GPU_OPTIONS & set(spec.options)
    for key in sorted(without):
        say(f"{role}: {key}={spec.options[key]} needs a GPU and is omitted here")
    return {key: value for key, value in spec.options.items() if key not in DROPPED_OPTIONS | without}

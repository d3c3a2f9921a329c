"""Models whose weights are read straight to their device, with the checks of the libraries."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from interleave.local.checkpoints import Source, read_json, weight_files
from interleave.local.weight_files import read_tensors

SCALES = (".weight_scale_inv", ".weight_scale")
"""Suffixes of the scales of float8 weights: one per square block, or per row."""
BLOCK_SIDE = 128
Loaded = tuple[Any, Mapping[str, Any]]
"""A model, and its missing and mismatched tensors in the libraries' format."""


def load_language_model(
    kind: Any, folder: Path, source: Source, device: torch.device, **options: Any
) -> Loaded:
    """Load a transformers model; `options` are those of its `from_pretrained`."""
    from transformers import AutoConfig, GenerationConfig

    config = AutoConfig.from_pretrained(folder, local_files_only=True)
    tensors = read_tensors(weight_files(folder, source), source, device)
    if is_rounded(folder, source):
        tensors = _with_scales(tensors, options["dtype"])
        del config.quantization_config  # already applied here
    generation = (
        GenerationConfig.from_pretrained(folder) if (folder / "generation_config.json").is_file() else None
    )
    loaded: Loaded = kind.from_pretrained(
        None,
        config=config,
        state_dict=tensors,
        generation_config=generation,
        device_map={"": device},
        ignore_mismatched_sizes=True,
        output_loading_info=True,
        **options,
    )
    return loaded


def is_rounded(folder: Path, source: Source) -> bool:
    """Return whether a language model is published in float8, with scales for its weights."""
    about = read_json(folder / "config.json", source).get("quantization_config")
    return isinstance(about, dict) and about.get("quant_method") in ("fp8", "compressed-tensors")


def _with_scales(tensors: Mapping[str, Tensor], dtype: torch.dtype) -> dict[str, Tensor]:
    """Convert the weights of such a model to `dtype`, multiplied by the scales of their rows or blocks."""
    scales = {
        name.removesuffix(suffix): tensor
        for name, tensor in tensors.items()
        for suffix in SCALES
        if name.endswith(suffix)
    }
    return {
        name: _scaled(tensor, scales.get(name.removesuffix(".weight"))).to(dtype)
        for name, tensor in tensors.items()
        if not name.endswith((*SCALES, ".input_scale"))
    }


def _scaled(weight: Tensor, scale: Tensor | None) -> Tensor:
    if scale is None or weight.dtype != torch.float8_e4m3fn:
        return weight
    precise = scale.float().view(*scale.shape, *(1,) * (weight.ndim - scale.ndim))
    for axis, size in enumerate(weight.shape):
        side = {1: size, size: 1}.get(precise.shape[axis], BLOCK_SIDE)
        precise = precise.repeat_interleave(side, axis).narrow(axis, 0, size)
    return weight.float() * precise


def class_of(auto: Any, folder: Path) -> Any:
    """Return the class that an auto class of transformers picks for a folder."""
    from transformers import AutoConfig

    return auto._model_mapping[type(AutoConfig.from_pretrained(folder, local_files_only=True))]


def load_image_part(
    kind: Any, folder: Path, source: Source, device: torch.device, dtype: torch.dtype
) -> Loaded:
    """Load a part of a diffusers pipeline."""
    tensors = read_tensors(weight_files(folder, source), source, device)
    state = {name: each.to(dtype) if each.is_floating_point() else each for name, each in tensors.items()}
    model = empty_model(kind, folder)
    problems = fill(model, state)
    return model, problems


def may_load_directly(kind: Any) -> bool:
    """Return whether the weights of a diffusers part need only a change of dtype."""
    from diffusers import ModelMixin

    plain = kind._keep_in_fp32_modules is None
    return plain and kind._fix_state_dict_keys_on_load is ModelMixin._fix_state_dict_keys_on_load


def empty_model(kind: Any, folder: Path) -> Any:
    """Return a diffusers part with its folder's configuration and no memory for its weights yet."""
    from accelerate import init_empty_weights

    with init_empty_weights():
        return kind.from_config(kind.load_config(folder))


def fill(model: Any, state: Mapping[str, Tensor]) -> dict[str, Any]:
    """Set the weights of an empty model if all fit; return the mismatched and missing tensors."""
    wanted = model.state_dict()
    mismatched = [
        (name, state[name].shape, tensor.shape)
        for name, tensor in wanted.items()
        if name in state and state[name].shape != tensor.shape
    ]
    missing = set(wanted) - set(state)
    if not mismatched and not missing:
        model.load_state_dict(state, strict=False, assign=True)
        model.requires_grad_(False).eval()
    return {"mismatched_keys": mismatched, "missing_keys": missing}

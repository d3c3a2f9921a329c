"""A transformer whose weights are in a single file, as image models are published in float8.

Two naming schemes are supported: that of diffusers, and for FLUX.2 that of its authors. A float8 layer has a
scale, one in total or one per row, named `weight_scale` or `scale_weight`; without one its numbers are the
weights themselves. Activation scales are ignored, because they are computed for every row.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from interleave import ConfigurationError
from interleave.local.checkpoints import Source, check_weights_file, find_weights, refuse_bad_fit
from interleave.local.direct_loading import empty_model, fill
from interleave.local.fp8 import FLOAT8, Float8Linear, can_be_float8, repeated_blocks
from interleave.local.weight_files import read_tensors

PREFIXES = ("model.diffusion_model.", "diffusion_model.")
SCALES = (".weight_scale", ".scale_weight")
IGNORED = (".input_scale", ".scale_input", ".comfy_quant", "scaled_fp8")
FLUX2_BLOCKS = "double_blocks."
"""The prefix of names by FLUX.2's authors."""

Tensors = dict[str, Tensor]


def load_transformer_file(
    kind: Any, folder: Path, source: Source, *, dtype: torch.dtype, device: torch.device, float8: bool
) -> Any:
    """Load a transformer with the configuration of a folder and the weights of a file.

    With `float8`, layers in float8 stay in float8; otherwise all are converted to `dtype`.
    """
    path = find_weights(source)
    check_weights_file(path, source)
    weights, scales = read_weights(path, source, device)
    model = empty_model(kind, folder)
    if float8:
        _make_room(model, weights)
    state: Tensors = {}
    for name, weight in weights.items():
        scale = scales.get(name)
        owner, _, parameter = name.rpartition(".")
        stays = parameter == "weight" and isinstance(_module(model, owner), Float8Linear)
        if stays:
            state[name] = weight
            ones = torch.ones(len(weight), device=device)
            state[f"{owner}.scale"] = (ones if scale is None else scale.float()).view(1, -1)
        else:
            precise = weight if scale is None else weight.float() * scale.float()[:, None]
            state[name] = precise.to(dtype) if precise.is_floating_point() else precise
    refuse_bad_fit(path.parent, fill(model, state), source)
    return model


def read_weights(path: Path, source: Source, device: torch.device) -> tuple[Tensors, Tensors]:
    """Read the weights of a file under diffusers' names, and the scales of their rows, if any."""
    read = read_tensors([path], source, device)
    found = {_without_prefix(name): tensor for name, tensor in read.items()}
    scales: Tensors = {}
    weights: Tensors = {}
    for name, tensor in found.items():
        suffix = next((each for each in SCALES if name.endswith(each)), None)
        if suffix:
            scales[f"{name.removesuffix(suffix)}.weight"] = tensor
        elif not name.endswith(IGNORED):
            weights[name] = tensor
    rows = {name: _by_row(path, name, weights.get(name), scale) for name, scale in scales.items()}
    if not any(name.startswith(FLUX2_BLOCKS) for name in weights):
        return weights, rows
    # The conversion rearranges the scales like the rows of their weights.
    converted = _as_diffusers(weights)
    nothing = {name: tensor.new_empty(len(tensor), 0) for name, tensor in weights.items()}
    like_weights = _as_diffusers({**nothing, **rows})
    return converted, {name: scale for name, scale in like_weights.items() if scale.numel()}


def _as_diffusers(tensors: Mapping[str, Tensor]) -> Tensors:
    from diffusers.loaders.single_file_utils import convert_flux2_transformer_checkpoint_to_diffusers

    return dict(convert_flux2_transformer_checkpoint_to_diffusers(dict(tensors)))


def _by_row(path: Path, name: str, weight: Tensor | None, scale: Tensor) -> Tensor:
    if weight is None or weight.ndim != 2 or scale.numel() not in (1, len(weight)):
        raise ConfigurationError(
            f"{path} has an unsupported scale for {name!r}: only float8 files with one scale in total or one "
            "per row can be read"
        )
    return scale.float().flatten().expand(len(weight)).clone()


def _make_room(model: Any, weights: Mapping[str, Tensor]) -> None:
    """Replace layers by float8 layers if the file has float8 weights for them."""
    names = {module: name for name, module in model.named_modules()}
    for block in repeated_blocks(model):
        for inner, module in list(block.named_modules()):
            weight = weights.get(f"{names[block]}.{inner}.weight")
            rounded = weight is not None and weight.dtype == FLOAT8
            if type(module) is nn.Linear and rounded and can_be_float8(inner, module.weight):
                empty = module.weight.to(FLOAT8)
                scale = torch.empty(len(empty), device="meta")
                block.set_submodule(inner, Float8Linear(empty, scale, module.bias))


def _module(model: nn.Module, name: str) -> nn.Module | None:
    try:
        return model.get_submodule(name)
    except AttributeError:
        return None


def _without_prefix(name: str) -> str:
    for prefix in PREFIXES:
        name = name.removeprefix(prefix)
    return name

"""Transformers in one file, as they are published in float8: layouts, scales, what does not fit.

The files are written here in the layouts of published ones: none of those is at hand.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from concurrent_calls import all_done
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor

from interleave.backends.protocols import ImageRequest
from interleave.backends.registry import load_generator
from interleave.errors import ConfigurationError
from interleave.local.diffusers_generator import DiffusersGenerator
from interleave.local.fp8 import FLOAT8, Float8Linear, has_float8, to_float8

Tensors = dict[str, Tensor]
WEIGHTS = "diffusion_pytorch_model.safetensors"
AUTHORS_NAMES = {
    "x_embedder": "img_in",
    "context_embedder": "txt_in",
    "time_guidance_embed.timestep_embedder.linear_1": "time_in.in_layer",
    "time_guidance_embed.timestep_embedder.linear_2": "time_in.out_layer",
    "double_stream_modulation_img.linear": "double_stream_modulation_img.lin",
    "double_stream_modulation_txt.linear": "double_stream_modulation_txt.lin",
    "single_stream_modulation.linear": "single_stream_modulation.lin",
    "proj_out": "final_layer.linear",
    "transformer_blocks.0.attn.to_out.0": "double_blocks.0.img_attn.proj",
    "transformer_blocks.0.attn.to_add_out": "double_blocks.0.txt_attn.proj",
    "transformer_blocks.0.ff.linear_in": "double_blocks.0.img_mlp.0",
    "transformer_blocks.0.ff.linear_out": "double_blocks.0.img_mlp.2",
    "transformer_blocks.0.ff_context.linear_in": "double_blocks.0.txt_mlp.0",
    "transformer_blocks.0.ff_context.linear_out": "double_blocks.0.txt_mlp.2",
    "single_transformer_blocks.0.attn.to_qkv_mlp_proj": "single_blocks.0.linear1",
    "single_transformer_blocks.0.attn.to_out": "single_blocks.0.linear2",
}
AUTHORS_NORMS = {
    "transformer_blocks.0.attn.norm_q": "double_blocks.0.img_attn.norm.query_norm",
    "transformer_blocks.0.attn.norm_k": "double_blocks.0.img_attn.norm.key_norm",
    "transformer_blocks.0.attn.norm_added_q": "double_blocks.0.txt_attn.norm.query_norm",
    "transformer_blocks.0.attn.norm_added_k": "double_blocks.0.txt_attn.norm.key_norm",
    "single_transformer_blocks.0.attn.norm_q": "single_blocks.0.norm.query_norm",
    "single_transformer_blocks.0.attn.norm_k": "single_blocks.0.norm.key_norm",
}


def as_authors_name_it(weights: Tensors) -> Tensors:
    """Weights of a toy FLUX.2 transformer by the names of its authors, queries, keys and values in one."""
    made: Tensors = {}
    for name, tensor in weights.items():
        owner = name.removesuffix(".weight")
        if owner in AUTHORS_NAMES:
            made[f"{AUTHORS_NAMES[owner]}.weight"] = tensor
        elif owner in AUTHORS_NORMS:
            made[f"{AUTHORS_NORMS[owner]}.scale"] = tensor
        elif owner == "norm_out.linear":
            made["final_layer.adaLN_modulation.1.weight"] = torch.cat(tensor.chunk(2)[::-1])
        else:
            assert owner.rpartition(".")[2] in {
                "to_q", "to_k", "to_v", "add_q_proj", "add_k_proj", "add_v_proj"
            }, owner  # fmt: skip
    for kind, names in {
        "img": ("to_q", "to_k", "to_v"),
        "txt": ("add_q_proj", "add_k_proj", "add_v_proj"),
    }.items():
        parts = [weights[f"transformer_blocks.0.attn.{name}.weight"] for name in names]
        made[f"double_blocks.0.{kind}_attn.qkv.weight"] = torch.cat(parts)
    return made


def in_float8(weights: Tensors, scale_name: str, *, by_row: bool) -> Tensors:
    """Weights of blocks in float8, each with its scale."""
    made: Tensors = {}
    for name, tensor in weights.items():
        if "blocks." not in name or tensor.ndim != 2 or "mod" in name:
            made[name] = tensor
            continue
        scale = tensor.abs().amax(dim=1) / 448 if by_row else tensor.abs().amax() / 448
        made[name] = (tensor / (scale[:, None] if by_row else scale)).to(FLOAT8)
        made[name.replace(".weight", f".{scale_name}")] = scale
    return made


def load(folder: Path, options: str = "") -> DiffusersGenerator:
    generator = load_generator(f"diffusers:{folder}{options}")
    assert isinstance(generator, DiffusersGenerator)
    return generator


def draw(generator: DiffusersGenerator) -> Any:
    request = ImageRequest("a cat", 3, (Image.new("RGB", (64, 64), "red"),))
    (image,) = asyncio.run(all_done(generator.queue._executor, [generator.generate(request)]))
    return numpy.asarray(image, int)


@pytest.mark.usefixtures("small_references")
def test_weights_by_the_names_of_diffusers(toy_pipeline: Callable[[str], Path], tmp_path: Path) -> None:
    folder = toy_pipeline("QwenImageEditPlusPipeline")
    weights = load_file(folder / "transformer" / WEIGHTS)
    file = tmp_path / "qwen.safetensors"
    save_file(in_float8(weights, "scale_weight", by_row=True), file)
    generator = load(folder, f"?transformer={file}&quantization=fp8")
    assert has_float8(generator.pipeline.transformer) == 2 * 12
    rounded = load(folder, "?quantization=fp8")
    assert numpy.array_equal(draw(generator), draw(rounded))  # the same rounding, done before


@pytest.mark.parametrize("by_row", [True, False])
def test_weights_by_the_names_of_the_authors(klein: Path, tmp_path: Path, by_row: bool) -> None:
    weights = as_authors_name_it(load_file(klein / "transformer" / WEIGHTS))
    stored = in_float8(weights, "weight_scale", by_row=by_row)
    stored["double_blocks.0.img_attn.qkv.input_scale"] = torch.tensor(0.5)
    file = tmp_path / "klein.safetensors"
    save_file({f"model.diffusion_model.{name}": tensor.contiguous() for name, tensor in stored.items()}, file)
    generator = load(klein, f"?transformer={file}&quantization=fp8")
    layer = generator.pipeline.transformer.transformer_blocks[0].attn.to_k
    assert isinstance(layer, Float8Linear)
    original = load(klein).pipeline.transformer.transformer_blocks[0].attn.to_k.weight
    restored = layer.weight.float() * layer.scale.view(-1, 1)
    assert (restored - original).norm() / original.norm() < 0.05
    assert numpy.abs(draw(generator) - draw(load(klein))).mean() < 8


def test_without_the_setting_weights_are_converted(klein: Path, tmp_path: Path) -> None:
    weights = load_file(klein / "transformer" / WEIGHTS)
    file = tmp_path / "klein.safetensors"
    save_file(in_float8(weights, "weight_scale", by_row=True), file)
    generator = load(klein, f"?transformer={file}")
    transformer = generator.pipeline.transformer
    assert not has_float8(transformer)
    assert {weight.dtype for weight in transformer.parameters()} == {torch.float32}
    name = "transformer_blocks.0.ff.linear_in.weight"
    rows, scale = to_float8(weights[name])
    torch.testing.assert_close(transformer.state_dict()[name], rows.float() * scale)


def test_the_folder_needs_no_weights_of_its_own_then(
    klein: Path, copy_of: Callable[[Path], Path], tmp_path: Path
) -> None:
    folder = copy_of(klein)
    file = tmp_path / "klein.safetensors"
    (folder / "transformer" / WEIGHTS).rename(file)
    assert numpy.array_equal(draw(load(folder, f"?transformer={file}")), draw(load(klein)))
    with pytest.raises(ConfigurationError, match="no weights"):
        load(folder)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda weights: weights.pop("proj_out.weight"), "incomplete: 'proj_out.weight' is missing"),
        (lambda weights: weights.update({"proj_out.weight": torch.ones(2, 2)}), "has the shape 2×2"),
        (
            lambda weights: weights.update({"proj_out.weight_scale": torch.ones(3, 2)}),
            "unsupported scale",
        ),
    ],
)
def test_a_file_that_does_not_fit_is_named(
    klein: Path, tmp_path: Path, change: Callable[[Tensors], object], words: str
) -> None:
    weights = load_file(klein / "transformer" / WEIGHTS)
    change(weights)
    file = tmp_path / "klein.safetensors"
    save_file(weights, file)
    with pytest.raises(ConfigurationError, match=words):
        load(klein, f"?transformer={file}")


def test_a_lora_does_not_go_with_weights_that_are_rounded_already(klein: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"omit \?lora= or \?transformer="):
        load(
            klein, f"?transformer={klein / 'transformer' / WEIGHTS}&quantization=fp8&lora=./lora.safetensors"
        )

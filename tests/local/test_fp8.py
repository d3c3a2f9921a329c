"""Products in float8: what they compute, which layers they are used for, and the images that come of it."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
import torch
from concurrent_calls import all_done
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import nn

from interleave.backends.protocols import ImageRequest, Message, Reply, Sampling
from interleave.backends.registry import load_generator, load_vlm
from interleave.errors import ConfigurationError
from interleave.local import devices
from interleave.local.diffusers_generator import DiffusersGenerator
from interleave.local.direct_loading import _scaled
from interleave.local.fp8 import FLOAT8, Float8Linear, has_float8, to_float8, use_float8
from interleave.local.tiny.pipelines import build_tiny_lora
from interleave.local.transformers_vlm import TransformersVlm
from interleave.types import ImagePart, Text

CPU = torch.device("cpu")
ToyVlm = Callable[[str | None], Path]


def load(folder: Path, options: str = "") -> DiffusersGenerator:
    generator = load_generator(f"diffusers:{folder}{options}")
    assert isinstance(generator, DiffusersGenerator)
    return generator


def load_critic(folder: Path, options: str) -> TransformersVlm:
    vlm = load_vlm(f"transformers:{folder}{options}", "critic")
    assert isinstance(vlm, TransformersVlm)
    return vlm


def replied(folder: Path, options: str) -> Reply:
    question = (Message("user", (Text("Is it right?"), ImagePart(Image.new("RGB", (64, 64), "red")))),)
    sampling = Sampling(max_tokens=64, token_probabilities=True)
    return asyncio.run(load_critic(folder, options).complete(question, sampling))


def draw(generator: DiffusersGenerator, *requests: ImageRequest) -> list[Image.Image]:
    return asyncio.run(all_done(generator.queue._executor, [generator.generate(each) for each in requests]))


def apart(one: Image.Image, other: Image.Image) -> float:
    """How far two images differ, in levels of 255."""
    return float(numpy.abs(numpy.asarray(one, int) - numpy.asarray(other, int)).mean())


def test_a_product_is_that_of_the_rounded_rows() -> None:
    torch.manual_seed(0)
    linear = nn.Linear(64, 48)
    rounded = Float8Linear.of(linear, CPU)
    states = torch.randn(2, 5, 64) * torch.tensor([1.0, 1e-4, 300.0, 0.0, 1.0])[None, :, None]
    rows, scale = to_float8(states.view(-1, 64))
    weights, weight_scale = to_float8(linear.weight.detach())
    expected = (rows.float() * scale) @ (weights.float() * weight_scale).t() + linear.bias
    torch.testing.assert_close(rounded(states).view(-1, 48), expected, rtol=1e-4, atol=1e-4)
    exact = linear(states)
    assert (rounded(states) - exact).norm() / exact.norm() < 0.05
    assert (rounded(states)[:, 3] == linear.bias).all()  # a row of zeros, whose largest number is no scale


def test_every_row_has_a_scale_of_its_own() -> None:
    small, large = torch.full((1, 32), 1e-6), torch.full((1, 32), 1e6)
    rows, scale = to_float8(torch.cat([small, large]))
    torch.testing.assert_close(rows.float() * scale, torch.cat([small, large]))


def test_modulation_and_what_is_outside_of_the_blocks_keep_their_precision(
    toy_pipeline: Callable[[str], Path],
) -> None:
    transformer = load(toy_pipeline("QwenImageEditPlusPipeline")).pipeline.transformer
    assert use_float8(transformer, CPU) == has_float8(transformer) == 2 * 12
    kept = {name for name, module in transformer.named_modules() if type(module) is nn.Linear}
    assert {"img_in", "proj_out", "transformer_blocks.0.img_mod.1"} <= kept
    assert not any("attn" in name or "mlp" in name for name in kept)


@pytest.mark.usefixtures("small_references")
@pytest.mark.parametrize(
    "pipeline", ["Flux2KleinPipeline", "Flux2KleinKVPipeline", "QwenImageEditPlusPipeline"]
)
def test_images_are_nearly_those_without_it(toy_pipeline: Callable[[str], Path], pipeline: str) -> None:
    folder = toy_pipeline(pipeline)
    request = ImageRequest("a cat", 3, (Image.new("RGB", (64, 64), "red"),))
    (plain,), (rounded,) = draw(load(folder), request), draw(load(folder, "?quantization=fp8"), request)
    assert 0 < apart(plain, rounded) < 8
    (other,) = draw(load(folder), ImageRequest("a dog on a hill", 4, request.sources))
    assert apart(plain, rounded) < apart(plain, other)


def test_a_lora_is_added_before_weights_are_rounded(klein: Path, tmp_path: Path) -> None:
    lora = build_tiny_lora(tmp_path / "lora", klein)
    spec = f"?lora={lora}&lora_scale=0.5"
    adapted = load(klein, spec).pipeline.transformer.transformer_blocks[0].attn.to_q
    wanted = adapted.base_layer.weight + adapted.get_delta_weight("lora")
    layer = load(klein, f"{spec}&quantization=fp8").pipeline.transformer.transformer_blocks[0].attn.to_q
    assert isinstance(layer, Float8Linear)
    rows, scale = to_float8(wanted)
    torch.testing.assert_close(layer.weight.float() * layer.scale.view(-1, 1), rows.float() * scale)
    assert not torch.allclose(wanted, adapted.base_layer.weight)


def test_a_device_without_float8_is_refused(klein: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "supports_float8", lambda device: False)
    with pytest.raises(ConfigurationError, match="needs a GPU with float8 products"):
        load(klein, "?quantization=fp8")


def test_the_decoder_of_a_language_model_is_rounded_and_nothing_else(toy_vlm: ToyVlm) -> None:
    model = load_critic(toy_vlm("critic"), "?quantization=fp8").loaded.decoder.model
    layers = model.model.language_model.layers
    assert has_float8(layers) == has_float8(model) == 7 * len(layers)
    assert type(model.lm_head) is nn.Linear


@pytest.mark.parametrize("cache", ["static", "dynamic"])
def test_a_language_model_replies_as_without_it(toy_vlm: ToyVlm, cache: str) -> None:
    folder = toy_vlm("critic")
    plain, rounded = (replied(folder, f"?cache={cache}{each}") for each in ("", "&quantization=fp8"))
    assert rounded.text == plain.text
    assert plain.tokens and rounded.tokens
    assert [each.text for each in rounded.tokens] == [each.text for each in plain.tokens]
    assert rounded.tokens != plain.tokens  # their probabilities differ: something was rounded


def test_an_adapter_is_refused(toy_vlm: ToyVlm, adapters: tuple[Path, Path]) -> None:
    with pytest.raises(ConfigurationError, match="cannot be added to weights in float8"):
        load_critic(toy_vlm(None), f"?quantization=fp8&adapter={adapters[0]}")


def test_it_is_compiled_from_the_start_on_a_gpu_only(klein: Path) -> None:
    generator = load(klein, "?quantization=fp8")
    assert not generator._compiles_immediately()
    generator.device = torch.device("cuda")
    assert generator._compiles_immediately()
    generator.options = generator.options.model_copy(update={"compile": False})
    assert not generator._compiles_immediately()


@pytest.mark.parametrize("layout", ["blocks", "rows"])
def test_a_published_checkpoint_in_float8_is_read(toy_vlm: ToyVlm, tmp_path: Path, layout: str) -> None:
    plain = toy_vlm("critic")
    folder = shutil.copytree(plain, tmp_path / layout)
    publish_in_float8(folder, layout)
    assert replied(folder, "").text == replied(folder, "?quantization=fp8").text == replied(plain, "").text


def publish_in_float8(folder: Path, layout: str) -> None:
    """Round a checkpoint as those on the Hub are: by blocks of 128 by 128, or by rows."""
    config = json.loads((folder / "config.json").read_text())
    method = "fp8" if layout == "blocks" else "compressed-tensors"
    config["quantization_config"] = {"quant_method": method, "weight_block_size": [128, 128]}
    (folder / "config.json").write_text(json.dumps(config))
    (file,) = folder.glob("*.safetensors")
    tensors: dict[str, torch.Tensor] = {}
    for name, tensor in load_file(file).items():
        tensors[name] = tensor
        if "language_model.layers" in name and name.endswith("_proj.weight"):
            rounded, scale = by_blocks(tensor) if layout == "blocks" else to_float8(tensor)
            tensors[name] = rounded
            tensors[f"{name}_scale_inv" if layout == "blocks" else f"{name}_scale"] = scale
    assert len(tensors) > len(load_file(file))
    save_file(tensors, file, {"format": "pt"})


def test_scales_of_blocks_reach_the_last_rows_too() -> None:
    weight = torch.randn(200, 300)
    rounded, scales = by_blocks(weight)
    torch.testing.assert_close(_scaled(rounded, scales), weight, rtol=0.07, atol=0.02)


def by_blocks(weight: torch.Tensor, side: int = 128) -> tuple[torch.Tensor, torch.Tensor]:
    rounded = torch.empty_like(weight, dtype=FLOAT8)
    scales = torch.empty(-(-weight.shape[0] // side), -(-weight.shape[1] // side))
    for row, column in itertools.product(range(scales.shape[0]), range(scales.shape[1])):
        place = slice(row * side, (row + 1) * side), slice(column * side, (column + 1) * side)
        scales[row, column] = weight[place].abs().max() / torch.finfo(FLOAT8).max
        rounded[place] = (weight[place] / scales[row, column]).to(FLOAT8)
    return rounded, scales

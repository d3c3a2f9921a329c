"""Products in float8: what they compute, which layers they are used for, and the pictures that come of it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
import torch
from concurrent_calls import all_done
from PIL import Image
from torch import nn

from interleave.backends.protocols import ImageRequest
from interleave.backends.registry import load_generator, load_vlm
from interleave.errors import ConfigurationError
from interleave.local import devices
from interleave.local.diffusers_generator import DiffusersGenerator
from interleave.local.fp8 import Float8Linear, has_float8, to_float8, use_float8
from interleave.local.tiny.pipelines import build_tiny_lora

CPU = torch.device("cpu")


def load(folder: Path, options: str = "") -> DiffusersGenerator:
    generator = load_generator(f"diffusers:{folder}{options}")
    assert isinstance(generator, DiffusersGenerator)
    return generator


def draw(generator: DiffusersGenerator, *requests: ImageRequest) -> list[Image.Image]:
    return asyncio.run(all_done(generator.queue._executor, [generator.generate(each) for each in requests]))


def apart(one: Image.Image, other: Image.Image) -> float:
    """How far two pictures differ, in levels of 255."""
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
def test_pictures_are_nearly_those_without_it(toy_pipeline: Callable[[str], Path], pipeline: str) -> None:
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
    with pytest.raises(ConfigurationError, match="needs a GPU that multiplies float8"):
        load(klein, "?quantization=fp8")


def test_language_models_have_no_such_setting(toy_vlm: Callable[[str | None], Path]) -> None:
    with pytest.raises(ConfigurationError, match="option 'quantization'"):
        load_vlm(f"transformers:{toy_vlm(None)}?quantization=fp8", "critic")


def test_it_is_compiled_from_the_start_on_a_gpu_only(klein: Path) -> None:
    generator = load(klein, "?quantization=fp8")
    assert not generator._compiles_at_once()
    generator.device = torch.device("cuda")
    assert generator._compiles_at_once()
    generator.options = generator.options.model_copy(update={"compile": False})
    assert not generator._compiles_at_once()

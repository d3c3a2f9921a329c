"""uint8 pixels become the floats that the processor would have made."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")

from interleave.local.processors import load_processor  # noqa: E402
from interleave.local.qwen3_vl import uint8_pixels  # noqa: E402
from interleave.local.qwen3_vl.uint8_pixels import (  # noqa: E402
    keep_pixels,
    pixels_of,
    use_uint8_pixels,
    use_uint8_processor,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from interleave.local.tiny.vlms import build_tiny_vlm

    return build_tiny_vlm(tmp_path_factory.mktemp("bytes") / "vlm")


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


@pytest.mark.parametrize("mean", [(0.5, 0.5, 0.5), (0.48, 0.46, 0.41)], ids=["computed", "looked up"])
@pytest.mark.parametrize("sizes", [[(64, 64)] * 3, [(64, 64), (128, 64), (96, 128)]])
def test_the_floats_are_the_processors_to_the_bit(folder: Path, sizes: Any, mean: Any) -> None:
    plain, ours = (load_processor(folder, "qwen3_vl") for _ in range(2))
    for each in (plain, ours):
        each.image_processor.image_mean, each.image_processor.image_std = list(mean), [0.5, 0.5, 0.5]
    layout = use_uint8_processor(ours)
    assert layout is not None
    assert layout.linear is (mean == (0.5, 0.5, 0.5))
    images = [noise(*size, seed=seed) for seed, size in enumerate(sizes)]
    wanted = plain.image_processor(images, return_tensors="pt")
    made = ours.image_processor(images, return_tensors="pt")
    assert made["pixel_values"].dtype is torch.uint8
    assert torch.equal(layout.normalize(made["pixel_values"], made["image_grid_thw"]), wanted["pixel_values"])
    assert torch.equal(made["image_grid_thw"], wanted["image_grid_thw"])


def test_an_image_that_must_be_scaled_is_left_to_the_processor(folder: Path) -> None:
    plain, ours = (load_processor(folder, "qwen3_vl") for _ in range(2))
    use_uint8_processor(ours)
    images = [noise(64, 64), noise(300, 200)]
    wanted, made = (each.image_processor(images, return_tensors="pt") for each in (plain, ours))
    assert all(torch.equal(made[name], wanted[name]) for name in wanted)


def test_a_processor_that_does_anything_else_is_not_changed(folder: Path) -> None:
    processor = load_processor(folder, "qwen3_vl")
    own = type(processor.image_processor)

    class Darker(own):  # type: ignore[misc, valid-type]
        def patchify(self, image: Any, **options: Any) -> Any:
            return super().patchify(image - np.linspace(0, 1, image.shape[-1]), **options)

    Darker.__name__ = own.__name__
    processor.image_processor.__class__ = Darker
    assert use_uint8_processor(processor) is None
    assert type(processor.image_processor) is Darker


def test_the_model_sees_the_same(folder: Path, tmp_path: Path) -> None:
    from transformers import AutoModelForImageTextToText

    model = AutoModelForImageTextToText.from_pretrained(folder)
    plain, ours = (load_processor(folder, "qwen3_vl") for _ in range(2))
    texts, images = ["<|image_pad|> a", "b <|image_pad|>"], [[noise(64, 64)], [noise(64, 64, seed=1)]]

    def logits(processor: Any) -> Any:
        with torch.no_grad():
            return model(**processor(images=images, text=texts, padding=True, return_tensors="pt")).logits

    wanted = logits(plain)
    assert use_uint8_pixels(model, ours)
    assert torch.equal(logits(ours), wanted)
    assert torch.equal(logits(plain), wanted)  # floats are still accepted
    ours.save_pretrained(tmp_path)
    again = load_processor(tmp_path, "qwen3_vl")
    assert again.image_processor.to_dict() == plain.image_processor.to_dict()


def test_kept_pixels_are_returned_without_a_copy_and_dropped_with_their_image() -> None:
    pixels = np.asarray(noise(64, 32))
    image = keep_pixels(Image.fromarray(pixels), pixels)
    assert pixels_of(image) is pixels
    assert np.array_equal(pixels_of(image.copy()), pixels)
    del image
    gc.collect()
    assert not uint8_pixels._PIXELS

"""Batches made quickly are TRL's, number by number; images from shared memory are the images decoded."""

from __future__ import annotations

import multiprocessing
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from making import critic_sft_rows, planner_sft_rows
from PIL import Image

from interleave.images import decode_image, encode_png
from interleave.local.processors import load_processor
from interleave.local.qwen3_vl.uint8_pixels import use_uint8_processor
from interleave.train.collator import FastCollator, SftCollator
from interleave.train.models import FeatureCache, caching_image_processor
from interleave.train.rows import decode_rows
from interleave.train.shared_memory_images import SharedImages


def decoded(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    columns = decode_rows({name: [row[name] for row in rows] for name in rows[0]}, folder=Path())
    return [{name: columns[name][index] for name in columns} for index in range(len(rows))]


@pytest.fixture(scope="module")
def samples() -> dict[str, list[dict[str, Any]]]:
    critic, planner = decoded(critic_sft_rows(3, side=64)), decoded(planner_sft_rows(3))
    return {"pictures": critic, "text": planner, "both": [planner[0], critic[0], planner[1]]}


@pytest.fixture(scope="module")
def processors(toy: Path) -> tuple[Any, Any]:
    plain, quick = (load_processor(toy, "qwen3_vl") for _ in range(2))
    assert use_uint8_processor(quick)
    return plain, quick


@pytest.mark.parametrize("kind", ["pictures", "text", "both"])
def test_a_batch_is_trls(processors: Any, samples: Any, kind: str) -> None:
    plain, quick = (SftCollator(each, pad_to=8) for each in processors)
    assert plain.fast is None
    assert quick.fast is not None
    quick.trl = None  # it must not be asked
    wanted, made = plain(samples[kind]), quick(samples[kind])
    assert made.keys() == wanted.keys()
    if "pixel_values" in made:
        assert made["pixel_values"].dtype is torch.uint8
        made["pixel_values"] = quick.fast.layout.normalize(made["pixel_values"], made["image_grid_thw"])
    for name in wanted:
        assert torch.equal(made[name], wanted[name]), name
        assert made[name].dtype is wanted[name].dtype
    assert quick.lengths(samples[kind]) == plain.lengths(samples[kind])


def test_what_is_not_plain_is_left_to_trl(processors: Any, samples: Any) -> None:
    quick = FastCollator.for_processor(processors[1])
    assert quick is not None
    row = samples["pictures"][0]
    large = {**row, "images": [image.resize((300, 200)) for image in row["images"]]}
    marked = {
        **row,
        "completion": [{"role": "assistant", "content": [{"type": "text", "text": "<|image_pad|>"}]}],
    }
    ended = {
        **row,
        "prompt": [*row["prompt"], {"role": "assistant", "content": [{"type": "text", "text": "A"}]}],
    }
    assert quick.collate([row]) is not None
    for odd in (large, marked, ended, {**row, "images": row["images"][:1]}):
        assert quick.collate([row, odd]) is None
    plain = SftCollator(processors[0])([row, large])
    made = SftCollator(processors[1])([row, large])
    assert all(torch.equal(made[name], plain[name]) for name in plain)


def noise(seed: int, side: int = 64) -> Image.Image:
    pixels = np.random.default_rng(seed).integers(0, 256, (side, side, 3), dtype=np.uint8)
    return Image.fromarray(pixels)


def decode_all(kept: SharedImages, files: list[bytes]) -> None:
    for file in files:
        kept.get(file, partial(decode_image, file))


def test_an_image_is_decoded_once_by_all_processes() -> None:
    kept = SharedImages(1)
    files = [encode_png(noise(seed)) for seed in range(4)]
    fork = multiprocessing.get_context("fork")
    children = [fork.Process(target=decode_all, args=(kept, files)) for _ in range(2)]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert len(kept) == len(files)
    for seed, file in enumerate(files):
        image = kept.get(file, lambda: pytest.fail("decoded again"))
        assert image.tobytes() == noise(seed).tobytes()


def test_a_full_memory_takes_no_more() -> None:
    kept = SharedImages(1)
    files = [encode_png(noise(seed, side=256)) for seed in range(7)]  # five of them are a megabyte
    for _ in range(2):
        for seed, file in enumerate(files):
            image = kept.get(file, partial(decode_image, file))
            assert image.tobytes() == noise(seed, side=256).tobytes()
    assert len(kept) == 5


def test_cached_features_are_the_features_computed(toy: Path, tmp_path: Path, samples: Any) -> None:
    plain = load_processor(toy, "qwen3_vl").image_processor
    cache = FeatureCache(10_000_000)
    cached = caching_image_processor(plain, cache)
    images = [image for row in samples["pictures"] for image in row["images"]]
    for _ in range(2):
        wanted, made = (each(images, return_tensors="pt") for each in (plain, cached))
        assert all(torch.equal(made[name], wanted[name]) for name in ("pixel_values", "image_grid_thw"))
    for name, each in (("plain", plain), ("cached", cached)):
        each.save_pretrained(tmp_path / name)
    saved = [(tmp_path / name / "preprocessor_config.json").read_text() for name in ("plain", "cached")]
    assert saved[0] == saved[1]

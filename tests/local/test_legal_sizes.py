"""Sizes of edits: chosen once, legal for the family, and the same at every step of a chain."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from PIL import Image

from interleave.backends.protocols import ImageRequest
from interleave.backends.registry import load_generator
from interleave.local.diffusers_generator import DiffusersGenerator
from interleave.local.families import FAMILIES, KONTEXT_SIZES
from interleave.local.source_images import size_like

ODD = (135, 67)


def canvas(size: tuple[int, int]) -> Image.Image:
    return Image.new("RGB", size, "teal")


@pytest.mark.parametrize("multiple", [16, 32])
@pytest.mark.parametrize("area", [(1024, 1024), (1328, 1328), (768, 512), (96, 96)])
def test_a_size_is_legal_and_keeps_itself(multiple: int, area: tuple[int, int]) -> None:
    rng = Random(0)
    for _ in range(100):
        first = size_like(canvas((rng.randint(1, 4000), rng.randint(1, 4000))), area, multiple=multiple)
        assert all(side % multiple == 0 for side in first)
        assert size_like(canvas(first), area, multiple=multiple) == first


def test_kontext_gets_one_of_the_sizes_it_was_trained_with() -> None:
    module = pytest.importorskip("diffusers.pipelines.flux.pipeline_flux_kontext")
    assert sorted(module.PREFERRED_KONTEXT_RESOLUTIONS) == sorted(KONTEXT_SIZES)
    assert size_like(canvas((4000, 3000)), (1024, 1024), sizes=KONTEXT_SIZES) == (1184, 880)
    assert all(size_like(canvas(size), (1024, 1024), sizes=KONTEXT_SIZES) == size for size in KONTEXT_SIZES)


def test_qwen_scales_a_source_of_such_a_size_to_that_size() -> None:
    module = pytest.importorskip("diffusers.pipelines.qwenimage.pipeline_qwenimage_edit_plus")
    rng = Random(1)
    for _ in range(200):
        wanted = (rng.randint(600, 4000), rng.randint(600, 4000))
        size = size_like(canvas(wanted), (1024, 1024), multiple=32)
        assert tuple(module.calculate_dimensions(1024 * 1024, size[0] / size[1]))[:2] == size


EDITORS = [
    name
    for name, family in FAMILIES.items()
    if family.max_sources and family.own_code is None and not family.takes_mask and name != "OmniGenPipeline"
]


@pytest.mark.usefixtures("small_references")
@pytest.mark.parametrize("pipeline", EDITORS)
def test_every_step_of_a_chain_has_the_size_of_the_first(
    pipeline: str, toy_pipeline: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    generator: Any = load_generator(f"diffusers:{toy_pipeline(pipeline)}?shape=source&size=96&steps=1")
    assert isinstance(generator, DiffusersGenerator)
    seen: list[Any] = []
    arguments = generator._arguments
    monkeypatch.setattr(
        generator, "_arguments", lambda drawings, step: seen.append(drawings) or arguments(drawings, step)
    )
    image, sizes = canvas(ODD), []
    for seed in range(3):
        image = asyncio.run(generator.generate(ImageRequest("a cat", seed, (image,))))
        sizes.append(image.size)
    assert len(set(sizes)) == 1
    assert all(side % FAMILIES[pipeline].side_multiple == 0 for side in sizes[0])
    assert [each.sources[-1].size for [each] in seen] == sizes  # nothing is cropped or scaled on the way


def test_the_size_is_that_of_the_image_to_change_not_of_a_reference(
    toy_pipeline: Callable[[str], Path],
) -> None:
    generator: Any = load_generator(
        f"diffusers:{toy_pipeline('Flux2KleinPipeline')}?shape=source&size=96&steps=1"
    )
    both = (canvas((96, 96)), canvas((128, 64)))
    assert asyncio.run(generator.generate(ImageRequest("a cat", 1, both))).size == (128, 64)
    drawn = asyncio.run(generator.generate(ImageRequest("a cat", 1, both, changes_last=False)))
    assert drawn.size == (96, 96)

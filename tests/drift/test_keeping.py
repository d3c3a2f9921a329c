"""Pixels: what an edit has changed, what is kept, and how drift is measured."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image, ImageDraw

from interleave.config.run_config import DriftControl
from interleave.drift.control import align_colours, apply_drift_control, keep_unchanged
from interleave.drift.measures import changed_mask, difference, identity, step_drift


def scene(*, ball: tuple[int, int] | None = None, size: int = 128) -> Image.Image:
    """A gradient with a house, and perhaps a ball."""
    across = np.linspace(60, 200, size, dtype=np.float32)
    pixels = np.stack(np.broadcast_arrays(across[None, :], across[:, None], np.float32(120)), axis=2)
    image = Image.fromarray(pixels.astype(np.uint8), "RGB")
    draw = ImageDraw.Draw(image)
    draw.rectangle((size // 8, size // 2, size // 3, size * 3 // 4), fill=(180, 60, 40))
    if ball is not None:
        x, y = ball
        draw.ellipse((x - size // 10, y - size // 10, x + size // 10, y + size // 10), fill=(20, 40, 220))
    return image


def drifted(
    image: Image.Image, *, tint: tuple[float, float, float] = (5, -4, 6), noise: float = 3
) -> Image.Image:
    """The image as a generator gives it back: tinted and noisy."""
    rng = np.random.default_rng(0)
    pixels = np.asarray(image, dtype=np.float32) + np.array(tint, dtype=np.float32)
    return Image.fromarray(
        np.clip(pixels + rng.normal(0, noise, pixels.shape), 0, 255).astype(np.uint8), "RGB"
    )


@pytest.mark.parametrize("size", [96, 128, 400])
def test_a_mask_has_the_change_and_not_the_drift(size: int) -> None:
    spot = (size * 3 // 4, size // 4)
    before, after = scene(size=size), drifted(scene(ball=spot, size=size))
    mask = changed_mask(before, after)
    assert mask.getpixel(spot) == 255
    assert mask.getpixel((size // 5, size * 5 // 8)) == 0  # the house
    assert 0.01 < np.asarray(mask).mean() / 255 < 0.2


def test_what_a_step_has_not_changed_is_kept_to_the_bit() -> None:
    before, wanted = scene(), scene(ball=(96, 32))
    kept = keep_unchanged(before, drifted(wanted))
    assert np.array_equal(np.asarray(kept)[64:], np.asarray(before)[64:])
    assert difference(kept, wanted) < 0.3 < difference(drifted(wanted), wanted)


def test_twenty_edits_in_a_row_add_up_without_keeping_and_not_with_it() -> None:
    plain = kept = scene()
    for number in range(20):
        spot = (96, 32) if number % 2 == 0 else None
        plain = drifted(plain, tint=(1, -1, 1), noise=1)
        kept = keep_unchanged(kept, drifted(scene(ball=spot), tint=(1, -1, 1), noise=1))
    assert difference(plain, scene()) > 10
    assert difference(kept, scene()) < 1


def test_colours_are_aligned_and_the_change_stays() -> None:
    before, wanted = scene(), scene(ball=(96, 32))
    aligned = align_colours(before, drifted(wanted, noise=0))
    assert difference(aligned, wanted) < 1 < difference(drifted(wanted, noise=0), wanted)
    assert np.asarray(aligned)[32, 96].tolist() == pytest.approx([20, 40, 220], abs=4)


def test_an_edit_of_the_whole_image_is_left_alone() -> None:
    before = scene()
    night = Image.fromarray((np.asarray(before) // 3).astype(np.uint8), "RGB")
    assert keep_unchanged(before, night) is night
    assert align_colours(before, night) is night


def test_images_of_other_sizes_are_left_alone() -> None:
    drawn = scene(size=96)
    assert keep_unchanged(scene(), drawn) is drawn


def test_nothing_is_done_by_default() -> None:
    drawn = drifted(scene(ball=(96, 32)))
    assert apply_drift_control(DriftControl(), scene(), drawn) is drawn
    assert apply_drift_control(DriftControl(keep=True, align=True), scene(), drawn) is not drawn


def test_drift_tells_an_asked_change_from_an_unasked_one() -> None:
    clean = step_drift(scene(), scene(ball=(96, 32)), scene())
    moved = step_drift(scene(), drifted(scene(ball=(96, 32))), scene())
    assert clean.outside == 0
    assert clean.likeness > 0.99 > moved.likeness
    assert clean.changed == pytest.approx(moved.changed, abs=0.02)
    assert moved.outside > 3
    assert moved.from_start is not None


def test_large_images_are_measured_small() -> None:
    found = step_drift(scene(size=600), drifted(scene(size=600)), None)
    assert found.outside == pytest.approx(5, abs=1.5)
    assert found.from_start is None


def test_an_asset_is_recognised_by_its_colours() -> None:
    reference = Image.new("RGB", (64, 64), "white")
    ImageDraw.Draw(reference).ellipse((12, 12, 52, 52), fill=(20, 40, 220))
    other = Image.new("RGB", (64, 64), "white")
    ImageDraw.Draw(other).ellipse((12, 12, 52, 52), fill=(220, 160, 20))
    assert identity(reference, scene(ball=(96, 32))) > 0.8
    assert identity(other, scene(ball=(96, 32))) < 0.2

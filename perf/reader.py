"""Measures how the miniature's reader reads damaged images, and what it calls unclear. Prints Markdown.

Run with: make bench
The threshold `CLEAR` of reader/scores.py must separate the two tables: damage to the whole image should leave
right readings above it, and a half-drawn or mixed thing should fall below it.
"""

from __future__ import annotations

import io
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from random import Random

import numpy as np
from PIL import Image, ImageFilter
from world import random_scenes

from interleave_mini.reader import Reader, Reading
from interleave_mini.reader.scores import CLEAR, is_clear, shows
from interleave_mini.world.backgrounds import SIDE, background
from interleave_mini.world.drawing import THINGS, Pixels, corner, draw_many, laid_over
from interleave_mini.world.kinds import COLOURS
from interleave_mini.world.scene import Scene, Thing
from interleave_mini.world.sprites import CELL, sprite

SCENES = 300
CONFUSIONS = 10
Damage = Callable[[Pixels], Pixels]
_noise = np.random.default_rng(0)


def noise(sigma: float) -> Damage:
    def damage(pixels: Pixels) -> Pixels:
        return np.clip(pixels + _noise.normal(0, sigma, pixels.shape), 0, 255).astype(np.uint8)

    return damage


def blur(radius: float) -> Damage:
    return lambda pixels: np.asarray(Image.fromarray(pixels).filter(ImageFilter.GaussianBlur(radius)))


def shift(distance: int) -> Damage:
    """Shift down and to the right."""
    return lambda pixels: np.roll(pixels, (distance, distance), (0, 1))


def jpeg(quality: int) -> Damage:
    def damage(pixels: Pixels) -> Pixels:
        data = io.BytesIO()
        Image.fromarray(pixels).save(data, "JPEG", quality=quality)
        return np.asarray(Image.open(data))

    return damage


def resolution(share: float) -> Damage:
    """Reduce and enlarge again."""
    side, way = int(SIDE * share), Image.Resampling.BICUBIC
    return lambda pixels: np.asarray(
        Image.fromarray(pixels).resize((side, side), way).resize((SIDE, SIDE), way)
    )


def tint(amount: int) -> Damage:
    """Make redder and less blue."""
    return lambda pixels: np.clip(pixels + np.array([amount, 0, -amount]), 0, 255).astype(np.uint8)


DAMAGES: dict[str, Damage] = {
    "none": lambda pixels: pixels,
    **{f"noise, σ {sigma}": noise(sigma) for sigma in (10, 20, 40)},
    **{f"blur, radius {radius}": blur(radius) for radius in (1, 2, 3)},
    **{f"shift by {distance} px": shift(distance) for distance in (1, 2, 4)},
    **{f"JPEG, quality {quality}": jpeg(quality) for quality in (50, 20)},
    "half the resolution": resolution(0.5),
    "a quarter of the resolution": resolution(0.25),
    **{f"tint by {amount}": tint(amount) for amount in (12, 25)},
}


@dataclass(frozen=True)
class Outcome:
    """Readings of a set of damaged images."""

    scenes: float
    """Share of images read right in every cell."""
    cells: float
    things: float
    """Share of cells with a thing that were read right."""
    shown: float
    """Share of images read right with every cell clear."""
    mistakes: Counter[tuple[str, str]]


def outcome(scenes: Sequence[Scene], readings: Sequence[Reading]) -> Outcome:
    pairs = [
        (wanted, seen)
        for scene, reading in zip(scenes, readings, strict=True)
        for wanted, seen in zip(scene.cells, reading.scene.cells, strict=True)
    ]
    both = list(zip(scenes, readings, strict=True))
    return Outcome(
        scenes=_share([scene == reading.scene for scene, reading in both]),
        cells=_share([wanted == seen for wanted, seen in pairs]),
        things=_share([wanted == seen for wanted, seen in pairs if wanted is not None]),
        shown=_share([shows(reading, scene) for scene, reading in both]),
        mistakes=Counter(_difference(wanted, seen) for wanted, seen in pairs if wanted != seen),
    )


def _difference(wanted: Thing | None, seen: Thing | None) -> tuple[str, str]:
    """Return the two readings in the fewest words that distinguish them."""
    if wanted is None or seen is None:
        return (wanted.noun if wanted else "nothing", seen.noun if seen else "nothing")
    if wanted.noun != seen.noun:
        return wanted.noun, seen.noun
    if wanted.colour != seen.colour:
        return f"{wanted.colour} (a thing's colour)", seen.colour
    return f"{wanted.size.value} {wanted.noun}", f"{seen.size.value} {seen.noun}"


def _share(values: Sequence[bool]) -> float:
    return sum(values) / len(values)


def whole_images(reader: Reader, scenes: Sequence[Scene]) -> None:
    """Print the table of damages, and the confusions under the strongest one that is still readable."""
    drawn = draw_many(scenes)
    print("| damage | images right | things right | cells right | right and clear |")
    print("|---|---:|---:|---:|---:|")
    survived: list[tuple[float, str, Outcome]] = []
    for name, damage in DAMAGES.items():
        found = outcome(scenes, reader.read_many(np.stack([damage(pixels) for pixels in drawn])))
        print(f"| {name} | {_percents(found.scenes, found.things, found.cells, found.shown)} |", flush=True)
        if found.mistakes and found.things > 0.5:
            survived.append((found.things, name, found))
    if not survived:
        print("\nNo mistakes under any damage that leaves more than half of the things right.")
        return
    _, name, worst = min(survived, key=lambda each: each[0])
    total = sum(worst.mistakes.values())
    print(f"\nMost frequent of the {total} mistakes under “{name}”:\n")
    print("| drawn | read as | times |")
    print("|---|---|---:|")
    for (wanted, seen), times in worst.mistakes.most_common(CONFUSIONS):
        print(f"| {wanted} | {seen} | {times} |")


Spoil = Callable[[Pixels, Pixels, Thing, Random], Pixels]
"""Function from a cell, its background and its thing to the spoiled cell."""


def gone(share: float, side: str) -> Spoil:
    """Remove a share of the thing's pixels from one side."""

    def spoil(cell: Pixels, bare: Pixels, thing: Thing, rng: Random) -> Pixels:
        rows, columns = np.nonzero(sprite(thing)[..., 3])
        kept = np.ones((CELL, CELL), bool)
        if side == "below":
            kept[int(np.percentile(rows, 100 * (1 - share))) :] = False
        elif side == "above":
            kept[: int(np.percentile(rows, 100 * share))] = False
        else:
            kept[:, : int(np.percentile(columns, 100 * share))] = False
        return np.where(kept[..., None], cell, bare)

    return spoil


def faded(share: float) -> Spoil:
    return lambda cell, bare, thing, rng: _mixed(cell, bare, share)


def mixed_with_another(cell: Pixels, bare: Pixels, thing: Thing, rng: Random) -> Pixels:
    other = rng.choice([each for each in THINGS if each.noun != thing.noun])
    return _mixed(cell, laid_over(sprite(other), bare), 0.5)


def half_of_another(cell: Pixels, bare: Pixels, thing: Thing, rng: Random) -> Pixels:
    other = rng.choice([each for each in THINGS if each.noun != thing.noun])
    halves = cell.copy()
    halves[:, CELL // 2 :] = laid_over(sprite(other), bare)[:, CELL // 2 :]
    return halves


def between_two_colours(cell: Pixels, bare: Pixels, thing: Thing, rng: Random) -> Pixels:
    colour = rng.choice([each for each in COLOURS if each != thing.colour])
    return _mixed(cell, laid_over(sprite(replace(thing, colour=colour)), bare), 0.5)


def _mixed(one: Pixels, other: Pixels, share: float) -> Pixels:
    return np.rint(one * (1 - share) + other * share).astype(np.uint8)


SPOILS: dict[str, Spoil] = {
    "a third is missing below": gone(1 / 3, "below"),
    "the lower half is missing": gone(0.5, "below"),
    "the upper half is missing": gone(0.5, "above"),
    "the left half is missing": gone(0.5, "left"),
    "faded by 30 %": faded(0.3),
    "faded by half": faded(0.5),
    "two things mixed": mixed_with_another,
    "halves of two things": half_of_another,
    "between two colours": between_two_colours,
}


def single_things(reader: Reader, scenes: Sequence[Scene]) -> None:
    """Spoil one thing of every image and count how often the reader notices."""
    rng, drawn = Random(1), draw_many(scenes)
    print(f"| one thing spoiled | unclear (below {CLEAR}) | read as something else | passes as right |")
    print("|---|---:|---:|---:|")
    for name, spoil in SPOILS.items():
        images, cells = drawn.copy(), []
        for pixels, scene in zip(images, scenes, strict=True):
            cell, thing = rng.choice(list(scene.things.items()))
            (top, left), bare = corner(cell), background(scene.background)
            place = np.s_[top : top + CELL, left : left + CELL]
            pixels[place] = spoil(pixels[place], bare[place], thing, rng)
            cells.append(cell)
        verdicts = Counter(
            _verdict(reading, scene, cell)
            for reading, cell, scene in zip(reader.read_many(images), cells, scenes, strict=True)
        )
        shares = (verdicts[each] / len(scenes) for each in ("unclear", "other", "right"))
        print(f"| {name} | {_percents(*shares)} |", flush=True)


def _verdict(reading: Reading, scene: Scene, cell: int) -> str:
    if not is_clear(reading, cell):
        return "unclear"
    return "right" if reading.scene.cells[cell] == scene.cells[cell] else "other"


def _percents(*shares: float) -> str:
    return " | ".join(f"{100 * share:.1f} %" for share in shares)


def main() -> int:
    reader = Reader()
    scenes = [scene for scene in random_scenes(2 * SCENES, Random(0), most=6, gripper=0) if scene.things]
    whole_images(reader, scenes[:SCENES])
    print()
    single_things(reader, scenes[:SCENES])
    return 0


if __name__ == "__main__":
    sys.exit(main())

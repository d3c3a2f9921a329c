"""How correct and how clean an image is, from its reading, and what is wrong with it, in words."""

from __future__ import annotations

from interleave import Scores
from interleave_mini.language.words import POSITIONS, loaded
from interleave_mini.reader.scene_reader import Reading
from interleave_mini.world.scene import CELLS, Scene, Thing

ACCEPTED = "Everything is as asked."
CLEAR = 0.08
"""A cell read with less confidence counts as unclear: half-drawn and blended things fall below it, noise of
20 in 255, blur by a pixel and JPEG at 20 do not; a shift by a pixel may (see `perf/reader.py`)."""
_UNWANTED_CHANGE = 3.4
"""Marks lost for every cell that changed without being asked to."""


def is_clear(reading: Reading, cell: int) -> bool:
    return reading.confidence[cell] >= CLEAR


def shows(reading: Reading, scene: Scene) -> bool:
    """Whether an image shows exactly this scene, with every cell clear."""
    return reading.scene == scene and all(is_clear(reading, cell) for cell in range(CELLS))


def score(reading: Reading, target: Scene, before: Scene | None) -> Scores:
    """Marks from 0 to 10: semantics (what had to change and to stay) and quality (how clean it is)."""
    done = _success(reading, target, before)
    kept = _preservation(reading, target, before)
    return Scores(semantics=min(done, kept), quality=_quality(reading))


def _success(reading: Reading, target: Scene, before: Scene | None) -> float:
    """The share of the requested changes that are right."""
    cells = _to_change(target, before)
    marks = [_likeness(reading, target, cell) for cell in cells]
    if before is None or before.background != target.background:
        marks.append(float(reading.scene.background == target.background))
    if before is not None and before.gripper != target.gripper:
        marks.append(float(reading.scene.gripper == target.gripper))
    return 10 * sum(marks) / len(marks) if marks else 10.0


def _preservation(reading: Reading, target: Scene, before: Scene | None) -> float:
    """Full marks, minus a third for every cell (or the background) that changed and should not have."""
    kept = set(range(CELLS)) - set(_to_change(target, before))
    wrong = sum(
        reading.scene.cells[cell] != target.cells[cell] or not is_clear(reading, cell) for cell in kept
    )
    if before is not None and before.background == target.background:
        wrong += reading.scene.background != target.background
    if before is None or before.gripper == target.gripper:
        wrong += reading.scene.gripper != target.gripper
    return max(0.0, 10 - _UNWANTED_CHANGE * wrong)


def _to_change(target: Scene, before: Scene | None) -> list[int]:
    if before is None:
        return list(target.things)
    return [cell for cell in range(CELLS) if target.cells[cell] != before.cells[cell]]


def _likeness(reading: Reading, target: Scene, cell: int) -> float:
    """1 for the right thing, clearly drawn; up to a half for one that is right in part."""
    seen, wanted = reading.scene.cells[cell], target.cells[cell]
    if seen == wanted:
        return 1.0 if is_clear(reading, cell) else 0.5
    return 0.5 * _in_common(seen, wanted) if seen and wanted else 0.0


def _in_common(seen: Thing, wanted: Thing) -> float:
    same = (seen.noun == wanted.noun, seen.colour == wanted.colour, seen.size == wanted.size)
    return sum(same) / len(same)


def _quality(reading: Reading) -> float:
    """The lower of two marks: for the whole image, and for its worst cell."""
    whole = 1 - max(0.0, reading.error - 1) / 30
    worst = 1 - max(0.0, max(*reading.errors, reading.border_error) - 4) / 60
    return 10 * min(1.0, max(0.0, min(whole, worst)))


# In words


def faults_in(reading: Reading, target: Scene) -> str:
    """The first few things that are wrong, in words.

    Every rejection begins with the same word: a critic that learns from them decides between right and wrong
    with its first token, not between right and a dozen places where something may be wrong.
    """
    faults = ["Wrong."]
    if reading.scene.background != target.background:
        faults.append(f"The background is the {reading.scene.background}, not the {target.background}.")
    for cell in range(CELLS):
        fault = _fault_at(cell, reading, target)
        if fault:
            faults.append(f"{POSITIONS[cell][1].capitalize()}, {fault}.")
    if reading.scene.gripper != target.gripper:
        faults.append("The gripper is not as it should be.")
    return " ".join(faults[:4])


def describe_faults(shown: Scene, target: Scene) -> str:
    """The same for an image whose scene is known."""
    return faults_in(Reading(shown, (1.0,) * CELLS, (0.0,) * CELLS, 0.0), target)


def _fault_at(cell: int, reading: Reading, target: Scene) -> str | None:
    seen, wanted = reading.scene.cells[cell], target.cells[cell]
    if seen == wanted:
        return (
            None if is_clear(reading, cell) else f"{loaded(wanted) if wanted else 'the place'} is not clear"
        )
    if wanted is None and seen is not None:
        return f"{loaded(seen)} is too much"
    if wanted is not None and seen is None:
        return f"{loaded(wanted)} is missing"
    return f"there is {loaded(seen)} instead of {loaded(wanted)}" if seen and wanted else None

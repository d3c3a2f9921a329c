"""Wishes taken wrongly: what a painter that errs draws instead, and what a critic has to notice."""

from __future__ import annotations

from collections import Counter
from itertools import islice
from random import Random

import pytest

from interleave_mini.language.tasks import tasks
from interleave_mini.train import vision_examples as sight_examples
from interleave_mini.train.vision_examples import sample_exercise
from interleave_mini.world.mistakes import spoiled
from interleave_mini.world.misunderstandings import (
    _done_to_another,
    _done_to_another_too,
    _drawn_over_another,
    _left_undone,
    _mixed_up,
    misunderstood,
)
from interleave_mini.world.operations import Recolour, Remove, apply_all
from interleave_mini.world.scene import Scene, Size, Thing

LARGE, SMALL, DOG = Thing("star", "green"), Thing("star", "green", Size.SMALL), Thing("dog", "red")
BEFORE = Scene.of("night", {2: LARGE, 4: SMALL, 8: DOG})
WISH = (Recolour(2, "orange"),)
AFTER = apply_all(WISH, BEFORE)


def test_one_wish_left_undone_is_the_picture_before() -> None:
    assert _left_undone(BEFORE, AFTER, WISH, Random(0)) == BEFORE


def test_of_two_wishes_one_or_both_are_left_undone() -> None:
    both = (*WISH, Remove(8))
    after = apply_all(both, BEFORE)
    seen = {_left_undone(BEFORE, after, both, Random(seed)) for seed in range(40)}
    assert seen == {BEFORE, AFTER, Remove(8).apply(BEFORE)}


def test_what_is_done_to_another_is_done_to_the_look_alike_most_often() -> None:
    drawn = Counter(_done_to_another(BEFORE, AFTER, WISH, Random(seed)) for seed in range(200))
    star, dog = (Recolour(cell, "orange").apply(BEFORE) for cell in (4, 8))
    assert set(drawn) == {star, dog}
    assert drawn[star] > 4 * drawn[dog]


def test_what_is_done_to_another_too_is_also_done_as_asked() -> None:
    drawn = {_done_to_another_too(BEFORE, AFTER, WISH, Random(seed)) for seed in range(60)}
    assert drawn == {Recolour(cell, "orange").apply(AFTER) for cell in (4, 8)}


def test_what_is_drawn_over_another_leaves_the_first_as_it_was() -> None:
    drawn = {_drawn_over_another(BEFORE, AFTER, WISH, Random(seed)) for seed in range(60)}
    assert drawn == {BEFORE.with_cell(cell, AFTER.cells[2]) for cell in (4, 8)}


def test_things_mixed_up_are_the_same_things_elsewhere() -> None:
    for seed in range(20):
        drawn = _mixed_up(BEFORE, AFTER, WISH, Random(seed))
        assert drawn is not None
        assert drawn != AFTER
        assert Counter(drawn.things.values()) == Counter(AFTER.things.values())


def test_nothing_is_misunderstood_where_nothing_was_asked_for() -> None:
    assert misunderstood(BEFORE, BEFORE, Random(0)) is None


def test_a_gripper_that_came_from_nowhere_is_no_misunderstanding() -> None:
    from interleave_mini.world.scene import Gripper

    appeared = Scene.of("workbench", {}, Gripper(0, "red"))
    assert misunderstood(Scene("workbench"), appeared, Random(0)) is None
    assert spoiled(appeared, Random(0), Scene("workbench")) != appeared


@pytest.mark.parametrize("suite", ["story", "edit"])
def test_steps_of_plans_are_spoiled_and_often_left_undone(suite: str) -> None:
    rng, undone, all_of_them = Random(3), 0, 0
    for task in islice(tasks(suite, "train", seed=3), 40):
        for beat in task.beats:
            if beat.before is None:
                continue
            wrong = spoiled(beat.scene, rng, beat.before)
            assert wrong != beat.scene
            undone += wrong == beat.before
            all_of_them += 1
    assert 0.05 < undone / all_of_them < 0.4


def test_wishes_to_judge_are_never_those_of_the_test_split(monkeypatch: pytest.MonkeyPatch) -> None:
    held_out = next(tasks("story", "test", seed=1))
    monkeypatch.setattr(sight_examples, "sample_task", lambda suite, rng: held_out)
    rng, theirs = Random(2), {(beat.prompt, beat.scene) for beat in held_out.beats}
    made = [sight_examples._wish(rng) for _ in range(40)]
    assert theirs.isdisjoint((wish.prompt, wish.after) for wish in made)


def test_some_judgements_are_about_wishes_done_to_another_thing() -> None:
    """The picture has changed, but not where the wish was: nothing odd to see, only something not done."""
    rng, found = Random(5), 0
    for _ in range(150):
        exercise = sample_exercise(rng, ("judge",))
        before, shown = exercise.pictures
        found += exercise.answer.count("instead of") >= 2 and before.background == shown.background
    assert found > 10

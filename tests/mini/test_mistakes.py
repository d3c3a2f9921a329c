"""Edits carried out wrongly: what a faulty painter draws instead, and what a critic has to notice."""

from __future__ import annotations

import asyncio
from collections import Counter
from itertools import islice
from random import Random

import pytest

from interleave.backends.protocols import ImageRequest
from interleave.backends.registry import load_generator
from interleave_mini.language.prompts import scene_prompt
from interleave_mini.reader import shared_reader
from interleave_mini.world.mistakes import (
    _drawn_over_another,
    _extra_target,
    _not_done,
    _permuted,
    _wrong_target,
    with_mistake,
    with_mistake_of_the_image,
    wrong_edit,
)
from interleave_mini.world.operations import Recolour, Remove, apply_all
from interleave_mini.world.scene import Scene, Size, Thing
from miniature.grammar.tasks import sample_training_task, tasks
from miniature.train import vision_examples
from miniature.train.vision_examples import sample_exercise

LARGE, SMALL, DOG = Thing("star", "green"), Thing("star", "green", Size.SMALL), Thing("dog", "red")
BEFORE = Scene.of("night", {2: LARGE, 4: SMALL, 8: DOG})
EDIT = (Recolour(2, "orange"),)
AFTER = apply_all(EDIT, BEFORE)


def test_an_edit_of_one_operation_not_done_is_the_image_before() -> None:
    assert _not_done(BEFORE, AFTER, EDIT, Random(0)) == BEFORE


def test_of_two_operations_one_or_both_are_not_done() -> None:
    both = (*EDIT, Remove(8))
    after = apply_all(both, BEFORE)
    seen = {_not_done(BEFORE, after, both, Random(seed)) for seed in range(40)}
    assert seen == {BEFORE, AFTER, Remove(8).apply(BEFORE)}


def test_the_wrong_target_is_the_look_alike_most_often() -> None:
    drawn = Counter(_wrong_target(BEFORE, AFTER, EDIT, Random(seed)) for seed in range(200))
    star, dog = (Recolour(cell, "orange").apply(BEFORE) for cell in (4, 8))
    assert set(drawn) == {star, dog}
    assert drawn[star] > 4 * drawn[dog]


def test_with_an_extra_target_the_edit_itself_is_done_as_asked() -> None:
    drawn = {_extra_target(BEFORE, AFTER, EDIT, Random(seed)) for seed in range(60)}
    assert drawn == {Recolour(cell, "orange").apply(AFTER) for cell in (4, 8)}


def test_what_is_drawn_over_another_leaves_the_first_as_it_was() -> None:
    drawn = {_drawn_over_another(BEFORE, AFTER, EDIT, Random(seed)) for seed in range(60)}
    assert drawn == {BEFORE.with_cell(cell, AFTER.cells[2]) for cell in (4, 8)}


def test_permuted_things_are_the_same_things_elsewhere() -> None:
    for seed in range(20):
        drawn = _permuted(BEFORE, AFTER, EDIT, Random(seed))
        assert drawn is not None
        assert drawn != AFTER
        assert Counter(drawn.things.values()) == Counter(AFTER.things.values())


def test_there_is_no_wrong_edit_where_nothing_was_asked_for() -> None:
    assert wrong_edit(BEFORE, BEFORE, Random(0)) is None


def test_a_gripper_that_came_from_nowhere_has_no_wrong_edit() -> None:
    from interleave_mini.world.scene import Gripper

    appeared = Scene.of("workbench", {}, Gripper(0, "red"))
    assert wrong_edit(Scene("workbench"), appeared, Random(0)) is None
    assert with_mistake(appeared, Random(0), Scene("workbench")) != appeared


@pytest.mark.parametrize("suite", ["story", "edit"])
def test_mistakes_in_steps_of_plans_often_leave_them_undone(suite: str) -> None:
    rng, undone, all_of_them = Random(3), 0, 0
    for task in islice(tasks(suite, "train", seed=3), 40):
        for step in task.steps:
            if step.before is None:
                continue
            wrong = with_mistake(step.scene, rng, step.before)
            assert wrong != step.scene
            undone += wrong == step.before
            all_of_them += 1
    assert 0.05 < undone / all_of_them < 0.5


def test_most_edits_to_judge_are_steps_of_plans_of_the_training_split(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    task = sample_training_task("story", Random(1))
    monkeypatch.setattr(vision_examples, "sample_training_task", lambda suite, rng: task)
    monkeypatch.setattr(vision_examples, "planned_steps", lambda rng: task.steps)
    rng, theirs = Random(2), {(step.prompt, step.scene) for step in task.steps}
    made = [vision_examples.sample_step(rng)[0] for _ in range(40)]
    assert 20 <= sum((step.prompt, step.after) in theirs for step in made) < 40


def test_some_judgements_are_about_edits_of_the_wrong_thing() -> None:
    """The image has changed, but in the wrong place: nothing odd to see, only something not done."""
    rng, found = Random(5), 0
    for _ in range(400):
        exercise = sample_exercise(rng, ("verdict",))
        before, shown = exercise.images
        if before is None:
            continue
        found += exercise.answer.count("instead of") >= 2 and before.background == shown.background
    assert found > 5


def test_a_mistake_of_the_image_changes_everything_in_one_way() -> None:
    wrong = {with_mistake_of_the_image(BEFORE, Random(seed)) for seed in range(80)}
    mirrored, upside_down = (
        Scene.of("night", {0: LARGE, 4: SMALL, 6: DOG}),
        Scene.of("night", {6: LARGE, 4: SMALL, 0: DOG}),
    )
    sizes = Scene.of("night", {2: SMALL, 4: LARGE, 8: Thing("dog", "red", Size.SMALL)})
    assert {mirrored, upside_down, sizes} < wrong
    for other in wrong - {mirrored, upside_down, sizes}:
        assert len({thing.colour for thing in other.things.values()}) == 1
        assert [*other.things] == [*BEFORE.things]


def test_an_empty_image_has_no_such_mistake() -> None:
    assert with_mistake_of_the_image(Scene("night"), Random(0)) == Scene("night")


def test_the_painter_makes_such_mistakes_when_asked_to() -> None:
    painter = load_generator("world?mistakes=1&of=picture")
    dog, cat = Thing("dog", "red"), Thing("cat", "blue", Size.SMALL)
    scene = Scene.of("night", {3: dog, 4: LARGE, 5: cat})
    for seed in range(8):
        drawn = asyncio.run(painter.generate(ImageRequest(scene_prompt(scene), seed)))
        found = shared_reader().read(drawn).scene
        wrong = [cell for cell in scene.things if found.cells[cell] != scene.cells[cell]]
        assert len(wrong) >= 2, (seed, found)

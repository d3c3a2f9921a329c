"""The harder suites: what they ask for is exact, and hard in the way that each is named for."""

from __future__ import annotations

from pathlib import Path

import pytest

from interleave_mini.bench.harder import HARDER_SUITES, MANY, harder_tasks, parse_harder
from interleave_mini.bench.runner import Settings, run_mini
from interleave_mini.language.patterns import NotUnderstood
from interleave_mini.language.words import POSITIONS
from interleave_mini.world.operations import apply_all
from interleave_mini.world.scene import Scene


@pytest.mark.parametrize("suite", HARDER_SUITES)
def test_a_request_says_exactly_what_is_true(suite: str) -> None:
    made = harder_tasks(suite, 25)
    assert len({task.id for task in made}) == 25
    for task in made:
        assert parse_harder(task.text).steps == task.steps
        for step, before in zip(task.steps[1:], task.steps, strict=False):
            assert step.before == before.scene
            assert apply_all(step.operations, before.scene) == step.scene != before.scene
    assert harder_tasks(suite, 3) == made[:3]
    assert harder_tasks(suite, 1, seed=1)[0].id not in {task.id for task in made}


def scenes_of(suite: str) -> list[list[Scene]]:
    return [[step.scene for step in task.steps] for task in harder_tasks(suite, 25)]


def test_each_suite_is_hard_in_its_own_way() -> None:
    assert all(8 <= len(scenes) <= 12 for scenes in scenes_of("long"))
    assert all(MANY[0] <= len(first.things) <= MANY[1] for first, *_ in scenes_of("count"))
    for first, *_ in scenes_of("alike"):
        things = list(first.things.values())
        assert len({thing.noun for thing in things}) < len(things) == len(set(things))
    for task in harder_tasks("places", 25):
        assert "column of the" in task.text
        assert not any(words[0] in task.text for words in POSITIONS)


def test_another_request_is_not_read_as_one() -> None:
    for text in ("A red cat in a meadow.", "Start with the beginning.", "Start with a meadow. Sing."):
        with pytest.raises(NotUnderstood):
            parse_harder(text)


@pytest.mark.parametrize("suite", HARDER_SUITES)
def test_the_oracle_does_every_task_of_a_suite(suite: str, tmp_path: Path) -> None:
    settings = Settings(suite=suite, system="plan", items=2, choices={"profile": "oracle"})
    result, _ = run_mini(settings, tmp_path)
    assert result.scores.strict.mean == 1.0
    assert result.scores.text.mean == 1.0

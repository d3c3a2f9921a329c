"""Runs that a person decided about, as data: superseded attempts count, and the line that is shown is it."""

from __future__ import annotations

from pathlib import Path

import pytest

import interleave
from interleave.images import pixel_digest
from interleave.train.data.select.stage import summarize_runs
from interleave.train.data.sequences import sequence
from interleave.train.data.trajectories import Trajectory, read_trajectory
from interleave.types import Plan, PlanStep

STORY = Plan(steps=tuple(PlanStep(number=n, caption=f"part {n}", prompt=f"add part {n}") for n in (1, 2, 3)))
"""The critic of the doubles refuses 2:1 and accepts 2:2."""


@pytest.fixture
def made(tmp_path: Path) -> Path:
    run = tmp_path / "made" / "run"
    interleave.generate("A story", out=run, plan=STORY, generator="solid?size=64")
    interleave.redraw_step(run, 1, prompt="a pond")
    interleave.resume(run)
    return run.parent


def trajectory(made: Path, name: str = "run") -> Trajectory:
    read = read_trajectory(made, name)
    assert isinstance(read, Trajectory)
    return read


def test_a_superseded_attempt_has_its_own_aim_and_source(made: Path) -> None:
    run = trajectory(made)
    first, second = run.record.steps[:2]
    before, after = (run.image(attempt.image) for attempt in first.attempts)
    assert [run.critic_input(first, attempt).planned_prompt for attempt in first.attempts] == [
        "add part 1",
        "a pond",
    ]
    sources = [pixel_digest(run.critic_input(second, attempt).before) for attempt in second.attempts]
    assert sources == [pixel_digest(before), pixel_digest(before), pixel_digest(after)]


def test_attempts_are_selected_with_those_they_follow_from(made: Path) -> None:
    (summary,) = summarize_runs(made, ["run"])
    groups = [(step, take, [number for number, *_ in verdicts]) for step, take, verdicts in summary.steps]
    assert groups == [(1, 1, [1]), (1, 2, [2]), (2, 1, [1, 2]), (2, 2, [3]), (3, 1, [1]), (3, 2, [2])]
    assert len(list(trajectory(made).attempts())) == 7


def test_a_sequence_shows_the_line_that_counts(made: Path) -> None:
    run = trajectory(made)
    told = sequence(run, reflection=True, folder=made)
    shown = [step.attempt.image for step in run.record.steps if step.attempt]
    assert [Path(image).name for image in told["images"]] == shown
    assert "<plan>\na pond\n</plan>" in told["messages"][1]["content"]
    assert run.record.plan is not None
    assert run.record.plan.steps[0].prompt == "a pond"


def test_the_attempts_of_a_branch_are_those_it_drew_itself(made: Path) -> None:
    interleave.branch_run(made / "run", made / "branch", 3)
    interleave.resume(made / "branch")
    branch = trajectory(made, "branch")
    assert [(step.plan.number, attempt.number) for step, attempt in branch.attempts()] == [(3, 3)]
    assert branch.critic_input(branch.record.steps[2], branch.record.steps[2].attempts[-1]).before.size


def test_a_held_run_is_no_trajectory(tmp_path: Path) -> None:
    interleave.generate("A frog", out=tmp_path / "made" / "run", generator="solid?size=64", hold_plan=True)
    assert read_trajectory(tmp_path / "made", "run") == "held"

"""Another generator for the rest of a run: recorded, carried out, undone, refused where it makes no sense."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import interleave
from interleave.cli.main import run as run_command
from interleave.errors import InputError, RunError
from interleave.runs.event_lines import DecidedLine, EventLines
from interleave.runs.folder import comparable
from interleave.runs.journal import Drawn, GeneratorChanged, read_journal
from interleave.runs.record import read_record
from interleave.types import Plan, PlanStep

OWN, OTHER, THIRD = "solid?size=64", "solid?size=96", "solid?size=80"
STORY = Plan(
    steps=tuple(PlanStep(number=n, caption=f"part {n}", prompt=f"add part {n}") for n in range(1, 6))
)


def begun(folder: Path, calls: int = 5, **options: Any) -> Path:
    """A run of five steps that a limit has ended: with five calls, one attempt of step 2 is refused."""
    chosen = {"plan": STORY, "generator": OWN, "critic": "scripted", "max_calls": calls, **options}
    result = interleave.generate("A story", out=folder, **chosen)
    assert result.status == "short"
    return folder


def generators(folder: Path) -> list[str | None]:
    """What drew the image that each step shows; None for the run's own generator."""
    shown = [step.attempt for step in read_record(folder).steps]
    return [attempt.generator if attempt else "nothing" for attempt in shown]


def sizes(folder: Path) -> list[tuple[int, int]]:
    return [interleave.read_image(step.image).size for step in interleave.resume(folder).steps if step.image]


def test_the_rest_is_drawn_by_the_other_one_and_what_is_finished_stays(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    before = [entry.image for entry in read_journal(folder) if isinstance(entry, Drawn)]
    record = interleave.change_generator(folder, OTHER, by="Ada")
    assert record.decisions[-1].kind == "generator"
    assert record.decisions[-1].step == 2
    result = interleave.resume(folder)
    assert result.status == "done"
    assert generators(folder) == [None, OTHER, OTHER, OTHER, OTHER]
    images = [entry.image for entry in read_journal(folder) if isinstance(entry, Drawn)]
    assert images[: len(before)] == before
    page = (folder / "document.html").read_text("utf-8")
    assert f"from step 2: {OTHER}" in page
    assert sizes(folder) == [(64, 64)] + [(96, 96)] * 4


def test_on_the_command_line_and_when_the_command_is_repeated(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    command = ["resume", str(folder), "--generator", OTHER]
    assert run_command([*command, "--max-calls", "8"]) == 1
    assert run_command(command) == 0
    assert sum(isinstance(entry, GeneratorChanged) for entry in read_journal(folder)) == 1
    assert generators(folder) == [None, OTHER, OTHER, OTHER, OTHER]


def test_stopped_and_continued_it_ends_as_an_undisturbed_one(tmp_path: Path) -> None:
    folders = [begun(tmp_path / name) for name in ("whole", "cut")]
    for folder in folders:
        interleave.change_generator(folder, OTHER)
    interleave.resume(folders[0])
    for most in range(6, 14):
        interleave.resume(folders[1], max_calls=most)
    interleave.resume(folders[1])
    assert comparable(folders[1]) == comparable(folders[0])


def test_changed_twice_and_undone(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    interleave.change_generator(folder, OTHER)
    assert interleave.resume(folder, max_calls=9).status == "short"
    interleave.change_generator(folder, THIRD)
    interleave.resume(folder)
    drawn_by = generators(folder)
    assert drawn_by[0] is None
    assert drawn_by[1] == OTHER
    assert drawn_by[-1] == THIRD
    interleave.undo_decision(folder)
    interleave.resume(folder)
    assert generators(folder) == [None, OTHER, OTHER, OTHER, OTHER]
    interleave.undo_decision(folder)
    interleave.resume(folder)
    assert generators(folder) == [None] * 5
    assert [each.undone for each in read_record(folder).decisions] == [True, True]


def test_back_to_the_first_one(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    interleave.change_generator(folder, OTHER)
    interleave.resume(folder, max_calls=9)
    interleave.change_generator(folder, OWN)
    interleave.resume(folder)
    assert generators(folder)[-1] is None


def test_a_redrawn_step_has_the_generator_of_its_part_unless_it_names_one(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    interleave.change_generator(folder, OTHER)
    interleave.resume(folder)
    interleave.redraw_step(folder, 4)
    interleave.resume(folder)
    assert generators(folder) == [None, OTHER, OTHER, OTHER, OTHER]
    interleave.redraw_step(folder, 5, generator=OWN)
    interleave.resume(folder)
    assert generators(folder) == [None, OTHER, OTHER, OTHER, None]


def test_steps_that_were_finished_out_of_order_stay(tmp_path: Path) -> None:
    steps = tuple(step.model_copy(update={"needs": ()}) for step in STORY.steps)
    folder = begun(tmp_path / "run", calls=8, plan=Plan(steps=steps))
    finished = {step.plan.number for step in read_record(folder).steps if step.finished}
    interleave.change_generator(folder, OTHER)
    interleave.resume(folder)
    drawn_by = generators(folder)
    assert {number for number in range(1, 6) if drawn_by[number - 1] is None} == finished


def test_where_it_makes_no_sense_it_is_refused_with_the_reason(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    with pytest.raises(InputError, match="already"):
        interleave.change_generator(folder, OWN)
    with pytest.raises(interleave.ConfigurationError, match="sollid"):
        interleave.change_generator(folder, "sollid")
    interleave.resume(folder)
    with pytest.raises(RunError, match="all steps of"):
        interleave.change_generator(folder, OTHER)
    held = interleave.generate("A story", out=tmp_path / "held", hold_plan=True, generator=OWN).folder
    with pytest.raises(RunError, match="waits for approval"):
        interleave.change_generator(held, OTHER)
    assert len(read_record(folder).decisions) == 0


def test_a_critic_that_knows_other_images_only_is_a_reason(tmp_path: Path) -> None:
    drawn = {"planner": "oracle", "critic": "oracle", "generator": "world"}
    folder = interleave.generate(
        "Show the phases of the moon.",
        out=tmp_path / "run",
        max_calls=3,
        **drawn,
    ).folder
    with pytest.raises(InputError, match="not made for the images"):
        interleave.change_generator(folder, OTHER)
    interleave.change_generator(folder, "world?mistakes=0.1")


def test_the_decision_is_told_as_an_event(tmp_path: Path) -> None:
    folder = begun(tmp_path / "run")
    interleave.change_generator(folder, OTHER)
    lines = EventLines(folder)
    told = [line for entry in read_journal(folder)[1:] for line in lines.of(entry, replayed=True)]
    assert isinstance(told[-1], DecidedLine)
    assert (told[-1].decision, told[-1].step, told[-1].generator) == ("generator_changed", 2, OTHER)

"""Runs of native systems: one document, kept through interruptions and redrawn step by step."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import interleave
from interleave import DocumentEnd, ImagePart, Request, Text
from interleave.agents.documents import TRUNCATED, plan_of
from interleave.backends.protocols import DocumentEvent, VlmCapabilities
from interleave.errors import BackendError, ConfigurationError
from interleave.runs.folder import comparable
from interleave.runs.journal import Drawn, Replied, read_journal

REQUEST = "how a frog grows up in three pictures"
NATIVE, OTHER = "solid-document?size=64", "solid?size=96"
ASKED = Request.of(REQUEST)


def generate(folder: Path, **options: Any) -> interleave.RunResult:
    chosen = {"planner": NATIVE, "critic": "scripted", "generator": OTHER, **options}
    return interleave.generate(REQUEST, out=folder, **chosen)


def sizes(run: interleave.RunResult) -> list[int]:
    return [interleave.read_image(step.image).width for step in run.steps if step.image]


def test_the_text_before_an_image_is_its_caption_and_the_rest_a_step_of_text() -> None:
    plan = plan_of(["Intro. ", "Egg.", None, None, "Frog.", None, "The end."], ASKED)
    assert [(step.caption, step.prompt) for step in plan.steps] == [
        ("Intro. Egg.", "Intro. Egg."),
        (None, "Intro. Egg."),  # it has no words of its own
        ("Frog.", "Frog."),
        ("The end.", None),
    ]


def test_an_image_without_any_text_is_drawn_for_the_request() -> None:
    assert plan_of([None], ASKED).steps[0].prompt == REQUEST


def test_a_very_long_text_is_kept_whole() -> None:
    plan = plan_of(["a" * 70_000, None], ASKED, "length")
    assert sum(len(step.caption or "") for step in plan.steps) == 70_000
    assert plan.steps[-1].prompt and plan.notes == (TRUNCATED,)


def test_alone_the_document_stays_as_it_is(tmp_path: Path) -> None:
    run = interleave.generate(REQUEST, planner=NATIVE, out=tmp_path / "run")
    assert run.record.config.critic.spec == run.record.config.generator.spec == "none"
    assert (run.status, sizes(run), run.calls.generator) == ("done", [64, 64, 64], 0)


def test_a_rejected_step_is_redrawn_from_the_image_before_it(tmp_path: Path) -> None:
    run = generate(tmp_path / "run")
    assert sizes(run) == [64, 96, 64]
    assert [len(step.attempts) for step in run.record.steps] == [1, 2, 1]
    assert (run.calls.planner, run.calls.generator) == (1, 1)


@pytest.mark.parametrize("calls", range(1, 6))
def test_a_stopped_run_continues_with_the_same_document(calls: int, tmp_path: Path) -> None:
    whole = generate(tmp_path / "whole")
    stopped = generate(tmp_path / "run", max_calls=calls)
    assert stopped.status == "short"
    resumed = generate(tmp_path / "run")
    assert resumed.calls.planner == 1
    assert comparable(resumed.folder)["steps"] == comparable(whole.folder)["steps"]


def test_a_branch_has_the_images_of_the_document_that_it_has_not_shown(tmp_path: Path) -> None:
    generate(tmp_path / "run", max_calls=2)  # step 2 is not judged yet
    interleave.branch_run(tmp_path / "run", tmp_path / "branch", 1, prompt="a red egg")
    branch = interleave.resume(tmp_path / "branch")
    assert (branch.status, sizes(branch)) == ("done", [96, 96, 64])


def test_a_step_redrawn_by_hand_has_the_named_generator(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    interleave.generate(REQUEST, planner=NATIVE, out=folder)
    interleave.redraw_step(folder, 3, prompt="a green frog", generator=OTHER)
    run = interleave.resume(folder)
    assert (run.status, sizes(run), run.calls.planner) == ("done", [64, 64, 96], 1)


def test_without_a_generator_a_redraw_says_what_is_missing(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    interleave.generate(REQUEST, planner=NATIVE, out=folder)
    interleave.redraw_step(folder, 3, prompt="a green frog")
    with pytest.raises(BackendError, match="name a generator"):
        interleave.resume(folder)


def test_a_plan_changed_by_a_person_is_drawn_where_it_changed(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    held = generate(folder, hold_plan=True, critic="none")
    assert held.status == "held" and held.record.plan
    first, second, third = held.record.plan.steps
    changed = second.model_copy(update={"prompt": "a tadpole"})
    interleave.release_plan(folder, held.record.plan.model_copy(update={"steps": (first, changed, third)}))
    assert sizes(interleave.resume(folder)) == [64, 96, 64]


def test_a_missing_image_of_the_document_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    generate(folder, max_calls=1)
    [reply] = [entry for entry in read_journal(folder) if isinstance(entry, Replied)]
    names = [part.image for part in reply.document if part.image]
    assert len(names) == 3 and not any(isinstance(entry, Drawn) for entry in read_journal(folder)[3:4])
    (folder / "images" / str(names[0])).unlink()
    with pytest.raises(interleave.InterleaveError, match=str(names[0])[:12]):
        generate(folder)


class Own:
    """A user's own native system."""

    capabilities = VlmCapabilities()

    async def write(self, request: Request) -> AsyncIterator[DocumentEvent]:
        yield Text(f"You asked: {request.text}")
        yield ImagePart(Image.new("RGB", (32, 32), "red"))
        yield DocumentEnd(cost=0.25)


def test_a_python_object_can_be_the_native_system(tmp_path: Path) -> None:
    run = interleave.generate("a red square", planner=Own(), out=tmp_path / "run")
    assert [step.text for step in run.steps] == ["You asked: a red square"]
    assert run.cost == 0.25


def test_no_document_is_paid_for_its_plan_alone() -> None:
    with pytest.raises(ConfigurationError, match="hold its plan"):
        interleave.plan(REQUEST, planner=NATIVE)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"chapter_steps": 3}, "chapter_steps="),
        ({"reference_sheets": True}, "reference_sheets="),
        ({"planner": "scripted", "generator": "none"}, "generates nothing"),
    ],
)
def test_what_a_native_system_cannot_do_is_refused(options: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=said):
        generate(tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()

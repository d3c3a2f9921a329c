"""Runs whose plan does not fit the request: they ask back, and draw the plan that a person mends."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Hashable
from pathlib import Path
from typing import Any

import pytest

import interleave
from interleave import Asked, Plan, PlanStep, Question, Reading, Request, Text
from interleave.backends.fakes import ScriptedVlm
from interleave.backends.registry import load_vlm
from interleave.books.book import book_of
from interleave.cli.main import run as command
from interleave.render.markdown import render_markdown
from interleave.runs.record import read_record

QUESTION = Question(text="understood a cat, but not the dog", understood=("cat",), missing=("dog",))
WHOLE = Plan(steps=(PlanStep(number=1, prompt="a cat and a dog", caption="Both."),))


class NoDog:
    """A check that misses a dog in every plan without one."""

    samples = 0

    def mended(self, request: Request, plan: Plan) -> Plan:
        return plan

    def problem(self, request: Request, plan: Plan) -> str:
        return "" if "dog" in (plan.steps[0].prompt or "") else "There is no dog."

    def question(self, request: Request, plan: Plan) -> Question | None:
        return QUESTION

    async def doubt(self, request: Request, plan: Plan) -> Question | None:
        return None

    def meaning(self, plan: Plan) -> Hashable:
        return plan


def planner() -> Any:
    model = load_vlm("scripted", "planner")
    assert isinstance(model, ScriptedVlm)
    model.plan_check = NoDog()  # type: ignore[attr-defined]
    return model


def asked(folder: Path) -> Asked:
    with pytest.raises(Asked) as raised:
        interleave.generate("A cat in 1 picture", out=folder, profile="dry-run", planner=planner())
    return raised.value


def test_a_run_that_asks_has_the_question_and_the_plan_and_no_image(tmp_path: Path) -> None:
    error = asked(tmp_path / "run")
    assert (error.question, str(error)) == (QUESTION, QUESTION.text)
    run = interleave.read_run(tmp_path / "run")
    assert (run.status, run.question, run.calls.total) == ("asked", QUESTION, 1)
    assert run.record.plan == error.plan
    assert json.loads((tmp_path / "run/plan.json").read_text("utf-8"))["steps"]
    assert QUESTION.text in run.document.read_text("utf-8")


def test_the_same_request_again_asks_again_without_a_call(tmp_path: Path) -> None:
    asked(tmp_path / "run")
    asked(tmp_path / "run")
    assert interleave.read_run(tmp_path / "run").calls.total == 1


@pytest.mark.parametrize("plan", [None, WHOLE])
def test_a_person_draws_the_plan_as_it_is_or_mended(tmp_path: Path, plan: Plan | None) -> None:
    first = asked(tmp_path / "run").plan
    interleave.release_plan(tmp_path / "run", plan)
    run = interleave.generate(
        "A cat in 1 picture", out=tmp_path / "run", profile="dry-run", planner=planner()
    )
    assert (run.status, run.question) == ("done", None)
    assert run.record.plan == (plan or first)


def test_a_plan_alone_asks_too() -> None:
    with pytest.raises(Asked, match="not the dog"):
        interleave.plan("A cat in 1 picture", profile="dry-run", planner=planner())


def test_the_summary_of_an_asked_run_has_the_plan_that_the_command_line_takes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from interleave.runs.event_lines import summarize

    asked(tmp_path / "run")
    summary = summarize(read_record(tmp_path / "run"), tmp_path / "run")
    assert (summary.status, summary.understood, summary.missing) == ("asked", ("cat",), ("dog",))
    (tmp_path / "plan.json").write_text(json.dumps(summary.plan), "utf-8")
    given = ["--plan", str(tmp_path / "plan.json"), "--dry-run", "--out", str(tmp_path / "new"), "--json"]
    assert command(["generate", *given]) == 0
    assert json.loads(capsys.readouterr().out)["status"] == "done"


def test_a_reading_gives_the_planner_other_words_and_the_document_captions_and_notes(tmp_path: Path) -> None:
    note = "no hat here: a kite instead"
    reading = Reading((Text("A kite in 1 picture"),), ("My own words.",), (note,))
    request = Request((Text("A hat in 1 picture"),), reading=reading)
    run = interleave.generate(request, out=tmp_path / "run", profile="dry-run")
    assert [step.text for step in run.steps] == ["My own words."]
    assert run.record.title == "A hat in 1 picture"
    assert note in run.notes
    assert "kite" in str(run.record.reading)
    assert run.document.read_text("utf-8").rindex(note) > run.document.read_text("utf-8").index(
        "My own words."
    )
    assert render_markdown(run.record).rstrip().endswith(f"*{note}*")
    assert book_of(run.folder, run.record).pages[-1].remarks[-1] == note
    assert interleave.resume(run.folder).notes == run.notes


def test_an_asked_request_of_a_batch_is_counted(tmp_path: Path) -> None:
    async def ended() -> interleave.BatchSummary:
        return await interleave.agenerate_many(
            ["A cat in 1 picture"], out=tmp_path / "many", profile="dry-run", planner=planner()
        )

    summary = asyncio.run(ended())
    assert (summary.asked, summary.done, summary.failed) == (1, 0, 0)

"""Planners are asked for words upon the images where a request asks for them, and what they write is kept."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from interleave import ReplyError, Request, Text, generate
from interleave.agents.planner import VlmChapterPlanner, VlmPlanner, wants_lettering
from interleave.agents.prompts import load_pack
from interleave.agents.replies import parse_plan, render_plan
from interleave.backends.protocols import Message, Reply, Sampling, VlmCapabilities
from interleave.runs.calls import NO_WRITING
from interleave.types import ImagePart, Lettering, Plan, PlanStep

HELLO = Lettering(kind="speech", text="Hello, “you”!", target="cat")
PLAN = Plan(
    steps=(PlanStep(number=1, prompt="A cat", lettering=(HELLO,)), PlanStep(number=2, prompt="A dog"))
)


class Model:
    """A model that keeps what it was asked, and answers with a plan."""

    def __init__(self, reply: str) -> None:
        self.reply = reply
        self.capabilities = VlmCapabilities()
        self.words = ""
        self.steps: dict[str, Any] = {}

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        parts = [part for each in messages for part in each.parts]
        self.words = "\n".join(part.text for part in parts if isinstance(part, Text))
        schema: Any = sampling.schema
        self.steps = schema["properties"]["execution_plan"]["items"]
        return Reply(self.reply)


@pytest.mark.parametrize(
    "asked",
    [
        "A comic in four pictures",
        "The cat says “hello”, in two pictures",
        "the postman shouts: 'run'",
        "A diagram of a flower with labels",
        "Ein Bild mit Sprechblasen",
        "Die Katze sagt „Hallo“",
        'a shop sign reading "BREAD"',
    ],
)
def test_words_in_the_images_are_asked_for(asked: str) -> None:
    assert wants_lettering(Request((Text(asked),)))


@pytest.mark.parametrize(
    "asked",
    [
        "How a frog grows up",
        "the animal that says meow",
        "She reads the cat's book",
        'A book called "Moon"',
        "Explain what the cook answers to the guests",
    ],
)
def test_other_requests_are_asked_as_before(asked: str) -> None:
    assert not wants_lettering(Request((Text(asked),)))


def test_captions_beside_given_images_are_no_words_upon_them() -> None:
    image = ImagePart(Image.new("RGB", (8, 8)))
    assert not wants_lettering(Request((image, Text("Label each picture"))))


def test_a_planner_writes_lettering_and_only_where_it_is_asked_for() -> None:
    for request, is_asked in (("A comic, in two pictures", True), ("A cat, in two pictures", False)):
        model = Model(render_plan(PLAN))
        plan = asyncio.run(VlmPlanner(model, load_pack()).plan(Request((Text(request),))))
        assert ('"kind" is "speech"' in model.words) is is_asked
        assert ("lettering" in model.steps["properties"]) is is_asked
        assert plan.steps[0].lettering == (HELLO,) and plan.steps[1].lettering is None


def test_a_planner_of_chapters_is_asked_too() -> None:
    model = Model(
        '{"finished": true, ' + render_plan(PLAN).partition("<answer>{")[2].partition("</answer>")[0]
    )
    planner = VlmChapterPlanner(model, load_pack(), max_steps=9, chapter_steps=4)
    plan = asyncio.run(planner.plan(Request((Text("A comic"),))))
    assert '"kind" is "speech"' in model.words and "lettering" in model.steps["required"]
    assert plan.steps[0].lettering == (HELLO,)


def test_packs_of_trained_models_are_not_changed() -> None:
    pytest.importorskip("interleave_mini")
    model = Model(render_plan(PLAN))
    asyncio.run(VlmPlanner(model, load_pack("mini")).plan(Request((Text("A comic, in two pictures"),))))
    assert "lettering" not in model.steps["properties"] and "kind" not in model.words


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("hello", "must be a list"),
        (["hello"], "an entry of .lettering. of step 1"),
        ([{"kind": "sign", "text": "hello"}], "must be one of caption, speech, label"),
        ([{"kind": "label", "text": 7}], "must be a text"),
        ([{"kind": "label", "text": "x" * 501}], "500"),
    ],
)
def test_lettering_that_cannot_be_read_is_asked_again(written: object, problem: str) -> None:
    step = {"step_number": 1, "prompt": "A cat", "lettering": written}
    with pytest.raises(ReplyError, match=problem):
        parse_plan(json.dumps({"execution_plan": [step]}))


def test_entries_without_words_are_left_out() -> None:
    written = [{"kind": "caption", "text": " "}, {"kind": "label", "text": "paw", "target": None}]
    step = {"step_number": 1, "prompt": "A cat", "lettering": written}
    (read,) = parse_plan(json.dumps({"execution_plan": [step]})).steps
    assert read.lettering == (Lettering(kind="label", text="paw"),)


def test_a_run_with_such_a_planner_draws_no_writing_and_shows_the_words(tmp_path: Path) -> None:
    script = tmp_path / "replies.jsonl"
    script.write_text(json.dumps({"text": render_plan(PLAN)}))
    run = tmp_path / "run"
    options: Any = {"planner": f"scripted:{script}", "critic": "none", "generator": "solid?size=64"}
    generate("A comic, in two pictures", profile="dry-run", out=run, **options)
    lines = [json.loads(line) for line in (run / "journal.jsonl").read_text("utf-8").splitlines()]
    sent = [line.get("sent") for line in lines if line["event"] == "drawn"]
    assert sent == [f"A cat\n{NO_WRITING}", None]
    assert (run / "run.json").read_text("utf-8").count("Hello, “you”!") >= 1

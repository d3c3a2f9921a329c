"""Plans in chapters: each planned when the one before it is drawn, journalled once, resumable."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import interleave
from interleave.agents.planner import StorySoFar
from interleave.agents.replies import parse_chapter
from interleave.backends.protocols import (
    GeneratorCapabilities,
    ImageRequest,
    Message,
    Reply,
    Sampling,
    VlmCapabilities,
)
from interleave.errors import ConfigurationError, ReplyError
from interleave.runs.event_lines import EventLines, PlannedLine
from interleave.runs.folder import comparable
from interleave.runs.journal import ChapterPlanned, read_journal
from interleave.runs.record import read_record
from interleave.types import Chapter, ImagePart, Plan, PlanStep, Request, Text

FROG = "How a frog grows up, in 10 pictures"
DOUBLES: dict[str, Any] = {"planner": "scripted", "critic": "scripted", "generator": "solid?size=64"}


def chapters_of(folder: Path) -> list[ChapterPlanned]:
    return [entry for entry in read_journal(folder) if isinstance(entry, ChapterPlanned)]


def answer(first: int, count: int, *, finished: bool = False, **more: Any) -> str:
    steps = [{"step_number": n, "prompt": f"add {n}", **more} for n in range(first, first + count)]
    return json.dumps({"summary": f"up to {first}", "finished": finished, "execution_plan": steps})


class Author:
    """A model that answers with what it is told to, and remembers what it was asked."""

    capabilities = VlmCapabilities()

    def __init__(self, *replies: str) -> None:
        self.replies = list(replies)
        self.asked: list[Sequence[Message]] = []

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        self.asked.append(messages)
        return Reply(self.replies.pop(0))

    def told(self, call: int) -> str:
        parts = self.asked[call][-1].parts
        return "".join(part.text if isinstance(part, Text) else "<picture>" for part in parts)


class Painter:
    capabilities = GeneratorCapabilities(max_sources=2)

    async def generate(self, request: ImageRequest) -> Image.Image:
        return Image.new("RGB", (16, 16), (request.seed % 251, len(request.sources), 0))


def tell(folder: Path, author: Any, request: str = "a long story", **options: Any) -> interleave.RunResult:
    models: dict[str, Any] = {"planner": author, "critic": "none", "generator": Painter()}
    return interleave.generate(request, out=folder, chapter_steps=3, **{**models, **options})


def test_a_plan_is_written_in_chapters_until_its_steps_are_there(tmp_path: Path) -> None:
    interleave.generate(FROG, out=tmp_path / "run", chapter_steps=4, **DOUBLES)
    record = read_record(tmp_path / "run")
    assert len(record.steps) == 10
    assert all(step.finished for step in record.steps)
    assert record.calls.planner == 3
    assert [len(each.steps) for each in chapters_of(tmp_path / "run")] == [4, 2]
    assert record.plan is not None
    assert record.plan.chapter == Chapter(
        number=3, first=9, summary="Parts 1 to 10 of 10 are there.", is_last=True
    )


def test_it_draws_what_the_same_plan_at_once_would(tmp_path: Path) -> None:
    interleave.generate(FROG, out=tmp_path / "parts", chapter_steps=3, **DOUBLES)
    interleave.generate(FROG, out=tmp_path / "whole", **DOUBLES)
    parts, whole = comparable(tmp_path / "parts"), comparable(tmp_path / "whole")
    assert parts["steps"] == whole["steps"]


def test_the_planner_sees_the_summary_the_last_steps_and_the_latest_image(tmp_path: Path) -> None:
    author = Author(answer(1, 3), answer(4, 2), answer(6, 1, finished=True))
    assert tell(tmp_path / "run", author).status == "done"
    assert "Plan chapter 1: at most 3 steps, numbered from 1." in author.told(0)
    assert "<picture>" not in author.told(0)
    assert "Plan chapter 3: at most 3 steps, numbered from 6." in author.told(2)
    assert "up to 4" in author.told(2)
    assert "5. add 5" in author.told(2)
    assert "<picture>" in author.told(2)
    assert len(read_record(tmp_path / "run").steps) == 6


def test_a_planner_may_say_that_nothing_is_left(tmp_path: Path) -> None:
    end = json.dumps({"summary": "all", "finished": True, "execution_plan": []})
    assert tell(tmp_path / "run", Author(answer(1, 3), end)).status == "done"
    assert len(read_record(tmp_path / "run").steps) == 3


def test_it_ends_with_the_most_steps_and_with_those_that_were_asked_for(tmp_path: Path) -> None:
    tell(tmp_path / "most", Author(answer(1, 3), answer(4, 2)), max_steps=5)
    assert len(read_record(tmp_path / "most").steps) == 5
    author = Author(answer(1, 3, finished=True), answer(1, 3), answer(4, 1))
    tell(tmp_path / "asked", author, "A story in 4 pictures")
    assert "the user asked for exactly 4" in author.asked[1][-1].text
    assert len(read_record(tmp_path / "asked").steps) == 4
    assert len(read_record(tmp_path / "asked").planner_bad_replies) == 1


def test_a_chapter_that_is_too_long_or_looks_too_far_back_is_asked_for_again(tmp_path: Path) -> None:
    author = Author(
        answer(1, 3),
        answer(4, 4),
        answer(4, 3),
        answer(7, 1, needs=[2]),
        answer(7, 1, needs=[4], finished=True),
    )
    tell(tmp_path / "run", author)
    assert "at most 3 are allowed" in author.asked[2][-1].text
    assert "only steps from 4 on" in author.asked[4][-1].text
    plan = read_record(tmp_path / "run").plan
    assert plan is not None
    assert plan.steps[6].needs == (4,)


def test_an_unreadable_chapter_ends_the_run_and_is_asked_for_again_when_it_is_continued(
    tmp_path: Path,
) -> None:
    with pytest.raises(ReplyError):
        tell(tmp_path / "run", Author(answer(1, 3), *["what?"] * 4))
    assert len([step for step in read_record(tmp_path / "run").steps if step.finished]) == 3
    author = Author(answer(4, 1, finished=True))
    assert tell(tmp_path / "run", author).status == "done"
    assert len(author.asked) == 1
    assert len(read_record(tmp_path / "run").steps) == 4


@pytest.mark.parametrize("most", range(1, 27, 4))
def test_stopped_anywhere_it_goes_on_to_the_same_end(tmp_path: Path, most: int) -> None:
    options = {"chapter_steps": 4, **DOUBLES}
    interleave.generate(FROG, out=tmp_path / "whole", **options)
    assert interleave.generate(FROG, out=tmp_path / "cut", max_calls=most, **options).status == "short"
    interleave.generate(FROG, out=tmp_path / "cut", **options)
    assert comparable(tmp_path / "cut") == comparable(tmp_path / "whole")


def test_what_a_person_changes_later_leaves_the_chapters_as_they_were_planned(tmp_path: Path) -> None:
    interleave.generate(FROG, out=tmp_path / "run", chapter_steps=4, **DOUBLES)
    interleave.redraw_step(tmp_path / "run", 3)
    interleave.resume(tmp_path / "run")
    record = read_record(tmp_path / "run")
    assert record.calls.planner == 3
    assert record.status == "done"
    assert [len(step.attempts) for step in record.steps] == [1, 2, 2, 3, 2, 3, 2, 3, 2, 3]
    interleave.branch_run(tmp_path / "run", tmp_path / "branch", 9)
    assert interleave.resume(tmp_path / "branch").status == "done"


def test_a_planner_of_ones_own_can_write_chapters(tmp_path: Path) -> None:
    class Own:
        def __init__(self) -> None:
            self.asked: list[StorySoFar] = []

        async def plan(self, request: Request) -> Plan:
            steps = (PlanStep(number=1, prompt="a"), PlanStep(number=2, prompt="b"))
            return Plan(steps=steps, chapter=Chapter(number=1))

        async def next_chapter(self, story: StorySoFar) -> Plan:
            self.asked.append(story)
            number = story.plan.steps[-1].number + 1
            chapter = Chapter(number=story.chapter, first=number, is_last=number == 4)
            return story.plan.continued((PlanStep(number=number, prompt="c"),), (), chapter)

    own = Own()
    assert tell(tmp_path / "run", own).status == "done"
    assert [story.chapter for story in own.asked] == [2, 3]
    assert all(story.images for story in own.asked)
    assert len(read_record(tmp_path / "run").steps) == 4


def test_event_lines_have_the_plan_so_far(tmp_path: Path) -> None:
    interleave.generate(FROG, out=tmp_path / "run", chapter_steps=4, **DOUBLES)
    lines = EventLines(tmp_path / "run")
    told = [line for entry in read_journal(tmp_path / "run")[1:] for line in lines.of(entry, replayed=True)]
    assert [len(line.steps) for line in told if isinstance(line, PlannedLine)] == [4, 8, 10]


def test_where_it_makes_no_sense_it_is_refused(tmp_path: Path) -> None:
    plan = Plan(steps=(PlanStep(number=1, prompt="a"),))
    for options, reason in [
        ({"plan": plan, "generator": "solid"}, "no planner is asked"),
        ({"hold_plan": True, **DOUBLES}, "cannot be held"),
        ({"profile": "oracle"}, "whole plans only"),
        ({"profile": "mini"}, "whole plans only"),
    ]:
        with pytest.raises(ConfigurationError, match=reason):
            interleave.generate(
                "Show the phases of the moon.", out=tmp_path / "run", chapter_steps=4, **options
            )


def test_chapters_are_numbered_on_whatever_the_model_writes() -> None:
    before = parse_chapter(answer(1, 3))
    again = parse_chapter(answer(1, 2, needs=[]), before)
    assert [step.number for step in again.steps] == [1, 2, 3, 4, 5]
    named = json.dumps(
        {"finished": "true", "execution_plan": [{"prompt": "x", "needs": [3]}, {"prompt": "y", "needs": [1]}]}
    )
    moved = parse_chapter(named, before)
    assert moved.chapter is not None
    assert moved.chapter.is_last
    assert [step.needs for step in moved.steps[3:]] == [(3,), (4,)]
    with pytest.raises(ReplyError, match="no steps"):
        parse_chapter('{"finished": false, "execution_plan": []}', before)


def test_an_image_is_shown_as_an_image() -> None:
    from interleave.agents.planner import story_parts

    story = StorySoFar(Request.of("x"), parse_chapter(answer(1, 2)), (Image.new("RGB", (8, 8)),))
    assert isinstance(list(story_parts(story))[-1], ImagePart)

"""Pages of long texts and of many attempts: the work grows as they do. Calls are counted, not seconds."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

import pytest
from PIL import Image

import interleave
from interleave.render.html import render_document
from interleave.render.markdown import render_markdown
from interleave.runs.record import RunRecord
from interleave.runs.run import RunResult


def calls_of(work: Callable[[], Any]) -> int:
    """How many functions are called, also those written in C."""
    count = 0

    def counted(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(counted)
    try:
        work()
    finally:
        sys.setprofile(None)
    return count


@pytest.fixture
def run() -> RunResult:
    image = Image.new("RGB", (8, 8), "red")
    return interleave.generate([image, "Add a hat, in 1 picture"], out="run")


def long_record(run: RunResult, attempts: int, words: int) -> RunRecord:
    """The run with so many attempts, each of a prompt of so many words that are much alike."""
    step = run.record.steps[0]
    prompts = ["a " * words + "end", "b " + "a " * (words // 2) + "c " + "a " * (words // 2)]
    some = [
        step.attempts[0].model_copy(update={"number": number, "prompt": prompts[number % 2]})
        for number in range(1, attempts + 1)
    ]
    text = "- caption\n\n" * words
    plan = step.plan.model_copy(update={"caption": text})
    return run.record.model_copy(
        update={"steps": (step.model_copy(update={"attempts": tuple(some), "plan": plan}),)}
    )


@pytest.mark.parametrize("grown", ["attempts", "words"])
def test_rendering_takes_work_that_grows_as_the_run(run: RunResult, grown: str) -> None:
    def work(size: int) -> int:
        sizes = {"attempts": 2, "words": 20, grown: size}
        record = long_record(run, **sizes)
        return calls_of(lambda: (render_document(run.folder, record), render_markdown(record)))

    size = {"attempts": 5, "words": 150}[grown]
    work(1)  # the templates are compiled once
    one, two, four = (work(size * times) for times in (1, 2, 4))
    assert four - two <= 1.2 * 2 * (two - one), (one, two, four)

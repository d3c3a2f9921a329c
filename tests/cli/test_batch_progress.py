"""The progress of a batch: what was done, how far it is, how long it will take; and never too many lines."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from interleave.batches.batch import Ended
from interleave.cli import batch_progress
from interleave.cli.batch_progress import PlainBatchProgress, ProgressLines, WorkMeter
from interleave.cli.main import run
from interleave.runs.event_lines import DrawnLine, PlannedLine, PlannedStep, StepFinishedLine
from interleave.text import time_left

DAY = 86_400.0


class Clock:
    """A clock of the test's."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def planned(id_: str, steps: int) -> PlannedLine:
    return PlannedLine(
        run="r",
        id=id_,
        steps=tuple(PlannedStep(number=n + 1, name=None, text="x", prompt="x") for n in range(steps)),
    )


def drawn(id_: str, step: int, **more: Any) -> DrawnLine:
    return DrawnLine(
        run="r", id=id_, step=step, attempt=1, image="i", prompt="p", seed=1, cost=None, seconds=2.0, **more
    )


def finished(id_: str, step: int, **more: Any) -> StepFinishedLine:
    return StepFinishedLine(
        run="r", id=id_, step=step, attempt=1, image="i", text="t", accepted=True, forced=False, **more
    )


def ended(id_: str, status: Any = "done", reason: str = "") -> Ended:
    return Ended(id=id_, digest="d", folder="f", status=status, reason=reason)


def test_the_time_left_counts_the_steps_of_requests_that_are_under_way() -> None:
    clock = Clock()
    meter = WorkMeter(4, clock)
    assert meter.seconds_left is None
    meter.line(planned("a", 4))
    meter.line(finished("a", 1))
    clock.now = 10.0
    assert meter.seconds_left == pytest.approx(10 * 3.75 / 0.25)
    meter.end("a", failed=False, already=False)
    meter.end("b", failed=True, already=False)
    clock.now = 30.0
    assert meter.seconds_left == pytest.approx(30.0)
    assert str(meter) == "2 of 4 ended, 1 failed · about 30 s left"


def test_what_was_done_before_counts_as_done_but_not_as_quickly_done() -> None:
    clock = Clock()
    meter = WorkMeter(4, clock)
    meter.end("a", failed=False, already=True)
    meter.line(planned("b", 2))
    meter.line(finished("b", 1, replayed=True))
    meter.line(drawn("b", 1, replayed=True))
    clock.now = 10.0
    assert (meter.seconds_left, meter.images, meter.fraction) == (None, 0, 1.5 / 4)
    meter.line(finished("b", 2))
    assert meter.seconds_left == pytest.approx(10 * 2 / 0.5)


def test_an_image_is_a_line_with_how_far_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    progress = PlainBatchProgress(clock)
    progress.begin(2)
    for step in (1, 2):
        clock.now += 5.0
        progress.line(drawn("frog", step))
    progress.ended(ended("frog", "failed", "no\nkey"), already=False)  # too soon for a line of its own
    clock.now += 5.0
    progress.ended(ended("tree"), already=False)
    assert capsys.readouterr().err.splitlines() == [
        "frog: step 1, attempt 1 drawn in 2.0 s · 0 of 2 ended · 1 image",
        "frog: step 2, attempt 1 drawn in 2.0 s · 0 of 2 ended · 2 images",
        "tree: done · 2 of 2 ended, 1 failed · 2 images",
    ]


@pytest.mark.parametrize("seconds", [1.0, 1000.0, DAY, 7 * DAY])
def test_ten_thousand_requests_print_a_bounded_number_of_lines(
    seconds: float, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = Clock()
    progress = PlainBatchProgress(clock)
    progress.begin(10_000)
    for number in range(10_000):
        clock.now = seconds * (number + 1) / 10_000
        progress.line(drawn(str(number), 1))
        progress.ended(ended(str(number)), already=False)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) < {DAY: 800, 7 * DAY: 1700}.get(seconds, 400)
    assert lines[-1].endswith("10,000 of 10,000 ended · 10,000 images")


def test_a_long_silence_is_broken(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    progress = PlainBatchProgress(clock)
    progress.begin(2)
    for clock.now in (15.0, 30.0, 45.0, 61.0, 76.0):
        progress.tick()
    assert capsys.readouterr().err == "working · 0 of 2 ended\n"


def test_a_finished_batch_that_is_asked_for_again_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    progress = PlainBatchProgress(Clock())
    progress.begin(1)
    progress.ended(ended("a"), already=True)
    assert capsys.readouterr().err == ""


def test_a_stage_says_how_long_it_will_take(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    lines = ProgressLines("runs scored", clock)
    for clock.now, done in ((1.0, 100), (11.0, 110), (12.0, 111), (31.0, 160)):
        lines.show(done, 200)
    assert capsys.readouterr().err.splitlines() == [
        "runs scored: 110 of 200, about 1.5 min left",
        "runs scored: 160 of 200, about 20 s left",
    ]


def test_the_time_left_is_in_the_unit_that_fits() -> None:
    assert [time_left(each) for each in (4.4, 89, 95, 900, 5399, 6000, 36_000 * 2)] == [
        "about 4 s left",
        "about 89 s left",
        "about 1.6 min left",
        "about 15 min left",
        "about 90 min left",
        "about 1.7 h left",
        "about 20 h left",
    ]


def test_a_benchmark_tells_its_images(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batch_progress, "LEAST_SECONDS", 0.0)
    rows = [{"id": n, "task": "art", "prompt": "A lake in 1 picture", "text_rubrics": [], "image_rubrics": []}
            for n in range(2)]  # fmt: skip
    Path("data").mkdir()
    Path("data/test.json").write_text(json.dumps(rows))
    monkeypatch.setenv("INTERLEAVE_PROFILE", "dry-run")
    command = ["bench", "ueval", "run", "--data", "data", "--out", "b", "--system", "plan"]
    assert run([*command, "--generator", "solid?size=64"]) == 0
    assert "drawn in" in capsys.readouterr().err


def test_a_terminal_gets_one_live_line() -> None:
    Path("r.jsonl").write_text('{"id": "frog", "request": "A frog in 2 pictures"}\n')
    command = [sys.executable, "-m", "interleave", "generate", "--requests", "r.jsonl", "--out", "many"]
    terminal, theirs = pty.openpty()
    working = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=theirs)
    os.close(theirs)
    shown = b""
    while True:
        try:
            shown += os.read(terminal, 65536)
        except OSError:  # all its ends are closed
            break
    os.close(terminal)
    assert working.wait() == 0
    assert b"1 of 1 ended" in shown
    assert b"\x1b[" in shown

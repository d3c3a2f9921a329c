"""Readers of standard output and error may go away: the work goes on, and the exit code is its own."""

from __future__ import annotations

import io
import json
import logging
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TextIO

import pytest

from interleave.backends.retries import RetryPolicy
from interleave.batches.batch import read_index
from interleave.cli.main import run
from interleave.cli.streams import (
    MOST_KINDS,
    RETRY_LOGGER,
    CollapseFilter,
    collapse_retry_messages,
    tolerate_closed_streams,
)

STREAMS = [("stderr",), ("stdout",), ("stdout", "stderr")]


def nobody() -> TextIO:
    """The writing end of a pipe whose reader is gone."""
    reading, writing = os.pipe()
    os.close(reading)
    return open(writing, "w", encoding="utf-8", buffering=1)


def full_disk() -> TextIO:
    return open("/dev/full", "w", encoding="utf-8")


@pytest.fixture
def put(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, TextIO], None]]:
    """Put a stream in the place of a standard one."""
    opened: list[TextIO] = []

    def put(name: str, stream: TextIO) -> None:
        opened.append(stream)
        monkeypatch.setattr(sys, name, stream)

    yield put
    monkeypatch.undo()
    for stream in opened:
        with suppress(OSError):
            stream.close()


@pytest.fixture
def requests() -> str:
    rows = [{"id": str(number), "request": f"Story {number}, in 1 picture"} for number in range(3)]
    Path("r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "r.jsonl"


def generate(requests: str, *more: str) -> int:
    return run(["generate", "--requests", requests, "--out", "many", "--generator", "solid?size=64", *more])


@pytest.mark.parametrize("names", STREAMS, ids=" and ".join)
def test_a_batch_goes_on_when_nobody_reads_it(
    names: tuple[str, ...], requests: str, put: Callable[[str, TextIO], None]
) -> None:
    for name in names:
        put(name, nobody())
    assert generate(requests) == 0
    assert [ended.status for ended in read_index(Path("many"))] == ["done"] * 3


def test_the_exit_code_is_that_of_the_work(requests: str, put: Callable[[str, TextIO], None]) -> None:
    put("stdout", nobody())
    put("stderr", nobody())
    assert generate(requests, "--max-calls", "2") == 1
    assert {ended.status for ended in read_index(Path("many"))} == {"short"}


@pytest.mark.parametrize(
    "command",
    [["generate", "A frog in 1 picture", "--out", "run"], ["data", "collect", "r.jsonl", "--out", "made"]],
    ids=lambda command: " ".join(command[:2]),
)
def test_other_work_goes_on_too(
    command: list[str], requests: str, put: Callable[[str, TextIO], None]
) -> None:
    put("stderr", nobody())
    assert run([*command, "--generator", "solid?size=64"]) == 0


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="does not apply: only Linux has it")
def test_a_full_disk_behind_the_log_is_no_matter_and_behind_the_result_it_is(
    requests: str, put: Callable[[str, TextIO], None]
) -> None:
    put("stderr", full_disk())
    assert generate(requests) == 0
    put("stdout", full_disk())
    assert generate(requests) == 3


def test_a_stream_that_was_closed_from_the_start_is_as_good_as_none(
    requests: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert generate(requests) == 0
    assert sys.stdout is None


def test_a_path_that_is_no_text_is_printed_spelled_out(put: Callable[[str, TextIO], None]) -> None:
    shown = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="strict")
    put("stdout", shown)
    with tolerate_closed_streams():
        print(os.fsdecode(b"many\xff"))
    assert shown.buffer.getvalue() == b"many\\udcff\n"  # type: ignore[attr-defined]


def test_the_interpreter_ends_quietly_and_with_the_code_of_the_work(requests: str) -> None:
    """At its end it writes what is left, and answers with 120 where nobody takes it."""
    reading, writing = os.pipe()
    os.close(reading)
    command = [sys.executable, "-m", "interleave", "generate", "--requests", requests, "--out", "many"]
    ended = subprocess.run([*command, "--json"], stdout=writing, stderr=subprocess.PIPE, timeout=120)
    os.close(writing)
    assert ended.returncode == 0
    assert b"BrokenPipe" not in ended.stderr
    assert b"3 done" in ended.stderr


def test_one_line_of_many_alike_is_shown_and_the_others_are_counted() -> None:
    now = 0.0
    collapse = CollapseFilter(60, clock=lambda: now)

    def shown(words: str) -> str | None:
        record = logging.LogRecord("x", logging.WARNING, "", 0, "%s", (words,), None)
        return record.getMessage() if collapse.filter(record) else None

    assert [shown(f"busy; again in {number}.5 s") for number in range(3)] == [
        "busy; again in 0.5 s",
        None,
        None,
    ]
    assert shown("another trouble") == "another trouble"
    now = 60.0
    assert shown("busy; again in 3 s") == "busy; again in 3 s (2 lines like this not shown)"
    assert shown("busy; again in 4 s") is None
    assert list(collapse.left_out()) == ["1 line like this not shown: busy; again in 0.5 s"]


def test_messages_of_ever_new_kinds_are_bounded_too() -> None:
    collapse = CollapseFilter(60, clock=lambda: 0.0)
    letters = "abcdefghijklmnopqrstuvwxyz"
    records = [logging.LogRecord("x", logging.WARNING, "", 0, letter, (), None) for letter in letters]
    assert sum(collapse.filter(record) for record in records) == MOST_KINDS + 1


def test_retries_are_told_once_and_counted_at_the_end(caplog: pytest.LogCaptureFixture) -> None:
    assert RetryPolicy.__module__ == RETRY_LOGGER
    log = logging.getLogger(RETRY_LOGGER)
    with collapse_retry_messages():
        for number in range(500):
            log.warning("the planner: busy; trying again in %.1f s", number)
    assert [record.getMessage() for record in caplog.records] == [
        "the planner: busy; trying again in 0.0 s",
        "499 lines like this not shown: the planner: busy; trying again in 0.0 s",
    ]
    log.warning("trying again")
    assert len(caplog.records) == 3

"""The events of a run as JSON lines: one for each fact, the same after a stop, readable by the model."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any, get_args

import pytest
from PIL import Image

import interleave
from interleave.api import open_run, reopen_run
from interleave.cli.main import run
from interleave.config.run_config import Limits
from interleave.errors import BackendError, Failure
from interleave.runs.event_lines import EventLine, read_event_line
from interleave.types import Request

REQUEST = "A frog in 2 pictures"
SMALL = "solid?size=64"
CHANGING = {"time", "seconds", "replayed"}
ABOUT_A_SESSION = {"started", "call_failed", "retry", "ended"}
"""Events that differ between a run that was stopped and an undisturbed one."""


class Fragile:
    """Draws, but fails as often as it is told to."""

    capabilities = interleave.GeneratorCapabilities(price_per_image=0.5)

    def __init__(self, *errors: BackendError) -> None:
        self.errors = list(errors)

    async def generate(self, request: interleave.ImageRequest) -> Image.Image:
        if request.slot.step == 2 and self.errors:
            raise self.errors.pop(0)
        return Image.new("RGB", (32, 32), (request.seed % 256, 0, 0))


def followed(opened: Any) -> list[EventLine]:
    lines: list[EventLine] = []
    opened.report_lines(lines.append)

    async def drain() -> None:
        async for _ in opened.stream():
            pass

    asyncio.run(drain())
    return [read_event_line(line.model_dump_json()) for line in lines]


def generated(**options: Any) -> list[EventLine]:
    return followed(open_run(Request.of(REQUEST), **{"out": "run", "generator": SMALL, **options}))


def names(lines: list[EventLine]) -> list[str]:
    return [line.event for line in lines]


def lasting(lines: list[EventLine]) -> list[dict[str, Any]]:
    return [line.model_dump(exclude=CHANGING) for line in lines if line.event not in ABOUT_A_SESSION]


ATTEMPT = ["drawn", "judged"]
UNDISTURBED = ["started", "planned", *ATTEMPT, "step_finished", *ATTEMPT, *ATTEMPT, "step_finished", "ended"]


def test_every_fact_is_a_line_and_the_last_is_what_json_prints(capsys: pytest.CaptureFixture[str]) -> None:
    lines = generated()
    assert names(lines) == UNDISTURBED
    assert not any(getattr(line, "replayed", False) for line in lines)
    drawn, ended = lines[2].model_dump(), lines[-1].model_dump(mode="json")
    assert Path("run", drawn["image"]).is_file()
    assert run(["show", "run", "--json"]) == 0
    assert json.loads(capsys.readouterr().out).items() <= ended.items()
    assert ended["document"] == "run/document.html"


def test_a_finished_run_gives_its_lines_again() -> None:
    first, again = generated(), followed(reopen_run(Path("run"), Limits()))
    assert names(again) == UNDISTURBED
    assert lasting(again) == lasting(first)
    assert all(line.replayed for line in again if hasattr(line, "replayed"))


@pytest.mark.parametrize("calls", range(1, 7))
def test_a_run_that_was_stopped_gives_the_lines_of_an_undisturbed_one(calls: int) -> None:
    whole = generated(out="whole")
    short = generated(max_calls=calls)
    resumed = followed(reopen_run(Path("run"), Limits()))
    assert (short[-1].model_dump()["status"], resumed[-1].model_dump()["status"]) == ("short", "done")
    where = {"run": "run"}
    assert [{**line, **where} for line in lasting(whole)] == lasting(resumed)
    told = lasting(short)
    assert lasting(resumed)[: len(told)] == told, "what was told before the stop is told again"
    replayed = [line.model_dump()["replayed"] for line in resumed if hasattr(line, "replayed")]
    assert replayed == sorted(replayed, reverse=True), "first what was there, then what is new"
    assert sum(replayed) == len(told)


def test_a_failure_and_its_retry_are_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("interleave.backends.retries.random.uniform", lambda low, high: 0.0)
    busy = BackendError("it is busy", transient=True, kind=Failure.BUSY)
    lines = generated(generator=Fragile(busy, busy))
    told = [line.model_dump(include={"event", "role", "step", "tries"}) for line in lines]
    retried = [each for each in told if each["event"] in ("call_failed", "retry")]
    place = {"role": "generator", "step": 2}
    assert retried == [
        {"event": "call_failed", **place, "tries": 1},
        {"event": "retry", **place, "tries": 2},
        {"event": "call_failed", **place, "tries": 2},
        {"event": "retry", **place, "tries": 3},
    ]
    assert lines[-1].model_dump()["cost"] == 1.5


def test_a_run_that_fails_ends_with_its_reason_and_the_way_on() -> None:
    lines = generated(generator=Fragile(BackendError("it is broken")))
    ended = lines[-1].model_dump()
    assert (ended["event"], ended["status"], ended["resume"]) == ("ended", "failed", "interleave resume run")
    assert "it is broken" in ended["reason"]


def test_lines_of_a_newer_version_are_read_and_others_are_refused() -> None:
    line = json.loads(generated()[-1].model_dump_json()) | {"version": 2, "mood": "fine"}
    assert read_event_line(json.dumps(line)).event == "ended"
    for bad in ("{}", "nothing", '{"event": "drawn"}', '{"event": "danced", "version": 1}'):
        with pytest.raises(interleave.InputError, match="not an event line"):
            read_event_line(bad)


COMMON = {"event", "version", "time", "run", "id"}
PAGE = (Path(__file__).parents[2] / "docs" / "reference" / "json.md").read_text("utf-8")


@pytest.mark.parametrize("kind", get_args(EventLine), ids=lambda kind: kind.__name__)
def test_every_field_of_every_line_is_on_the_page(kind: Any) -> None:
    name = kind.model_fields["event"].default
    (row,) = [line for line in PAGE.splitlines() if line.startswith(f"| `{name}` |")]
    fields = set(kind.model_fields) - COMMON
    if "the fields of `--json`" in row:
        row = PAGE.partition("## `--json-events`")[0]
    assert {field for field in fields if f"`{field}`" not in row} == set()

"""What programs read: one JSON object whatever happens, or a line for every event."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from held import held_after, wait_until_held
from interleave.backends.fakes import SolidGenerator
from interleave.backends.protocols import ImageRequest
from interleave.batches.batch import read_index
from interleave.cli.main import run
from interleave.runs.event_lines import read_event_line
from work import HANGS_AFTER

Captured = pytest.CaptureFixture[str]
SMALL = ["--generator", "solid?size=64"]
COUNTS = ("done", "short", "failed", "calls")


def requests(number_of: int) -> str:
    rows = [{"id": f"r{number}", "request": f"Story {number}, in 1 picture"} for number in range(number_of)]
    Path("r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return "r.jsonl"


def lines_of(capsys: Captured) -> list[dict[str, Any]]:
    return [read_event_line(line).model_dump(mode="json") for line in capsys.readouterr().out.splitlines()]


REFUSED = {
    "no such option": (["generate", "a", "--nope"], "usage_error", "interleave generate --help"),
    "too many words": (["generate", "a", "b"], "usage_error", "interleave generate --help"),
    "no request": (["generate"], "input_error", "request"),
    "no such profile": (["generate", "a", "--profile", "no"], "configuration_error", "profile"),
    "no such backend": (["plan", "a", "--planner", "no"], "configuration_error", "spec"),
    "no such run": (["resume", "no"], "run_error", "folder"),
    "many without a folder": (["generate", "--requests", "r.jsonl"], "configuration_error", "option"),
    "no such stage input": (["data", "select", "no", "--out", "x"], "input_error", "file"),
}


@pytest.mark.parametrize("form", ["--json", "--json-events"])
@pytest.mark.parametrize("case", REFUSED)
def test_a_refusal_is_an_object_with_kind_message_and_what_to_do(
    case: str, form: str, capsys: Captured
) -> None:
    requests(1)
    command, kind, advice = REFUSED[case]
    assert run([*command, form]) == 2
    out, err = capsys.readouterr()
    told = json.loads(out)
    if form == "--json-events":
        assert (told.pop("event"), told.pop("version")) == ("error", 1)
        assert told.pop("time") > 0
    assert set(told) == {"status", "error", "exit_code"}
    assert (told["status"], told["exit_code"]) == ("refused", 2)
    if form == "--json" or command[0] not in ("plan", "data"):  # these have no events
        assert told["error"]["kind"] == kind
        assert advice in told["error"]["advice"]
    assert told["error"]["message"] in err


def test_without_json_a_refusal_leaves_standard_output_empty(capsys: Captured) -> None:
    assert run(["generate", "a", "--nope"]) == 2
    assert run(["generate", "--nope", "--", "--json"]) == 2
    assert capsys.readouterr().out == ""


def test_a_backend_that_cannot_be_loaded_is_an_object_too(capsys: Captured) -> None:
    command = ["generate", "a frog", "--critic", "openai:gpt-5", "--json"]
    assert run(command) == 2
    told = json.loads(capsys.readouterr().out)
    assert "OPENAI_API_KEY" in told["error"]["message"]


def test_the_two_forms_exclude_each_other(capsys: Captured) -> None:
    assert run(["generate", "a frog", "--json", "--json-events"]) == 2
    assert "cannot be combined" in capsys.readouterr().err


def test_events_are_all_there_is_on_standard_output(capsys: Captured) -> None:
    assert run(["generate", "A frog in 1 picture", "--out", "run", "--json-events", *SMALL]) == 0
    events = [line["event"] for line in lines_of(capsys)]
    assert events == ["started", "planned", "drawn", "judged", "step_finished", "ended"]
    assert run(["resume", "run", "--json-events"]) == 0
    lines = lines_of(capsys)
    assert [line["event"] for line in lines] == events
    assert lines[0]["continued"] and all(line.get("replayed", True) for line in lines)


@pytest.mark.parametrize("command", [["generate", "--requests"], ["data", "collect"]], ids=" ".join)
def test_a_batch_tells_the_events_of_all_its_runs(command: list[str], capsys: Captured) -> None:
    given = [*command, requests(3), "--out", "many", "--json-events", *SMALL]
    assert run(given) == 0
    lines = lines_of(capsys)
    assert (lines[0]["event"], lines[-1]["event"]) == ("batch_started", "batch_ended")
    assert (lines[0]["requests"], lines[-1]["done"], lines[-1]["cost"]) == (3, 3, 0)
    for id_ in ("r0", "r1", "r2"):
        own = [line for line in lines if line.get("id") == id_]
        assert [line["event"] for line in own] == [
            *("started", "planned", "drawn", "judged", "step_finished", "ended", "request_ended")
        ]
        assert Path(own[2]["run"], own[2]["image"]).is_file()
    assert run(given) == 0
    again = lines_of(capsys)
    assert [line["event"] for line in again] == ["batch_started", *["request_ended"] * 3, "batch_ended"]
    assert all(line["already"] for line in again[1:-1])


def test_a_batch_that_fails_says_why_in_its_object(capsys: Captured) -> None:
    Path("c").write_text(json.dumps({"text": "nothing"}) + "\n")
    command = ["generate", "--requests", requests(2), "--out", "many", "--critic", "scripted:./c", "--json"]
    assert run([*command, *SMALL]) == 3
    told = json.loads(capsys.readouterr().out)
    assert told["status"] == "failed"
    assert all("past its end" in failure["reason"] for failure in told["failures"])


@pytest.fixture
def uncaught() -> Iterator[list[int]]:
    """The SIGTERMs that a command does not catch."""
    numbers: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: numbers.append(number))
    yield numbers
    signal.signal(signal.SIGTERM, before)


def terminate(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGTERM)


def test_an_interrupted_batch_its_index_and_show_count_the_same(
    capsys: Captured, uncaught: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = ["generate", "--requests", requests(60), "--out", "many", "--json", "--concurrency", "12", *SMALL]
    generate, drawn = SolidGenerator.generate, count(1)

    async def draw(self: SolidGenerator, request: ImageRequest) -> Any:
        if next(drawn) % 10 == 0:
            terminate()
        return await generate(self, request)

    monkeypatch.setattr(SolidGenerator, "generate", draw)
    for _ in range(3):  # after the first time some requests had ended before
        assert run(asked) == 130
        told = json.loads(capsys.readouterr().out)
        assert run(["show", "many", "--json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert [told[each] for each in ("status", "total")] == ["interrupted", 60]
        assert [told[each] for each in COUNTS] == [shown[each] for each in COUNTS]
        assert told["done"] == len(read_index(Path("many")))
    assert not uncaught


@pytest.mark.parametrize("asked", [["A frog in 1 picture"], ["--requests", "FILE"]])
def test_a_signal_while_models_load_leaves_an_object_and_no_folder(
    asked: list[str], capsys: Captured, uncaught: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SolidGenerator, "__init__", terminate)
    given = [requests(2) if each == "FILE" else each for each in asked]
    assert run(["generate", *given, "--out", "out", "--json", *SMALL]) == 130
    told = json.loads(capsys.readouterr().out)
    assert (told["status"], told["exit_code"]) == ("interrupted", 130)
    assert not Path("out").exists()
    assert not uncaught


@pytest.mark.parametrize("form", ["--json", "--json-events"])
def test_an_interrupted_batch_has_a_last_word(form: str) -> None:
    command = ["generate", "--requests", requests(2), "--out", "many", form, *SMALL]
    working = subprocess.Popen(held_after(0, *command), stdout=subprocess.PIPE, text=True)
    wait_until_held()
    working.terminate()
    out, _ = working.communicate(timeout=HANGS_AFTER)
    assert working.returncode == 130
    assert json.loads(out.splitlines()[-1])["status"] == "interrupted"

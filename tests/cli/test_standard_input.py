"""'-' is standard input, for every file that a command reads."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pytest
from PIL import Image

from interleave.cli.main import run

Captured = pytest.CaptureFixture[str]
SMALL = ["--dry-run", "--generator", "solid?size=64"]


def piped(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode()), "utf-8"))


def test_a_request_a_document_and_a_plan(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    piped("A frog in 2 pictures", monkeypatch)
    assert run(["plan", "-", "--dry-run", "--json"]) == 0
    plan = capsys.readouterr().out
    piped(plan, monkeypatch)
    assert run(["generate", "--plan", "-", *SMALL, "--out", "run", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["steps"]) == 2
    Image.new("RGB", (64, 64), "green").save("pond.png")
    piped("A pond:\n\n![](pond.png)\n", monkeypatch)
    assert run(["generate", "Go on in 2 pictures", "--from", "-", *SMALL, "--out", "more"]) == 0
    piped("![](lost.png)", monkeypatch)
    assert run(["generate", "Go on", "--from", "-", *SMALL, "--out", "lost"]) == 2
    assert "- shows the image 'lost.png'" in capsys.readouterr().err


def test_a_held_plan(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["generate", "A frog in 3 pictures", *SMALL, "--hold-plan", "--out", "run"]) == 0
    plan = json.loads(Path("run/plan.json").read_text())
    plan["steps"].pop()
    piped(json.dumps(plan), monkeypatch)
    capsys.readouterr()
    assert run(["edit", "run", "approve", "--plan", "-", "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["steps"]) == 2


def test_many_requests(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    piped('{"request": "A frog in 1 picture"}\n{"request": "A fish in 1 picture"}\n', monkeypatch)
    assert run(["generate", "--requests", "-", "--out", "many", *SMALL, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["done"] == 2
    piped('{"request": ""}\n', monkeypatch)
    assert run(["generate", "--requests", "-", "--out", "bad", *SMALL]) == 2
    assert "-:1: " in capsys.readouterr().err


def test_labels(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    piped("no label\n", monkeypatch)
    assert run(["bench", "calibrate", "--labels", "-"]) == 2
    assert "-:1 is not a label" in capsys.readouterr().err


@pytest.mark.parametrize(
    "words", [["-", "--from", "-"], ["-", "--plan", "-"], ["--from", "-", "--plan", "-"]]
)
def test_two_readers_are_refused(words: list[str], capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    piped("A frog", monkeypatch)
    assert run(["generate", *words, *SMALL]) == 2
    assert "both read standard input: pass one of them as a file" in capsys.readouterr().err


def test_a_closed_standard_input_is_an_error(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", None)
    assert run(["generate", "--plan", "-", *SMALL]) == 2
    assert "standard input ('-') is closed" in capsys.readouterr().err

"""`interleave models list` and `interleave models check`, as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interleave.cli.main import run

Captured = pytest.CaptureFixture[str]


def test_a_backend_that_fits_is_said_to_fit(capsys: Captured) -> None:
    assert run(["models", "check", "solid?size=64"]) == 0
    out = capsys.readouterr().out
    assert "an edit depends on its source" in out
    assert "0 failed" in out


def test_a_quick_check_makes_fewer_calls(capsys: Captured) -> None:
    counts = []
    for extra in ([], ["--quick"]):
        assert run(["models", "check", "scripted", "--role", "critic", "--json", *extra]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["fits"] is True
        counts.append(len(report["checks"]))
    assert counts[1] < counts[0]


def test_a_broken_promise_exits_with_1(capsys: Captured) -> None:
    Path("script.jsonl").write_text('{"text": "no", "finish_reason": "length"}\n', "utf-8")
    assert run(["models", "check", "scripted:./script.jsonl", "--role", "planner"]) == 1
    out = capsys.readouterr().out
    assert "ended with 'length'" in out


def test_a_role_that_is_none_and_a_name_that_is_none_exit_with_2(capsys: Captured) -> None:
    assert run(["models", "check", "solid", "--role", "painter"]) == 2
    assert "not one of generator" in capsys.readouterr().err
    assert run(["models", "check", "sloid"]) == 2
    assert "Did you mean 'solid'" in capsys.readouterr().err


def test_what_is_missing_is_listed_with_the_command_that_installs_it(
    capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    find = importlib.util.find_spec
    gone = ("openai", "google.genai", "httpx2")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in gone else find(name))
    assert run(["models", "list", "--json"]) == 0
    rows = {(row["kind"], row["name"]): row for row in json.loads(capsys.readouterr().out)}
    missing = rows["generator", "openai-images"]
    assert (missing["ready"], missing["install"]) == (False, 'pip install "interleavethinker[api]"')
    assert rows["generator", "solid"]["ready"] is True
    assert run(["generate", "x", "--generator", "gemini:m", "--out", "run"]) == 2
    assert 'pip install "interleavethinker[api]"' in capsys.readouterr().err


def test_a_key_that_is_not_set_is_said(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("OPENAI_API_KEY", "sk-set")
    assert run(["models", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert any("gemini" in line and "GEMINI_API_KEY is not set" in line for line in lines)
    assert not any("OPENAI_API_KEY is not set" in line or "sk-set" in line for line in lines)


def test_what_can_draw_and_answer_must_be_told_its_role(capsys: Captured) -> None:
    assert run(["models", "check", "gemini:gemini-3.5-flash"]) == 2
    assert "--role generator or --role planner" in capsys.readouterr().err


def test_a_backend_that_is_down_exits_with_3(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    monkeypatch.setattr("interleave.backends.retries.random.uniform", lambda low, high: 0.0)
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        port = sock.getsockname()[1]
    assert run(["models", "check", f"http://127.0.0.1:{port}", "--json"]) == 3
    report = json.loads(capsys.readouterr().out)
    assert report["fits"] is False
    assert report["checks"][-1]["unreachable"] is True
    assert "cannot be reached" in report["checks"][-1]["reason"]


def test_the_list_is_readable_in_80_columns(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    assert run(["models", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert len(lines) <= 64
    assert any(line.startswith("  solid ") for line in lines)

"""`interleave backends` and `interleave backends check`, as a user meets them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interleave.cli.main import run

Captured = pytest.CaptureFixture[str]


def test_a_backend_that_fits_is_said_to_fit(capsys: Captured) -> None:
    assert run(["backends", "check", "solid?size=64"]) == 0
    out = capsys.readouterr().out
    assert "an edit depends on its source" in out
    assert "0 failed" in out


def test_a_quick_check_makes_fewer_calls(capsys: Captured) -> None:
    counts = []
    for extra in ([], ["--quick"]):
        assert run(["backends", "check", "scripted", "--role", "critic", "--json", *extra]) == 0
        report = json.loads(capsys.readouterr().out)
        assert report["fits"] is True
        counts.append(len(report["checks"]))
    assert counts[1] < counts[0]


def test_a_broken_promise_exits_with_1(capsys: Captured) -> None:
    Path("script.jsonl").write_text('{"text": "no", "finish_reason": "length"}\n', "utf-8")
    assert run(["backends", "check", "scripted:./script.jsonl", "--role", "planner"]) == 1
    out = capsys.readouterr().out
    assert "ended with 'length'" in out


def test_a_role_that_is_none_and_a_name_that_is_none_exit_with_2(capsys: Captured) -> None:
    assert run(["backends", "check", "solid", "--role", "painter"]) == 2
    assert "none of generator" in capsys.readouterr().err
    assert run(["backends", "check", "sloid"]) == 2
    assert "Did you mean 'solid'" in capsys.readouterr().err

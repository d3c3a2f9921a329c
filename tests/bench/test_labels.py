"""Labels are read and written exactly; a bad line is named with its number and what is wrong with it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interleave.bench.labels import Kind, Label, label_lines, of_kind, read_labels
from interleave.errors import InputError

ACCEPT: dict[str, Any] = {
    "kind": "accept",
    "rater": "ann",
    "at": "2026-01-31T12:00:00Z",
    "run": "runs/frog",
    "step": 2,
    "attempt": 1,
    "other": None,
    "value": True,
    "blind": True,
    "critic": {"accepted": False, "confidence": 0.31, "quick": None},
    "prompt": "a green frog",
    "picture": "images/ab12.png",
}
BETTER = {
    **ACCEPT,
    "kind": "better",
    "value": "second",
    "other": {"run": "runs/frog", "step": 2, "attempt": 2},
}
SCORE = {**ACCEPT, "kind": "score", "value": 7.5}
WRONG_STEP = {**ACCEPT, "kind": "wrong_step", "value": 0, "step": None, "attempt": None, "critic": None}


def test_labels_survive_the_file_unchanged(tmp_path: Path) -> None:
    rows = [ACCEPT, BETTER, SCORE, {**SCORE, "value": 7, "attempt": None}, WRONG_STEP]
    labels = [Label.model_validate(row) for row in rows]
    path = tmp_path / "labels.jsonl"
    path.write_bytes(label_lines(labels))
    assert read_labels(path) == labels
    assert [json.loads(line) for line in path.read_text("utf-8").splitlines()] == rows
    assert type(read_labels(path)[0].value) is bool
    assert of_kind(labels, Kind.SCORE) == labels[2:4]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"value": 1}, "value of 'accept' must be true or false, not 1"),
        ({"kind": "like"}, "kind: input should be 'accept'"),
        ({"rater": ""}, "rater:"),
        ({"at": "2026-01-31 12:00"}, "at: input should have timezone info"),
        ({"attempt": None}, "'accept' needs an attempt"),
        ({"step": None}, "'attempt' needs a 'step'"),
        ({"step": 0}, "step: must be at least 1, not 0"),
        ({"critic": {"accepted": True, "confidence": 1.5}}, "critic.confidence: must be at most 1"),
        ({"other": {"run": "x"}}, "only 'better' may have 'other'"),
        ({"mood": "good"}, "mood: extra inputs are not permitted"),
        ({**BETTER, "value": True}, "value of 'better' must be 'first', 'second' or 'same', not True"),
        ({**BETTER, "other": None}, "'better' needs the second attempt"),
        ({**BETTER, "other": {"run": "runs/frog", "step": 2, "attempt": 1}}, "with itself"),
        ({**SCORE, "value": 11}, "a number from 0 to 10, not 11"),
        ({**SCORE, "value": True}, "a number from 0 to 10, not True"),
        ({**SCORE, "value": float("nan")}, "a number from 0 to 10, not nan"),
        ({**WRONG_STEP, "value": -1}, "a step number, or 0 for none, not -1"),
        ({**WRONG_STEP, "step": 3}, "'wrong_step' labels a run"),
    ],
)
def test_a_bad_label_is_named_with_its_line(change: dict[str, Any], problem: str, tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(f"{json.dumps(ACCEPT)}\n\n{json.dumps({**ACCEPT, **change})}\n", "utf-8")
    with pytest.raises(InputError) as raised:
        read_labels(path)
    assert str(raised.value).startswith(f"{path}:3 is not a label (")
    assert problem in str(raised.value)


@pytest.mark.parametrize("line", ["no json", "[]", '"accept"', "[" * 5000])
def test_a_line_that_is_no_object_is_named(line: str, tmp_path: Path) -> None:
    path = tmp_path / "labels.jsonl"
    path.write_text(line + "\n", "utf-8")
    with pytest.raises(InputError, match=r"labels.jsonl:1 is not a label \(it is not a JSON object\)"):
        read_labels(path)


def test_a_last_line_that_a_crash_cut_off_is_ignored_and_then_removed(tmp_path: Path) -> None:
    path, label = tmp_path / "labels.jsonl", Label.model_validate(ACCEPT)
    path.write_text(json.dumps(ACCEPT) + "\n" + json.dumps(ACCEPT)[:40], "utf-8")
    assert read_labels(path) == [label]


def test_a_last_line_without_an_end_is_kept(tmp_path: Path) -> None:
    path, label = tmp_path / "labels.jsonl", Label.model_validate(ACCEPT)
    path.write_text(json.dumps(ACCEPT), "utf-8")
    assert read_labels(path) == [label]


def test_a_missing_file_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"cannot read the labels .*No such file"):
        read_labels(tmp_path / "labels.jsonl")

"""How far a scorer agrees with labels: on pairs, and in the order of single attempts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interleave.bench.calibration.judges import judge_agreement
from interleave.bench.labels import Label, label_lines
from interleave.cli.main import run
from interleave.errors import InputError

SCORES = {1: 9.0, 2: 6.0, 3: 5.9, 4: 1.0}


@pytest.fixture
def collection(tmp_path: Path) -> Path:
    """Scores of four attempts of a step."""
    lines = [
        {"run": "r", "step": 1, "attempt": attempt, "semantics": score, "quality": score}
        for attempt, score in SCORES.items()
    ]
    (tmp_path / "scores").mkdir()
    (tmp_path / "scores" / "robot.jsonl").write_text(
        "".join(json.dumps(line) + "\n" for line in lines), "utf-8"
    )
    return tmp_path


def label(kind: str, attempt: int, value: Any, other: int | None = None, rater: str = "ann") -> Label:
    second = None if other is None else {"run": "r", "step": 1, "attempt": other}
    row = {"kind": kind, "rater": rater, "at": "2026-01-01T00:00:00Z", "run": "r", "step": 1}
    return Label.model_validate({**row, "attempt": attempt, "value": value, "other": second})


PAIRS = [
    label("better", 1, "first", 2),
    label("better", 4, "second", 1),
    label("better", 3, "first", 2),  # people disagree with the scores
    label("better", 2, "same", 3),
]


def test_pairs_and_ranks(collection: Path) -> None:
    scores = [label("score", 1, 10), label("score", 2, 3), label("score", 2, 5, rater="ben")]
    scores += [label("score", 3, 5), label("score", 4, 0), label("score", 9, 0)]
    found = judge_agreement("robot", [*PAIRS, *scores], [collection])
    assert found.pairs == 4 and found.pair_accuracy == pytest.approx(2 / 3)
    assert found.low is not None and found.high is not None and found.low < 2 / 3 < found.high
    assert found.with_ties == pytest.approx(3 / 4) and found.epsilon == pytest.approx(0.1)
    assert found.scored == 4 and found.rank_correlation == pytest.approx(0.8)


def test_one_sort_of_label_is_enough_and_none_is_an_error(collection: Path) -> None:
    assert judge_agreement("robot", PAIRS, [collection]).rank_correlation is None
    with pytest.raises(InputError, match="no 'better' or 'score' label matches an attempt that 'robot'"):
        judge_agreement("robot", [label("score", 9, 1)], [collection])


def test_the_command_compares_a_scorer(collection: Path, capsys: pytest.CaptureFixture[str]) -> None:
    labels = collection / "labels.jsonl"
    labels.write_bytes(label_lines(PAIRS))
    arguments = ["calibrate", "--labels", str(labels), "--judge", "robot", "--run-folder", str(collection)]
    assert run([*arguments, "--json"]) == 0
    said = capsys.readouterr()
    assert json.loads(said.out)["pairs"] == 4
    assert "robot agrees on 66.7%" in said.err
    assert run(arguments[:5]) == 2

"""Reading scores back: the last word on every attempt, and nothing invented."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from interleave.errors import InputError
from interleave.train.data.score_file import Unscored, read_scores, score_names
from interleave.types import Scores


def line(run: str = "runs/ab/x", step: int = 1, attempt: int = 1, **rest: Any) -> str:
    return json.dumps({"run": run, "step": step, "attempt": attempt, **rest}) + "\n"


def write(name: str, *lines: str) -> Path:
    Path("made/scores").mkdir(parents=True, exist_ok=True)
    Path("made/scores", name).write_text("".join(lines))
    return Path("made")


def test_a_later_line_wins_and_a_failure_is_no_number() -> None:
    made = write(
        "one.jsonl",
        line(failure="no answer"),
        line(attempt=2, failure="not readable"),
        line(semantics=8, quality=9.5, cost=0.01),
    )
    assert read_scores(made) == {
        ("runs/ab/x", 1, 1): Scores(semantics=8, quality=9.5),
        ("runs/ab/x", 1, 2): Unscored(reason="not readable"),
    }


def test_the_files_of_shards_are_read_together_and_numbers_stay_numbers() -> None:
    write("one.jsonl", line(semantics=8, quality=8), line(step=2, failure="busy"))
    made = write("one.1-of-2.jsonl", line(failure="busy"), line(step=2, semantics=1, quality=1))
    assert read_scores(made, "one") == {
        ("runs/ab/x", 1, 1): Scores(semantics=8, quality=8),
        ("runs/ab/x", 2, 1): Scores(semantics=1, quality=1),
    }


def test_scorers_stand_beside_each_other_and_one_is_named() -> None:
    write("one.jsonl", line(semantics=8, quality=8))
    made = write("one-more.jsonl", line(semantics=2, quality=2))
    assert score_names(made) == ["one", "one-more"]
    assert read_scores(made, "one")[("runs/ab/x", 1, 1)] == Scores(semantics=8, quality=8)
    with pytest.raises(InputError, match="name one of one, one-more"):
        read_scores(made)
    with pytest.raises(InputError, match="Did you mean 'one'"):
        read_scores(made, "ones")


def test_a_collection_without_scores_says_how_to_make_them(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="interleave data score"):
        read_scores(tmp_path)


def test_B07_a_torn_last_line_counts_for_nothing() -> None:
    made = write("one.jsonl", line(semantics=8, quality=8), line(step=2, semantics=8, quality=8)[:-9])
    assert list(read_scores(made)) == [("runs/ab/x", 1, 1)]


@pytest.mark.parametrize(
    "bad",
    [
        "{\n",
        "[]\n",
        line(semantics=8),
        line(semantics=11, quality=1),
        line(semantics="NaN", quality=1),
        line(semantics=float("nan"), quality=1),
        line(semantics=None, quality=1),
        line(failure=None),
        line(run=None),  # type: ignore[arg-type]
    ],
)
def test_K12_what_is_no_score_is_refused_with_its_line(bad: str) -> None:
    made = write("one.jsonl", line(semantics=8, quality=8), bad)
    with pytest.raises(InputError, match=r"one\.jsonl:2 is not a score"):
        read_scores(made)

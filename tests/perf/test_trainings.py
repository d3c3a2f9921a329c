"""The table over several trainings: means and paired differences, with intervals over tasks and trainings."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

pytest.importorskip("numpy")

from interleave_mini.bench.runner import ItemLine
from interleave_mini.bench.scores import ItemScore, StepScore

BENCHMARKS = Path(__file__).parents[2] / "perf"


def write(table: Path, row: str, right: str, attempts: int = 5, first: int = 0) -> None:
    """A finished row of stories from the number `first` on; `right` has a 1 for every task that is."""
    folder = table / "rows" / row / "story"
    folder.mkdir(parents=True, exist_ok=True)
    lines = [
        ItemLine(
            attempts=attempts,
            score=ItemScore(
                id=f"story-{number}",
                topic="t",
                unseen=(),
                status="done",
                folder="f",
                steps=(StepScore(image=mark == "1", text=True),),
            ),
        )
        for number, mark in enumerate(right, start=first)
    ]
    with (folder / "items.jsonl").open("a") as file:
        file.writelines(f"{each.model_dump_json()}\n" for each in lines)


def test_trainings_are_shown_and_compared_in_pairs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import trainings

    write(tmp_path / "table", "generator", "0000")
    for table, sft, full in (("table", "1100", "1110"), ("seed-1/table", "1000", "1110")):
        write(tmp_path / table, "critic-sft", sft)
        write(tmp_path / table, "full", full)
    found = trainings.results_of(tmp_path)
    assert found["rows"]["full/story"]["trainings"] == [0.75, 0.75]
    assert found["rows"]["generator/story"]["mean"] == 0.0
    gain = found["differences"]["full − critic-sft/story"]
    assert gain["trainings"] == [0.25, 0.5] and gain["mean"] == 0.375
    assert gain["low"] <= gain["mean"] <= gain["high"]
    assert "| full − critic-sft | `story` | +37.5" in trainings.as_markdown(found)


def test_more_tasks_in_another_table_count_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import trainings

    for training in (tmp_path, tmp_path / "seed-1"):
        write(training / "table", "planner", "0000")
        for row, right, more in (("critic-sft", "1000", "0000"), ("full", "1100", "1110")):
            write(training / "table", row, right)
            write(training / "table-1", row, more, first=4)
    found = trainings.results_of(tmp_path)
    assert found["rows"]["full/story"]["tasks"] == 4, "rows are compared on tasks that all have"
    gain = found["differences"]["full − critic-sft/story"]
    assert gain["trainings"] == [0.5, 0.5] and gain["tasks"] == 8
    assert found["differences"]["critic-sft − planner/story"]["tasks"] == 4, "the planner has one table only"


def test_variants_are_compared_with_the_row_that_they_differ_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import trainings

    for table in ("table", "seed-1/table"):
        write(tmp_path / table, "critic-sft", "1100")
        write(tmp_path / table, "full", "1000", attempts=1)
        write(tmp_path / table, "full", "1100", attempts=3)
        write(tmp_path / table, "full", "1110", attempts=5)
    write(tmp_path / "table", "unfiltered", "1000")
    write(tmp_path / "table", "no-step", "1100")
    found = trainings.results_of(tmp_path)
    assert found["differences"]["unfiltered − critic-sft/story"]["trainings"] == [-0.25]
    assert found["differences"]["no-step − full/story"]["trainings"] == [-0.25]
    assert found["differences"]["full, at most 3 − at most 1/story"]["mean"] == 0.25
    assert found["attempts"]["full, at most 1/story"]["mean"] == 0.25


def test_the_exam_of_every_training_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import trainings

    for table, caught in (("table", 0.75), ("seed-1/table", 0.5)):
        write(tmp_path / table, "full", "10")
        measured = {measure: {"mean": caught} for measure in trainings.MEASURES}
        exam = {"critics": [{"key": "critic", **measured, "other_steps": None}]}
        (tmp_path / table / "ablation.json").write_text(json.dumps({"exam": exam}))
    found = trainings.results_of(tmp_path)
    assert found["exam"]["critic"]["caught"] == [0.75, 0.5]
    assert "| critic | 75.0, 50.0 | 75.0, 50.0 | 75.0, 50.0 | –, – |" in trainings.as_markdown(found)

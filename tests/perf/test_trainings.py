"""The table over several trainings: means and paired differences, with intervals over tasks and trainings."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("numpy")

from interleave_mini.bench.runner import ItemLine
from interleave_mini.bench.scores import ItemScore, StepScore

BENCHMARKS = Path(__file__).parents[2] / "perf"


def write(table: Path, row: str, right: str) -> None:
    """A finished row of stories; `right` has a 1 for every task that is."""
    folder = table / "rows" / row / "story"
    folder.mkdir(parents=True)
    lines = [
        ItemLine(
            attempts=5,
            score=ItemScore(
                id=f"story-{number}",
                topic="t",
                unseen=(),
                status="done",
                folder="f",
                steps=(StepScore(image=mark == "1", text=True),),
            ),
        )
        for number, mark in enumerate(right)
    ]
    (folder / "items.jsonl").write_text("".join(f"{each.model_dump_json()}\n" for each in lines))


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

"""The table over several trainings: means and paired differences, with intervals over tasks and trainings."""

from __future__ import annotations

import json
import shlex
import tomllib
from pathlib import Path
from typing import Any

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
    found = trainings.results_of(trainings.read_trainings(tmp_path))
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
    found = trainings.results_of(trainings.read_trainings(tmp_path))
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
    found = trainings.results_of(trainings.read_trainings(tmp_path))
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
    found = trainings.results_of(trainings.read_trainings(tmp_path))
    assert found["exam"]["critic"]["caught"] == [0.75, 0.5]
    assert "| critic | 75.0, 50.0 | 75.0, 50.0 | 75.0, 50.0 | –, – |" in trainings.as_markdown(found)


PLAN: dict[str, Any] = {
    "trainings": 2,
    "suites": ["story"],
    "rows": {"planner": {"tasks": 2, "each": True}, "oracle": {"tasks": 2}},
    "test": {"ours": "full", "theirs": "critic-sft", "table": "table-test", "tasks": 4},
}


def planned_run(folder: Path, *, gain: str = "1111") -> None:
    for training in (folder, folder / "seed-1"):
        write(training / "table", "planner", "10")
        write(training / "table-test", "critic-sft", "0000")
        write(training / "table-test", "full", gain)
    write(folder / "table", "oracle", "11")


def test_the_records_alone_give_every_cell_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import trainings

    planned_run(tmp_path / "run", gain="1101")
    measured = {measure: {"mean": 0.5} for measure in trainings.MEASURES}
    exam = {"critics": [{"key": "critic", **measured, "other_steps": None}]}
    (tmp_path / "run" / "table" / "ablation.json").write_text(json.dumps({"exam": exam}))
    first = trainings.read_trainings(tmp_path / "run")
    trainings.write_records(first, tmp_path / "records.jsonl.gz")
    again = trainings.read_trainings(tmp_path / "records.jsonl.gz")
    assert trainings.results_of(again) == trainings.results_of(first)
    assert trainings.planned_test(again, PLAN) == trainings.planned_test(first, PLAN)
    trainings.write_records(again, tmp_path / "again.jsonl.gz")
    assert (tmp_path / "again.jsonl.gz").read_bytes() == (tmp_path / "records.jsonl.gz").read_bytes()


@pytest.mark.parametrize(("gain", "is_clear"), [("1111", True), ("0000", False), ("1000", False)])
def test_the_one_test_of_the_plan(
    gain: str, is_clear: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import trainings

    planned_run(tmp_path, gain=gain)
    found = trainings.read_trainings(tmp_path)
    assert trainings.departures(found, PLAN) == []
    result = trainings.planned_test(found, PLAN)
    assert result is not None and (result["clear"], result["tasks"]) == (is_clear, 4)
    said = trainings.test_as_markdown(result, PLAN)
    assert said.endswith("clear." if is_clear else "not shown.")


def test_departures_from_the_plan_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import trainings

    planned_run(tmp_path)
    write(tmp_path / "table-test", "full", "1", first=4)  # one more task, added later
    write(tmp_path / "seed-1" / "table", "oracle", "11")
    write(tmp_path / "table-2", "full", "11")
    found = trainings.departures(trainings.read_trainings(tmp_path), PLAN)
    assert found == [
        "training 0, table-test, full, story: 5 tasks",
        "training 0, table-2, full: not planned",
        "training 1, table, oracle, story: 2 tasks",
    ]


def test_the_plan_names_what_its_commands_do(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("miniature")
    from interleave_mini.bench.systems import ROWS
    from miniature.cli.stages import SEED_STEP, SIZES

    plan = tomllib.loads((BENCHMARKS / "trainings-plan.toml").read_text("utf-8"))
    assert set(plan["rows"]) == {row.key for row in ROWS}
    for size in plan["sizes"]:
        sizes = SIZES[size]
        assert list(sizes.suites) == plan["suites"]
        for row in ROWS:
            assert plan["rows"][row.key]["tasks"] == (sizes.more_items if row.further else sizes.items)
    assert plan["seeds"] == [SEED_STEP * number for number in range(plan["trainings"])]
    assert not SIZES[plan["sizes"][0]].starts, "the first choice starts from random weights"
    given = [shlex.split(command) for command in plan["commands"]["test"]]
    assert len(given) == plan["trainings"]
    for words in given:
        options = dict(zip(words[3::2], words[4::2], strict=True))
        assert options["--items"] == str(plan["test"]["tasks"])
        assert options["--seed"] == str(plan["test"]["tasks_seed"])
        assert options["--out"].endswith(plan["test"]["table"])
        assert options["--generator"] == plan["generator"]

"""Verdicts made elsewhere: scored alone, under the name of who made them, without a model or a call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from test_ueval import data as data  # the fixture

from interleave.bench.benchmarks.opening_pairs import OpenINGPairs
from interleave.bench.benchmarks.ueval import UEval
from interleave.bench.judge import Judged
from interleave.bench.prompts import JudgePrompts
from interleave.cli.main import run
from interleave.errors import InputError


@pytest.fixture(autouse=True)
def nothing_is_started(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model that is loaded, or a system that is run, ends the test."""

    def started(*_: Any, **__: Any) -> None:
        raise AssertionError("a system or a judge was started")

    monkeypatch.setattr("interleave.bench.cli.stages.run_system", started)
    monkeypatch.setattr("interleave.bench.cli.stages.load_vlm", started)
    monkeypatch.setattr("interleave.bench.statistics.RESAMPLES", 20)


def result_file(path: Path, *, met: bool = True, items: int = 8) -> Path:
    """What UEval's script writes for the eight items of `data`."""

    def result(said: Any) -> dict[str, Any]:
        return {"criterion": "c", "criteria_met": said, "explanation": "", "raw_response": ""}

    rows = [
        {"id": f"{number}", "text_results": [result(met)], "image_results": [result("yes"), result("no")]}
        for number in range(items)
    ]
    path.write_text(json.dumps({"items": rows, "summary": {}}))
    return path


def scored(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(capsys.readouterr().out)
    return found


def values(found: dict[str, Any]) -> dict[str, float]:
    return {each["name"]: each["value"] for each in found["outcome"]["numbers"]}


@pytest.mark.parametrize("stages", [("run",), ("judge", "score", "report")])
def test_verdicts_alone_are_scored_and_start_no_system(
    stages: tuple[str, ...],
    data: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["--data", str(data), "--import-judge", str(result_file(tmp_path / "theirs.json"))]
    for stage in stages:
        capsys.readouterr()
        assert run(["bench", stage, "ueval", *given, "--json"]) == 0
    found = scored(capsys)
    assert values(found)["text_avg_rate"] == 100.0 and values(found)["image_avg_rate"] == 50.0
    assert found["description"]["system"] == found["outputs"] == "verdicts"
    assert found["judge"] == "theirs"  # the file does not say who judged: not the official judge's name
    assert found["outcome"]["coverage"] == 1.0
    assert len(list(Path("runs/bench/ueval-verdicts-theirs").glob("report-*.html"))) == 1


def test_other_verdicts_give_other_numbers(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = result_file(tmp_path / "theirs.json", met=False, items=6)
    given = ["--data", str(data), "--import-judge", str(path), "--judge", "gemini-2.5-pro", "--json"]
    assert run(["bench", "run", "ueval", *given]) == 1  # two items have no verdict
    found = scored(capsys)
    assert values(found)["text_avg_rate"] == 0.0
    assert found["outcome"]["coverage"] == 0.75 and found["judge"] == "gemini-2.5-pro"


def test_they_are_refused_where_they_would_be_ignored(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    path = result_file(tmp_path / "theirs.json")
    given = ["ueval", "--data", str(data)]
    for option in ("--import-judge", "--judge-prompts"):
        for stage in ("generate", "export"):
            assert run(["bench", stage, *given, option, str(path)]) == 2
            assert option in capsys.readouterr().err
    assert run(["bench", "run", *given, "--dry-run", "--import-judge", str(path)]) == 0
    assert "nothing is asked" in capsys.readouterr().err
    assert run(["bench", "run", *given, "--dry-run", "--judge-prompts", str(tmp_path)]) == 2
    assert "ueval_eval.py" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"items": [{"id": "99"}]}, "unknown item"),
        ({"items": [{"id": "0", "text_results": [{}] * 9, "image_results": []}]}, "more text results"),
        ({"rows": []}, "items"),
    ],
)
def test_a_file_of_another_benchmark_is_refused(
    content: dict[str, Any], said: str, data: Path, tmp_path: Path
) -> None:
    path = tmp_path / "theirs.json"
    path.write_text(json.dumps(content))
    with pytest.raises(InputError, match=said):
        list(UEval().import_judgements(UEval().read(data), path))


@pytest.mark.parametrize(
    ("name", "judge"),
    [
        ("gpt-judge_modelAB_results.json", "gpt-4o"),
        ("intjudge_rag-judge_modelAB_results.json", "IntJudge"),
        ("judge_modelAB_results.json", "people"),
        ("mine.json", "mine"),
    ],
)
def test_the_files_of_openings_arena_carry_their_own_judge(name: str, judge: str) -> None:
    assert OpenINGPairs().judge_of_import(Path(name)) == judge


def test_a_script_that_asks_in_one_order_is_covered_by_that_order(tmp_path: Path) -> None:
    from interleave.bench.base import Dataset, Item

    dataset = Dataset((Item("1", "all"),), "r", "tests")
    ours, theirs = (
        Judged(OpenINGPairs(), dataset, {}, tmp_path, "j", JudgePrompts(label, {}))
        for label in ("reworded", "imported")
    )
    assert ours.keys(dataset.items[0]) == ("ab", "ba") and theirs.keys(dataset.items[0]) == ("ab",)

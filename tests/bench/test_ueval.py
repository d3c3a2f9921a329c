"""UEval from end to end: data, runs, judge, numbers, page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from judge_server import judge_server

from interleave.cli.main import run

DOUBLES = ["--planner", "scripted", "--critic", "scripted", "--generator", "solid?size=64"]
TASKS = ("space", "textbook", "diagram", "paper", "art", "life", "tech", "exercise")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = [
        {
            "id": number,
            "task": task,
            "prompt": f"How does a {task} work, in two pictures, both visually and textually?",
            "image_rubrics": ["It shows a thing", "never met"],
            "text_rubrics": ["It names a thing"],
            "text_ref": "",
        }
        for number, task in enumerate(TASKS)
    ]
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "test.json").write_text(json.dumps(rows))
    return folder


def says(text: str, number: int) -> str:
    return json.dumps({"criteria_met": "never met" not in text, "reason": "seen"})


def bench(*arguments: str) -> int:
    return run(["bench", "ueval", *arguments])


def test_the_whole_chain(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.chdir(tmp_path)
    with judge_server(says) as judge:
        common = ["--data", str(data), "--out", "out", *DOUBLES, "--judge", judge.spec]
        assert bench(*common, "--json") == 0
        scored = json.loads(capsys.readouterr().out)
        asked = len(judge.questions)
        assert asked == 24  # three criteria each
        assert bench(*common, "--json") == 0  # nothing is asked, or drawn, twice
        assert len(judge.questions) == asked
    numbers: dict[str, Any] = {number["name"]: number for number in scored["outcome"]["numbers"]}
    assert numbers["macro_avg"]["value"] == 75.0
    assert numbers["text_avg_rate"]["value"] == 100.0
    assert numbers["image_avg_rate"]["value"] == 50.0
    assert numbers["macro_avg"]["id"].startswith("macro_avg@1@judge@reworded-")
    assert scored["outcome"]["coverage"] == 1.0
    assert list(Path("out").glob("report-*.html"))

"""UEval from end to end: data, runs, judge, numbers, page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from judge_server import judge_server
from PIL import Image

from interleave.bench.base import Context, Item
from interleave.bench.benchmarks.ueval import UEval
from interleave.bench.outputs import Output, OutputPart
from interleave.bench.prompts import reworded_prompts
from interleave.cli.main import run
from interleave.types import ImagePart, Text

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


CHECKOUT = '''
SYSTEM_INSTRUCTION = """
Grade it.
""".strip()
TEXT_TEMPLATE = """Q: <<question>> A: <<text_answer>>""".strip()
TEXT_RUBRIC_TEMPLATE = "# Item <<rubric_item>>"
IMAGE_TEMPLATE_OPEN = "open <<question>> <<text_answer>>"
IMAGE_TEMPLATE_CLOSED = "closed <<question>>"
IMAGE_RUBRIC_TEMPLATE = "# Seen <<rubric_item>>"
'''


def test_the_words_of_a_checkout_are_asked_images_first(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ueval_eval.py").write_text(CHECKOUT)
    with judge_server(says) as judge:
        common = ["--data", str(data), "--out", "out", *DOUBLES, "--judge", judge.spec]
        assert bench(*common, "--judge-prompts", str(tmp_path), "--json") == 0
    scored = json.loads(capsys.readouterr().out)
    assert scored["prompts"].startswith("official-")
    text = [asked for asked in judge.questions if "# Item" in asked]
    seen = [asked for asked in judge.questions if "# Seen" in asked]
    assert len(text) == 8 and len(seen) == 16
    assert all(asked.startswith("Grade it.\nQ: How does a ") for asked in text)
    assert all(asked.endswith("\n\n# Item It names a thing") for asked in text)
    assert sum("closed How" in asked for asked in seen) == sum("open How" in asked for asked in seen) == 8
    assert all("both visually" in asked for asked in judge.questions)  # the judge sees the whole question


def test_images_stand_before_the_question(tmp_path: Path) -> None:
    Image.new("RGB", (8, 8)).save(tmp_path / "a.png")
    item = Item("1", "art", (), {"question": "Q", "text": (), "image": ("a cat",)})
    output = Output(item="1", parts=(OutputPart(image="a.png"),))
    question = UEval().question("image/0", item, output, Context(reworded_prompts("ueval"), tmp_path))
    image, text = question.messages[1].parts
    assert isinstance(image, ImagePart)
    assert isinstance(text, Text) and text.text.strip().endswith("a cat")

"""ViStoryBench from end to end: stories and characters, runs with assets, judge, numbers, official layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from judge_server import judge_server
from PIL import Image

from interleave.bench.benchmarks.vistorybench import ViStoryBench
from interleave.cli.main import run
from interleave.errors import InputError
from interleave.runs.record import read_record

DOUBLES = ["--planner", "scripted", "--critic", "scripted", "--generator", "solid?size=64"]


def both(words: Any) -> dict[str, Any]:
    return {"en": words, "ch": words}


def story(shots: int = 2) -> dict[str, Any]:
    """A story of our own in the published form."""
    return {
        "Story_type": both("Picture books"),
        "Characters": {
            "Little Crab": {
                "tag": "non_human",
                "name_en": "Little Crab",
                "name_ch": "Little Crab",
                "prompt_en": "a small red crab with one large claw",
                "prompt_ch": "a small red crab with one large claw",
                "num_of_appearances": shots,
            },
            "Old Gull (asleep)": {"tag": "non_human", "prompt_en": "a grey gull"},
            "Never Seen": {"tag": "human", "prompt_en": "somebody else"},
        },
        "Shots": [
            {
                "index": number,
                "Plot Correspondence": both(f"The crab meets wave {number}."),
                "Setting Description": both("a sandy beach at noon"),
                "Shot Perspective Design": both("wide shot, eye level"),
                "Characters Appearing": both(["Little Crab", "Old Gull (asleep)"][: 1 + number % 2]),
                "Static Shot Description": both("The crab lifts its claw."),
            }
            for number in range(1, shots + 1)
        ],
    }


@pytest.fixture
def data(tmp_path: Path) -> Path:
    for name in ("01", "02"):
        folder = tmp_path / "data" / name
        (folder / "image" / "Little Crab").mkdir(parents=True)
        (folder / "story.json").write_text(json.dumps(story()))
        Image.new("RGB", (32, 32), "red").save(folder / "image" / "Little Crab" / "00.png")
    return tmp_path / "data"


def test_a_story_is_a_request_with_its_characters_as_assets(data: Path) -> None:
    dataset = ViStoryBench().read(data)
    assert [(item.id, item.group) for item in dataset.items] == [
        ("01", "Picture books"),
        ("02", "Picture books"),
    ]
    request = dataset.items[0].request
    assert request.text.startswith("Tell this story in 2 pictures")
    assert "Shot 2: The crab meets wave 2." in request.text
    assert [(each.name, each.image is not None) for each in request.assets] == [
        ("Little Crab", True),
        ("Old Gull asleep", False),
    ]
    assert "2 stories, 4 shots" in dataset.notes


def says(text: str, number: int) -> str:
    return json.dumps({"score": 4 if "setting match" in text else 3 if "claw" in text else 2})


def test_the_whole_chain(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.chdir(tmp_path)
    with judge_server(says) as judge:
        common = ["--data", str(data), "--out", "out", *DOUBLES, "--judge", judge.spec]
        assert run(["bench", "vistorybench", *common, "--json"]) == 0
        scored = json.loads(capsys.readouterr().out)
        assert len(judge.questions) == 2 * 2 * 4  # setting, action, camera, and one character with an image
        assert sorted(set(judge.images)) == [1, 2]
    numbers = {number["name"]: number["value"] for number in scored["outcome"]["numbers"]}
    assert numbers == {"align": 3.0, "scene": 4.0, "action": 3.0, "camera": 2.0, "same": 3.0}
    [record] = [read_record(path.parent) for path in Path("out").glob("**/runs/**/journal.jsonl")][:1]
    assert [asset.name for asset in record.assets] == ["Little Crab", "Old Gull asleep"]


def test_outputs_go_to_the_official_layout_and_come_back(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["bench", "vistorybench", "run", "--data", str(data), "--out", "out", *DOUBLES]) == 0
    assert run(["bench", "vistorybench", "export", "--data", str(data), "--out", "out"]) == 0
    [official] = {path.parent.parent.parent for path in Path("out").rglob("shot_01.png")}
    dataset = ViStoryBench().read(data)
    back = list(ViStoryBench().import_outputs(dataset, official))
    assert [(each.item, len(each.images)) for each in back] == [("01", 2), ("02", 2)]
    next(official.rglob("01/*/shot_01.png")).unlink()
    with pytest.raises(InputError, match="missing"):
        list(ViStoryBench().import_outputs(dataset, official))


@pytest.mark.parametrize(
    "broken",
    [
        [],
        {},
        {**story(), "Shots": []},
        {**story(), "Shots": [7]},
        {**story(), "Characters": None},
        {**story(), "Shots": [{**story()["Shots"][0], "Setting Description": {"ch": "x"}}]},
    ],
)
def test_a_story_of_another_form_is_refused(broken: Any, tmp_path: Path) -> None:
    (tmp_path / "01").mkdir()
    (tmp_path / "01" / "story.json").write_text(json.dumps(broken))
    with pytest.raises(InputError, match=r"story\.json"):
        ViStoryBench().read(tmp_path)

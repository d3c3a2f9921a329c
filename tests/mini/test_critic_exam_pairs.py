"""`interleave bench critic-exam`: pairs whose truth is exact, and critics measured on them."""

from __future__ import annotations

import json
import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from interleave.cli.main import run
from interleave_mini.bench.pairs import (
    FAULTS,
    RIGHT,
    SCENE_FAULTS,
    edition,
    questions,
    read_pairs,
    write_pairs,
)
from interleave_mini.language.prompts import parse_prompt
from interleave_mini.reader import shared_reader
from interleave_mini.reader.scores import shows
from interleave_mini.world.scene import Relation, Scene, Size, Thing
from interleave_mini.world.wider import ALL_BACKGROUNDS, ALL_KINDS

SOME = 2 * len(FAULTS)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("pairs")
    write_pairs(folder, 0, SOME)
    return folder


def alone(scene: Scene) -> list[Thing]:
    """All things, whatever carries them: what leaves its carrier is large again."""
    return [replace(thing.alone, size=Size.LARGE) for thing in scene.everything.values()]


def test_the_whole_world_is_examined() -> None:
    shown = [scene for each in questions(0, 700) for scene in (each.before, each.target)]
    assert {thing.kind for scene in shown for thing in scene.everything.values()} == set(ALL_KINDS)
    assert {scene.background for scene in shown} == set(ALL_BACKGROUNDS)
    loads = Counter(thing.load.relation for scene in shown for thing in scene.things.values() if thing.load)
    assert set(loads) == set(Relation)


def test_every_question_has_one_right_and_one_wrong_scene() -> None:
    made = list(questions(0, 20 * len(FAULTS)))
    assert Counter(each.fault for each in made) == dict.fromkeys(FAULTS, 20)
    for each in made:
        assert parse_prompt(each.prompt, each.before) == each.target != each.before
        if each.fault == "nothing":
            assert each.wrong == each.before
        elif each.fault == "writing":
            assert each.wrong == each.target
        else:
            assert each.wrong not in (each.target, each.before)
            old, new = (sorted(map(repr, alone(scene))) for scene in (each.target, each.wrong))
            assert (len(new) > len(old)) == (each.fault == "number")
            assert (old == new) == (each.fault == "place")
    assert [each.pairs() for each in questions(0, 5)] == [each.pairs() for each in made[:5]]
    assert made[0].prompt != next(questions(1, 1)).prompt


@pytest.mark.parametrize("fault", ["thing", "colour", "state"])
def test_the_changed_thing_differs_in_one_way(fault: str) -> None:
    for each in questions(3, 10 * len(FAULTS)):
        if each.fault != fault:
            continue
        ((one, other),) = [
            (thing, changed)
            for spot, thing in each.target.everything.items()
            if (changed := each.wrong.at(spot)) is None or changed.alone != thing.alone
        ]
        assert other is not None
        kept = {
            "kind": one.kind == other.kind,
            "colour": one.colour == other.colour,
            "size": one.size == other.size,
        }
        assert [name for name, same in kept.items() if not same] == {
            "thing": ["kind"],
            "colour": ["colour"],
            "state": [],
        }[fault]


def test_the_images_show_what_the_labels_say(data: Path) -> None:
    pairs = {pair.id: pair for pair in read_pairs(data)}
    assert Counter(pair.fault for pair in pairs.values()) == {
        RIGHT: len(FAULTS),
        **dict.fromkeys(FAULTS, 1),
    }
    for each in questions(0, len(FAULTS)):
        right, wrong = each.pairs()
        assert right == pairs[right.id] and wrong == pairs[wrong.id]
        truths = {right.before: each.before, right.after: each.target, wrong.after: each.wrong}
        shown = [Image.open(data / name) for name in truths]
        readings = shared_reader().read_many(shown, expected=[list(truths.values())] * len(truths))
        read = dict(zip(truths, readings, strict=True))
        assert shows(read[right.before], each.before)
        assert shows(read[right.after], each.target)
        pixels = {name: np.asarray(Image.open(data / name)) for name in read}
        if each.fault in SCENE_FAULTS:
            assert shows(read[wrong.after], each.wrong)
        elif each.fault == "nothing":
            assert (pixels[wrong.after] == pixels[right.before]).all()
        else:
            different = (pixels[wrong.after] != pixels[right.after]).any(-1)
            assert 100 < different.sum() < 0.2 * different.size


def test_a_folder_has_a_card_a_licence_and_questions(data: Path) -> None:
    assert "license: cc0-1.0" in (data / "README.md").read_text("utf-8")
    assert edition(read_pairs(data)) in (data / "README.md").read_text("utf-8")
    assert "CC0 1.0" in (data / "LICENSE").read_text("utf-8")
    for line in (data / "pairs.jsonl").read_text("utf-8").splitlines():
        row = json.loads(line)
        assert row["prompt"] in row["question"] and "yes or no" in row["question"]


def examined(capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, object]:
    assert run(["bench", "critic-exam", "--json", *arguments]) == 0
    result: dict[str, object] = json.loads(capsys.readouterr().out)
    return result


def test_critics_that_do_not_look_are_right_half_of_the_time(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for critic, alarms in (("always-yes", 0.0), ("always-no", 1.0)):
        found = examined(capsys, "--critic", critic, "--data", str(data), "--out", str(tmp_path))
        assert found["accuracy"]["mean"] == 0.5  # type: ignore[index]
        assert found["false_alarms"]["mean"] == alarms  # type: ignore[index]
        assert found["questions"]["mean"] == 0.0  # type: ignore[index]
        assert {share["mean"] for share in found["caught"].values()} == {alarms}  # type: ignore[attr-defined]
    command = ["bench", "critic-exam", "--critic", "always-no", "--data", str(data), "--out", str(tmp_path)]
    assert run(command) == 0
    printed = capsys.readouterr()
    assert {"always-yes", "always-no"} <= set((printed.out + printed.err).split())


def test_the_oracle_finds_every_fault_but_writing_and_twice_the_same(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    options = ["--critic", "oracle", "--data", str(data), "--out", str(tmp_path), "--runs", "2"]
    found = examined(capsys, *options)
    caught = {name: share["mean"] for name, share in found["caught"].items()}  # type: ignore[attr-defined]
    assert {name: share for name, share in caught.items() if name != "writing"} == dict.fromkeys(
        [each for each in FAULTS if each != "writing"], 1.0
    )
    assert found["false_alarms"]["mean"] == 0.0  # type: ignore[index]
    assert found["repeated"]["different"] == 0  # type: ignore[index]
    assert examined(capsys, *options)["accuracy"] == found["accuracy"]
    assert run(["bench", "critic-exam", *options, "--dry-run"]) == 0
    assert f"0 calls with 0 images ({2 * SOME} judged before), free of charge" in capsys.readouterr().err


def test_cost_is_said_before_anything_is_drawn_or_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "none")
    critic = "gemini:gemini-2.5-flash"
    assert run(["bench", "critic-exam", "--critic", critic, "--dry-run", "--out", str(tmp_path / "new")]) == 0
    said = " ".join(capsys.readouterr().err.split())
    assert "2,000 calls with 4,000 images, about" in said and "US dollars" in said
    assert not (tmp_path / "new").exists()


def test_bad_data_is_refused_with_its_line(
    data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    command = ["bench", "critic-exam", "--critic", "always-yes", "--out", str(tmp_path / "out"), "--data"]
    assert run([*command, str(tmp_path)]) == 2
    assert "has no pairs.jsonl" in capsys.readouterr().err
    copied = Path(shutil.copytree(data, tmp_path / "copy"))
    lines = (copied / "pairs.jsonl").read_text("utf-8").splitlines()
    (copied / "pairs.jsonl").write_text("\n".join([lines[0], "[1]"]), "utf-8")
    assert run([*command, str(copied)]) == 2
    assert "line 2 is not a pair" in " ".join(capsys.readouterr().err.split())
    outside = {**json.loads(lines[0]), "after": "../secret.png"}
    (copied / "pairs.jsonl").write_text(json.dumps(outside), "utf-8")
    assert run([*command, str(copied)]) == 2
    assert "line 1: no image '../secret.png'" in " ".join(capsys.readouterr().err.split())
    assert run(["bench", "critic-exam", "--critic", "nobody", "--out", str(tmp_path / "new")]) == 2
    assert not (tmp_path / "new").exists()

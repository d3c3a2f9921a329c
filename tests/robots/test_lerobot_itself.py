"""lerobot's own reader and Rerun load what we write, and we read what lerobot writes: `make test-robots`."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import environment
import pytest

pytest.importorskip("av")

import numpy as np

from interleave.cli.main import run
from interleave.robots.annotation_file import read_annotations
from interleave.robots.lerobot.dataset import open_dataset
from interleave.robots.lerobot.language_columns import read_columns, write_columns
from interleave.robots.lerobot.videos import Video
from interleave_mini.robots.episodes import write_episodes
from interleave_mini.world.drawing import draw
from interleave_mini.world.scene import Gripper, Scene, Size, Thing

pytestmark = pytest.mark.slow
DRIVER = Path(__file__).with_name("lerobot_reads.py")
TIMELINES = {"step", "time"}


@pytest.fixture(autouse=True)
def lerobot() -> None:
    if reason := environment.why_not():
        pytest.skip(f"lerobot 0.6.1: {reason}")


def there(what: str, path: Path) -> dict[str, Any]:
    """What lerobot's or Rerun's own code says about a file."""
    facts: dict[str, Any] = json.loads(_said(DRIVER, what, path).splitlines()[-1])
    return facts


def interleave_there(*arguments: str) -> None:
    """A command of ours, in lerobot's environment."""
    _said("-m", "interleave", *arguments)


def _said(*arguments: str | Path) -> str:
    own = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [environment.PYTHON, *arguments], capture_output=True, text=True, check=False, env=own
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


def test_lerobot_reads_annotated_episodes_with_their_sub_tasks_and_films(tmp_path: Path) -> None:
    truth = read_annotations(write_episodes(tmp_path / "plain", 3))
    dataset = write_columns(open_dataset(tmp_path / "plain"), truth, tmp_path / "annotated")
    facts = there("dataset", dataset.root)
    assert facts["lerobot"] == "0.6.1"
    for number, found in enumerate(facts["episodes"]):
        true = truth[number]
        assert (found["task"], found["frames"], found["shape"]) == (true.task, true.frames, [3, 256, 256])
        assert found["said"] == [[each.start / 10, each.instruction] for each in true.segments]
        assert found["events"] == [0, 0, 0]
        film = Video(dataset, dataset.episodes[number], dataset.camera())
        middle = (2 * dataset.episodes[number].first_row + true.frames - 1) // 2
        places = [0, middle - dataset.episodes[number].first_row, true.frames - 1]
        ours = [np.asarray(frame).mean() / 255 for frame in film.frames(places)]
        assert [each for [each] in found["pixels"]] == pytest.approx(ours, abs=0.01), "the same frames"


def test_lerobot_reads_a_dataset_without_language_columns_too(tmp_path: Path) -> None:
    write_episodes(tmp_path / "plain", 2)
    assert [each["said"] for each in there("dataset", tmp_path / "plain")["episodes"]] == [[], []]


def test_lerobot_reads_exported_runs(tmp_path: Path) -> None:
    run_folder = planned(tmp_path)
    assert run(["robot", "export", str(run_folder), "--to", "lerobot", "--out", str(tmp_path / "d")]) == 0
    [episode] = there("dataset", tmp_path / "d")["episodes"]
    assert episode["said"] == [
        [0.0, "Pick up the red block with the gripper."],
        [1.0, "Put the red block down in the middle."],
    ]


def test_we_read_and_annotate_what_lerobot_writes(tmp_path: Path) -> None:
    there("made", tmp_path / "theirs")
    dataset = open_dataset(tmp_path / "theirs")
    assert dataset.camera().size == (96, 64)
    [_, second] = dataset.chosen()
    assert (second.task, second.length) == ("task 1", 11)
    shades = [
        np.asarray(frame).mean() for frame in Video(dataset, second, dataset.camera()).frames([0, 4, 10])
    ]
    assert shades == pytest.approx([10, 90, 210], abs=6)
    said = ["--annotator", "scripted:answers.jsonl", "--prompts", "default", "--in-place"]
    answer = {"segments": [{"first_frame": 1, "instruction": "wait"}]}
    Path("answers.jsonl").write_text((json.dumps({"text": json.dumps(answer)}) + "\n") * 2)
    assert run(["robot", "annotate", str(tmp_path / "theirs"), *said]) == 0
    assert [each["said"] for each in there("dataset", tmp_path / "theirs")["episodes"]] == [
        [[0.0, "wait"]]
    ] * 2
    assert set(read_columns(open_dataset(tmp_path / "theirs"))) == {0, 1}


def test_rerun_reads_recordings_of_runs_and_of_episodes(tmp_path: Path) -> None:
    run_folder = planned(tmp_path)
    interleave_there("robot", "export", str(run_folder), "--to", "rerun", "--out", str(tmp_path / "run.rrd"))
    facts = there("recording", tmp_path / "run.rrd")
    assert set(facts["timelines"]) >= TIMELINES and facts["has_blueprint"]
    assert (facts["rows"]["/camera"], facts["rows"]["/plan"]) == (1, 1)
    assert facts["rows"]["/goal"] == facts["rows"]["/sub_task"] == facts["rows"]["/verdicts"] == 2
    truth = write_episodes(tmp_path / "d", 1)
    interleave_there(
        *("robot", "export", str(tmp_path / "d"), "--to", "rerun", "--annotations", str(truth)),
        *("--out", str(tmp_path / "episode.rrd")),
    )
    rows, true = there("recording", tmp_path / "episode.rrd")["rows"], read_annotations(truth)[0]
    assert (rows["/camera"], rows["/sub_task"]) == (true.frames, len(true.segments))


def planned(folder: Path) -> Path:
    """A run of the oracle about two blocks."""
    blocks = {6: Thing("block", "red", Size.SMALL), 7: Thing("block", "blue", Size.SMALL)}
    draw(Scene.of("workbench", blocks, Gripper(1))).save(folder / "bench.png")
    command = ["robot", "plan", "put the red block on the blue one", "--image", str(folder / "bench.png")]
    assert run([*command, "--profile", "oracle", "--out", str(folder / "run")]) == 0
    return folder / "run"

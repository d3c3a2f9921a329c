"""LeRobot datasets: written, read, annotated and given language columns; broken ones are named exactly."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("av")
pq = pytest.importorskip("pyarrow.parquet")

import numpy as np  # noqa: E402
import pyarrow as pa  # noqa: E402
from PIL import Image  # noqa: E402

from interleave.cli.main import run  # noqa: E402
from interleave.errors import InputError, RunError  # noqa: E402
from interleave.robots.annotation_file import EpisodeAnnotation, read_annotations  # noqa: E402
from interleave.robots.lerobot.dataset import Dataset, frame_times, open_dataset  # noqa: E402
from interleave.robots.lerobot.language_columns import read_columns, write_columns  # noqa: E402
from interleave.robots.lerobot.new_dataset import NewDataset  # noqa: E402
from interleave.robots.lerobot.videos import Video  # noqa: E402
from interleave.robots.video_segments import Segment  # noqa: E402
from interleave_mini.robots.episodes import CAMERA, write_episodes  # noqa: E402

Captured = pytest.CaptureFixture[str]
DATA = Path("data/chunk-000/file-000.parquet")
EPISODES = Path("meta/episodes/chunk-000/file-000.parquet")
VIDEO = Path(f"videos/{CAMERA}/chunk-000/file-000.mp4")


@pytest.fixture(scope="module")
def gripper(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three episodes of the miniature's gripper; tests leave them as they are."""
    root = tmp_path_factory.mktemp("datasets") / "gripper"
    write_episodes(root, 3)
    return root


@pytest.fixture
def copy(gripper: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(gripper, tmp_path / "copy"))


def truth_of(root: Path) -> dict[int, EpisodeAnnotation]:
    return read_annotations(root.parent / f"{root.name}.truth.jsonl")


def grey(frame: Image.Image) -> float:
    return float(np.asarray(frame.convert("L")).mean())


def test_every_frame_comes_back_from_the_film_in_any_order(tmp_path: Path) -> None:
    shades = [[20 * place + 5 for place in range(12)], [240 - 20 * place for place in range(9)]]
    with NewDataset(tmp_path / "d", fps=12.5, camera="observation.images.top", features={}) as made:
        for shade in shades:
            made.add_episode("fade", [Image.new("RGB", (64, 48), (each,) * 3) for each in shade], {})
    dataset = open_dataset(tmp_path / "d")
    assert (dataset.fps, dataset.camera("top").size, dataset.tasks) == (12.5, (64, 48), {0: "fade"})
    for episode, shade in zip(dataset.chosen(), shades, strict=True):
        film = Video(dataset, episode, dataset.camera())
        for places in ([0], [len(shade) - 1], [3, 1, 2, 1], list(range(len(shade)))):
            found = [grey(frame) for frame in film.frames(places)]
            assert found == pytest.approx([shade[place] for place in places], abs=4)


def test_images_in_the_rows_are_read_too(tmp_path: Path, copy: Path) -> None:
    info = json.loads((copy / "meta/info.json").read_text())
    info["features"] = {"observation.images.eye": {"dtype": "image", "shape": [8, 8, 3], "names": None}}
    (copy / "meta/info.json").write_text(json.dumps(info))
    table = pq.read_table(copy / DATA)
    image = Image.new("RGB", (8, 8), (200, 0, 0))
    image.save(tmp_path / "p.png")
    stored = [{"bytes": (tmp_path / "p.png").read_bytes(), "path": None}] * table.num_rows
    pq.write_table(table.append_column("observation.images.eye", pa.array(stored)), copy / DATA)
    dataset = open_dataset(copy)
    [frame] = Video(dataset, dataset.chosen()[1], dataset.camera("eye")).frames([4])
    assert frame.getpixel((3, 3)) == (200, 0, 0)


def test_the_oracle_finds_every_sub_task_to_the_frame(
    gripper: Path, capsys: Captured, tmp_path: Path
) -> None:
    out = tmp_path / "found"
    code = run(["robot", "annotate", str(gripper), "--annotator", "oracle", "--out", str(out), "--json"])
    assert code == 0
    facts = json.loads(capsys.readouterr().out)
    true = truth_of(gripper)
    assert facts["annotated"] == 3 and facts["failed"] == 0
    assert {number: each.segments for number, each in read_annotations(out).items()} == {
        number: each.segments for number, each in true.items()
    }
    truth = str(gripper.parent / "gripper.truth.jsonl")
    assert run(["robot", "score", str(out), "--truth", truth]) == 0
    assert "segment F1 (overlap 0.75)  1.000" in capsys.readouterr().out
    before = (out / "annotations.jsonl").read_bytes()
    assert run(["robot", "annotate", str(gripper), "--annotator", "oracle", "--out", str(out)]) == 0
    assert (out / "annotations.jsonl").read_bytes() == before, "what is done is not done again"
    assert (
        run(["robot", "annotate", str(gripper), "--out", str(out), "--annotator", "oracle", "--every", "1"])
        == 2
    )
    assert "stride" in capsys.readouterr().err


def test_a_line_that_a_crash_has_cut_off_is_made_again(gripper: Path, tmp_path: Path) -> None:
    out = tmp_path / "found"
    command = ["robot", "annotate", str(gripper), "--annotator", "oracle", "--out", str(out)]
    assert run([*command, "--concurrency", "1"]) == 0
    whole = (out / "annotations.jsonl").read_bytes()
    (out / "annotations.jsonl").write_bytes(whole[: len(whole) - 40])
    assert run(command) == 0
    assert (out / "annotations.jsonl").read_bytes() == whole


# Language columns


def test_columns_come_back_as_they_were_written_and_films_are_shared(gripper: Path, tmp_path: Path) -> None:
    dataset, true = open_dataset(gripper), truth_of(gripper)
    before = {path: path.read_bytes() for path in gripper.rglob("*") if path.is_file()}
    made = write_columns(dataset, true, tmp_path / "annotated")
    assert {number: each.segments for number, each in read_columns(made).items()} == {
        number: each.segments for number, each in true.items()
    }
    assert {path: path.read_bytes() for path in before} == before, "the source is untouched"
    assert (made.root / VIDEO).samefile(gripper / VIDEO)
    table = pq.read_table(made.root / DATA)
    rows = table.column("language_persistent").to_pylist()
    times = set(table.column("timestamp").to_pylist())
    assert rows[0] and all(row["style"] == "subtask" and row["camera"] is None for row in rows[0])
    assert all(row["timestamp"] in times for row in rows[0]), "times are those of frames, exactly"
    assert rows[0] == rows[true[0].frames - 1], "the same on every frame of an episode"
    assert not any(table.column("language_events").to_pylist())
    assert pq.ParquetFile(made.root / DATA).num_row_groups == 3
    kept = [name for name in table.column_names if not name.startswith("language")]
    assert table.select(kept).equals(pq.read_table(gripper / DATA).select(kept))


def test_in_place_keeps_rows_of_other_styles_and_touches_no_film(copy: Path, gripper: Path) -> None:
    true = truth_of(gripper)
    write_columns(open_dataset(copy), {0: true[0]})
    table = pq.read_table(copy / DATA)
    column = table.column("language_persistent")
    plan = {"role": "assistant", "content": "1. a plan", "style": "plan", "timestamp": 0.0, "camera": None}
    with_plan = [[*rows, {**plan, "tool_calls": None}] for rows in column.to_pylist()]
    place = table.column_names.index("language_persistent")
    changed = table.set_column(place, "language_persistent", pa.array(with_plan, type=column.type))
    pq.write_table(changed, copy / DATA)
    film = (copy / VIDEO).stat()
    dataset = write_columns(open_dataset(copy), true)
    assert {number: each.segments for number, each in read_columns(dataset).items()} == {
        number: each.segments for number, each in true.items()
    }
    rows = pq.read_table(copy / DATA).column("language_persistent").to_pylist()
    assert all(sum(row["style"] == "plan" for row in each) == 1 for each in rows)
    assert (copy / VIDEO).stat().st_mtime_ns == film.st_mtime_ns
    assert not list(copy.rglob("*.tmp"))


def test_annotations_of_other_episodes_are_refused(copy: Path) -> None:
    segment = Segment(start=0, end=3, instruction="x")
    other = EpisodeAnnotation(episode=9, frames=3, fps=10, segments=(segment,))
    with pytest.raises(InputError, match="no episode 9"):
        write_columns(open_dataset(copy), {9: other})
    with pytest.raises(InputError, match="3 were annotated"):
        write_columns(open_dataset(copy), {0: other.model_copy(update={"episode": 0})})


# Broken datasets


def changed_info(**changes: Any) -> Callable[[Path], object]:
    def change(root: Path) -> None:
        info = json.loads((root / "meta/info.json").read_text())
        (root / "meta/info.json").write_text(json.dumps({**info, **changes}))

    return change


def wrong_shape(root: Path) -> None:
    info = json.loads((root / "meta/info.json").read_text())
    info["features"][CAMERA]["shape"] = [128, 256, 3]
    (root / "meta/info.json").write_text(json.dumps(info))


def without_column(file: Path, name: str) -> Callable[[Path], object]:
    return lambda root: pq.write_table(pq.read_table(root / file).drop_columns([name]), root / file)


def with_column(file: Path, name: str, value: Callable[[Any], Any]) -> Callable[[Path], object]:
    def change(root: Path) -> None:
        table = pq.read_table(root / file)
        values = [value(each) for each in table.column(name).to_pylist()]
        place = table.column_names.index(name)
        pq.write_table(table.set_column(place, name, pa.array(values)), root / file)

    return change


REFUSED_AT_ONCE = {
    "no info": (lambda root: (root / "meta/info.json").unlink(), "no meta/info.json"),
    "info is no JSON": (lambda root: (root / "meta/info.json").write_text("{"), "cannot be read"),
    "info is a list": (lambda root: (root / "meta/info.json").write_text("[]"), "must be a JSON object"),
    "old format": (changed_info(codebase_version="v2.1"), "convert it"),
    "no fps": (changed_info(fps=None), "'fps' must be"),
    "fps zero": (changed_info(fps=0), "'fps' must be"),
    "fps a text": (changed_info(fps="10"), "'fps' must be"),
    "no features": (changed_info(features=[]), "'features' must be"),
    "no camera": (changed_info(features={}), "no camera"),
    "way out": (changed_info(video_path="../{video_key}/{chunk_index}{file_index}.mp4"), "is outside"),
    "odd template": (changed_info(data_path="{nothing}"), "cannot be filled in"),
    "no episodes": (lambda root: shutil.rmtree(root / "meta/episodes"), "has no episodes"),
    "episodes are no Parquet": (lambda root: (root / EPISODES).write_text("x"), "as Parquet"),
    "no length": (without_column(EPISODES, "length"), "lacks the column 'length'"),
    "no clip": (
        without_column(EPISODES, f"videos/{CAMERA}/from_timestamp"),
        "no start and end of the videos",
    ),
    "an episode twice": (with_column(EPISODES, "episode_index", lambda _: 1), "repeats episode"),
}


@pytest.mark.parametrize("name", REFUSED_AT_ONCE)
def test_a_broken_description_is_refused_before_anything_is_annotated(
    copy: Path, name: str, capsys: Captured
) -> None:
    damage, words = REFUSED_AT_ONCE[name]
    damage(copy)
    assert run(["robot", "annotate", str(copy), "--annotator", "oracle"]) == 2
    assert words in capsys.readouterr().err
    assert not copy.with_name("copy.annotations").exists() or not list(
        copy.with_name("copy.annotations").glob("*.jsonl")
    )


BROKEN_EPISODES = {
    "missing film": (lambda root: (root / VIDEO).unlink(), "is missing: it shows episode"),
    "film is no film": (lambda root: (root / VIDEO).write_bytes(b"x" * 1000), "cannot be decoded"),
    "film cut off": (
        lambda root: (root / VIDEO).write_bytes((root / VIDEO).read_bytes()[:4000]),
        "cannot be decoded",
    ),
    "wrong shape": (wrong_shape, "has images of 256×256, but the dataset specifies 256×128"),
    "odd frame rate": (changed_info(fps=15), "should be"),
    "missing rows": (lambda root: (root / DATA).unlink(), "it has the frames of episode"),
    "rows are no Parquet": (lambda root: (root / DATA).write_text("x"), "as Parquet"),
    "too few rows": (with_column(EPISODES, "length", lambda length: length + 1), "its description has"),
    "no times": (without_column(DATA, "timestamp"), "lacks the column 'timestamp'"),
    "film ends early": (
        with_column(EPISODES, f"videos/{CAMERA}/from_timestamp", lambda start: start + 1e4),
        "has no frame at",
    ),
}


@pytest.mark.parametrize("name", BROKEN_EPISODES)
def test_a_broken_episode_is_named_with_its_reason_and_the_others_go_on(
    copy: Path, name: str, capsys: Captured
) -> None:
    damage, words = BROKEN_EPISODES[name]
    damage(copy)
    assert run(["robot", "annotate", str(copy), "--annotator", "oracle", "--json"]) == 1
    out, err = capsys.readouterr()
    assert words in err
    assert json.loads(out)["failed"] == 3


def test_one_broken_film_costs_only_its_own_episodes_and_can_be_tried_again(
    copy: Path, gripper: Path, capsys: Captured
) -> None:
    """Episode 1 is said to lie in another film, which is not there."""
    files = {0: 0, 1: 7, 2: 0}
    numbers = iter(range(3))
    with_column(EPISODES, f"videos/{CAMERA}/file_index", lambda _: files[next(numbers)])(copy)
    command = ["robot", "annotate", str(copy), "--annotator", "oracle", "--json"]
    assert run(command) == 1
    facts = json.loads(capsys.readouterr().out)
    assert (facts["annotated"], facts["failed"]) == (2, 1)
    shutil.copyfile(gripper / VIDEO, copy / VIDEO.with_name("file-007.mp4"))
    assert run(command) == 1, "what has failed stays so until it is asked for again"
    assert run([*command, "--retry-failed"]) == 0


def test_unknown_cameras_and_episodes_are_refused(gripper: Path, capsys: Captured) -> None:
    assert run(["robot", "annotate", str(gripper), "--annotator", "oracle", "--camera", "frnt"]) == 2
    assert "Known: observation.images.front" in capsys.readouterr().err
    assert run(["robot", "annotate", str(gripper), "--annotator", "oracle", "--episodes", "1-4"]) == 2
    assert "no episode 3" in capsys.readouterr().err
    assert run(["robot", "annotate", str(gripper), "--annotator", "oracle", "--episodes", "one"]) == 2


def test_a_dataset_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    root = tmp_path / "d"
    odd = [Image.new("RGB", (64, 64)), Image.new("RGB", (32, 64))]
    with pytest.raises(InputError, match="32×64"), NewDataset(root, fps=5, camera="c", features={}) as made:
        made.add_episode("x", odd, {})
    assert not list(tmp_path.iterdir())
    with pytest.raises(InputError, match="at least one"), NewDataset(root, fps=5, camera="c", features={}):
        pass
    with pytest.raises(InputError, match="even"), NewDataset(root, fps=5, camera="c", features={}) as made:
        made.add_episode("x", [Image.new("RGB", (63, 64))], {})
    root.mkdir()
    (root / "mine").touch()
    with pytest.raises(RunError, match="already exists"):
        NewDataset(root, fps=5, camera="c", features={})


def test_times_of_frames_are_checked_against_the_rate(gripper: Path) -> None:
    dataset = open_dataset(gripper)
    episode = dataset.chosen()[0]
    assert frame_times(dataset, episode)[:3] == pytest.approx([0.0, 0.1, 0.2])
    with pytest.raises(InputError, match="frame 1 of episode 0"):
        frame_times(Dataset(dataset.root, {**dataset.info, "fps": 30}), episode)

"""A LeRobot dataset (v3) on disk: its description, its episodes, and the paths of its rows and videos.

    meta/info.json                          frames per second, features, path templates
    meta/tasks.parquet                      the robot's instructions by number
    meta/episodes/chunk-000/file-000.parquet   one row per episode
    data/chunk-000/file-000.parquet         one row per frame, many episodes per file
    videos/CAMERA/chunk-000/file-000.mp4    many episodes per video

Errors name the file and the expected content, and are raised before anything is annotated.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any

from interleave import InputError
from interleave.plugin import did_you_mean, files, read_text
from interleave.robots.lerobot.libraries import parquet

VERSION = "v3"
INFO, TASKS, EPISODES = Path("meta/info.json"), Path("meta/tasks.parquet"), Path("meta/episodes")
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"
VIDEO_PATH = "videos/{video_key}/chunk-{chunk_index:03d}/file-{file_index:03d}.mp4"
CAMERA_PREFIX = "observation.images."
MAX_FRAMES_PER_SECOND = 1000
MAX_INFO_BYTES = 16_000_000
INDEX_COLUMNS = ("episode_index", "length", "data/chunk_index", "data/file_index", "dataset_from_index")


@dataclass(frozen=True)
class Clip:
    """The part of a video that shows an episode."""

    path: Path
    start: float
    """Seconds from the beginning of the video."""
    end: float


@dataclass(frozen=True)
class Episode:
    """One episode: its length, its task, and the paths of its frames."""

    index: int
    length: int
    task: str
    data: Path
    clips: Mapping[str, Clip]
    """Clips by camera, for cameras stored as videos."""
    first_row: int
    """The number of its first frame in the whole dataset."""


@dataclass(frozen=True)
class Camera:
    """A camera of a dataset, stored as a video or as images in the rows."""

    name: str
    is_video: bool
    size: tuple[int, int]
    """Width and height."""


@dataclass(frozen=True)
class Dataset:
    """A dataset in a folder."""

    root: Path
    info: dict[str, Any]

    @cached_property
    def fps(self) -> float:
        fps = self.info.get("fps")
        if isinstance(fps, bool) or not isinstance(fps, int | float) or not _is_rate(fps):
            raise self._bad_info(f"'fps' must be a number of frames per second, not {fps!r:.40}")
        return float(fps)

    @cached_property
    def cameras(self) -> dict[str, Camera]:
        """The cameras in the dataset's order."""
        found = {}
        for name, feature in self._features.items():
            if feature.get("dtype") in ("video", "image"):
                found[name] = Camera(name, feature["dtype"] == "video", self._size(name, feature))
        return found

    @property
    def _features(self) -> dict[str, dict[str, Any]]:
        features = self.info.get("features")
        if not isinstance(features, dict) or not all(isinstance(each, dict) for each in features.values()):
            raise self._bad_info("'features' must be an object with one object for each feature")
        return features

    def _size(self, name: str, feature: Mapping[str, Any]) -> tuple[int, int]:
        shape, names = feature.get("shape"), feature.get("names") or ("height", "width", "channels")
        if not isinstance(shape, list) or len(shape) != 3 or not all(type(each) is int for each in shape):
            raise self._bad_info(f"the shape of {name!r} must be three whole numbers, not {shape!r:.40}")
        if "width" in names and "height" in names:
            return shape[names.index("width")], shape[names.index("height")]
        return (shape[2], shape[1]) if shape[0] in (1, 3) else (shape[1], shape[0])

    def camera(self, name: str | None = None) -> Camera:
        """Return the camera of this name, or the first; a name may omit `observation.images.`."""
        if not self.cameras:
            raise InputError(f"{self.root}: the dataset has no camera, but sub-tasks are found in images")
        if name is None:
            return next(iter(self.cameras.values()))
        for known in (name, f"{CAMERA_PREFIX}{name}"):
            if known in self.cameras:
                return self.cameras[known]
        raise InputError(f"{self.root} has no camera {name!r}. {did_you_mean(name, self.cameras)}")

    @cached_property
    def tasks(self) -> dict[int, str]:
        """The robot's instructions by number; empty if the dataset has none."""
        path = self.root / TASKS
        if not path.is_file():
            return {}
        rows = _rows(path)
        named = next((key for key in ("task", "__index_level_0__") if rows and key in rows[0]), None)
        if named is None or "task_index" not in rows[0]:
            return {}
        return {int(row["task_index"]): str(row[named]) for row in rows}

    @cached_property
    def episodes(self) -> dict[int, Episode]:
        """All episodes by number."""
        files = sorted((self.root / EPISODES).glob("*/*.parquet"))
        if not files:
            raise InputError(f"{self.root / EPISODES} has no episodes: is {self.root} a LeRobot dataset?")
        found: dict[int, Episode] = {}
        for file in files:
            columns = _columns(file)
            if missing := [name for name in INDEX_COLUMNS if name not in columns]:
                raise InputError(f"{file} lacks the column {missing[0]!r}")
            for row in _rows(file, [name for name in columns if not name.startswith("stats/")]):
                episode = self._episode(row, file)
                if episode.index in found:
                    raise InputError(f"{file} repeats episode {episode.index}")
                found[episode.index] = episode
        return dict(sorted(found.items()))

    def _episode(self, row: Mapping[str, Any], file: Path) -> Episode:
        index = _whole(row, "episode_index", file)
        length = _whole(row, "length", file)
        if length < 1:
            raise InputError(f"{file}: episode {index} has {length} frames")
        data = self._file(self.info.get("data_path") or DATA_PATH, row, "data", {})
        clips = {
            name: self._clip(name, row, file) for name, camera in self.cameras.items() if camera.is_video
        }
        tasks = row.get("tasks")
        task = str(tasks[0]) if isinstance(tasks, list) and tasks else ""
        return Episode(index, length, task, data, clips, _whole(row, "dataset_from_index", file))

    def _clip(self, camera: str, row: Mapping[str, Any], file: Path) -> Clip:
        at = f"videos/{camera}"
        start, end = row.get(f"{at}/from_timestamp"), row.get(f"{at}/to_timestamp")
        if not isinstance(start, int | float) or not isinstance(end, int | float):
            raise InputError(f"{file} has no start and end of the videos of {camera!r}")
        template = self.info.get("video_path") or VIDEO_PATH
        return Clip(self._file(template, row, at, {"video_key": camera}), float(start), float(end))

    def _file(self, template: Any, row: Mapping[str, Any], at: str, words: Mapping[str, str]) -> Path:
        """Return the path that a template and a row define, never outside the dataset."""
        try:
            numbers = {
                "chunk_index": int(row[f"{at}/chunk_index"]),
                "file_index": int(row[f"{at}/file_index"]),
            }
            named = PurePosixPath(str(template).format(**numbers, **words))
        except (KeyError, IndexError, ValueError, TypeError):
            raise self._bad_info(f"the path {template!r:.80} cannot be filled in") from None
        if named.is_absolute() or ".." in named.parts:
            raise self._bad_info(f"the path {str(named)!r:.80} is outside the dataset")
        return self.root / named

    def chosen(self, numbers: Iterable[int] | None = None) -> list[Episode]:
        """Return the episodes with these numbers, or all; raise `InputError` if one does not exist."""
        if numbers is None:
            return list(self.episodes.values())
        wanted = list(dict.fromkeys(numbers))
        if missing := [number for number in wanted if number not in self.episodes]:
            raise InputError(
                f"{self.root} has no episode {missing[0]}: it has {len(self.episodes)}, "
                f"{min(self.episodes)} to {max(self.episodes)}"
            )
        return [self.episodes[number] for number in wanted]

    def _bad_info(self, problem: str) -> InputError:
        return InputError(f"{self.root / INFO}: {problem}")


def open_dataset(root: Path) -> Dataset:
    """Open the dataset in a folder; raise `InputError` unless it is a dataset of format v3."""
    if not root.is_dir():
        raise InputError(f"{root} is not a folder: name the folder of a LeRobot dataset, which has meta/")
    path = root / INFO
    if not path.is_file():
        raise InputError(f"{root} is not a LeRobot dataset: it has no {INFO.as_posix()}")
    try:
        info = json.loads(read_text(path, most_bytes=MAX_INFO_BYTES))
    except (OSError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise InputError(f"{path} cannot be read ({files.why(error)})") from None
    if not isinstance(info, dict):
        raise InputError(f"{path} must be a JSON object")
    version = str(info.get("codebase_version", "(none)"))
    if not version.startswith(VERSION):
        raise InputError(
            f"{root} has the format {version}, but {VERSION} is required: convert it with "
            "python -m lerobot.scripts.convert_dataset_v21_to_v30"
        )
    return Dataset(root, info)


def frame_times(dataset: Dataset, episode: Episode) -> list[float]:
    """Return the time of every frame from the rows, checked against the length and the frame rate."""
    rows = rows_of(dataset, episode, ["timestamp", "frame_index"])
    times = [float(row["timestamp"]) for row in rows]
    tolerance = 0.5 / dataset.fps
    for number, time in enumerate(times):
        if not math.isfinite(time) or abs(time - number / dataset.fps) > tolerance:
            raise InputError(
                f"{episode.data}: frame {number} of episode {episode.index} has the time {time:g} s, but at "
                f"{dataset.fps:g} frames per second it should be {number / dataset.fps:g} s"
            )
    return times


def rows_of(dataset: Dataset, episode: Episode, columns: Sequence[str]) -> list[dict[str, Any]]:
    """Return some columns of the rows of an episode."""
    if not episode.data.is_file():
        raise InputError(f"{episode.data} is missing: it has the frames of episode {episode.index}")
    there = _columns(episode.data)
    if missing := [name for name in ("episode_index", *columns) if name not in there]:
        raise InputError(f"{episode.data} lacks the column {missing[0]!r}")
    rows = _rows(
        episode.data,
        list(dict.fromkeys(("episode_index", *columns))),
        filters=[("episode_index", "=", episode.index)],
    )
    if len(rows) != episode.length:
        raise InputError(
            f"{episode.data} has {len(rows)} frames of episode {episode.index}, but its description has "
            f"{episode.length}"
        )
    return rows


def _columns(path: Path) -> list[str]:
    try:
        return list(parquet().read_schema(path).names)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as Parquet ({files.why(error)})") from None


def _rows(path: Path, columns: list[str] | None = None, filters: Any = None) -> list[dict[str, Any]]:
    try:
        table = parquet().read_table(path, columns=columns, filters=filters, partitioning=None)
    except (OSError, ValueError) as error:
        raise InputError(f"{path} cannot be read as Parquet ({files.why(error)})") from None
    rows: list[dict[str, Any]] = table.to_pylist()
    return rows


def _whole(row: Mapping[str, Any], key: str, file: Path) -> int:
    value = row.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise InputError(f"{file}: {key!r} must be a whole number, not {value!r:.40}")
    return value


def _is_rate(fps: float) -> bool:
    return math.isfinite(fps) and 0 < fps <= MAX_FRAMES_PER_SECOND

"""Write a new LeRobot dataset (v3), episode by episode: rows, videos, descriptions and statistics."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from interleave import InputError, RunError
from interleave.plugin import make_folder
from interleave.robots.annotation_file import EpisodeAnnotation
from interleave.robots.lerobot.dataset import DATA_PATH, EPISODES, INFO, TASKS, VIDEO_PATH
from interleave.robots.lerobot.language_columns import (
    EVENTS,
    LANGUAGE_FEATURE,
    PERSISTENT,
    events_type,
    language_rows,
    persistent_type,
)
from interleave.robots.lerobot.libraries import arrow, av, parquet
from interleave.robots.video_segments import Segment

if TYPE_CHECKING:
    from PIL.Image import Image

CODECS = ("libx264", "libsvtav1", "mpeg4")
"""Codecs in order of preference; the first that PyAV supports is used."""
QUALITY = {
    "libx264": {"crf": "12", "preset": "veryfast"},
    "libsvtav1": {"crf": "24", "preset": "10"},
    "mpeg4": {"qscale": "2"},
}
EPISODES_IN_A_FILE = 50
NUMBERS = {"timestamp": "float32", "frame_index": "int64", "episode_index": "int64"}
NUMBERS |= {"index": "int64", "task_index": "int64"}
STATISTICS = ("min", "max", "mean", "std")


class NewDataset:
    """A dataset that is being written; it is renamed to `root` when it is complete.

    with NewDataset(path, fps=10, camera="observation.images.top", features={"observation.state": names}):
    """

    def __init__(
        self,
        root: Path,
        *,
        fps: float,
        camera: str,
        features: Mapping[str, Sequence[str]],
        robot: str = "unknown",
        language: bool = True,
    ) -> None:
        if root.exists() and (not root.is_dir() or any(root.iterdir())):
            raise RunError(f"{root} already exists: name a new folder for the dataset")
        self.root, self.fps, self.camera, self.robot = root, fps, camera, robot
        self.language = language
        """Whether rows have the language columns, which lerobot supports since 0.5."""
        self.features = {name: list(names) for name, names in features.items()}
        """Names of the numbers in a row, by feature."""
        self.work = root.parent / f".{root.name}.{secrets.token_hex(6)}.tmp"
        self.tasks: dict[str, int] = {}
        self.episodes: list[dict[str, Any]] = []
        self.frames = 0
        self.size: tuple[int, int] | None = None
        self._rows: list[Any] = []
        self._sums: dict[str, _Statistics] = {}
        self._open_video: _VideoFile | None = None

    def __enter__(self) -> NewDataset:
        make_folder(self.work)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None or not self.episodes:
            if self._open_video:
                self._open_video.close()
            shutil.rmtree(self.work, ignore_errors=True)
            if kind is None:
                raise InputError(f"{self.root}: a dataset needs at least one episode")
            return
        self._end_file()
        self._write_descriptions()
        if self.root.exists():
            self.root.rmdir()
        self.work.rename(self.root)

    def add_episode(
        self,
        task: str,
        frames: Sequence[Image],
        numbers: Mapping[str, Any],
        segments: Sequence[Segment] = (),
    ) -> None:
        """Append an episode: its frames, one row of numbers per feature and frame, and its sub-tasks."""
        if not frames:
            raise InputError(f"an episode of {task!r:.60} has no frames")
        self.size = self.size or frames[0].size
        for name, names in self.features.items():
            shape = np.shape(numbers.get(name, ()))
            if shape != (len(frames), len(names)):
                raise InputError(f"{name!r} must have {len(names)} numbers for each of {len(frames)} frames")
        if len(self.episodes) % EPISODES_IN_A_FILE == 0:
            self._end_file()
        video = self._open_video = self._open_video or _VideoFile(self._video_path(), self.fps, self.size)
        start = video.seconds
        for frame in frames:
            if frame.size != self.size:
                raise InputError(
                    f"a frame has {frame.width}×{frame.height} pixels, but the others have "
                    f"{self.size[0]}×{self.size[1]}"
                )
            video.add(frame)
        self._add_rows(task, len(frames), numbers, segments)
        chunk = {"chunk_index": 0, "file_index": self._file_number}
        self.episodes.append(
            {
                "episode_index": len(self.episodes),
                "tasks": [task],
                "length": len(frames),
                **{f"data/{key}": value for key, value in chunk.items()},
                "dataset_from_index": self.frames,
                "dataset_to_index": self.frames + len(frames),
                **{f"videos/{self.camera}/{key}": value for key, value in chunk.items()},
                f"videos/{self.camera}/from_timestamp": start,
                f"videos/{self.camera}/to_timestamp": video.seconds,
                "meta/episodes/chunk_index": 0,
                "meta/episodes/file_index": 0,
            }
        )
        self.frames += len(frames)

    @property
    def _file_number(self) -> int:
        return len(self.episodes) // EPISODES_IN_A_FILE

    def _video_path(self) -> Path:
        number = self._file_number
        return self.work / VIDEO_PATH.format(video_key=self.camera, chunk_index=0, file_index=number)

    def _add_rows(
        self, task: str, count: int, numbers: Mapping[str, Any], segments: Sequence[Segment]
    ) -> None:
        pa = arrow()
        episode, times = len(self.episodes), np.arange(count) / self.fps
        columns: dict[str, Any] = {}
        for name, names in self.features.items():
            values = np.asarray(numbers[name], np.float32)
            columns[name] = pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), len(names))
            self._sums.setdefault(name, _Statistics()).add(values)
        own = {
            "timestamp": times.astype(np.float32),
            "frame_index": np.arange(count),
            "episode_index": np.full(count, episode),
            "index": self.frames + np.arange(count),
            "task_index": np.full(count, self.tasks.setdefault(task, len(self.tasks))),
        }
        columns |= {name: pa.array(values) for name, values in own.items()}
        if self.language:
            columns |= self._language(episode, count, own["timestamp"], segments)
        self._rows.append(pa.table(columns))

    def _language(self, episode: int, count: int, times: Any, segments: Sequence[Segment]) -> dict[str, Any]:
        pa, rows = arrow(), list[dict[str, Any]]()
        if segments:
            said = EpisodeAnnotation(episode=episode, frames=count, fps=self.fps, segments=tuple(segments))
            rows = language_rows(said, [float(each) for each in times])
        return {
            PERSISTENT: pa.array([rows] * count, type=persistent_type(pa)),
            EVENTS: pa.array([[]] * count, type=events_type(pa)),
        }

    def _end_file(self) -> None:
        """Write the rows and the video of the episodes in the current file."""
        if not self._rows:
            return
        number = (len(self.episodes) - 1) // EPISODES_IN_A_FILE
        path = self.work / DATA_PATH.format(chunk_index=0, file_index=number)
        make_folder(path.parent)
        with parquet().ParquetWriter(str(path), self._rows[0].schema, compression="snappy") as writer:
            for table in self._rows:
                writer.write_table(table)
        self._rows.clear()
        if self._open_video:
            self._open_video.close()
            self._open_video = None

    def _write_descriptions(self) -> None:
        pa, pq = arrow(), parquet()
        path = self.work / EPISODES / "chunk-000" / "file-000.parquet"
        make_folder(path.parent)
        pq.write_table(pa.Table.from_pylist(self.episodes), path)
        pq.write_table(_task_table(pa, self.tasks), self.work / TASKS)
        info = json.dumps(self._info(), indent=4, ensure_ascii=False)
        (self.work / INFO).write_text(info + "\n", "utf-8")
        statistics = {name: each.values() for name, each in self._sums.items()}
        (self.work / "meta" / "stats.json").write_text(json.dumps(statistics, indent=4) + "\n", "utf-8")

    def _info(self) -> dict[str, Any]:
        width, height = self.size or (0, 0)
        fps = int(self.fps) if float(self.fps).is_integer() else self.fps
        video = {
            "video.height": height,
            "video.width": width,
            "video.codec": {"libx264": "h264", "libsvtav1": "av1"}.get(codec_name(), codec_name()),
            "video.pix_fmt": "yuv420p",
            "video.is_depth_map": False,
            "video.fps": fps,
            "video.channels": 3,
            "has_audio": False,
        }
        features: dict[str, Any] = {
            self.camera: {
                "dtype": "video",
                "shape": [height, width, 3],
                "names": ["height", "width", "channels"],
                "info": video,
            }
        }
        for name, names in self.features.items():
            features[name] = {"dtype": "float32", "shape": [len(names)], "names": names}
        for name, kind in NUMBERS.items():
            features[name] = {"dtype": kind, "shape": [1], "names": None}
        if self.language:
            features |= {PERSISTENT: LANGUAGE_FEATURE, EVENTS: LANGUAGE_FEATURE}
        return {
            "codebase_version": "v3.0",
            "robot_type": self.robot,
            "total_episodes": len(self.episodes),
            "total_frames": self.frames,
            "total_tasks": len(self.tasks),
            "chunks_size": 1000,
            "data_files_size_in_mb": 100,
            "video_files_size_in_mb": 200,
            "fps": fps,
            "splits": {"train": f"0:{len(self.episodes)}"},
            "data_path": DATA_PATH,
            "video_path": VIDEO_PATH,
            "features": features,
        }


def _task_table(pa: Any, tasks: Mapping[str, int]) -> Any:
    """Return the tasks in pandas' format for a frame with the task as its index, which lerobot expects."""
    table = pa.table({"task_index": list(tasks.values()), "task": list(tasks)})
    column = {"field_name": "task_index", "metadata": None, "numpy_type": "int64", "pandas_type": "int64"}
    index = {"field_name": "task", "metadata": None, "numpy_type": "object", "pandas_type": "unicode"}
    described = {
        "index_columns": ["task"],
        "column_indexes": [],
        "columns": [{"name": "task_index", **column}, {"name": "task", **index}],
        "creator": {"library": "pyarrow", "version": pa.__version__},
        "pandas_version": "2.0.0",
    }
    return table.replace_schema_metadata({"pandas": json.dumps(described)})


class _Statistics:
    """Running minimum, maximum, mean and deviation of rows of numbers."""

    def __init__(self) -> None:
        self.count = 0
        self.total: Any = 0.0
        self.squares: Any = 0.0
        self.least: Any = None
        self.most: Any = None

    def add(self, values: Any) -> None:
        values = values.astype(np.float64)
        self.count += len(values)
        self.total = self.total + values.sum(axis=0)
        self.squares = self.squares + np.square(values).sum(axis=0)
        least, most = values.min(axis=0), values.max(axis=0)
        self.least = least if self.least is None else np.minimum(self.least, least)
        self.most = most if self.most is None else np.maximum(self.most, most)

    def values(self) -> dict[str, list[float]]:
        mean = self.total / self.count
        deviation = np.sqrt(np.maximum(self.squares / self.count - np.square(mean), 0))
        found = dict(zip(STATISTICS, (self.least, self.most, mean, deviation), strict=True))
        return {name: [float(each) for each in value] for name, value in found.items()} | {
            "count": [self.count]
        }


def codec_name() -> str:
    for name in CODECS:
        if name in av().codecs_available:
            return name
    raise RunError(f"this PyAV supports none of {', '.join(CODECS)}: install PyAV from PyPI")


class _VideoFile:
    """A video file to which episodes are appended."""

    def __init__(self, path: Path, fps: float, size: tuple[int, int]) -> None:
        if size[0] % 2 or size[1] % 2:
            raise InputError(f"videos need an even width and height, not {size[0]}×{size[1]}")
        make_folder(path.parent)
        self.rate = Fraction(fps).limit_denominator(1001)
        self.count = 0
        self.container = av().open(str(path), "w")
        codec = codec_name()
        self.stream = self.container.add_stream(codec, rate=self.rate, options=QUALITY[codec])
        self.stream.width, self.stream.height = size
        self.stream.pix_fmt = "yuv420p"
        self.stream.gop_size = 10  # single frames are read often, so a seek must decode few
        self.stream.codec_context.thread_count = 1

    @property
    def seconds(self) -> float:
        return float(self.count / self.rate)

    def add(self, frame: Image) -> None:
        image = av().VideoFrame.from_image(frame.convert("RGB"))
        image.pts, image.time_base = self.count, 1 / self.rate
        self.container.mux(self.stream.encode(image))
        self.count += 1

    def close(self) -> None:
        self.container.mux(self.stream.encode())
        self.container.close()

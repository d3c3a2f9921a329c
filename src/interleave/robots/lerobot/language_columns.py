"""Annotations as LeRobot's language columns, which lerobot 0.5 and later reads and trains on.

`language_persistent` has the same rows on every frame of an episode: texts and their start times. A sub-task
is a row with the style `subtask`, without a camera, with the time of its first frame. `language_events`, for
events of single frames, stays empty. Rows of other styles and videos are never changed.
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from interleave import InputError, StorageError
from interleave.plugin import files, make_folder, write_atomic
from interleave.robots.annotation_file import EpisodeAnnotation
from interleave.robots.lerobot.dataset import INFO, Dataset, Episode, open_dataset, rows_of
from interleave.robots.lerobot.libraries import arrow, parquet
from interleave.robots.video_segments import Segment

PERSISTENT, EVENTS = "language_persistent", "language_events"
STYLE = "subtask"
LANGUAGE_FEATURE = {"dtype": "language", "shape": [1], "names": None}
Row = dict[str, Any]


def write_columns(
    dataset: Dataset, annotations: Mapping[int, EpisodeAnnotation], to: Path | None = None
) -> Dataset:
    """Write the annotations into the dataset's rows, or into a new dataset that shares its videos.

    Every row file is replaced atomically; the description of the dataset is written last.
    """
    if unknown := annotations.keys() - dataset.episodes.keys():
        raise InputError(f"{dataset.root} has no episode {min(unknown)}, which is annotated")
    target = dataset if to is None else _new_dataset(dataset, to)
    files = sorted({episode.data for episode in dataset.episodes.values()})
    for file in files:
        _rewrite(file, target.root / file.relative_to(dataset.root), annotations)
    info = dict(target.info)
    info["features"] = {**info["features"], PERSISTENT: LANGUAGE_FEATURE, EVENTS: LANGUAGE_FEATURE}
    write_atomic(target.root / INFO, (json.dumps(info, indent=4, ensure_ascii=False) + "\n").encode())
    return open_dataset(target.root)


def read_columns(dataset: Dataset) -> dict[int, EpisodeAnnotation]:
    """Return the sub-tasks in the rows of a dataset, for episodes that have any."""
    found = {}
    for episode in dataset.episodes.values():
        if not episode.data.is_file() or PERSISTENT not in parquet().read_schema(episode.data).names:
            continue
        rows = rows_of(dataset, episode, [PERSISTENT])[0][PERSISTENT] or []
        said = sorted(
            (row for row in rows if row.get("style") == STYLE), key=lambda row: float(row["timestamp"])
        )
        if said:
            found[episode.index] = _annotation(dataset, episode, said)
    return found


def _annotation(dataset: Dataset, episode: Episode, said: Sequence[Row]) -> EpisodeAnnotation:
    starts = [round(float(row["timestamp"]) * dataset.fps) for row in said]
    edges = [0, *starts[1:], episode.length]
    return EpisodeAnnotation(
        episode=episode.index,
        task=episode.task,
        frames=episode.length,
        fps=dataset.fps,
        segments=tuple(
            Segment(start=start, end=end, instruction=str(row["content"]))
            for row, start, end in zip(said, edges, edges[1:], strict=False)
            if end > start
        ),
    )


def language_rows(annotation: EpisodeAnnotation, times: Sequence[float]) -> list[Row]:
    """Return the rows of an episode's sub-tasks, with the exact times of their first frames."""
    return [
        {
            "role": "assistant",
            "content": segment.instruction,
            "style": STYLE,
            "timestamp": times[segment.start],
            "camera": None,
            "tool_calls": None,
        }
        for segment in annotation.segments
    ]


def _new_dataset(dataset: Dataset, to: Path) -> Dataset:
    """Create a dataset with copies of descriptions and rows, and links to the videos and other files."""
    if to.exists() and any(to.iterdir()):
        known = to / INFO
        if not known.is_file():
            raise InputError(f"{to} is not empty: name a new folder for the annotated dataset")
    make_folder(to)
    for file in _files_of(dataset.root):
        place = to / file.relative_to(dataset.root)
        if place.exists():
            continue
        make_folder(place.parent)
        if file.suffix == ".parquet" or file.parent.name == "meta":
            _placed(place, lambda temporary, file=file: shutil.copyfile(file, temporary))
        else:
            _placed(place, lambda temporary, file=file: _link(file, temporary))
    return Dataset(to, dataset.info)


def _files_of(root: Path) -> Iterator[Path]:
    for path in sorted(root.rglob("*")):
        if path.is_file() and not path.name.endswith(".tmp"):
            yield path


def _link(file: Path, temporary: Path) -> None:
    """Hard-link a file, or copy it if the file system has no hard links."""
    try:
        os.link(file.resolve(), temporary)
    except OSError:
        shutil.copyfile(file, temporary)


def _placed(path: Path, make: Any) -> None:
    """Let `make` write a temporary file, then rename it to `path`."""
    temporary = path.parent / f".{path.name}.{secrets.token_hex(6)}.tmp"
    try:
        make(temporary)
        with temporary.open("rb") as file:
            files.sync_file(file.fileno())
        os.replace(temporary, path)
    except OSError as error:
        raise StorageError.at(path, error) from error
    finally:
        with suppress(OSError):
            temporary.unlink()


def _rewrite(source: Path, place: Path, annotations: Mapping[int, EpisodeAnnotation]) -> None:
    """Write the rows of a file with the two columns, one row group per episode, like lerobot."""
    pa, pq = arrow(), parquet()
    table = pq.read_table(source, partitioning=None)
    episodes = table.column("episode_index").to_pylist()
    times = table.column("timestamp").to_pylist()
    there = {name: table.column(name) for name in (PERSISTENT, EVENTS) if name in table.column_names}
    starts = [at for at, number in enumerate(episodes) if at == 0 or number != episodes[at - 1]]
    persistent: list[list[Row]] = []
    for start, end in zip(starts, [*starts[1:], len(episodes)], strict=True):
        rows = _kept_rows(there.get(PERSISTENT), start)
        if annotation := annotations.get(episodes[start]):
            if annotation.frames != end - start:
                raise InputError(
                    f"{source} has {end - start} frames of episode {episodes[start]}, but "
                    f"{annotation.frames} were annotated"
                )
            rows = [row for row in rows if row["style"] != STYLE] + language_rows(
                annotation, times[start:end]
            )
        rows.sort(key=lambda row: (row["timestamp"], row["style"] or "", row["role"]))
        persistent += [rows] * (end - start)
    kept = [name for name in table.column_names if name not in (PERSISTENT, EVENTS)]
    known_type = there[PERSISTENT].type if PERSISTENT in there else persistent_type(pa)
    events = there.get(EVENTS)
    if events is None:
        events = pa.array([[]] * len(episodes), type=events_type(pa))
    made = pa.Table.from_arrays(
        [*(table.column(name) for name in kept), pa.array(persistent, type=known_type), events],
        names=[*kept, PERSISTENT, EVENTS],
    )

    def write(temporary: Path) -> None:
        with pq.ParquetWriter(str(temporary), made.schema, compression="snappy") as writer:
            for start, end in zip(starts, [*starts[1:], len(episodes)], strict=True):
                writer.write_table(made.slice(start, end - start))

    make_folder(place.parent)
    _placed(place, write)


def _kept_rows(column: Any, row: int) -> list[Row]:
    return list(column[row].as_py() or []) if column is not None else []


def persistent_type(pa: Any) -> Any:
    return pa.list_(pa.struct(_fields(pa, pa.field("timestamp", pa.float32(), nullable=False))))


def events_type(pa: Any) -> Any:
    return pa.list_(pa.struct(_fields(pa)))


def _fields(pa: Any, *more: Any) -> list[Any]:
    text = [pa.field(name, pa.string()) for name in ("role", "content", "style")]
    return [*text, *more, pa.field("camera", pa.string()), pa.field("tool_calls", pa.list_(pa.string()))]

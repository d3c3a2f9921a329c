"""The annotation file, `annotations.jsonl`: one line per episode, appended when it is done.

An interrupted annotation resumes from this file: an episode with a line is done. A line that a crash has
truncated is dropped. `annotate.json` in the same folder has the settings of the annotations.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from pydantic import Field, ValidationError

from interleave import InputError, RunError, StorageError
from interleave.plugin import Value, files, folder_lock, make_folder, write_atomic
from interleave.robots.video_segments import Segment

LINES_NAME, SETTINGS_NAME, LOCK_NAME = "annotations.jsonl", "annotate.json", "annotate.lock"


class EpisodeAnnotation(Value):
    """The sub-tasks of one episode."""

    episode: int = Field(ge=0)
    task: str = ""
    frames: int = Field(ge=1)
    fps: float = Field(gt=0)
    segments: tuple[Segment, ...] = ()
    calls: int = 0
    """Calls of the annotator."""
    error: str | None = None
    """The reason if the episode has no sub-tasks."""


class AnnotateSettings(Value):
    """The settings that determine the annotations."""

    camera: str
    annotator: str
    prompts: str
    """Name and digest of the prompts."""
    stride: int
    at_once: int
    precision: int


class AnnotationFolder:
    """A folder of annotations with one writer at a time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.path = folder / LINES_NAME

    @contextmanager
    def writing(self, settings: AnnotateSettings) -> Iterator[AnnotationWriter]:
        """Append to the file; raise `RunError` if it was written with other settings."""
        try:
            make_folder(self.folder)
        except OSError as error:
            raise RunError(f"cannot write {self.folder} ({error.strerror}): choose another --out") from None
        with folder_lock(self.folder, LOCK_NAME):
            self._keep_settings(settings)
            done, whole = read_lines(self.path)
            writer = AnnotationWriter(self.path, whole, done)
            try:
                yield writer
            finally:
                writer.close()

    def _keep_settings(self, settings: AnnotateSettings) -> None:
        path = self.folder / SETTINGS_NAME
        if path.exists():
            try:
                there = AnnotateSettings.model_validate_json(files.read_from(path))
            except ValidationError:
                raise RunError(f"{path} is damaged: choose another --out") from None
            if there != settings:
                theirs, ours = there.model_dump(), settings.model_dump()
                differs = next(key for key in theirs if theirs[key] != ours[key])
                raise RunError(
                    f"{self.folder} was annotated with {differs} = {theirs[differs]!r}, not "
                    f"{ours[differs]!r}: choose another --out"
                )
        elif self.path.exists():
            raise RunError(f"{self.folder} has annotations of unknown origin: choose another --out")
        else:
            write_atomic(path, f"{settings.model_dump_json(indent=2)}\n".encode())


class AnnotationWriter:
    """A writer that syncs each line to disk before the next."""

    def __init__(self, path: Path, whole: int, done: dict[int, EpisodeAnnotation]) -> None:
        self.path, self.done = path, done
        try:
            self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o644)
            os.ftruncate(self._file, whole)  # drop a line that a crash has truncated
            os.lseek(self._file, 0, os.SEEK_END)
        except OSError as error:
            raise StorageError.at(path, error) from error

    def add(self, annotation: EpisodeAnnotation) -> None:
        data = f"{annotation.model_dump_json()}\n".encode()
        try:
            while data:
                data = data[os.write(self._file, data) :]
            files.sync_file(self._file)
        except OSError as error:
            raise StorageError.at(self.path, error) from error
        self.done[annotation.episode] = annotation

    def close(self) -> None:
        os.close(self._file)


def read_lines(path: Path) -> tuple[dict[int, EpisodeAnnotation], int]:
    """Return the last annotation of each episode in a file, and the length of its complete lines in bytes."""
    data = files.read_from(path) if path.exists() else b""
    whole = data.rfind(b"\n") + 1
    found: dict[int, EpisodeAnnotation] = {}
    for number, line in enumerate(data[:whole].splitlines(), start=1):
        try:
            annotation = EpisodeAnnotation.model_validate_json(line)
        except ValidationError:
            raise InputError(f"{path}, line {number}: not an episode annotation") from None
        found[annotation.episode] = annotation
    return found, whole


def read_annotations(path: Path) -> dict[int, EpisodeAnnotation]:
    """Return the annotations without errors in an annotation file or its folder."""
    file = path / LINES_NAME if path.is_dir() else path
    if not file.is_file():
        raise InputError(f"{path} has no annotations: name {LINES_NAME} or its folder")
    return without_errors(read_lines(file)[0].values())


def without_errors(annotations: Iterable[EpisodeAnnotation]) -> dict[int, EpisodeAnnotation]:
    return {each.episode: each for each in annotations if each.error is None}

"""A picture that stays in its file until somebody looks at its pixels.

The functions that build what a model sees take pictures. Rows that name their pictures instead of holding
them are built by the same functions from these, a million of them without one being decoded.


Trajectories out of a collection: every run that has ended, in one order, with what its critic saw.

A collection is a folder with run folders somewhere below it. A run goes by its folder's path relative to
the collection, so that every stage names it alike wherever the collection lies. Links are not followed.
"""

from __future__ import annotations

import hashlib
import logging
import os
import struct
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from weakref import WeakValueDictionary

from PIL import Image

from interleave.agents.critic import CriticInput, critic_input
from interleave.backends.protocols import GeneratorCapabilities
from interleave.data.manifest import file_digest
from interleave.errors import InputError, InterleaveError, RunError
from interleave.runs.journal import FILE_NAME as JOURNAL_NAME
from interleave.runs.record import AttemptRecord, RunRecord, StepRecord, read_record
from interleave.runs.record_file import FILE_NAME as RECORD_NAME
from interleave.runs.record_file import is_current, lost_lines, read_stored
from interleave.runs.store import FOLDER as IMAGES
from interleave.runs.store import MissingPicture, PictureStore
from interleave.sources import Album
from interleave.text import count, storable
from interleave.types import Picture, Request, Slot, Text

_HEADER = struct.Struct(">8s4x4sII")
log = logging.getLogger(__name__)
ENDED = ("done", "short")
UNPLANNED = "unplanned"
DAMAGED = "damaged"
UNNAMABLE = "in a folder whose name is not valid Unicode"
"""No line of scores or selections could name it."""
_ANY_NUMBER_OF_SOURCES = GeneratorCapabilities(max_sources=sys.maxsize)


class StoredPicture(Image.Image):
    """A picture of a run folder, read when its size or its pixels are first asked for."""

    def __init__(self, store: PictureStore, name: str) -> None:
        super().__init__()
        self._mode = "RGB"
        self.store = store
        self.name = name

    @cached_property
    def path(self) -> Path:
        return self.store.path(self.name)

    @property
    def size(self) -> tuple[int, int]:
        if self._size == (0, 0):
            self._size = _size_in_header(self.path)
        return self._size

    def load(self) -> Any:
        """Bring in the pixels; raises `MissingPicture` when the file is not there as it was stored."""
        if self._im is None:
            picture = self.store.get(self.name)
            self._im, self._size = picture.im, picture.size
        return super().load()


def _size_in_header(path: Path) -> tuple[int, int]:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # half the cost of open(), a million times
        try:
            _, chunk, width, height = _HEADER.unpack(os.read(file, _HEADER.size))
        finally:
            os.close(file)
    except OSError:
        raise MissingPicture(path, "is missing") from None
    except struct.error:
        raise MissingPicture(path, "has been altered") from None
    if chunk != b"IHDR" or not width or not height:
        raise MissingPicture(path, "has been altered")
    return width, height


@dataclass(frozen=True)
class Trajectory:
    """One run that has ended, with a plan."""

    name: str
    """Its folder relative to the collection, with forward slashes."""
    folder: Path
    record: RunRecord
    digest: str = ""
    """Of the file its record was read from."""

    @cached_property
    def store(self) -> PictureStore:
        return PictureStore(self.folder)

    def picture(self, name: str) -> StoredPicture:
        """A picture the record names; its file is not touched before it is looked at, and read once for all
        who hold it at the same time."""
        picture = self._pictures.get(name)
        if picture is None:
            picture = self._pictures[name] = StoredPicture(self.store, name)
        return picture

    @cached_property
    def _pictures(self) -> WeakValueDictionary[str, StoredPicture]:
        return WeakValueDictionary()

    def picture_path(self, name: str) -> Path:
        """Where a picture the record names lies; raises `RunError` for what cannot be the name of one."""
        return self.store.path(name)

    @cached_property
    def request(self) -> Request:
        """What the user asked for; its pictures stay in their files until they are looked at."""
        return Request(
            tuple(
                Picture(self.picture(part.image)) if part.image else Text(part.text or "")
                for part in self.record.request
            )
        )

    def sources_of(self, step: StepRecord) -> tuple[StoredPicture, ...]:
        """The pictures a step was drawn from, oldest first; none means text-to-image.

        With the rule `history` these are all pictures so far. The generator took the latest of them, as many
        as it can take: a redraw does the same.
        """
        return self._sources[step.plan.number]

    def critic_input(self, step: StepRecord, attempt: AttemptRecord) -> CriticInput:
        """What the critic saw of an attempt, built by the function that built it in the run."""
        return critic_input(
            step.plan.prompt or "",
            attempt.prompt,
            self.sources_of(step),
            self.picture(attempt.image),
            Slot(step.plan.number, attempt.number),
        )

    def attempts(self) -> Iterator[tuple[StepRecord, AttemptRecord]]:
        """Every picture that was drawn, in the order of drawing."""
        return ((step, attempt) for step in self.record.steps for attempt in step.attempts)

    @cached_property
    def _sources(self) -> dict[int, tuple[StoredPicture, ...]]:
        """The run's own rule, played through again with names instead of pixels."""
        given = tuple(self.picture(part.image) for part in self.record.request if part.image)
        album = Album(given, self.record.config.sources, _ANY_NUMBER_OF_SOURCES)
        if self.record.plan is not None:
            album.prepare_for(self.record.plan)
        sources = {}
        for step in self.record.steps:
            if not step.attempts:
                continue
            try:
                images = album.sources_of(step.plan)
            except KeyError as missing:
                raise RunError(
                    f"{self.folder} is damaged: step {step.plan.number} starts from step {missing}, which "
                    "has no picture"
                ) from None
            sources[step.plan.number] = tuple(image for image in images if isinstance(image, StoredPicture))
            if step.attempt is not None:
                album.add(step.plan.number, self.picture(step.attempt.image))
        return sources


def read_collection(folder: Path, *, skipped: Counter[str] | None = None) -> Iterator[Trajectory]:
    """Every trajectory of a collection, by name; why runs are left out is counted or logged."""
    reasons = Counter[str]() if skipped is None else skipped
    for name in run_names(folder):
        trajectory = read_trajectory(folder, name)
        if isinstance(trajectory, Trajectory):
            yield trajectory
        else:
            reasons[trajectory] += 1
    if skipped is None and reasons:
        summary = ", ".join(f"{number:,} {reason}" for reason, number in sorted(reasons.items()))
        log.warning("%s: %s left out (%s)", folder, count(reasons.total(), "run"), summary)


def digest_line(name: str, digest: str = "") -> bytes:
    """What a run adds to the digest of its collection; one that is no trajectory adds its name."""
    return f"{name}\0{digest}\0".encode("utf-8", "surrogateescape")


def run_names(folder: Path) -> list[str]:
    """The names of all runs below a folder, sorted; raises when there is none."""
    try:
        names = sorted(_find_runs(str(folder)))
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read ({error.strerror})") from None
    if not names:
        raise InputError(f"{folder} holds no runs: give a folder that 'interleave data collect' has filled")
    return names


def read_trajectory(folder: Path, name: str) -> Trajectory | str:
    """One run of a collection, or in a word why it is none: its status, unplanned, or damaged."""
    if storable(name) != name:
        return UNNAMABLE
    try:
        record, digest = _read_ended(folder / name)
    except InterleaveError as error:
        log.warning("%s", error)
        return DAMAGED
    if record.status not in ENDED:
        return record.status
    if record.plan is None:
        return UNPLANNED
    return Trajectory(name, folder / name, record, digest)


def _find_runs(folder: str) -> Iterator[str]:
    remaining = [""]
    while remaining:
        name = remaining.pop()
        folders = []
        with os.scandir(f"{folder}/{name}") as entries:
            for entry in entries:
                if entry.name in (JOURNAL_NAME, RECORD_NAME):
                    yield name or "."
                    break
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                    folders.append(entry.name)
            else:
                remaining += [f"{name}/{each}" if name else each for each in folders if each != IMAGES]


def _read_ended(run: Path) -> tuple[RunRecord, str]:
    """The record as `run.json` has it; the journal is asked where that is missing, tells of no end, or is of
    another length than the journal: a run that was continued and killed has gone further than it says."""
    stored = read_stored(run)
    if stored is not None and stored[0].status in ENDED and is_current(stored[0], run):
        return stored[0], hashlib.sha256(stored[1]).hexdigest()
    record = read_record(run)
    if (loss := lost_lines(record, run)) is not None:
        raise RunError(loss)
    return record, file_digest(run / JOURNAL_NAME)

"""Reads the trajectories of a collection: every ended run, in a fixed order, with its critic's inputs.

A collection is a folder with run folders at any depth. A run is named by its path relative to the
collection, so that the name does not change when the collection moves. Links are not followed.

Images stay in their files until their pixels are needed: the functions that build a model's input take
images, and the same functions build the rows of a million attempts without decoding one.
"""

from __future__ import annotations

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

from interleave import (
    CriticInput,
    GeneratorCapabilities,
    GivenAsset,
    ImagePart,
    InputError,
    InterleaveError,
    Request,
    RunError,
    RunRecord,
    Slot,
    Text,
)
from interleave.plugin import ImageStore, count, critic_input, errors, runs, text

_HEADER = struct.Struct(">8s4x4sII")
log = logging.getLogger(__name__)
ENDED = ("done", "short")
UNPLANNED = "unplanned"
DAMAGED = "damaged"
UNNAMABLE = "in a folder whose name is not valid Unicode"
"""Reason to skip such a run: score and selection files are UTF-8, so no line could name it."""
_ANY_NUMBER_OF_SOURCES = GeneratorCapabilities(max_sources=sys.maxsize)


class StoredImage(Image.Image):
    """An image of a run folder, read when its size or pixels are first needed.

    It is an `Image`, because messages and critic inputs hold images. Like an image plugin of Pillow it sets
    `_mode` and `_size` and overrides `load`.
    """

    def __init__(self, store: ImageStore, name: str) -> None:
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
        """Decode the file; raises `MissingImage` if it is missing or altered."""
        if self._im is None:
            image = self.store.get(self.name)
            self._im, self._size = image.im, image.size
        return super().load()


def _size_in_header(path: Path) -> tuple[int, int]:
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)  # half the time of open(), a million times
        try:
            _, chunk, width, height = _HEADER.unpack(os.read(file, _HEADER.size))
        finally:
            os.close(file)
    except OSError:
        raise errors.MissingImage(path, "is missing") from None
    except struct.error:
        raise errors.MissingImage(path, "has been altered") from None
    if chunk != b"IHDR" or not width or not height:
        raise errors.MissingImage(path, "has been altered")
    return width, height


@dataclass(frozen=True)
class Trajectory:
    """One ended run with a plan."""

    name: str
    """Path relative to the collection, with forward slashes."""
    folder: Path
    record: RunRecord
    digest: str = ""
    """SHA-256 of the file that the record was read from."""

    @cached_property
    def store(self) -> ImageStore:
        return ImageStore(self.folder)

    def image(self, name: str) -> StoredImage:
        """Return an image of the record, not read yet; all current users of one image share one object."""
        image = self._images.get(name)
        if image is None:
            image = self._images[name] = StoredImage(self.store, name)
        return image

    @cached_property
    def _images(self) -> WeakValueDictionary[str, StoredImage]:
        return WeakValueDictionary()

    @cached_property
    def request(self) -> Request:
        """The user's request; its images are not read yet."""
        return Request(
            tuple(
                ImagePart(self.image(part.image)) if part.image else Text(part.text or "")
                for part in self.record.request
            ),
            tuple(
                GivenAsset(
                    each.name, self.image(each.image) if each.image else None, each.kind, each.description
                )
                for each in self.record.assets
            ),
        )

    def sources_of(
        self, step: runs.StepRecord, attempt: runs.AttemptRecord | None = None
    ) -> tuple[StoredImage, ...]:
        """Return the source images of a step, or of one of its attempts, oldest first; none: text-to-image.

        With the rule `history` these are all previous images. The generator used the latest of them, up to
        its own limit, and so does a redraw.
        """
        if (
            attempt is not None and attempt.sources is not None
        ):  # a person has since decided about an earlier step
            return tuple(map(self.image, attempt.sources))
        return self._starts[step.plan.number].sources

    def critic_input(self, step: runs.StepRecord, attempt: runs.AttemptRecord) -> CriticInput:
        """Build the critic's input for an attempt with the same function as in the run."""
        start = self._starts.get(step.plan.number)
        superseded = attempt.aim is not None or attempt.sources is not None or start is None
        aim = attempt.aim or step.plan.prompt or ""
        return critic_input(
            aim if superseded or start is None else start.prompt,
            attempt.prompt,
            self.sources_of(step, attempt) if superseded or start is None else start.before,
            self.image(attempt.image),
            Slot(step.plan.number, attempt.number),
        )

    def attempts(self) -> Iterator[tuple[runs.StepRecord, runs.AttemptRecord]]:
        """Yield all attempts in the order of drawing, each with its step.

        Attempts superseded by a decision are included. Attempts of the run that this one branched off from
        are not.
        """
        for step in self.record.steps:
            yield from ((step, attempt) for attempt in step.attempts if not attempt.inherited)

    @cached_property
    def _starts(self) -> dict[int, runs.Start[StoredImage]]:
        """Return the sources of each step, by replaying the run's source rule on unread images."""
        given = tuple(self.image(part.image) for part in self.record.request if part.image)
        images = runs.SourceImages(
            given,
            self.record.config.sources,
            _ANY_NUMBER_OF_SOURCES,
            assets={each.name: self.image(each.image) for each in self.record.assets if each.image},
            anchor_every=self.record.config.remedies.anchor_every,
        )
        if self.record.plan is not None:
            images.check_plan(self.record.plan)
        starts = {}
        for step in self.record.steps:
            if not step.attempts:
                continue
            try:
                starts[step.plan.number] = images.start_of(step.plan, from_scene=step.anew)
            except KeyError as missing:
                if all(attempt.sources is not None for attempt in step.attempts):
                    continue  # the run ended before its sources were redrawn
                raise RunError(
                    f"{self.folder} is damaged: step {step.plan.number} starts from step {missing}, which "
                    "has no image"
                ) from None
            if step.attempt is not None:
                images.add(step.plan.number, self.image(step.attempt.image))
        return starts


def read_collection(folder: Path, *, skipped: Counter[str] | None = None) -> Iterator[Trajectory]:
    """Yield the trajectories of a collection, sorted by name; count or log skipped runs by reason."""
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
    """Return a run's part of the digest of its collection; a skipped run adds only its name."""
    return f"{name}\0{digest}\0".encode("utf-8", "surrogateescape")


def run_names(folder: Path) -> list[str]:
    """Return the sorted names of all runs below a folder; raises `InputError` if there are none."""
    try:
        names = sorted(_find_runs(str(folder)))
    except OSError as error:
        raise InputError(f"{error.filename} cannot be read ({error.strerror})") from None
    if not names:
        raise InputError(f"{folder} contains no runs: give a folder written by 'interleave data collect'")
    return names


def read_trajectory(folder: Path, name: str) -> Trajectory | str:
    """Read one run of a collection, or return the reason to skip it: its status, unplanned, or damaged."""
    if text.storable(name) != name:
        return UNNAMABLE
    try:
        record, digest = runs.read_ended(folder / name)
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
                if runs.is_run_file(entry.name):
                    yield name or "."
                    break
                if entry.is_dir(follow_symlinks=False) and not entry.name.startswith("."):
                    folders.append(entry.name)
            else:
                remaining += [
                    f"{name}/{each}" if name else each for each in folders if each != runs.IMAGES_FOLDER
                ]

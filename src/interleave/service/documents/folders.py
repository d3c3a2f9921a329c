"""Where the jobs of a service are on disk. Names are made from ids that the service chose itself.

ROOT/service.lock     held by the service that works here
ROOT/jobs.sqlite      the job table
ROOT/keys.json        the API keys, hashed
ROOT/pictures.secret  what addresses of images are signed with
ROOT/guests.secret    what the cookies of guests are signed with
ROOT/queue.json       whether the queue is paused, and its order
ROOT/studio.sqlite    the index of the gallery, which can be made again
ROOT/labels.sqlite    what raters said of documents and images
ROOT/thumbnails/ab/…  small copies of images, which can be made again
ROOT/inputs/ID/       the images of a request, until its job has ended
ROOT/files/           images that clients have uploaded
ROOT/runs/ab/…        the run folders
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from interleave import (
    ConfigurationError,
    GivenAsset,
    ImagePart,
    Request,
    RunError,
    RunRecord,
    Text,
    read_record,
)
from interleave.plugin import ImageStore, batches, journal, locks, make_folder, runs
from interleave.service.documents.jobs import Job

LOCK_NAME = "service.lock"
THUMBNAILS = "thumbnails"


@dataclass(frozen=True)
class Folders:
    """The folders of a service."""

    root: Path

    def run(self, id_: str) -> Path:
        """The run folder of a job, which may not exist yet."""
        return self.root / batches.run_folder(id_)

    def inputs(self, id_: str) -> ImageStore:
        return ImageStore(self.root / "inputs" / id_)

    @property
    def files(self) -> ImageStore:
        return ImageStore(self.root / "files")

    def thumbnails(self, id_: str) -> Path:
        """The folder of the small copies of a job's images, which may not exist."""
        return self.root / THUMBNAILS / id_.removeprefix("resp_")[:2] / id_

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the folder alone: another service would remove what it does not know."""
        make_folder(self.root)
        file = locks.open_lock_file(self.root / LOCK_NAME)
        try:
            locks.lock(file)
        except BlockingIOError:
            os.close(file)
            raise ConfigurationError(
                f"another document service works in {self.root}: choose another folder with --runs"
            ) from None
        try:
            yield
        finally:
            os.close(file)

    def make(self) -> None:
        """Make the folders of a new service."""
        for name in ("inputs", "files", "runs"):
            make_folder(self.root / name)

    def record(self, id_: str) -> RunRecord | None:
        """The record of a job's run; None where it has not started: its journal has no line yet."""
        folder = self.run(id_)
        try:
            return read_record(folder)
        except RunError:
            if not _has_a_line(runs.journal_path(folder)):
                return None
        return read_record(folder)  # its first line may have come between the two looks

    def store_inputs(
        self, id_: str, request: Request
    ) -> tuple[tuple[journal.RequestPart, ...], tuple[journal.StoredAsset, ...]]:
        """Put the images of a request on disk; returns its parts and assets as the job table holds them."""
        if request.all_images:
            make_folder(self.root / "inputs" / id_)
            store = self.inputs(id_)
            for image in request.all_images:
                store.put(image)
        return runs.request_parts(request), runs.stored_assets(request)

    def request_of(self, job: Job) -> Request:
        """The request of a job, with its images: of one that ended before, as its run has it."""
        if (job.ends or job.parent) and (record := self.record(job.id)) is not None:
            return runs.stored_request(self.run(job.id), record)
        store = self.inputs(job.id)
        return Request(
            tuple(
                ImagePart(store.get(part.image)) if part.image else Text(part.text or "")
                for part in job.parts
            ),
            runs.given_assets(job.assets, store),
        )

    def carry_out(self, job: Job, lease: runs.Lease | None = None) -> None:
        """Put what was decided about a job into its journal, unless it is there already."""
        if job.decision is not None:
            runs.carry_over(self.run(job.id), job.decision, after=job.ends[-1].lines, lease=lease)

    def document_of(self, id_: str) -> list[Text | ImagePart]:
        """A request and its answer as one sequence, for a continuation."""
        record, store = self.record(id_), ImageStore(self.run(id_))
        if record is None:
            return []
        parts: list[Text | ImagePart] = [
            ImagePart(store.get(part.image)) if part.image else Text(part.text or "")
            for part in record.request
        ]
        for step in record.steps:
            if step.finished and step.plan.text.strip():
                parts.append(Text(step.plan.text))
            if step.attempt is not None:
                parts.append(ImagePart(store.get(step.attempt.image)))
        return parts

    def assets_of(self, id_: str) -> tuple[GivenAsset, ...]:
        """The assets that were given with a job, for a continuation."""
        record = self.record(id_)
        return runs.given_assets(record.assets, ImageStore(self.run(id_))) if record else ()

    def remove_inputs(self, id_: str) -> None:
        shutil.rmtree(self.root / "inputs" / id_, ignore_errors=True)

    def remove(self, id_: str) -> None:
        """Remove everything a job has on disk."""
        self.remove_inputs(id_)
        shutil.rmtree(self.thumbnails(id_), ignore_errors=True)
        shutil.rmtree(self.run(id_), ignore_errors=True)

    def remove_unknown_inputs(self, known: set[str]) -> None:
        """Remove what a process left that died while it stored a job."""
        for folder in (self.root / "inputs").iterdir():
            if folder.name not in known:
                shutil.rmtree(folder, ignore_errors=True)


def _has_a_line(journal: Path) -> bool:
    try:
        with journal.open("rb") as file:
            return file.readline().endswith(b"\n")
    except OSError:
        return False

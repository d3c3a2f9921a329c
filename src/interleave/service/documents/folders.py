"""Layout of a service folder. All names derive from ids that the service generated.

ROOT/service.lock     held by the running service
ROOT/jobs.sqlite      the job table
ROOT/keys.json        the API keys, hashed
ROOT/pictures.secret  signing key of image addresses
ROOT/guests.secret    signing key of guest cookies
ROOT/sessions.secret  signing key of sessions of browsers
ROOT/studio.sqlite    the index of the gallery, which can be rebuilt
ROOT/labels.sqlite    labels by raters of documents and images
ROOT/thumbnails/ab/…  thumbnails of images, which can be rebuilt
ROOT/inputs/ID/       the images of a request, until its job has ended
ROOT/files/           uploaded images
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
from interleave.plugin import ImageStore, batches, files, journal, locks, make_folder, runs
from interleave.service.documents.jobs import Job

LOCK_NAME = "service.lock"
THUMBNAILS = "thumbnails"


@dataclass(frozen=True)
class Folders:
    """Folders of a service."""

    root: Path

    def run(self, id_: str) -> Path:
        """Return the run folder of a job, which may not exist yet."""
        return self.root / batches.run_folder(id_)

    def own_run(self, id_: str) -> Path:
        """Return the run folder of a job; raise if it is a link to another place."""
        folder = self.run(id_)
        if files.has_link_below(self.root, folder):
            raise RunError("the run folder is a symbolic link, which is not followed")
        return folder

    def images(self, id_: str) -> ImageStore:
        """Return the images of a job's run, for which no link below the service folder is followed."""
        return ImageStore(self.run(id_), self.root)

    def inputs(self, id_: str) -> ImageStore:
        return ImageStore(self.root / "inputs" / id_, self.root)

    @property
    def files(self) -> ImageStore:
        return ImageStore(self.root / "files", self.root)

    def thumbnails(self, id_: str) -> Path:
        """Return the thumbnail folder of a job, which may not exist."""
        return self.root / THUMBNAILS / id_.removeprefix("resp_")[:2] / id_

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Lock the folder: a second service would remove files it does not know."""
        make_folder(self.root)
        file = locks.open_lock_file(self.root / LOCK_NAME)
        try:
            locks.lock(file)
        except BlockingIOError:
            os.close(file)
            raise ConfigurationError(
                f"another document service uses {self.root}: choose another folder with --runs"
            ) from None
        try:
            yield
        finally:
            os.close(file)

    def make(self) -> None:
        """Create the folders of a new service."""
        for name in ("inputs", "files", "runs"):
            make_folder(self.root / name)

    def record(self, id_: str) -> RunRecord | None:
        """Return the record of a job's run; `None` if it has not started and its journal is empty."""
        folder = self.own_run(id_)
        try:
            return read_record(folder)
        except RunError:
            if not _has_a_line(runs.journal_path(folder)):
                return None
        return read_record(folder)  # its first line may have been written between the two reads

    def store_inputs(
        self, id_: str, request: Request
    ) -> tuple[tuple[journal.RequestPart, ...], tuple[journal.StoredAsset, ...]]:
        """Store the images of a request; return its parts and assets in the form of the job table."""
        if request.all_images:
            make_folder(self.root / "inputs" / id_)
            store = self.inputs(id_)
            for image in request.all_images:
                store.put(image)
        return runs.request_parts(request), runs.stored_assets(request)

    def request_of(self, job: Job) -> Request:
        """Return the request of a job with its images, from its run if it ended before.

        A restored job table may be older than the folder: the run has ended, and its inputs are gone.
        """
        gone = job.has_inputs and not (self.root / "inputs" / job.id).exists()
        if (job.ends or job.parent or gone) and (record := self.record(job.id)) is not None:
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
        """Write a job's decision to its journal, unless it is already there."""
        if job.decision is not None:
            runs.carry_over(self.run(job.id), job.decision, after=job.ends[-1].lines, lease=lease)

    def document_of(self, id_: str) -> list[Text | ImagePart]:
        """Return a request and its answer as one sequence, for a continuation."""
        record, store = self.record(id_), self.images(id_)
        if record is None:
            return []
        parts: list[Text | ImagePart] = [
            ImagePart(store.get(part.image)) if part.image else Text(part.text or "")
            for part in record.request
        ]
        for step in runs.as_shown(record).steps:
            if step.record.finished and step.text.strip():
                parts.append(Text(step.text))
            if step.record.attempt is not None:
                parts.append(ImagePart(store.get(step.record.attempt.image)))
        return parts

    def assets_of(self, id_: str) -> tuple[GivenAsset, ...]:
        """Return the assets of a job's request, for a continuation."""
        record = self.record(id_)
        return runs.given_assets(record.assets, self.images(id_)) if record else ()

    def remove_inputs(self, id_: str) -> None:
        shutil.rmtree(self.root / "inputs" / id_, ignore_errors=True)

    def remove(self, id_: str) -> None:
        """Remove all files of a job."""
        self.remove_inputs(id_)
        shutil.rmtree(self.thumbnails(id_), ignore_errors=True)
        shutil.rmtree(self.run(id_), ignore_errors=True)

    def remove_unknown_inputs(self, known: set[str]) -> None:
        """Remove inputs left by a process that died while storing a job."""
        for folder in (self.root / "inputs").iterdir():
            if folder.name not in known:
                shutil.rmtree(folder, ignore_errors=True)


def _has_a_line(journal: Path) -> bool:
    try:
        with journal.open("rb") as file:
            return file.readline().endswith(b"\n")
    except OSError:
        return False

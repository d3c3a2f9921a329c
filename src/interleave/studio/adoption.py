"""Documents that were not submitted to this service: runs of the command line, and its stories.

A copy of the run becomes an ended job: it can be read, changed and exported like the others, and the
original stays as it is. A run is adopted once, so a deleted copy does not come back.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from fastapi import Depends

from interleave import InterleaveError, RunRecord, read_record
from interleave.plugin import ImageStore, files, make_folder, runs, write_atomic
from interleave.service.documents.jobs import Job, JobStatus, new_job_id
from interleave.service.documents.routes import per_service
from interleave.service.documents.service import Documents

log = logging.getLogger(__name__)
FILE_NAME = "adopted.txt"
"""The runs that were adopted, one name a line."""
STATUS: dict[str, JobStatus] = {"done": "completed", "short": "incomplete", "held": "held", "asked": "asked"}
"""Runs that wait for nobody but a person. The others may still be written."""
MOST_AT_ONCE = 200


class Adoption:
    """Adopts the runs in the folder that the settings of a service name."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self.beside = documents.settings.runs_beside
        self._known: set[str] = set()
        self._was_read = False
        self._left: dict[str, int] = {}
        """Runs that cannot be adopted yet, with the time of their last change."""

    async def look(self) -> None:
        """Adopt the runs of the command line that have ended since the last look."""
        if self.beside is None:
            return
        found = await self.documents.in_thread(self._found, self.beside)
        for name, record in sorted(found, key=lambda each: each[1].started):
            id_ = f"resp_{hashlib.sha256(f'{name}/{record.started}'.encode()).hexdigest()[:48]}"
            try:
                await self.adopt(self.beside / name, record, key="", id_=id_)
            except (InterleaveError, OSError) as error:
                log.warning("the run %s cannot be shown: %s", name, error)
            await self.documents.in_thread(self._remember, name)

    async def adopt(self, folder: Path, record: RunRecord, *, key: str, id_: str | None = None) -> Job:
        """Copy a run into the service as an ended job of this key."""
        documents = self.documents
        job = Job(
            id=id_ or new_job_id(),
            key=key,
            created=record.started,
            parts=record.request,
            assets=record.assets,
            config=record.config,
            model=documents.own_profile,
            background=True,
            status=STATUS.get(record.status, "completed"),
            finished=record.started + record.seconds,
        )
        await documents.jobs.begin_removal(job.id)  # of the folder, in case this process dies
        try:
            await documents.in_thread(_copy, folder, record, documents.folders.run(job.id))
            return await documents.jobs.insert(job)
        finally:
            if await documents.jobs.get(job.id) is None:
                await documents.worker.remove(job.id)

    def _found(self, beside: Path) -> list[tuple[str, RunRecord]]:
        """Return ended runs that are not adopted yet."""
        if not self._was_read:
            self._known.update(_lines(self.documents.folders.root / FILE_NAME))
            self._was_read = True
        found: list[tuple[str, RunRecord]] = []
        for folder, changed in _runs_in(beside):
            if folder.name in self._known or self._left.get(folder.name) == changed:
                continue
            record = _ended(folder)
            if record is None:
                self._left[folder.name] = changed
            else:
                found.append((folder.name, record))
            if len(found) == MOST_AT_ONCE:
                break
        return found

    def _remember(self, name: str) -> None:
        self._known.add(name)
        lines = "".join(f"{each}\n" for each in sorted(self._known))
        write_atomic(self.documents.folders.root / FILE_NAME, lines.encode("utf-8", "surrogateescape"))


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text("utf-8", "surrogateescape").splitlines()
    except FileNotFoundError:
        return []


def _runs_in(folder: Path) -> Iterator[tuple[Path, int]]:
    """Yield the run folders in a folder, with the time of their last change."""
    try:
        names = sorted(os.listdir(folder))
    except OSError:
        return
    for name in names:
        path = folder / name
        if "\n" in name or files.has_link_below(folder, path):
            continue
        try:
            yield path, runs.journal_path(path).stat().st_mtime_ns
        except OSError:  # not a run
            continue


def _ended(folder: Path) -> RunRecord | None:
    try:
        record = read_record(folder)
    except (InterleaveError, OSError) as error:
        log.info("%s is not shown: %s", folder, error)
        return None
    return record if record.status in STATUS else None


def _copy(folder: Path, record: RunRecord, target: Path) -> None:
    """Copy a run; its images are linked where the file system allows it, as they never change."""
    source, images = ImageStore(folder), ImageStore(target)
    make_folder(images.folder)
    for name in runs.image_names(record):
        images.copy_original(name, source)
        try:
            os.link(source.path(name), images.path(name))
        except FileExistsError:
            continue
        except OSError:
            shutil.copyfile(source.path(name), images.path(name))
    files.sync_folder(images.folder)
    write_atomic(target / runs.JOURNAL_NAME, runs.journal_path(folder).read_bytes())


OwnAdoption = Annotated[Adoption, Depends(per_service(Adoption))]

"""Keeps the catalogue in step with a service's jobs, from its first use on."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Coroutine
from typing import Annotated, Any

from fastapi import Depends

from interleave import InterleaveError, RunRecord, StorageError
from interleave.service.documents.jobs import Job
from interleave.service.documents.routes import per_service
from interleave.service.documents.service import Documents
from interleave.studio.catalogue import (
    Catalogue,
    Entry,
    entry_of,
    outcome_of,
    state_of,
    words_of,
)
from interleave.studio.trash import Trash

log = logging.getLogger(__name__)
BATCH = 50
"""Documents read and stored together."""


class Indexing:
    """Opens the catalogue on first use, brings it up to date, and then follows the jobs."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self.trash = Trash(documents.folders.root)
        self._catalogue: Catalogue | None = None
        self._updating: asyncio.Task[None] | None = None
        self._opening, self._putting = asyncio.Lock(), asyncio.Lock()
        documents.worker.listeners.append(self._changed)
        documents.queued.append(self._changed)
        documents.edited.append(self._changed)
        documents.removed.append(self._changed_id)
        documents.closing.append(self.close)

    @property
    def is_complete(self) -> bool:
        """Whether the catalogue has every document that existed when it was opened."""
        return self._updating is not None and self._updating.done()

    async def catalogue(self) -> Catalogue:
        """Return the catalogue, with changes of the newest documents."""
        self.documents.refuse_when_draining()  # the catalogue is then closed
        async with self._opening:
            if self._catalogue is None:
                self._catalogue = await asyncio.to_thread(Catalogue.opened, self.documents.folders.root)
                self._updating = asyncio.create_task(self._update(self._catalogue))
        return self._catalogue

    async def refresh_newest(self) -> None:
        """Reread the newest documents whose state has changed: no event reports that a job began."""
        catalogue = await self.catalogue()
        jobs = await self.documents.jobs.newest(None, limit=BATCH)
        try:
            await self._put_changed(catalogue, jobs, await catalogue.states_of([job.id for job in jobs]))
        except StorageError as error:  # a full disk: the catalogue can still be read
            log.error("the catalogue is out of date: %s", error)

    def close(self) -> None:
        if self._updating is not None:
            self._updating.cancel()
        if self._catalogue is not None:
            self._catalogue.close()

    async def _update(self, catalogue: Catalogue) -> None:
        """Index every job whose entry is missing or outdated, newest first."""
        try:
            known, before = await catalogue.states(), None
            while jobs := await self.documents.jobs.newest(None, limit=BATCH, before=before):
                await self._put_changed(catalogue, jobs, known)
                for job in jobs:
                    known.pop(job.id, None)
                before = jobs[-1].number
            for id_ in known:  # deleted since the last pass
                await catalogue.remove(id_)
        except StorageError as error:
            log.error("the catalogue is out of date: %s", error)

    async def _put_changed(self, catalogue: Catalogue, jobs: list[Job], known: dict[str, str]) -> None:
        await self._put(catalogue, [job.id for job in jobs if known.get(job.id) != state_of(job)])

    async def _put(self, catalogue: Catalogue, ids: list[str]) -> None:
        """Index the current state of jobs, one batch at a time, so that no old state replaces a new one."""
        async with self._putting:
            found = {id_: await self.documents.jobs.get(id_) for id_ in ids}
            jobs = [job for job in found.values() if job is not None]
            read = await self.documents.in_thread(lambda: [(job, self._record(job)) for job in jobs])
            await catalogue.subjects.put(read)
            await catalogue.put([self._entry(job, record) for job, record in read])
            for id_, job in found.items():
                if job is None:
                    await catalogue.remove(id_)

    def _record(self, job: Job) -> RunRecord | None:
        try:
            return self.documents.record(job)
        except InterleaveError as error:  # a damaged journal: list the document anyway
            log.warning("job %s: %s", job.id, error)
            return None

    def _entry(self, job: Job, record: RunRecord | None) -> tuple[Job, Entry, str, str]:
        entry = entry_of(job, record, self.documents.profile_of(job))
        outcome = outcome_of(job, record, deleted=self.trash.has(job.id))
        return job, entry, outcome, words_of(job, record)

    async def put_again(self, ids: list[str]) -> None:
        """Index documents that were deleted or restored."""
        await self._put(await self.catalogue(), ids)

    def _changed(self, job: Job) -> None:
        self._changed_id(job.id)

    def _changed_id(self, id_: str) -> None:
        if self._catalogue is not None:
            self._follow(self._put(self._catalogue, [id_]))

    def _follow(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self.documents.background.add(task)
        task.add_done_callback(self._followed)

    def _followed(self, task: asyncio.Future[None]) -> None:
        self.documents.background.discard(task)
        if self.documents.draining or task.cancelled():  # the next start indexes what is missing
            return
        if (error := task.exception()) is not None:
            log.error("the catalogue is out of date: %s", error)


OwnIndexing = Annotated[Indexing, Depends(per_service(Indexing))]

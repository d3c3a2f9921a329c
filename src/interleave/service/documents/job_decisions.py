"""Decisions about jobs: release a plan, redraw a step, choose an attempt, change words, undo, branch, resume.

A decision is checked against the run, stored in the job table, and written to the journal when its job runs
again. So it is acknowledged only once no crash can lose it, and it is carried out once. An edit of words, and
its undo, calls no model: it is written to the journal immediately, and the job stays ended.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from interleave import (
    ConfigurationError,
    FolderInUse,
    InputError,
    InterleaveError,
    RunError,
    RunRecord,
    StorageError,
)
from interleave.plugin import journal, render, runs
from interleave.service.documents.job_table import IdempotencyConflict
from interleave.service.documents.jobs import Decision, Job, JobEnd, end_of, new_job_id
from interleave.service.documents.keys import Caller
from interleave.service.documents.refusals import ApiRefusal, for_clients
from interleave.service.documents.service import Documents, idempotency_pair, key_conflict, storage_failed
from interleave.service.documents.tracing import traceparent

log = logging.getLogger(__name__)
Idempotency = tuple[str, str] | None
WORDS_TRIES = 5
"""Edits of words by several people at the same time follow one another."""


@dataclass(frozen=True)
class DecisionRequest:
    """A request to decide about a job, with its caller and idempotency key."""

    caller: Caller
    job: str
    digest: str
    idempotency_key: str | None = None
    request_id: str = ""


Branch = Callable[[Path, Path], runs.CheckedBranch]
"""Function that checks a branch of the run in one folder into another one."""


class Decisions:
    """Decisions about the jobs of a service."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents

    async def decide(self, asked: DecisionRequest, line: Callable[[runs.DecidedRun], Decision]) -> Job:
        """Put an ended job back into the queue with a decision; `line` checks it against the run."""
        for _ in range(WORDS_TRIES):
            job, once, earlier = await self._found(asked)
            if earlier is not None:
                return earlier
            checked = await self.documents.in_thread(self._checked, job, line)
            if not checked.is_about_words:
                break
            if (edited := await self._edited(job, checked)) is not None:
                return edited
            if isinstance(checked.line, journal.Undone):  # it would undo the other edit
                raise _changed_meanwhile()
        else:
            raise _changed_meanwhile()
        documents = self.documents
        await documents.jobs.check(documents.admission(asked.caller))
        await documents.in_thread(self._refuse_without_models, job)
        return await self._reopened(asked, job, end_of(job, checked.after), checked.line, once)

    async def _edited(self, job: Job, checked: runs.CheckedDecision) -> Job | None:
        """Write an edit of words; the job stays ended. Return `None` if another edit came first."""
        if checked.line is None:
            return job
        documents = self.documents
        edited = await documents.jobs.note_edit(job, checked.after)
        if edited is None:
            return None
        try:
            await documents.in_thread(partial(runs.write_decision, checked, _write_pages))
        except StorageError as error:
            raise storage_failed() from error
        except FolderInUse:
            return None
        documents.broadcaster.job_reopened(job.id)
        documents.was_edited(edited)
        return edited

    async def resume(self, asked: DecisionRequest) -> Job:
        """Put a failed, cancelled or incomplete job back into the queue, to resume where it stopped."""
        job, once, earlier = await self._found(asked)
        if earlier is not None:
            return earlier
        if job.status not in ("failed", "cancelled", "incomplete"):
            raise _not_now("only a failed, cancelled or incomplete job can be resumed")
        await self.documents.jobs.check(self.documents.admission(asked.caller))
        end = await self.documents.in_thread(self._end_of, job)
        return await self._reopened(asked, job, end, None, once)

    async def _reopened(
        self, asked: DecisionRequest, job: Job, end: JobEnd, decision: Decision | None, once: Idempotency
    ) -> Job:
        documents = self.documents
        try:
            reopened = await documents.jobs.reopen(
                job,
                end,
                decision,
                admission=documents.admission(asked.caller),
                idempotency=(asked.caller.key, *once) if once else None,
            )
        except StorageError as error:
            raise storage_failed() from error
        except IdempotencyConflict:
            raise key_conflict() from None
        if reopened is None:
            raise _changed_meanwhile()
        opened, is_new = reopened
        if is_new:
            documents.broadcaster.job_reopened(job.id)
            documents.has_queued(opened)
        return opened

    def _end_of(self, job: Job) -> JobEnd:
        folder = self.documents.folders.run(job.id)
        lines = len(journal.read_journal(folder)) if self.documents.record(job) is not None else 0
        if not lines and job.has_inputs:
            raise _not_now("the job ended before it started, and its images are gone: submit it again")
        return end_of(job, lines)

    async def branch(self, asked: DecisionRequest, branch: Branch) -> Job:
        """Create a job as a copy of another one that differs as `branch` says."""
        job, once, earlier = await self._found(asked)
        if earlier is not None:
            return earlier
        documents = self.documents
        admission = documents.admission(asked.caller)
        await documents.jobs.check(admission)
        new = _branched(job, asked, round(documents.clock(), 3))
        try:
            await documents.jobs.begin_removal(new.id)  # of the folder, in case this process dies
            await documents.in_thread(self._copied, job, new, branch)
            stored = await documents.jobs.insert(new, admission=admission, idempotency=once)
        except StorageError as error:
            raise storage_failed() from error
        except IdempotencyConflict:
            raise key_conflict() from None
        finally:
            if await documents.jobs.get(new.id) is None:
                await documents.worker.remove(new.id)
        if stored.id == new.id:
            documents.has_queued(stored)
        return stored

    async def _found(self, asked: DecisionRequest) -> tuple[Job, Idempotency, Job | None]:
        """Return the job, its idempotency pair, and the job of an earlier identical request."""
        asked.caller.require("submit")
        once = idempotency_pair(asked.idempotency_key, asked.digest)
        job = await self.documents.find(asked.caller, asked.job)
        earlier = await self.documents.earlier(asked.caller, once)
        if earlier is None:
            self.documents.refuse_when_draining()
            if not job.is_final:
                raise _not_now("the job is still open: wait for it, or cancel it first")
        return job, once, earlier

    def _checked(self, job: Job, line: Callable[[runs.DecidedRun], Decision]) -> runs.CheckedDecision:
        try:
            return runs.check_decision(self.documents.folders.own_run(job.id), line)
        except (RunError, InputError, ConfigurationError) as error:
            raise self._refusal(job, error) from None

    def _copied(self, job: Job, new: Job, branch: Branch) -> None:
        folders = self.documents.folders
        self._refuse_without_models(job)
        try:
            branch(folders.own_run(job.id), folders.run(new.id)).write()
        except StorageError:
            raise
        except (RunError, InputError, ConfigurationError) as error:
            raise self._refusal(job, error) from None

    def _refuse_without_models(self, job: Job) -> None:
        try:
            self.documents.model_cache.refuse_unavailable(job.config)
        except InterleaveError as error:
            log.warning("job %s cannot be resumed: %s", job.id, error)
            raise _not_now("the models of this job can no longer be loaded") from None

    def _refusal(self, job: Job, error: Exception) -> ApiRefusal:
        """Return the refusal of a decision: 400 for an invalid request, 409 for the state of the job."""
        if isinstance(error, InputError | ConfigurationError):
            return ApiRefusal(self._for_clients(job, str(error)), code="invalid_decision")
        if job.waits_for_person:
            return _not_now("the plan of this job waits for a person: release it first")
        if not self.documents.folders.run(job.id).exists():
            return _not_now("the job ended before it started: there is nothing to decide")
        return _not_now(self._for_clients(job, str(error)))

    def _for_clients(self, job: Job, message: str) -> str:
        """Return the message without advice about the command line and without the path of the folder."""
        return for_clients(message.replace(str(self.documents.folders.run(job.id)), "the job"))


def _branched(job: Job, asked: DecisionRequest, created: float) -> Job:
    return Job(
        id=new_job_id(),
        key=asked.caller.key,
        created=created,
        request_id=asked.request_id,
        parts=job.parts,
        assets=job.assets,
        config=job.config,
        model=job.model,
        background=True,
        previous=job.previous,
        metadata=job.metadata,
        settings=job.settings,
        partial_images=job.partial_images,
        webhook=job.webhook,
        traceparent=traceparent(),
        parent=job.id,
    )


def _write_pages(folder: Path, record: RunRecord) -> None:
    """Write the files of a run that follow from its journal."""
    runs.write_stored(folder, record)
    if (folder / runs.DOCUMENT_NAME).exists():  # services write none
        render.write_document(folder, record)


def _changed_meanwhile() -> ApiRefusal:
    return _not_now("another decision about this job was made concurrently: read the job again")


def _not_now(message: str) -> ApiRefusal:
    return ApiRefusal(message, status=409, code="not_possible_now")

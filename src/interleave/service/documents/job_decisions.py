"""What people decide about jobs: release a plan, redraw a step, choose an attempt, undo, branch.

A decision is checked against the run at once, stored in the job table, and put into the journal when its job
is worked on again. So it is acknowledged only when no crash can lose it, and it is carried out once.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from interleave import ConfigurationError, InputError, InterleaveError, RunError, StorageError, branch_run
from interleave.plugin import journal, runs
from interleave.service.documents.jobs import (
    Decision,
    IdempotencyConflict,
    Job,
    JobEnd,
    end_of,
    new_job_id,
)
from interleave.service.documents.keys import Caller
from interleave.service.documents.refusals import ApiRefusal, for_clients
from interleave.service.documents.service import Documents, key_conflict, once_only, storage_failed
from interleave.service.documents.tracing import traceparent

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Ask:
    """Who decides about which job, and how to know the same request again."""

    caller: Caller
    job: str
    digest: str
    idempotency_key: str | None = None
    request_id: str = ""


@dataclass(frozen=True)
class Branch:
    """Where a new job goes its own way."""

    step: int
    prompt: str | None = None
    seed: int | None = None


class Decisions:
    """The decisions about the jobs of a service."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents

    async def decide(self, ask: Ask, line: Callable[[runs.DecidedRun], Decision]) -> Job:
        """Put a job that has ended back into the queue with a decision; `line` checks it against the run."""
        job, once, earlier = await self._found(ask)
        if earlier is not None:
            return earlier
        documents = self.documents
        with documents.turns.admitted(ask.caller):
            end, decision = await documents.in_thread(self._checked, job, line)
            return await self._reopened(ask, job, end, decision, once)

    async def go_on(self, ask: Ask) -> Job:
        """Put a job back into the queue that failed, was cancelled or ended early, to go on where it was."""
        job, once, earlier = await self._found(ask)
        if earlier is not None:
            return earlier
        if job.status not in ("failed", "cancelled", "incomplete"):
            raise _not_now("there is nothing to go on with: the job did not fail, and was not stopped")
        with self.documents.turns.admitted(ask.caller):
            end = await self.documents.in_thread(self._end_of, job)
            return await self._reopened(ask, job, end, None, once)

    async def _reopened(
        self, ask: Ask, job: Job, end: JobEnd, decision: Decision | None, once: tuple[str, str] | None
    ) -> Job:
        documents = self.documents
        try:
            reopened = await documents.jobs.reopen(
                job, end, decision, idempotency=(ask.caller.key, *once) if once else None
            )
        except StorageError as error:
            raise storage_failed() from error
        except IdempotencyConflict:
            raise key_conflict() from None
        if reopened is None:
            raise _not_now("something else was decided about this job at the same time: look at it again")
        opened, is_new = reopened
        if is_new:
            documents.feeds.job_reopened(job.id)
            documents.worker.add(opened)
        return opened

    def _end_of(self, job: Job) -> JobEnd:
        folder = self.documents.folders.run(job.id)
        lines = len(journal.read_journal(folder)) if self.documents.record(job) is not None else 0
        if not lines and job.has_inputs:
            raise _not_now("the job ended before it was started, and its images are gone: submit it again")
        return end_of(job, lines)

    async def branch(self, ask: Ask, branch: Branch) -> Job:
        """A new job that begins as a copy of another one, and draws a step and what follows from it again."""
        job, once, earlier = await self._found(ask)
        if earlier is not None:
            return earlier
        documents = self.documents
        with documents.turns.admitted(ask.caller):
            new = _branched(job, ask, round(documents.clock(), 3))
            try:
                await documents.jobs.begin_removal(new.id)  # of the folder, should this process die meanwhile
                await documents.in_thread(self._copied, job, new, branch)
                stored = await documents.jobs.insert(new, idempotency=once)
            except StorageError as error:
                raise storage_failed() from error
            except IdempotencyConflict:
                raise key_conflict() from None
            finally:
                if await documents.jobs.get(new.id) is None:
                    await documents.worker.remove(new.id)
            if stored.id == new.id:
                documents.worker.add(stored)
        return stored

    async def _found(self, ask: Ask) -> tuple[Job, tuple[str, str] | None, Job | None]:
        """The job to decide about, and the job of the same request where it came before."""
        ask.caller.require("submit")
        once = once_only(ask.idempotency_key, ask.digest)
        job = await self.documents.find(ask.caller, ask.job)
        earlier = await self.documents.earlier(ask.caller, once)
        if earlier is None:
            self.documents.refuse_when_draining()
            if not job.is_final:
                raise _not_now("the job has not ended yet: wait for it, or cancel it first")
        return job, once, earlier

    def _checked(
        self, job: Job, line: Callable[[runs.DecidedRun], Decision]
    ) -> tuple[JobEnd, Decision | None]:
        folder = self.documents.folders.run(job.id)
        try:
            entries = journal.read_journal(folder)
            run = runs.DecidedRun.of(folder, entries)
            decision = line(run)
        except (RunError, InputError, ConfigurationError) as error:
            raise self._refusal(job, error) from None
        self._refuse_without_models(job)
        return end_of(job, len(entries)), None if runs.is_under_way(run, decision) else decision

    def _copied(self, job: Job, new: Job, branch: Branch) -> None:
        folders = self.documents.folders
        self._refuse_without_models(job)
        try:
            branch_run(
                folders.run(job.id),
                folders.run(new.id),
                branch.step,
                prompt=branch.prompt,
                seed=branch.seed,
                by=new.key,
            )
        except StorageError:
            raise
        except (RunError, InputError, ConfigurationError) as error:
            raise self._refusal(job, error) from None

    def _refuse_without_models(self, job: Job) -> None:
        try:
            self.documents.shelf.refuse_unavailable(job.config)
        except InterleaveError as error:
            log.warning("job %s cannot go on: %s", job.id, error)
            raise _not_now("the models of this job can no longer be loaded") from None

    def _refusal(self, job: Job, error: Exception) -> ApiRefusal:
        """Why it cannot be decided: for what is wrong with the request 400, with the state of the job 409."""
        if isinstance(error, InputError | ConfigurationError):
            return ApiRefusal(self._for_clients(job, str(error)), code="invalid_decision")
        if job.status == "held":
            return _not_now("the plan of this job is held: release it first")
        if not self.documents.folders.run(job.id).exists():
            return _not_now("the job ended before it was started: there is nothing to decide about")
        return _not_now(self._for_clients(job, str(error)))

    def _for_clients(self, job: Job, message: str) -> str:
        """The message without advice for the command line, and without the path of the folder."""
        return for_clients(message.replace(str(self.documents.folders.run(job.id)), "the job"))


def _branched(job: Job, ask: Ask, created: float) -> Job:
    return Job(
        id=new_job_id(),
        key=ask.caller.key,
        created=created,
        request_id=ask.request_id,
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


def _not_now(message: str) -> ApiRefusal:
    return ApiRefusal(message, status=409, code="not_possible_now")

"""`data score`: scores every attempt of a collection once, many concurrently.

A line counts only when it is on disk. After a crash, the same command continues with the attempts without
a line.
A scorer is a vision-language model, called with limits and retries, or an agent that computes its scores.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field, replace
from pathlib import Path

from interleave import (
    BackendError,
    CriticInput,
    Failure,
    InterleaveError,
    LimitReached,
    Message,
    Reply,
    Sampling,
    Scorer,
    Scores,
    StorageError,
    VisionLanguageModel,
    VlmCapabilities,
)
from interleave.plugin import Limits, LoadedAgent, RetriedVlm, agents, backends, batches, load_pack, runs
from interleave.train.data.score_file import AttemptKey, Failed, Scored, ScoreFile, scorer_config
from interleave.train.data.trajectories import Trajectory, read_trajectory, run_names

log = logging.getLogger(__name__)
NO_LIMITS = Limits()
FAILURES_IN_A_ROW = 50
DIGITS = 4
"""Decimals of a stored score."""


@dataclass
class Usage:
    """Calls and cost of scoring one attempt."""

    calls: int | None = None
    """None if no model is called."""
    cost: float | None = None

    def add(self, reply: Reply) -> None:
        self.calls = (self.calls or 0) + 1
        if reply.cost is not None:
            self.cost = (self.cost or 0.0) + reply.cost


class ScorerClient:
    """A scorer for many concurrent attempts: an agent that computes, or a model with a limit on its calls.

    The meter holds the limits and the usage of earlier sessions.
    """

    def __init__(self, scorer: LoadedAgent[Scorer], meter: runs.Meter) -> None:
        self.scorer = scorer
        self.vlm = RetriedVlm("the scorer", _LimitedVlm(scorer.vlm, meter)) if scorer.vlm else None

    async def score(self, seen: CriticInput, usage: Usage) -> Scores:
        """Score an attempt; fills in `usage` even if a reply cannot be parsed."""
        if self.vlm is None:
            return await self.scorer.agent.score(seen)
        counted = _CountedVlm(self.vlm, usage)
        return await self.scorer.with_calls_through(lambda _: counted).score(seen)


@dataclass
class _LimitedVlm:
    """The model within the limits shared by all attempts."""

    vlm: VisionLanguageModel
    meter: runs.Meter

    @property
    def capabilities(self) -> VlmCapabilities:
        return self.vlm.capabilities

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        reply = await self.meter.call(
            lambda: self.vlm.complete(messages, sampling), price=self.capabilities.typical_price
        )
        self.meter.spend(reply.cost)
        return reply


@dataclass
class _CountedVlm:
    """The model for one attempt: numbers its calls from 1 and adds up their usage."""

    vlm: VisionLanguageModel
    usage: Usage
    asked: int = 0

    @property
    def capabilities(self) -> VlmCapabilities:
        return self.vlm.capabilities

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        self.asked += 1
        numbered = replace(sampling, slot=replace(sampling.slot, call=self.asked))
        reply = await self.vlm.complete(messages, numbered)
        self.usage.add(reply)
        return reply


@dataclass(frozen=True)
class ScoringJob:
    """One attempt to score."""

    trajectory: Trajectory
    step: runs.StepRecord
    attempt: runs.AttemptRecord

    @property
    def key(self) -> AttemptKey:
        return self.trajectory.name, self.step.plan.number, self.attempt.number

    def load_images(self) -> CriticInput:
        """Return the scorer's input with its images loaded; raises `MissingImage` if one is missing."""
        seen = self.trajectory.critic_input(self.step, self.attempt)
        seen.before.load()
        seen.after.load()
        return seen


@dataclass
class ScoringStats:
    """Progress and counts of one session."""

    runs: int = 0
    """Runs in total."""
    runs_done: int = 0
    skipped: int = 0
    """Attempts that already had a line."""
    scored: int = 0
    failed: int = 0
    calls: int = 0
    cost: float | None = None
    left_out: Counter[str] = field(default_factory=Counter)
    """Runs without a usable trajectory, by reason."""
    failures: list[Failed] = field(default_factory=list)
    """The first few."""

    def count(self, line: Scored | Failed) -> None:
        self.calls += line.calls or 0
        if line.cost is not None:
            self.cost = (self.cost or 0.0) + line.cost
        if isinstance(line, Scored):
            self.scored += 1
            return
        self.failed += 1
        if len(self.failures) < FAILURES_IN_A_ROW:
            self.failures.append(line)


class Scoring:
    """One session that scores a collection."""

    def __init__(
        self,
        names: list[str],
        score_file: ScoreFile,
        client: ScorerClient,
        *,
        retry_failed: bool = False,
        outage_retry: runs.OutageRetry | None = None,
    ) -> None:
        self.names = names
        self.score_file = score_file
        self.client = client
        self.retry_failed = retry_failed
        self.outage_retry = outage_retry or runs.OutageRetry()
        self.stats = ScoringStats(runs=len(names))
        self.disk = runs.Disk()

    async def run(self, *, concurrency: int) -> AsyncGenerator[Scored | Failed]:
        """Score the attempts without a score; yields each line when it is on disk."""
        try:
            async with aclosing(self._work(self._jobs(), concurrency)) as lines:
                async for line in lines:
                    yield line
        finally:
            self.score_file.journal.close()

    def _jobs(self) -> Iterator[ScoringJob]:
        for name in self.names:
            trajectory = read_trajectory(self.score_file.collection, name)
            if isinstance(trajectory, Trajectory):
                yield from self._unscored_jobs(trajectory)
            else:
                self.stats.left_out[trajectory] += 1
            self.stats.runs_done += 1

    def _unscored_jobs(self, trajectory: Trajectory) -> Iterator[ScoringJob]:
        for step, attempt in trajectory.attempts():
            job = ScoringJob(trajectory, step, attempt)
            if self.score_file.has(job.key, retry_failed=self.retry_failed):
                self.stats.skipped += 1
            else:
                yield job

    async def _work(self, jobs: Iterator[ScoringJob], concurrency: int) -> AsyncGenerator[Scored | Failed]:
        running: set[asyncio.Task[Scored | Failed]] = set()
        failures_in_a_row = 0
        limit: LimitReached | None = None
        try:
            while True:
                while len(running) < concurrency and (job := next(jobs, None)) is not None:
                    running.add(asyncio.create_task(self._score_with_retries(job)))
                if not running and limit is not None:
                    raise limit
                if not running:
                    return
                finished, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for line in await self._store(finished):
                    failures_in_a_row = failures_in_a_row + 1 if isinstance(line, Failed) else 0
                    self.stats.count(line)
                    yield line
                for task in finished:
                    try:
                        task.result()
                    except LimitReached as reached:  # calls in flight may finish; no new ones start
                        limit, jobs = reached, iter(())
                if failures_in_a_row >= FAILURES_IN_A_ROW:
                    raise BackendError(
                        f"{failures_in_a_row} attempts in a row could not be scored, the last with: "
                        f"{self.stats.failures[-1].failure} (fix it, then run the same command with "
                        "--retry-failed)"
                    )
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _store(self, finished: set[asyncio.Task[Scored | Failed]]) -> list[Scored | Failed]:
        """Write the lines of all tasks that succeeded, even if another task of the same batch failed."""
        lines = [task.result() for task in finished if not task.exception()]
        for line in lines:
            self.score_file.journal.append(line)
        await self.disk.sync(self.score_file.journal)
        return lines

    async def _score_with_retries(self, job: ScoringJob) -> Scored | Failed:
        """Return the line of an attempt; a transient failure is retried after a pause."""
        usage = Usage()

        async def take() -> runs.TryResult[Scored | Failed]:
            try:
                line = await self._score(job, usage)
            except BackendError as error:
                if error.kind is Failure.DENIED:
                    raise  # a rejected API key is rejected for every attempt
                line, reason = _failed(job, usage, str(error)), str(error)
                return runs.TryResult(
                    line, transient=error.transient, reason=reason, progress=usage.calls or 0
                )
            return runs.TryResult(line, progress=usage.calls or 0, succeeded=isinstance(line, Scored))

        return await self.outage_retry.run(take)

    async def _score(self, job: ScoringJob, usage: Usage) -> Scored | Failed:
        try:
            seen = await self.disk.run(job.load_images)
            scores = await self.client.score(seen, usage)
        except (StorageError, LimitReached, BackendError):
            raise
        except InterleaveError as error:  # a failure never counts as a number
            return _failed(job, usage, str(error))
        except Exception as error:  # a bug in one attempt must not end the others
            log.exception("scoring %s failed in an unexpected way", job.key)
            return _failed(job, usage, f"{type(error).__name__}: {error}")
        run, step, attempt = job.key
        return Scored(
            run=run,
            step=step,
            attempt=attempt,
            semantics=round(scores.semantics, DIGITS),
            quality=round(scores.quality, DIGITS),
            calls=usage.calls,
            cost=usage.cost,
        )


def open_scoring(
    collection: Path,
    spec: str,
    *,
    name: str | None = None,
    prompts: str = agents.DEFAULT_PACK,
    limits: Limits = NO_LIMITS,
    shard: batches.Shard = batches.WHOLE,
    retry_failed: bool = False,
) -> Scoring:
    """Check all options and load the scorer before anything is written."""
    names = [run for run in run_names(collection) if shard.has(run)]
    pack = load_pack(prompts)
    scorer = agents.scorer_from(backends.load_agent(spec, "scorer"), pack)
    runs.refuse_unpriced(limits, {"scorer": scorer.knows_its_price})
    config = scorer_config(spec, pack if scorer.vlm else None)
    score_file = ScoreFile(collection, name or config.default_name, config, shard=shard)
    client = ScorerClient(scorer, runs.Meter(limits, calls=score_file.calls, cost=score_file.cost))
    return Scoring(names, score_file, client, retry_failed=retry_failed)


def _failed(job: ScoringJob, usage: Usage, why: str) -> Failed:
    run, step, attempt = job.key
    return Failed(run=run, step=step, attempt=attempt, failure=why, calls=usage.calls, cost=usage.cost)

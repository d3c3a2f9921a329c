"""Asking the judge: one record per question, on disk before it counts, and none paid for twice.

A killed session resumes with the questions that have no record. Transient failures are waited out and
retried. Unreadable replies are asked for again a few times and then stored as `unparsed`, refusals as
`refused`.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Iterator, Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

from interleave import (
    BackendError,
    Failure,
    InterleaveError,
    LimitReached,
    Message,
    Reply,
    Sampling,
    VisionLanguageModel,
    VlmCapabilities,
)
from interleave.bench.base import (
    Benchmark,
    Context,
    Dataset,
    Item,
    JudgeRecord,
    MissingOutput,
    Question,
    Status,
    Unparsed,
)
from interleave.bench.outputs import Output
from interleave.bench.prompts import IMPORTED, JudgePrompts
from interleave.bench.records import FOLDER, read_records, record_file, spent
from interleave.plugin import Limits, RetriedVlm, runs

REASKS = 2
"""Maximum repetitions of a question whose reply cannot be read."""
MAX_CONSECUTIVE_FAILURES = 50
NO_OUTPUT = "0" * 16
"""The digest of a missing output."""


@dataclass
class Progress:
    """The progress of a session."""

    total: int
    already: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    cost: float = 0.0

    @property
    def asked(self) -> int:
        return sum(self.statuses.values())

    def count(self, record: JudgeRecord) -> None:
        self.statuses[record.status] += 1
        self.cost += record.cost or 0.0


@dataclass(frozen=True)
class Estimate:
    """The estimated work of judging."""

    questions: int
    already: int
    cost: float | None
    """US dollars; `None` if the judge has no known price."""


@dataclass(frozen=True)
class Judged:
    """The subject of judging: outputs, judge, prompts, and the folder of the records."""

    benchmark: Benchmark
    dataset: Dataset
    outputs: Mapping[str, Output]
    """Outputs by item; empty for a benchmark of critics."""
    folder: Path
    judge: str
    prompts: JudgePrompts

    @property
    def path(self) -> Path:
        return self.folder / FOLDER / record_file(self.judge, self.prompts.identity)

    def output(self, item: Item) -> Output | None:
        return self.outputs.get(item.id)

    def digest(self, item: Item) -> str:
        output = self.output(item)
        return output.digest if output is not None and output.parts else NO_OUTPUT

    def keys(self, item: Item) -> tuple[str, ...]:
        if self.prompts.label == IMPORTED:
            return tuple(self.benchmark.imported_keys(item))
        return tuple(self.benchmark.keys(item, self.output(item)))

    def records(self) -> dict[str, dict[str, JudgeRecord]]:
        """Return the records of the current outputs, by item and key."""
        known = read_records(self.path)
        found: dict[str, dict[str, JudgeRecord]] = {}
        for item in self.dataset.items:
            digest = self.digest(item)
            found[item.id] = {
                key: record
                for key in self.keys(item)
                if (record := known.get((item.id, digest, key))) is not None
            }
        return found

    def open_questions(
        self, records: Mapping[str, Mapping[str, JudgeRecord]], *, retry_failed: bool
    ) -> tuple[list[Item], int, int]:
        """Return the items with open questions, the number of these, and the number of settled ones."""
        waiting, questions, already = [], 0, 0
        for item in self.dataset.items:
            settled = sum(
                is_settled(records[item.id].get(key), retry_failed=retry_failed) for key in self.keys(item)
            )
            left = len(self.keys(item)) - settled
            already += settled
            questions += left
            if left:
                waiting.append(item)
        return waiting, questions, already


def is_settled(record: JudgeRecord | None, *, retry_failed: bool) -> bool:
    """Return whether a question is settled. An error is never an answer."""
    if record is None or record.status in ("api_error", "missing_output"):
        return False
    return record.status == "ok" or not retry_failed


def estimate(judged: Judged, vlm: VisionLanguageModel, *, retry_failed: bool = False) -> Estimate:
    """Estimate the number of open questions and their cost."""
    waiting, questions, already = judged.open_questions(judged.records(), retry_failed=retry_failed)
    if judged.benchmark.tests == "systems":
        without = [item for item in waiting if judged.digest(item) == NO_OUTPUT]
        questions -= sum(len(judged.keys(item)) for item in without)  # no output, no question
    price = vlm.capabilities.typical_price
    return Estimate(questions, already, None if price is None else round(price * questions, 2))


@dataclass(frozen=True)
class MeteredVlm:
    """A judge whose every call counts against the limits."""

    vlm: VisionLanguageModel
    meter: runs.Meter

    @property
    def capabilities(self) -> VlmCapabilities:
        return self.vlm.capabilities

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        price = self.capabilities.typical_price
        reply = await self.meter.call(lambda: self.vlm.complete(messages, sampling), price=price)
        self.meter.spend(reply.cost)
        return reply


class JudgeSession:
    """One session of judging."""

    def __init__(
        self,
        judged: Judged,
        vlm: VisionLanguageModel,
        *,
        limits: Limits | None = None,
        retry_failed: bool = False,
        reasks: int = REASKS,
        outage_retry: runs.OutageRetry | None = None,
    ) -> None:
        limits = limits or Limits()
        runs.refuse_unpriced(limits, {"judge": vlm.capabilities.knows_its_price})
        self.judged = judged
        self.retry_failed, self.reasks = retry_failed, reasks
        self.outage_retry = outage_retry or runs.OutageRetry(limits.max_seconds)
        self.disk = runs.Disk()
        self.known = judged.records()
        self.waiting, questions, already = judged.open_questions(self.known, retry_failed=retry_failed)
        self.progress = Progress(questions, already)
        calls, cost = spent(judged.path)
        meter = runs.Meter(limits, calls=calls, cost=cost)
        self.asked = RetriedVlm("the judge", MeteredVlm(vlm, meter))
        self.journal = runs.open_journal(judged.path.parent, judged.path.name)

    async def run(self, *, concurrency: int) -> AsyncGenerator[JudgeRecord]:
        """Ask the open questions; yield every record once it is on disk."""
        try:
            async with aclosing(self._work(iter(self.waiting), concurrency)) as records:
                async for record in records:
                    self.progress.count(record)
                    yield record
        finally:
            self.journal.close()

    async def _work(self, ahead: Iterator[Item], concurrency: int) -> AsyncGenerator[JudgeRecord]:
        """Judge items concurrently. Questions about one item run in order: some need earlier answers."""
        written: asyncio.Queue[JudgeRecord] = asyncio.Queue()
        running: set[asyncio.Task[None]] = set()
        failures, limit = 0, None
        try:
            while True:
                while len(running) < concurrency and (item := next(ahead, None)) is not None:
                    running.add(asyncio.create_task(self._item(item, written)))
                if not running:
                    break
                finished, running = await asyncio.wait(
                    running, timeout=0.2, return_when=asyncio.FIRST_COMPLETED
                )
                while not written.empty():
                    record = written.get_nowait()
                    failures = failures + 1 if record.status == "api_error" else 0
                    yield record
                for task in finished:
                    try:
                        task.result()
                    except LimitReached as reached:  # finish running items, start no new ones
                        limit, ahead = reached, iter(())
                if failures >= MAX_CONSECUTIVE_FAILURES:
                    raise BackendError(
                        f"{failures} questions in a row failed, the last with: {record.reason} "
                        "(repeat the command to ask them again)"
                    )
            if limit is not None:
                raise limit
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _item(self, item: Item, written: asyncio.Queue[JudgeRecord]) -> None:
        known = self.known[item.id]
        for key in self.judged.keys(item):
            if is_settled(known.get(key), retry_failed=self.retry_failed):
                continue
            record = await self._record(item, key, known)
            known[key] = record
            self.journal.append(record)
            await self.disk.sync(self.journal)
            written.put_nowait(record)

    async def _record(self, item: Item, key: str, known: Mapping[str, JudgeRecord]) -> JudgeRecord:
        judged = self.judged
        base = JudgeRecord(
            item=item.id,
            key=key,
            output=judged.digest(item),
            status="missing_output",
            judge=judged.judge,
            prompts=judged.prompts.identity,
        )
        if judged.benchmark.tests == "systems" and base.output == NO_OUTPUT:
            output = judged.output(item)
            return base.model_copy(update={"reason": output.reason if output else "no output"})
        context = Context(judged.prompts, judged.folder, known)
        try:
            question = await self.disk.run(
                lambda: judged.benchmark.question(key, item, judged.output(item), context)
            )
        except MissingOutput as error:
            return base.model_copy(update={"reason": str(error)})
        except Unparsed as error:  # it depends on an earlier answer without a value
            return base.model_copy(update={"status": "unparsed", "reason": str(error)})
        return await self._answered(question, base)

    async def _answered(self, question: Question, base: JudgeRecord) -> JudgeRecord:
        """Ask; ask again if the reply is unreadable, and wait if the judge is unavailable."""
        tries, costs = 0, list[float]()

        async def take() -> runs.TryResult[JudgeRecord]:
            nonlocal tries
            record = base
            for _ in range(1 + self.reasks):
                try:
                    reply = await self.asked.complete(question.messages, question.sampling)
                except BackendError as error:
                    if error.kind is Failure.DENIED:
                        raise  # an invalid API key fails for every other question too
                    status: Status = "refused" if error.kind is Failure.REFUSED else "api_error"
                    failed = _filled(base, status, tries, costs, reason=str(error))
                    return runs.TryResult(
                        failed, transient=error.transient, reason=str(error), progress=tries
                    )
                tries += 1
                if reply.cost is not None:
                    costs.append(reply.cost)
                record = read_reply(reply, question, _filled(base, "ok", tries, costs))
                if record.status != "unparsed":
                    break
            return runs.TryResult(record, progress=tries, succeeded=True)

        return await self.outage_retry.run(take)


def _filled(
    base: JudgeRecord, status: Status, tries: int, costs: list[float], *, reason: str = ""
) -> JudgeRecord:
    cost = sum(costs) if costs else None
    return base.model_copy(update={"status": status, "tries": tries, "cost": cost, "reason": reason})


def read_reply(reply: Reply, question: Question, record: JudgeRecord) -> JudgeRecord:
    """Return the record of a reply: its value, or why it has none. Truncated replies are not parsed."""
    update: dict[str, object] = {"reply": reply.text}
    if reply.finish_reason == "content_filter":
        update |= {"status": "refused", "reason": "the judge refused to answer"}
    elif reply.finish_reason == "length":
        update |= {"status": "unparsed", "reason": "the reply was cut off"}
    else:
        try:
            update["value"] = question.parse(reply.text) if question.read is None else question.read(reply)
        except InterleaveError as error:
            update |= {"status": "unparsed", "reason": str(error)}
    return record.model_copy(update=update)

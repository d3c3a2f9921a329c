"""Asking the judge: one record a question, on disk before it counts, none paid for twice, nothing invented.

A session that was killed goes on with the questions that have no record. Calls that failed for a reason that
may pass are waited out and asked again; replies that cannot be read are asked again a few times and then kept
as `unparsed`, refusals as `refused`.
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
from interleave.bench.prompts import JudgePrompts
from interleave.bench.records import FOLDER, read_records, record_file, spent
from interleave.plugin import Limits, RetriedVlm, runs

REASKS = 2
"""How often a reply that cannot be read is asked for again."""
FAILURES_IN_A_ROW = 50
NO_OUTPUT = "0" * 16
"""The digest of an output that is not there."""


@dataclass
class Progress:
    """How far a session is."""

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
    """What judging would take."""

    questions: int
    already: int
    cost: float | None
    """US dollars; None where the judge does not know its price."""


@dataclass(frozen=True)
class Judged:
    """What is judged, by whom, with which words, and where the records are kept."""

    benchmark: Benchmark
    dataset: Dataset
    outputs: Mapping[str, Output]
    """By item; a benchmark of critics has none."""
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
        return tuple(self.benchmark.keys(item, self.output(item)))

    def records(self) -> dict[str, dict[str, JudgeRecord]]:
        """What is known of the outputs as they are now, by item and key."""
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
        """The items that have some, how many there are, and how many have their record already."""
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
    """Whether a question need not be asked: errors are never kept as answers."""
    if record is None or record.status in ("api_error", "missing_output"):
        return False
    return record.status == "ok" or not retry_failed


def estimate(judged: Judged, vlm: VisionLanguageModel, *, retry_failed: bool = False) -> Estimate:
    """How many questions are open, and about what they cost."""
    waiting, questions, already = judged.open_questions(judged.records(), retry_failed=retry_failed)
    if judged.benchmark.tests == "systems":
        without = [item for item in waiting if judged.digest(item) == NO_OUTPUT]
        questions -= sum(len(judged.keys(item)) for item in without)  # without an output there is no question
    price = vlm.capabilities.typical_price
    return Estimate(questions, already, None if price is None else round(price * questions, 2))


@dataclass(frozen=True)
class MeteredVlm:
    """A judge of which every try counts against the limits."""

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
        """Ask what is open; yields every record when it is on disk."""
        try:
            async with aclosing(self._work(iter(self.waiting), concurrency)) as records:
                async for record in records:
                    self.progress.count(record)
                    yield record
        finally:
            self.journal.close()

    async def _work(self, ahead: Iterator[Item], concurrency: int) -> AsyncGenerator[JudgeRecord]:
        """Several items at a time; the questions about one in their order, as some need earlier answers."""
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
                    except LimitReached as reached:  # what is under way may end; nothing new is begun
                        limit, ahead = reached, iter(())
                if failures >= FAILURES_IN_A_ROW:
                    raise BackendError(
                        f"{failures} questions in a row got no answer, the last with: {record.reason} "
                        "(the same command asks them again)"
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
            return base.model_copy(update={"reason": output.reason if output else "there is no output"})
        context = Context(judged.prompts, judged.folder, known)
        try:
            question = await self.disk.run(
                lambda: judged.benchmark.question(key, item, judged.output(item), context)
            )
        except MissingOutput as error:
            return base.model_copy(update={"reason": str(error)})
        except Unparsed as error:  # it needs an earlier answer that has no value
            return base.model_copy(update={"status": "unparsed", "reason": str(error)})
        return await self._answered(question, base)

    async def _answered(self, question: Question, base: JudgeRecord) -> JudgeRecord:
        """Ask, and again where the reply cannot be read; where the judge is away, wait."""
        tries, costs = 0, list[float]()

        async def take() -> runs.TryResult[JudgeRecord]:
            nonlocal tries
            record = base
            for _ in range(1 + self.reasks):
                try:
                    reply = await self.asked.complete(question.messages, question.sampling)
                except BackendError as error:
                    if error.kind is Failure.DENIED:
                        raise  # a key that opens nothing opens nothing for the next question either
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
    """The record of a reply: its value, or why there is none. A reply that was cut off is never read."""
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

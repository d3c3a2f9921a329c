"""A batch: many requests answered concurrently, each in its own run folder.

DIR/batch.json      the configuration that all runs share
DIR/index.jsonl     one line per ended run: a cache, so that 40,000 finished runs need not be opened to check
                    that they are finished; every shard has its own
DIR/runs/ab/…       the run folders, named by a hash: ids are never used as paths

An executor answers the requests, in this process or in others. The order of the work, the index and the
handling of failures are the same for all executors.

A bounded number of runs is open at a time, each with one call in flight. Calls to a model are made in the
order of their arrival. So a short run never waits for a long one, and memory does not grow with the number of
requests.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pydantic import SerializerFunctionWrapHandler, ValidationError, model_serializer

from interleave.batches.assignment import WHOLE, Assignment, Shard, assignment_differences
from interleave.batches.requests import Item
from interleave.config.run_config import DEFAULT_CONCURRENCY
from interleave.errors import BackendError, RunError, StorageError
from interleave.files import remove_temporaries_of, write_atomic
from interleave.runs.folder import folder_lock, open_journal, refuse_foreign_folder
from interleave.runs.journal import Line, folder_in_use, is_being_written
from interleave.runs.models import Disk
from interleave.runs.outage import OutageRetry, TryResult
from interleave.runs.record import RunRecord, read_record
from interleave.text import slug
from interleave.version import __version__

if TYPE_CHECKING:
    from interleave.runs.event_lines import EventLine

VERSION = 1
CONFIG_NAME = "batch.json"
LOCK_NAME = "batch.lock"
INDEX_STEM = "index"
FAILURES_IN_A_ROW = 50
"""Number of consecutive failures after which a common cause is assumed."""

ItemStatus = Literal["done", "short", "failed", "busy", "held", "asked"]
"""`busy`: another process holds the lock of the run folder and works on it. `held`: the plan waits for a
person. `asked`: it does not fit the request, and waits for a person."""


class BatchConfig(Assignment):
    """The `batch.json` of a batch."""

    version: int = VERSION
    software: str


class Ended(Line):
    """A line of the index: how one request ended."""

    id: str
    digest: str
    folder: str
    """Empty if the request was refused before a run could start."""
    status: ItemStatus
    reason: str = ""
    forced: int = 0
    calls: int = 0
    repeated: int = 0
    """Number of these calls that were retries."""
    seconds: float = 0.0
    cost: float | None = None
    """US dollars; `None` if no backend knows its price."""
    generator: str = ""
    """Its generator; empty if the request was refused before a run started."""
    passing: bool = False
    """Whether it failed for a transient reason, such as a server that is down."""
    bad_request: bool = False
    """Whether the request itself is the cause, so that retrying cannot help."""

    @classmethod
    def of(cls, record: RunRecord, status: ItemStatus, *, id: str, digest: str, folder: str) -> Ended:
        """Return how a request ended, from the record of its run."""
        return cls(
            id=id,
            digest=digest,
            folder=folder,
            status=status,
            reason=record.reason,
            forced=len(record.forced_steps),
            calls=record.calls.total,
            repeated=record.calls.repeated,
            seconds=record.seconds,
            cost=record.cost,
            generator=record.config.generator.identity,
        )

    @model_serializer(mode="wrap")
    def _leave_out_false(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """Leave out false failure flags, which would mislead on a line that is done."""
        written: dict[str, Any] = write(self)
        return {key: value for key, value in written.items() if value is not False}


class Executor(Protocol):
    """Answers requests concurrently."""

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for the user before the first call, such as the cost."""
        ...

    async def execute(self, item: Item) -> Ended:
        """Answer one request, and return how it ended."""
        ...


@dataclass
class BatchSummary:
    """The counts of a batch."""

    total: int = 0
    done: int = 0
    short: int = 0
    failed: int = 0
    busy: int = 0
    held: int = 0
    asked: int = 0
    forced: int = 0
    calls: int = 0
    repeated: int = 0
    cost: float | None = None
    """US dollars over the runs with a known cost; `None` if there are none."""
    already: int = 0
    """Runs that had ended before this session."""
    bad_requests: int = 0
    """Failed runs whose request itself is the cause."""
    generators: Counter[str] = field(default_factory=Counter)
    """Number of runs per generator."""
    failures: list[Ended] = field(default_factory=list)
    """The first failures, with their reasons."""

    def count(self, ended: Ended, *, already: bool = False) -> None:
        setattr(self, ended.status, getattr(self, ended.status) + 1)
        self.forced += bool(ended.forced)
        self.calls += ended.calls
        self.repeated += ended.repeated
        if ended.cost is not None:
            self.cost = round((self.cost or 0.0) + ended.cost, 6)
        self.already += already
        self.bad_requests += ended.bad_request
        if ended.generator:
            self.generators[ended.generator] += 1
        if ended.status == "failed" and len(self.failures) < FAILURES_IN_A_ROW:
            self.failures.append(ended)


class Watcher:
    """Receives the progress of a batch; this one ignores it. Lines may come from several threads."""

    def begin(self, total: int, what: str = "") -> None:
        """Receive the number of requests ahead; `what` names the pass if there are several."""

    def line(self, line: EventLine) -> None:
        """Receive an event of a run of this process; runs on other machines report only their end."""

    def ended(self, ended: Ended, *, already: bool) -> None:
        """Receive the end of a request, now or (`already`) in an earlier process."""


class Watchers(Watcher):
    """Several watchers of one batch."""

    def __init__(self, *each: Watcher) -> None:
        self.each = each

    def begin(self, total: int, what: str = "") -> None:
        for watcher in self.each:
            watcher.begin(total, what)

    def line(self, line: EventLine) -> None:
        for watcher in self.each:
            watcher.line(line)

    def ended(self, ended: Ended, *, already: bool) -> None:
        for watcher in self.each:
            watcher.ended(ended, already=already)


class Batch:
    """A folder of many runs, open for writing."""

    def __init__(
        self,
        folder: Path,
        assignment: Assignment,
        executor: Executor,
        *,
        shard: Shard = WHOLE,
        outage_retry: OutageRetry | None = None,
        watcher: Watcher | None = None,
    ) -> None:
        self.folder = folder
        self.assignment = assignment
        self.executor = executor
        self.watcher = watcher or Watcher()
        self.outage_retry = outage_retry or OutageRetry()
        self.disk = Disk()
        write_assignment(folder, assignment)
        self.index = open_journal(folder, _index_name(shard))
        self.ended = {ended.id: ended for ended in read_index(folder)}
        """Results by request id, of this session or an earlier one."""

    async def run(
        self, items: Iterable[Item], *, concurrency: int = DEFAULT_CONCURRENCY, retry_failed: bool = False
    ) -> AsyncGenerator[Ended]:
        """Answer the requests that have not ended yet; yield each as it ends, and earlier ones in order."""
        try:
            if isinstance(items, list):  # all ids are known: check for clashes before the first call
                for item in items:
                    self._before(item)
            async with aclosing(self._run_all(iter(items), concurrency, retry_failed)) as working:
                async for ended in working:
                    yield ended
        finally:
            self.close()

    def close(self) -> None:
        """Release the folder."""
        self.index.close()

    def _before(self, item: Item) -> Ended | None:
        before = self.ended.get(item.id)
        if before is not None and before.digest != item.digest:
            raise RunError(
                f"the id {item.id!r} belongs to another request in {self.folder}: give the new one a new id"
            )
        return before

    async def _run_all(
        self, ahead: Iterator[Item], concurrency: int, retry_failed: bool
    ) -> AsyncGenerator[Ended]:
        running: dict[asyncio.Task[Ended], Item] = {}
        failures_in_a_row = 0
        try:
            while True:
                while len(running) < concurrency and (item := next(ahead, None)) is not None:
                    before = self._before(item)
                    if item.problem:
                        yield self._settle(_refused(item), in_index=False)
                    elif before is not None and not (retry_failed and before.status != "done"):
                        self.watcher.ended(before, already=True)
                        yield before
                    else:
                        running[asyncio.create_task(self._execute(item))] = item
                if not running:
                    return
                finished, _ = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                errors = [error for task in finished if (error := task.exception())]
                for task in [task for task in finished if not task.exception()]:
                    ended = self._settle(task.result())
                    del running[task]  # the others are settled below if this stops at the `yield`
                    if not ended.bad_request:  # a bad request says nothing about the others
                        failures_in_a_row = failures_in_a_row + 1 if ended.status == "failed" else 0
                    yield ended
                await self.disk.sync(self.index)
                if errors:
                    raise errors[0]  # the disk failed: the other errors are the same
                if failures_in_a_row >= FAILURES_IN_A_ROW:
                    raise BackendError(
                        f"{failures_in_a_row} requests in a row have failed, the last with: {ended.reason} "
                        "(fix it, then run it again with retry_failed=True)"
                    )
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)
            self._settle_stopped(running)

    def _settle(self, ended: Ended, *, in_index: bool = True) -> Ended:
        """Record how a request ended, in the index and for the watcher."""
        if in_index and ended.status not in ("busy", "held"):
            self.index.append(ended)
        self.ended[ended.id] = ended
        self.watcher.ended(ended, already=False)
        return ended

    def _settle_stopped(self, stopped: Mapping[asyncio.Task[Ended], Item]) -> None:
        """Record the runs that ended before the batch was stopped, from their journals.

        A failed run may have been waiting out an outage: it is not indexed, so the next batch resumes it.
        """
        with suppress(StorageError):  # the run folders are the source of truth
            for task, item in stopped.items():
                if not task.cancelled() and task.exception() is None:
                    self._settle(task.result())
                elif (ended := self._ended_in_folder(item)) is not None:
                    self._settle(ended, in_index=ended.status != "failed")
            self.index.sync()

    def _ended_in_folder(self, item: Item) -> Ended | None:
        folder = run_folder(item.id)
        try:
            record = read_record(self.folder / folder)
        except RunError:
            return None
        match record.status:
            case "done" | "short" | "failed" | "asked" as status:
                return Ended.of(record, status, id=item.id, digest=item.digest, folder=folder)
        return None

    async def _execute(self, item: Item) -> Ended:
        """Answer one request, retried through outages."""

        async def attempt() -> TryResult[Ended]:
            ended = await self.executor.execute(item)
            return TryResult(
                ended,
                transient=ended.passing,
                reason=ended.reason,
                progress=ended.calls - ended.repeated,
                succeeded=ended.status == "done",
            )

        return await self.outage_retry.run(attempt, item.generator)


def _refused(item: Item) -> Ended:
    return Ended(
        id=item.id, digest=item.digest, folder="", status="failed", reason=item.problem, bad_request=True
    )


def refuse_unusable_folder(folder: Path, assignment: Assignment, shard: Shard = WHOLE) -> None:
    """Refuse a folder that is not ours, has another configuration or is in use; change nothing.

    Opening a batch makes the same checks. This function makes them before models are loaded.
    """
    _refuse_foreign(folder)
    if (folder / CONFIG_NAME).exists():
        _refuse_other_assignment(folder, assignment)
    if is_being_written(folder, _index_name(shard)):
        raise folder_in_use(folder)


def _index_name(shard: Shard) -> str:
    return f"{INDEX_STEM}{shard.label}.jsonl"


def _refuse_foreign(folder: Path) -> None:
    try:
        refuse_foreign_folder(folder, marker=CONFIG_NAME)
    except RunError:
        if not (folder / LOCK_NAME).exists():  # else another shard is starting in it
            raise


def _refuse_other_assignment(folder: Path, assignment: Assignment) -> None:
    if different := assignment_differences(assignment, read_assignment(folder)):
        raise RunError(
            f"{folder} holds runs with a different configuration ({'; '.join(different)}): "
            "choose another folder with out="
        )


def write_assignment(folder: Path, assignment: Assignment) -> None:
    """Write the `batch.json` of a folder; refuse a folder with another configuration."""
    _refuse_foreign(folder)
    with folder_lock(folder, LOCK_NAME):  # two shards may start at the same moment
        path = folder / CONFIG_NAME
        remove_temporaries_of(folder, CONFIG_NAME)
        if not path.exists():
            shared = BatchConfig(**dict(assignment), software=__version__)
            write_atomic(path, shared.model_dump_json(indent=1).encode())
        else:
            _refuse_other_assignment(folder, assignment)


def read_assignment(folder: Path) -> Assignment:
    """Read the configuration in the `batch.json` of a folder."""
    path = folder / CONFIG_NAME
    try:
        return BatchConfig.model_validate_json(path.read_bytes())
    except (ValidationError, OSError) as error:
        raise RunError(f"{path} cannot be read ({str(error).splitlines()[0]})") from None


def read_index(folder: Path) -> list[Ended]:
    """Return the last line of every ended request; unreadable lines are skipped."""
    last: dict[str, Ended] = {}
    for path in sorted(folder.glob(f"{INDEX_STEM}*.jsonl")):
        for line in path.read_bytes().split(b"\n"):
            with suppress(ValidationError):  # the run folders are the source of truth
                ended = Ended.model_validate_json(line)
                if ended.id not in last or last[ended.id].status != "done":  # done is final
                    last[ended.id] = ended
    return list(last.values())


def run_folder(id_: str) -> str:
    """Return the run folder of an id: a hash of the id and a readable slug."""
    name = hashlib.sha256(id_.encode("utf-8", "surrogatepass")).hexdigest()[:20]
    return "/".join(["runs", name[:2], "-".join(filter(None, [name, slug(id_, 24)]))])


def summarize_batch(summary: BatchSummary, folder: Path, seconds: float) -> dict[str, Any]:
    """Return the object that `--json` prints for a batch."""
    return {
        "out": str(folder),
        "status": _status(summary),
        "total": summary.total,
        "done": summary.done,
        "short": summary.short,
        "asked": summary.asked,
        "failed": summary.failed,
        "bad_requests": summary.bad_requests,
        "busy": summary.busy,
        "already": summary.already,
        "calls": summary.calls,
        "repeated": summary.repeated,
        "cost": summary.cost,
        "generators": dict(summary.generators),
        "seconds": round(seconds, 3),
        "failures": [{"id": f.id, "folder": f.folder, "reason": f.reason} for f in summary.failures],
    }


def _status(summary: BatchSummary) -> str:
    if summary.failed:
        return "failed"
    ended = summary.done + summary.short + summary.busy
    return "short" if summary.short or summary.busy or ended < summary.total else "done"

"""Many requests at once: any number of trajectories in flight, each in a run folder of its own.

DIR/batch.json      the configuration all of them share
DIR/index.jsonl     one line for each that has ended: a cache of what the run folders say, so that 40,000
                    finished runs are not opened to learn that they are finished
DIR/runs/ab/…       the run folders, named by a hash: ids never become paths

So many trajectories are open at a time and no more, and each has one call under way; calls to a model take
their turns in the order in which they come. A short trajectory therefore never waits for a long one, and
memory does not grow with the number of requests.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import resource
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from pydantic import ValidationError

from interleave.errors import BackendError, InterleaveError, RunError, StorageError
from interleave.runs.config import Limits, RunConfig, differences
from interleave.runs.folder import open_journal, refuse_foreign_folder
from interleave.runs.journal import Journal, Line
from interleave.runs.models import Models
from interleave.runs.record import RunRecord
from interleave.runs.requests import Item
from interleave.runs.store import write_whole
from interleave.runs.trajectory import Finished, Trajectory
from interleave.text import slug
from interleave.types import Value
from interleave.version import __version__

log = logging.getLogger(__name__)

VERSION = 1
CONFIG_NAME = "batch.json"
INDEX_NAME = "index.jsonl"
DEFAULT_CONCURRENCY = 64
FAILURES_IN_A_ROW = 50
"""After so many failures with not one success between them, something is wrong with all of them."""

ItemStatus = Literal["done", "short", "failed"]


class BatchConfig(Value):
    """The `batch.json` of a batch."""

    version: int = VERSION
    config: RunConfig
    software: str


class Ended(Line):
    """A line of the index: how one request ended."""

    id: str
    digest: str
    folder: str
    status: ItemStatus
    reason: str = ""
    forced: int = 0
    calls: int = 0
    seconds: float = 0.0


@dataclass
class BatchSummary:
    """How a batch stands."""

    total: int = 0
    done: int = 0
    short: int = 0
    failed: int = 0
    forced: int = 0
    calls: int = 0
    already: int = 0
    """Of those, how many had ended before this session."""
    failures: list[Ended] = field(default_factory=list)
    """The first few, with their causes."""

    def count(self, ended: Ended, *, already: bool = False) -> None:
        setattr(self, ended.status, getattr(self, ended.status) + 1)
        self.forced += bool(ended.forced)
        self.calls += ended.calls
        self.already += already
        if ended.status == "failed" and len(self.failures) < FAILURES_IN_A_ROW:
            self.failures.append(ended)


class Batch:
    """A folder of many runs, open for writing."""

    def __init__(self, folder: Path, config: RunConfig, limits: Limits, models: Models) -> None:
        refuse_foreign_folder(folder, marker=CONFIG_NAME)
        self.folder = folder
        self.config = config
        self.limits = limits
        self.models = models
        self.index = _open_index(folder, config)
        self.ended = {ended.id: ended for ended in read_index(folder)}
        _allow_many_files()

    async def run(
        self, items: Iterable[Item], *, concurrency: int = DEFAULT_CONCURRENCY, retry_failed: bool = False
    ) -> AsyncGenerator[Ended]:
        """Carry out what has not ended yet; yields each as it ends, and those from before as they come."""
        try:
            if isinstance(items, list):  # all are known already: refuse a clash before the first call
                for item in items:
                    self._before(item)
            async with aclosing(self._work(iter(items), concurrency, retry_failed)) as working:
                async for ended in working:
                    yield ended
        finally:
            self.index.close()

    def _before(self, item: Item) -> Ended | None:
        before = self.ended.get(item.id)
        if before is not None and before.digest != item.digest:
            raise RunError(
                f"the id {item.id!r} stands for another request in {self.folder}: give the new one a new id"
            )
        return before

    async def _work(
        self, ahead: Iterator[Item], concurrency: int, retry_failed: bool
    ) -> AsyncGenerator[Ended]:
        running: set[asyncio.Task[Ended]] = set()
        failures_in_a_row = 0
        try:
            while True:
                while len(running) < concurrency and (item := next(ahead, None)) is not None:
                    before = self._before(item)
                    if before is not None and not (retry_failed and before.status != "done"):
                        yield before
                    else:
                        running.add(asyncio.create_task(self._one(item)))
                if not running:
                    return
                finished, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                for ended in [task.result() for task in finished]:
                    self.index.append(ended)
                    failures_in_a_row = failures_in_a_row + 1 if ended.status == "failed" else 0
                    yield ended
                await self.models.disk.sync(self.index)
                if failures_in_a_row >= FAILURES_IN_A_ROW:
                    raise BackendError(
                        f"{failures_in_a_row} requests in a row have failed, the last with: {ended.reason} "
                        "(mend it, then run the same command with --retry-failed)"
                    )
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _one(self, item: Item) -> Ended:
        folder = run_folder(item.id)
        try:
            finished = await self._carry_out(item, self.folder / folder)
        except StorageError:
            raise  # a full disk is everybody's
        except InterleaveError as error:
            return Ended(id=item.id, digest=item.digest, folder=folder, status="failed", reason=str(error))
        except Exception as error:  # a bug in one trajectory must not end the other 39,999
            log.exception("the request %r failed in an unexpected way", item.id)
            reason = f"{type(error).__name__}: {error}"
            return Ended(id=item.id, digest=item.digest, folder=folder, status="failed", reason=reason)
        if isinstance(finished.error, StorageError):
            raise finished.error
        return _ended(item, folder, finished.record)

    async def _carry_out(self, item: Item, folder: Path) -> Finished:
        request = await asyncio.to_thread(item.load)
        trajectory = Trajectory(
            folder, request, self.config, self.limits, lambda: self.models, document=False
        )
        async with aclosing(trajectory.run()) as events:
            async for event in events:
                if isinstance(event, Finished):
                    return event
        raise AssertionError("a run always ends with Finished")


def read_index(folder: Path) -> list[Ended]:
    """The last word on every request that has ended; a line that cannot be read counts for nothing."""
    last: dict[str, Ended] = {}
    for line in (folder / INDEX_NAME).read_bytes().split(b"\n"):
        with suppress(ValidationError):  # the run folders know better: the index only saves opening them
            ended = Ended.model_validate_json(line)
            last[ended.id] = ended
    return list(last.values())


def run_folder(identity: str) -> str:
    """Where the run of an id lies; the id itself is only ever hashed, and shown as harmless letters."""
    name = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:20]
    return "/".join(["runs", name[:2], "-".join(filter(None, [name, slug(identity, 24)]))])


def _ended(item: Item, folder: str, record: RunRecord) -> Ended:
    calls = record.calls
    return Ended(
        id=item.id,
        digest=item.digest,
        folder=folder,
        status=record.status if record.status in ("done", "short") else "failed",
        reason=record.reason,
        forced=len(record.forced_steps),
        calls=calls.planner + calls.critic + calls.generator + calls.repeated,
        seconds=record.seconds,
    )


def _open_index(folder: Path, config: RunConfig) -> Journal:
    path = folder / CONFIG_NAME
    if path.exists():
        try:
            before = BatchConfig.model_validate_json(path.read_bytes())
        except (ValidationError, OSError) as error:
            raise RunError(f"{path} cannot be read ({str(error).splitlines()[0]})") from None
        if different := differences(config, before.config):
            raise RunError(
                f"{folder} holds runs with another configuration ({'; '.join(different)}): "
                "choose another folder with --out"
            )
    index = open_journal(folder, INDEX_NAME)
    if not path.exists():
        shared = BatchConfig(config=config, software=__version__)
        try:
            write_whole(path, shared.model_dump_json(indent=1).encode())
        except StorageError:
            index.close()
            raise
    return index


def _allow_many_files() -> None:
    """Every trajectory in flight holds a journal open; the usual soft limit stops at about a thousand."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


def summary_as_json(summary: BatchSummary, folder: Path, seconds: float) -> str:
    """What `--json` prints for a batch."""
    return json.dumps(
        {
            "out": str(folder),
            "status": "failed" if summary.failed else "short" if summary.short else "done",
            "total": summary.total,
            "done": summary.done,
            "short": summary.short,
            "failed": summary.failed,
            "already": summary.already,
            "calls": summary.calls,
            "seconds": round(seconds, 3),
            "failures": [{"id": f.id, "folder": f.folder, "reason": f.reason} for f in summary.failures],
        },
        ensure_ascii=False,
    )

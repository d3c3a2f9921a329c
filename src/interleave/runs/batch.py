"""Many requests at once: any number of trajectories in flight, each in a run folder of its own.

DIR/batch.json      the configuration all of them share
DIR/index.jsonl     one line for each that has ended: a cache of what the run folders say, so that 40,000
                    finished runs are not opened to learn that they are finished; a shard has one of its own
DIR/runs/ab/…       the run folders, named by a hash: ids never become paths

Who carries a request out is a crew: this process, or others. The order of the work, the index and what
becomes of failures are the same for all.

So many trajectories are open at a time and no more, and each has one call under way; calls to a model take
their turns in the order in which they come. A short trajectory therefore never waits for a long one, and
memory does not grow with the number of requests.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections import Counter
from collections.abc import AsyncGenerator, Iterable, Iterator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol

from pydantic import SerializerFunctionWrapHandler, ValidationError, model_serializer

from interleave.errors import BackendError, RunError
from interleave.runs.casting import Casting, casting_differences
from interleave.runs.disk import Disk
from interleave.runs.folder import alone_in, open_journal, refuse_foreign_folder
from interleave.runs.journal import Line, folder_in_use, is_being_written
from interleave.runs.patience import Patience, Take
from interleave.runs.requests import Item
from interleave.runs.shards import WHOLE, Shard
from interleave.runs.store import sweep_for, write_whole
from interleave.text import slug, storable
from interleave.version import __version__

VERSION = 1
CONFIG_NAME = "batch.json"
LOCK_NAME = "batch.lock"
INDEX_STEM = "index"
DEFAULT_CONCURRENCY = 64
FAILURES_IN_A_ROW = 50
"""After so many failures with not one success between them, something is wrong with all of them."""

ItemStatus = Literal["done", "short", "failed", "busy"]
"""Busy: another process has its run folder, and it is left to that process."""


class BatchConfig(Casting):
    """The `batch.json` of a batch."""

    version: int = VERSION
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
    repeated: int = 0
    """Of these calls, those that had to be made again."""
    seconds: float = 0.0
    generator: str = ""
    """Who drew it; nobody, where it was refused before a run was begun."""
    passing: bool = False
    """Whether it failed for a reason that may pass, such as a server that is down."""
    bad_request: bool = False
    """Whether it failed because of what it asks: trying again changes nothing."""

    @model_serializer(mode="wrap")
    def _say_only_what_is_true(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """What is said of failures is left out where there is none: a done line with `false` misleads."""
        written: dict[str, Any] = write(self)
        return {key: value for key, value in written.items() if value is not False}


class Crew(Protocol):
    """Carries requests out, many at once."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What a user should know before the first call: what it may cost."""
        ...

    async def carry_out(self, item: Item) -> Ended: ...


@dataclass
class BatchSummary:
    """How a batch stands."""

    total: int = 0
    done: int = 0
    short: int = 0
    failed: int = 0
    busy: int = 0
    forced: int = 0
    calls: int = 0
    repeated: int = 0
    already: int = 0
    """Of those, how many had ended before this session."""
    bad_requests: int = 0
    """Of the failed, how many failed because of what they ask."""
    generators: Counter[str] = field(default_factory=Counter)
    """How many runs each generator has drawn."""
    failures: list[Ended] = field(default_factory=list)
    """The first few, with their causes."""

    def count(self, ended: Ended, *, already: bool = False) -> None:
        setattr(self, ended.status, getattr(self, ended.status) + 1)
        self.forced += bool(ended.forced)
        self.calls += ended.calls
        self.repeated += ended.repeated
        self.already += already
        self.bad_requests += ended.bad_request
        if ended.generator:
            self.generators[ended.generator] += 1
        if ended.status == "failed" and len(self.failures) < FAILURES_IN_A_ROW:
            self.failures.append(ended)


class Batch:
    """A folder of many runs, open for writing."""

    def __init__(
        self,
        folder: Path,
        casting: Casting,
        crew: Crew,
        *,
        shard: Shard = WHOLE,
        patience: Patience | None = None,
    ) -> None:
        self.folder = folder
        self.casting = casting
        self.crew = crew
        self.patience = patience or Patience()
        self.disk = Disk()
        keep_casting(folder, casting)
        self.index = open_journal(folder, _index_name(shard))
        self.ended = {ended.id: ended for ended in read_index(folder)}

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
                        running.add(asyncio.create_task(self._patiently(item)))
                if not running:
                    return
                finished, running = await asyncio.wait(running, return_when=asyncio.FIRST_COMPLETED)
                errors = [error for task in finished if (error := task.exception())]
                for ended in [task.result() for task in finished if not task.exception()]:
                    if ended.status != "busy":
                        self.index.append(ended)
                    if not ended.bad_request:  # that is its own fault, and says nothing about the others
                        failures_in_a_row = failures_in_a_row + 1 if ended.status == "failed" else 0
                    yield ended
                await self.disk.sync(self.index)
                if errors:
                    raise errors[0]  # a disk that fails: the others say the same
                if failures_in_a_row >= FAILURES_IN_A_ROW:
                    raise BackendError(
                        f"{failures_in_a_row} requests in a row have failed, the last with: {ended.reason} "
                        "(mend it, then run the same command with --retry-failed)"
                    )
        finally:
            for task in running:
                task.cancel()
            await asyncio.gather(*running, return_exceptions=True)

    async def _patiently(self, item: Item) -> Ended:
        """Carry it out; what fails for a passing reason is taken up again until it passes."""

        async def take() -> Take[Ended]:
            ended = await self.crew.carry_out(item)
            return Take(
                ended,
                passing=ended.passing,
                reason=ended.reason,
                reached=ended.calls - ended.repeated,
                succeeded=ended.status == "done",
            )

        return await self.patience.keep_on(take, item.generator)


def refuse_unfit(folder: Path, casting: Casting, shard: Shard = WHOLE) -> None:
    """Refuse a folder that is somebody else's, differs or is being written to; touches nothing.

    Opening it refuses the same. This is for asking before models are loaded, which may take minutes.
    """
    _refuse_foreign(folder)
    if (folder / CONFIG_NAME).exists():
        _refuse_other_casting(folder, casting)
    if is_being_written(folder, _index_name(shard)):
        raise folder_in_use(folder)


def _index_name(shard: Shard) -> str:
    return f"{INDEX_STEM}{shard.label}.jsonl"


def _refuse_foreign(folder: Path) -> None:
    try:
        refuse_foreign_folder(folder, marker=CONFIG_NAME)
    except RunError:
        if not (folder / LOCK_NAME).exists():  # else it is ours, and another shard is just beginning in it
            raise


def _refuse_other_casting(folder: Path, casting: Casting) -> None:
    if different := casting_differences(casting, read_casting(folder)):
        raise RunError(
            f"{folder} holds runs with another configuration ({'; '.join(different)}): "
            "choose another folder with --out"
        )


def keep_casting(folder: Path, casting: Casting) -> None:
    """Write down what a folder's runs are made with; refuse a folder where that is something else."""
    _refuse_foreign(folder)
    with alone_in(folder, LOCK_NAME):  # two shards may begin at the same moment
        path = folder / CONFIG_NAME
        sweep_for(folder, CONFIG_NAME)
        if not path.exists():
            shared = BatchConfig(**dict(casting), software=__version__)
            write_whole(path, shared.model_dump_json(indent=1).encode())
        else:
            _refuse_other_casting(folder, casting)


def read_casting(folder: Path) -> Casting:
    """What the runs of a folder are made with."""
    path = folder / CONFIG_NAME
    try:
        return BatchConfig.model_validate_json(path.read_bytes())
    except (ValidationError, OSError) as error:
        raise RunError(f"{path} cannot be read ({str(error).splitlines()[0]})") from None


def read_index(folder: Path) -> list[Ended]:
    """The last word on every request that has ended; a line that cannot be read counts for nothing."""
    last: dict[str, Ended] = {}
    for path in sorted(folder.glob(f"{INDEX_STEM}*.jsonl")):
        for line in path.read_bytes().split(b"\n"):
            with suppress(ValidationError):  # the run folders know better: the index only saves opening them
                ended = Ended.model_validate_json(line)
                if ended.id not in last or last[ended.id].status != "done":  # what is done stays done
                    last[ended.id] = ended
    return list(last.values())


def run_folder(identity: str) -> str:
    """Where the run of an id lies; the id itself is only ever hashed, and shown as harmless letters."""
    name = hashlib.sha256(identity.encode("utf-8", "surrogatepass")).hexdigest()[:20]
    return "/".join(["runs", name[:2], "-".join(filter(None, [name, slug(identity, 24)]))])


def summary_as_json(summary: BatchSummary, folder: Path, seconds: float, **more: object) -> str:
    """What `--json` prints for a batch."""
    said = json.dumps(
        {
            "out": str(folder),
            "status": _status(summary),
            "total": summary.total,
            "done": summary.done,
            "short": summary.short,
            "failed": summary.failed,
            "bad_requests": summary.bad_requests,
            "busy": summary.busy,
            "already": summary.already,
            "calls": summary.calls,
            "repeated": summary.repeated,
            "generators": dict(summary.generators),
            "seconds": round(seconds, 3),
            "failures": [{"id": f.id, "folder": f.folder, "reason": f.reason} for f in summary.failures],
            **more,
        },
        ensure_ascii=False,
    )
    return storable(said)  # the folder's name need not be text: in JSON this is an escape of it


def _status(summary: BatchSummary) -> str:
    return "failed" if summary.failed else "short" if summary.short or summary.busy else "done"

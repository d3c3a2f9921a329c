"""The executor in this process: all runs share the models, which are loaded once.

Packages add other executors, for example on a cluster, with the entry points `interleave.executors`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from contextlib import AbstractContextManager, aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from interleave import entry_points
from interleave.batches.assignment import Assignment
from interleave.batches.batch import Ended, Executor, ItemStatus, Watcher, run_folder
from interleave.batches.requests import Item
from interleave.config.run_config import DEFAULT_CONCURRENCY, Limits, RunConfig
from interleave.errors import (
    BackendError,
    ConfigurationError,
    FolderInUse,
    InputError,
    InterleaveError,
    StorageError,
    class_and_message,
    did_you_mean,
)
from interleave.files import allow_open_files
from interleave.runs.journal import Started, first_entry
from interleave.runs.models import Models, cost_note
from interleave.runs.record import RunRecord
from interleave.runs.resolve import adapted_request
from interleave.runs.run import Run, RunResult
from interleave.types import Request

log = logging.getLogger(__name__)

WANTED_FILES = 16_384
"""Open files to allow: each run in flight has an open journal and connections to its models."""


class Worker:
    """Answers requests in this process."""

    def __init__(
        self,
        folder: Path,
        assignment: Assignment,
        limits: Limits,
        models: Mapping[str, Models],
        *,
        watcher: Watcher | None = None,
    ) -> None:
        self.folder = folder
        self.assignment = assignment
        self.limits = limits
        self.models = models
        """Models by the identity of their generator; those of a mixture share planner and critic."""
        self.watcher = watcher
        allow_open_files(WANTED_FILES)

    @property
    def notes(self) -> tuple[str, ...]:
        """Estimated cost of each generator."""
        notes = (cost_note(models, self.assignment.config, self.limits) for models in self.models.values())
        return tuple(dict.fromkeys(note for note in notes if note))

    async def execute(self, item: Item) -> Ended:
        """Answer a request and return how it ended; only a disk failure is raised, as it stops all runs."""
        try:
            finished = await self._run(item)
        except StorageError:
            raise
        except FolderInUse as error:
            return _not_run(item, "busy", str(error))
        except InterleaveError as error:
            return _not_run(item, "failed", str(error), bad_request=isinstance(error, InputError))
        except Exception as error:  # a bug in one run must not end the other 39,999
            log.exception("the request %r failed unexpectedly", item.id)
            return _not_run(item, "failed", class_and_message(error))
        if isinstance(finished.error, StorageError):
            raise finished.error
        return _ended(item, finished)

    async def _run(self, item: Item) -> RunResult:
        folder = self.folder / run_folder(item.id)
        config = self.assignment.config_for(item.id, self._generator_of(item, folder))
        models = self.models[config.generator.identity]
        run = await self._opened(item, folder, config, models)
        if self.watcher is not None:
            run.report_lines(self.watcher.line, item.id)
        async with aclosing(run.stream()) as events:
            async for event in events:
                if isinstance(event, RunResult):
                    return event
        raise AssertionError("a run always ends with RunResult")

    async def _opened(self, item: Item, folder: Path, config: RunConfig, models: Models) -> Run:
        """Open a run in a thread, as syncing its first lines must not block other runs."""

        def work() -> Run:
            return Run.open(
                folder,
                _loaded(item, config, models),
                config,
                self.limits,
                lambda: models,
                hold_plan=item.hold_plan,
                lease=item.lease,
            )

        opening = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            with suppress(Exception):  # the thread cannot be stopped and must not keep the folder
                (await opening).journal.close()
            raise

    def _generator_of(self, item: Item, folder: Path) -> str:
        """Return the generator of a request; a started run keeps its own, even if requests are added."""
        if len(self.models) == 1:
            return next(iter(self.models))
        started = first_entry(folder)
        return started.config.generator.identity if isinstance(started, Started) else item.generator


@dataclass(frozen=True)
class WorkerOptions:
    """Number and resources of the workers that a remote executor starts."""

    workers: int = 1
    concurrency: int = DEFAULT_CONCURRENCY
    """Requests in flight in each worker."""
    gpus: float = 0.0
    """GPUs reserved per worker."""


class RemoteWork(Protocol):
    """Instructions for a worker process, which are pickled: its models and its requests."""

    def worker(self, folder: Path) -> Worker:
        """Load the models and return a worker for requests below this folder."""
        ...

    def items(self) -> Iterable[Item]:
        """Read all requests on this machine."""
        ...


def executor_named(
    name: str, work: RemoteWork, folder: Path, options: WorkerOptions
) -> AbstractContextManager[Executor]:
    """Return the executor of an entry point; its processes end with the block."""
    known = entry_points.installed("executors")
    if name not in known:
        raise ConfigurationError(f"no engine named {name!r}. {did_you_mean(name, ['local', *known])}")
    found: AbstractContextManager[Executor] = entry_points.load(known[name], f"the executor {name!r}")(
        work, folder, options
    )
    return found


def _loaded(item: Item, config: RunConfig, models: Models) -> Request:
    """Load the request and adapt it to the planner; a planner without a model makes its own checks."""
    request = item.load()
    return adapted_request(request, config) if models.planner.vlm else request


def _not_run(item: Item, status: ItemStatus, reason: str, *, bad_request: bool = False) -> Ended:
    return Ended(
        id=item.id,
        digest=item.digest,
        folder=run_folder(item.id),
        status=status,
        reason=reason,
        bad_request=bad_request,
    )


def _ended(item: Item, finished: RunResult) -> Ended:
    record, error = finished.record, finished.error
    ended = Ended.of(record, _status(record), id=item.id, digest=item.digest, folder=run_folder(item.id))
    passing = isinstance(error, BackendError) and error.transient
    return ended.model_copy(update={"passing": passing})


def _status(record: RunRecord) -> ItemStatus:
    match record.status:
        case "done" | "short" | "held" | "asked":
            return record.status
        case _:
            return "failed"

"""Executes requests on Ray actors; each actor has separate models and runs the single-process code.

A request goes to the actor with the fewest requests in flight. When an actor dies, its requests go to others,
which resume their run folders. All machines must see the batch and the files of its requests under the same
path, as on a shared disk, and have this package installed.
"""

from __future__ import annotations

import logging
import os
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from interleave import BackendError, ConfigurationError, Ended, InputError, MissingDependency
from interleave.plugin import batches, count

log = logging.getLogger(__name__)

REPLACEMENTS = 3
"""Maximum replacements per worker."""
MAX_DEATHS = 3
"""Number of dead workers after which a request counts as the cause."""
OBJECT_STORE_BYTES = 200_000_000
"""Small, because only ids and outcomes are sent; images go to disk."""


class RayWorker:
    """Ray actor that loads its models on the first call."""

    def __init__(self, work: batches.RemoteWork, folder: str, home: str) -> None:
        with suppress(OSError):  # so that relative paths in specs resolve the same way here
            os.chdir(home)
        self._work, self._folder = work, Path(folder)
        self._worker: batches.Worker | None = None
        self._items: dict[str, batches.Item] = {}

    def prepare(self) -> tuple[str, ...]:
        """Load the models and return notes for the user."""
        return self._prepared().notes

    def process(self) -> int:
        return os.getpid()

    async def execute(self, identity: str, digest: str, generator: str) -> dict[str, Any]:
        worker = self._prepared()
        item = self._items.get(identity)
        if item is None or item.digest != digest:
            raise InputError(f"request {identity!r} differs between machines: use the same requests on all")
        return (await worker.execute(replace(item, generator=generator))).model_dump()

    def _prepared(self) -> batches.Worker:
        if self._worker is None:
            self._items = {item.id: item for item in self._work.items()}
            self._worker = self._work.worker(self._folder)
        return self._worker


class RayExecutor:
    """Executor of requests on the workers of a Ray cluster."""

    def __init__(self, start_worker: Callable[[], Any], workers: int) -> None:
        self._start_worker = start_worker
        self.workers = [start_worker() for _ in range(workers)]
        self.notes = _prepare(self.workers)
        self._replacements = REPLACEMENTS * workers
        self._busy: Counter[Any] = Counter()

    async def execute(self, item: batches.Item) -> Ended:
        from ray.exceptions import RayActorError, RayTaskError

        for _ in range(MAX_DEATHS):
            worker = self._least_busy()
            self._busy[worker] += 1
            try:
                ended = await worker.execute.remote(item.id, item.digest, item.generator)
                return Ended.model_validate(ended)
            except RayTaskError as error:
                raise error.cause from None
            except RayActorError:
                self._replace(worker)
            finally:
                self._busy[worker] -= 1
        reason = f"its worker died {MAX_DEATHS} times (out of memory, perhaps)"
        return Ended(
            id=item.id, digest=item.digest, folder=batches.run_folder(item.id), status="failed", reason=reason
        )

    def _least_busy(self) -> Any:
        if not self.workers:
            raise BackendError("all workers have died: fix the cause, then run the same command again")
        return min(self.workers, key=lambda worker: self._busy[worker])

    def _replace(self, dead: Any) -> None:
        """Replace a dead worker, once. The new one accepts requests while it loads its models."""
        if dead not in self.workers:
            return
        self.workers.remove(dead)
        log.warning("a worker died; other workers resume its requests")
        if self._replacements:
            self._replacements -= 1
            self.workers.append(self._start_worker())


def _prepare(workers: list[Any]) -> tuple[str, ...]:
    """Make all workers load their models and return the notes of the first."""
    import ray
    from ray.exceptions import RayActorError, RayTaskError

    try:
        notes: tuple[str, ...] = ray.get([worker.prepare.remote() for worker in workers])[0]
    except RayTaskError as error:
        raise error.cause from None
    except RayActorError as error:
        raise BackendError(f"a worker died while loading its models: {error}") from error
    return notes


@contextmanager
def executor_on_ray(
    work: batches.RemoteWork, folder: Path, options: batches.WorkerOptions
) -> Iterator[RayExecutor]:
    """Yield an executor on the cluster of RAY_ADDRESS, or on this machine, until the block ends."""
    ray = _import_ray()
    _connect(ray, options)
    try:
        _refuse_too_many(ray, options)
        actor = ray.remote(RayWorker).options(
            max_concurrency=options.concurrency + 1,
            max_restarts=0,  # calls to a restarting actor fail: the executor starts a new one
            num_cpus=1,
            num_gpus=options.gpus,
            scheduling_strategy="SPREAD",
        )
        arguments = (work, str(folder.absolute()), os.getcwd())
        yield RayExecutor(lambda: actor.remote(*arguments), options.workers)
    finally:
        ray.shutdown()


def _import_ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
    try:
        import ray
    except ImportError:
        raise MissingDependency(
            "--engine ray needs the package 'ray', which is not installed. "
            'Install it with: pip install "interleavethinker[ray]"'
        ) from None
    return ray


def _connect(ray: Any, options: batches.WorkerOptions) -> None:
    """Join the cluster of RAY_ADDRESS, or start a local one; worker output stays in Ray's logs."""
    local: dict[str, Any] = {}
    if not os.environ.get("RAY_ADDRESS"):
        cpus = max(options.workers, os.cpu_count() or 1)
        local = {"num_cpus": cpus, "include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
    try:
        ray.init(log_to_driver=False, logging_level="ERROR", **local)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise BackendError(f"Ray cannot be started or reached: {str(error).splitlines()[0]}") from error


def _refuse_too_many(ray: Any, options: batches.WorkerOptions) -> None:
    """Raise if the cluster is too small: Ray would wait forever for resources."""
    resources = ray.cluster_resources()
    for what, each in (("CPU", 1.0), ("GPU", options.gpus)):
        if each and (fitting := int(resources.get(what, 0.0) / each)) < options.workers:
            raise ConfigurationError(
                f"the cluster has {what}s for {count(fitting, 'worker')}, not for {options.workers}: "
                f"use --workers {max(fitting, 1)}, or a larger cluster"
            )

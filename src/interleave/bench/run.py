"""Running a system on the items of a benchmark, through the durable batch runner."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import aclosing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interleave import ConfigurationError, Ended, Request, RunError, RunRecord, read_record
from interleave.bench.base import Item
from interleave.bench.outputs import FOLDER, Output, output_of, write_outputs
from interleave.bench.table import find_benchmark
from interleave.plugin import (
    Models,
    RunConfig,
    batches,
    count,
    folder_lock,
    images,
    load_models,
    resolve,
    runs,
    split_choices,
)

if TYPE_CHECKING:
    from interleave.plugin import batches

SYSTEMS = {
    "base": "the generator alone: one image from the request, no text",
    "plan": "planner and generator, one attempt per step",
    "full": "planner, generator and critic",
    "native": "a native system, which writes whole documents: name it as the planner",
}
FEWER_ATTEMPTS = (3, 1)
"""Lower attempt limits that a full run is also measured with."""
LOCK_NAME = "outputs.lock"


@dataclass(frozen=True)
class System:
    """The system that answers the items."""

    name: str = "full"
    options: Mapping[str, Any] = field(default_factory=dict)
    """Options of `interleave.generate`: profile, planner, critic, generator, seed, …"""

    def __post_init__(self) -> None:
        if self.name not in SYSTEMS:
            raise ConfigurationError(f"no system {self.name!r}: choose one of {', '.join(SYSTEMS)}")

    @property
    def choices(self) -> dict[str, Any]:
        """The options, without what the system leaves out."""
        chosen = {key: value for key, value in self.options.items() if value is not None}
        if self.name == "full":
            return chosen
        if self.name == "native":
            return self._native(chosen)
        chosen |= {"critic": "none", "max_attempts": 1}
        return chosen if self.name == "plan" else {**chosen, "planner": "none"}

    def _native(self, chosen: dict[str, Any]) -> dict[str, Any]:
        """Return the choices of a native system alone; with other roles named, it is the full system's."""
        if not runs.is_native(chosen.get("planner")):
            raise ConfigurationError(
                "the system 'native' needs a native system as the planner, e.g. "
                "--planner document:gemini:gemini-3-pro-image"
            )
        if others := [role for role in ("profile", "critic", "generator") if role in chosen]:
            raise ConfigurationError(
                f"the system 'native' has no {others[0]}: drop it, or judge and redraw the documents with "
                "--system full"
            )
        return chosen | {"critic": "none", "generator": "none", "max_attempts": 1}

    @property
    def is_native(self) -> bool:
        """Whether its documents come from a native system, which answers differently each time."""
        return runs.is_native(self.options.get("planner"))

    def config(self, attempts: int | None = None) -> RunConfig:
        """Return the configuration of its runs, with at most `attempts` attempts per step."""
        config, _ = resolve(split_choices(self.choices)[0])
        return config if attempts is None else config.model_copy(update={"max_attempts": attempts})

    def models(self) -> Models:
        chosen, _ = split_choices(self.choices)
        config, pack = resolve(chosen)
        return load_models(config, pack, chosen)

    def worker(
        self,
        folder: Path,
        attempts: int,
        models: Models | None = None,
        watcher: batches.Watcher | None = None,
    ) -> batches.Worker:
        """Return a worker that runs requests in this process."""
        config = self.config(attempts)
        limits = split_choices(self.choices)[1]
        loaded = {config.generator.identity: models or self.models()}
        return batches.Worker(folder, batches.Assignment(config=config), limits, loaded, watcher=watcher)


@dataclass(frozen=True)
class RemoteRun:
    """Everything a worker on another machine needs to answer items."""

    benchmark: str
    data: Path
    system: System
    attempts: int

    def worker(self, folder: Path) -> batches.Worker:
        return self.system.worker(folder, self.attempts)

    def items(self) -> Iterator[batches.Item]:
        return batch_items(find_benchmark(self.benchmark).read(self.data).items)


def batch_items(items: Sequence[Item]) -> Iterator[batches.Item]:
    """Yield the items as batch items, each read when its turn comes."""
    for item in items:
        yield batches.Item(item.id, _digest(item), partial(_request, item))


def _request(item: Item) -> Request:
    return item.request


def _digest(item: Item) -> str:
    """Return a digest of the request: texts verbatim, images by file name and size, without reading them."""
    asked = [
        part
        if isinstance(part, str)
        else [part.name, part.stat().st_size if part.exists() else 0]
        if isinstance(part, Path)
        else images.pixel_digest(part)
        for part in item.parts
    ]
    asked += [
        [each.name, each.description, each.image.stat().st_size if each.image else 0] for each in item.assets
    ]
    return hashlib.sha256(json.dumps(asked).encode()).hexdigest()[:32]


@dataclass(frozen=True)
class Cluster:
    """Ray workers, and the data they read items from."""

    benchmark: str
    data: Path
    options: batches.WorkerOptions


async def run_system(
    items: Sequence[Item],
    system: System,
    folder: Path,
    *,
    concurrency: int = 16,
    shard: batches.Shard = batches.WHOLE,
    cluster: Cluster | None = None,
    watcher: batches.Watcher | None = None,
) -> dict[int, dict[str, Output]]:
    """Answer the open items, or this shard of them; then gather the outputs of all shards.

    Lower attempt limits rerun only items that needed more attempts. Returns the outputs by attempt limit and
    item, which are also written to `outputs/attempts-N.jsonl`.
    """
    most = system.config().max_attempts
    own = [item for item in items if shard.has(item.id)]
    models = system.models() if cluster is None else None
    watcher = watcher or batches.Watcher()

    async def run(attempts: int, wanted: Sequence[Item]) -> None:
        target = runs_folder(folder, attempts)
        watcher.begin(len(wanted), f"at most {count(attempts, 'attempt')}")
        with _executor(system, target, attempts, models, cluster, watcher) as executor:
            limits = split_choices(system.choices)[1]
            assignment = batches.Assignment(config=system.config(attempts))
            retry = runs.OutageRetry(limits.max_seconds)
            batch = batches.Batch(
                target, assignment, executor, shard=shard, outage_retry=retry, watcher=watcher
            )
            running = batch.run(batch_items(wanted), concurrency=concurrency, retry_failed=True)
            async with aclosing(running) as all_ended:
                async for _ in all_ended:
                    pass

    await run(most, own)
    for attempts in fewer_attempts(system, most):
        whole = _answers(folder, most, own)
        if other := [item for item in own if not _is_same_with(whole.get(item.id), attempts)]:
            await run(attempts, other)
    with folder_lock(folder, LOCK_NAME):  # the last shard to gather sees the outputs of all
        return gather_outputs(items, system, folder)


@contextmanager
def _executor(
    system: System,
    folder: Path,
    attempts: int,
    models: Models | None,
    cluster: Cluster | None,
    watcher: batches.Watcher,
) -> Iterator[batches.Executor]:
    """Yield an executor in this process, or one with workers on a cluster."""
    if cluster is None:
        yield system.worker(folder, attempts, models, watcher)
        return
    from interleave.plugin import batches

    work = RemoteRun(cluster.benchmark, cluster.data.absolute(), system, attempts)
    with batches.executor_named("ray", work, folder, cluster.options) as executor:
        yield executor


def fewer_attempts(system: System, most: int) -> tuple[int, ...]:
    """Return the lower attempt limits that a run is also measured with."""
    if system.name != "full" or system.is_native:  # another document would be another system's answer
        return ()
    return tuple(each for each in FEWER_ATTEMPTS if each < most)


def gather_outputs(items: Sequence[Item], system: System, folder: Path) -> dict[int, dict[str, Output]]:
    """Write the outputs of all ended runs, and return them by attempt limit and item."""
    most = system.config().max_attempts
    whole = _answers(folder, most, items)
    passes = {most: {item: output for item, (output, _) in whole.items()}}
    for attempts in fewer_attempts(system, most):
        again = _answers(folder, attempts, items)
        passes[attempts] = {
            item.id: (whole[item.id] if _is_same_with(whole.get(item.id), attempts) else again[item.id])[0]
            for item in items
            if _is_same_with(whole.get(item.id), attempts) or item.id in again
        }
    for attempts, outputs in passes.items():
        ordered = [outputs[item.id] for item in items if item.id in outputs]
        write_outputs(folder / FOLDER / f"attempts-{attempts}.jsonl", ordered)
    return passes


def runs_folder(folder: Path, attempts: int) -> Path:
    return folder / "runs" / f"attempts-{attempts}"


Answer = tuple[Output, RunRecord | None]


def _answers(folder: Path, attempts: int, items: Sequence[Item]) -> dict[str, Answer]:
    """Return the ended runs of these items, from any shard."""
    wanted = {item.id for item in items}
    target = runs_folder(folder, attempts)
    return {
        ended.id: _answer(ended, folder, f"runs/attempts-{attempts}")
        for ended in (batches.read_index(target) if target.exists() else ())
        if ended.id in wanted
    }


def _answer(ended: Ended, folder: Path, name: str) -> Answer:
    run = f"{name}/{ended.folder}"
    try:
        record = read_record(folder / run)
    except RunError:  # the request was refused before it had a folder
        return Output(item=ended.id, status="failed", reason=ended.reason), None
    output = output_of(ended.id, record, run)
    return output.model_copy(update={"reason": ended.reason or output.reason}), record


def _is_same_with(answer: Answer | None, attempts: int) -> bool:
    """Return whether this answer never needed more attempts, and so equals that of the lower limit."""
    record = answer[1] if answer is not None else None
    return (
        record is not None
        and record.status == "done"
        and all(len(step.attempts) <= attempts for step in record.steps)
        and not any(step.forced for step in record.steps)
    )

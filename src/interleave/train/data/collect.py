"""`data collect`: runs a file of requests and writes a collection, one run folder per request.

The configuration contains plain values only, so that it can be sent to other processes, each of which loads
the models itself.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from interleave import ConfigurationError, InputError, StorageError, load_generator
from interleave.plugin import (
    Models,
    RunConfig,
    batches,
    count,
    folder_lock,
    load_models,
    resolve,
    runs,
    split_choices,
)
from interleave.train.data.manifest import (
    COLLECTION_MANIFEST,
    Manifest,
    file_digest,
    read_manifest,
    write_manifest,
)

LOCK_NAME = "collection.lock"


@dataclass(frozen=True)
class CollectConfig:
    """Models to collect with: any specs, with one generator or several by weight."""

    choices: Mapping[str, Any] = field(default_factory=dict)
    """Options of `generate` except the generator: profile, planner, critic, prompts, seed, limits…"""
    generators: tuple[str, ...] = ()
    """Empty: the generator of the profile."""
    weights: tuple[float, ...] = ()
    """One for each generator; empty: all equal."""

    def assignment(self) -> batches.Assignment:
        """Return which model has which role, without loading any."""
        return _assignment(
            [resolve(split_choices(choices)[0])[0] for choices in self._choices_by_generator()],
            self._weights(),
        )

    def worker(self, folder: Path, watcher: batches.Watcher | None = None) -> batches.Worker:
        """Load the models and return a worker that runs requests below this folder."""
        chosen, limits = split_choices(self._choices_by_generator()[0])
        config, pack = resolve(chosen)
        first = load_models(config, pack, chosen)
        assignment = self.assignment()
        models: dict[str, Models] = {}
        for each in assignment.configs:
            loaded = first if not models else first.with_generator(load_generator(each.generator.parsed))
            runs.refuse_unpriced(limits, loaded.prices_known(planner_is_asked=True))
            models[each.generator.identity] = loaded
        return batches.Worker(folder, assignment, limits, models, watcher=watcher)

    def _choices_by_generator(self) -> list[dict[str, Any]]:
        """Return the options once per generator."""
        return [{**self.choices, "generator": spec} for spec in self.generators or (None,)]

    def _weights(self) -> tuple[float, ...]:
        if self.weights and len(self.weights) != len(self.generators):
            raise ConfigurationError(
                f"{count(len(self.generators), 'generator')} and {count(len(self.weights), 'weight')}: "
                "give one --weight per --generator, in the same order, or none"
            )
        for weight in self.weights:
            if not (weight > 0 and math.isfinite(weight)):
                raise ConfigurationError(f"--weight {weight:g}: must be above 0")
        return self.weights or tuple(1.0 for _ in self.generators)


@dataclass(frozen=True)
class CollectWork:
    """Input of a worker on another machine."""

    config: CollectConfig
    requests: Path

    def worker(self, folder: Path) -> batches.Worker:
        return self.config.worker(folder)

    def items(self) -> list[batches.Item]:
        return batches.read_requests(self.requests, skip_bad=True)[0]


def _assignment(configs: list[RunConfig], weights: tuple[float, ...]) -> batches.Assignment:
    first = configs[0]
    if len(configs) == 1:
        return batches.Assignment(config=first, own_seeds=True)
    names = [config.generator.identity for config in configs]
    for name in names:
        if names.count(name) > 1:
            raise ConfigurationError(
                f"--generator {name!r} is given twice: give it once, and a larger --weight"
            )
    shares = (
        batches.Share(generator=config.generator, weight=weight)
        for config, weight in zip(configs, weights, strict=True)
    )
    return batches.Assignment(config=first, mixture=tuple(shares), own_seeds=True)


@dataclass(frozen=True)
class Workload:
    """The requests that this command runs."""

    requests: Path
    items: list[batches.Item]
    left_out: list[str] = field(default_factory=list)
    """Problems of the skipped lines."""

    @classmethod
    def read(
        cls,
        requests: Path,
        assignment: batches.Assignment,
        *,
        limit: int | None = None,
        shard: batches.Shard = batches.WHOLE,
        skip_bad: bool = False,
    ) -> Workload:
        """Read the first `limit` requests, assign each a generator, and keep those of the shard."""
        items, left_out = batches.read_requests(requests, skip_bad=skip_bad)
        generators = assignment.assign(item.id for item in items[:limit])
        taken = [item for item in items[:limit] if shard.has(item.id)]
        return cls(requests, [replace(item, generator=generators[item.id]) for item in taken], left_out)


def write_collection_manifest(folder: Path, workload: Workload) -> Manifest:
    """Write the inputs and current counts of a collection; each shard rewrites them."""
    path = folder / COLLECTION_MANIFEST
    with folder_lock(folder, LOCK_NAME):
        inputs = {workload.requests.name: file_digest(workload.requests)}
        with suppress(InputError):  # earlier commands may have collected other files
            inputs = read_manifest(path).inputs | inputs
        assignment = batches.read_assignment(folder)
        manifest = Manifest(
            stage="collect",
            options=_options(assignment),
            inputs=inputs,
            counts=_counts(folder),
            notes=_notes(assignment, workload),
        )
        with suppress(StorageError):  # the runs are safe, and a rerun writes the manifest again
            write_manifest(path, manifest)
    return manifest


def _options(assignment: batches.Assignment) -> dict[str, object]:
    config = assignment.config
    shares = {share.generator.identity: share.weight for share in assignment.mixture}
    return {
        "planner": config.planner.identity,
        "critic": config.critic.identity,
        "generators": shares or {config.generator.identity: 1.0},
        "prompts": config.prompts.model_dump(),
        "max_attempts": config.max_attempts,
        "max_steps": config.max_steps,
        "sources": config.sources.value,
        "choose": config.choose,
        "seed": config.seed,
    }


def _counts(folder: Path) -> dict[str, int]:
    counts = Counter({"requests": 0, "done": 0, "short": 0, "failed": 0, "with forced steps": 0})
    for ended in batches.read_index(folder):
        counts["requests"] += 1
        counts[ended.status] += 1
        counts["with forced steps"] += bool(ended.forced)
        if ended.generator:
            counts[f"drawn by {ended.generator}"] += 1
    return dict(counts)


def _notes(assignment: batches.Assignment, workload: Workload) -> tuple[str, ...]:
    notes = [note for config in assignment.configs for note in config.notes]
    return (*dict.fromkeys(notes), *(f"left out: {problem}" for problem in workload.left_out))

"""A collection: the runs of a file of requests, begun, continued and described."""

from __future__ import annotations

from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from interleave.batches.assignment import Casting
from interleave.batches.batch import LOCK_NAME, read_casting, read_index
from interleave.batches.requests import Item, read_requests
from interleave.batches.shards import WHOLE, Shard
from interleave.data.manifest import Manifest, file_digest, read_manifest, write_manifest
from interleave.errors import InputError, StorageError
from interleave.runs.folder import alone_in

MANIFEST_NAME = "collection.manifest.json"


@dataclass(frozen=True)
class Work:
    """The requests of a collection that this command is to carry out."""

    requests: Path
    items: list[Item]
    left_out: list[str] = field(default_factory=list)
    """What was wrong with the lines that were left out."""

    @classmethod
    def of(
        cls,
        requests: Path,
        casting: Casting,
        *,
        limit: int | None = None,
        shard: Shard = WHOLE,
        skip_bad: bool = False,
    ) -> Work:
        """The first so many requests of a file, dealt over the generators; of these the ones of a shard."""
        items, left_out = read_requests(requests, skip_bad=skip_bad)
        dealt = casting.deal(item.id for item in items[:limit])
        taken = [item for item in items[:limit] if shard.has(item.id)]
        return cls(requests, [replace(item, generator=dealt[item.id]) for item in taken], left_out)


def describe(folder: Path, work: Work) -> Manifest:
    """Write down what a collection was made of, and what it holds now; shards may do so one after another."""
    path = folder / MANIFEST_NAME
    with alone_in(folder, LOCK_NAME):
        inputs = {work.requests.name: file_digest(work.requests)}
        with suppress(InputError):  # requests of other files may have joined before
            inputs = read_manifest(path).inputs | inputs
        casting = read_casting(folder)
        manifest = Manifest(
            stage="collect",
            options=_options(casting),
            inputs=inputs,
            counts=_counts(folder),
            notes=_notes(casting, work),
        )
        with suppress(StorageError):  # the runs are safe, and the same command writes it again
            write_manifest(path, manifest)
    return manifest


def _options(casting: Casting) -> dict[str, object]:
    config = casting.config
    shares = {share.generator.identity: share.weight for share in casting.mixture}
    return {
        "planner": config.planner.identity,
        "critic": config.critic.identity,
        "generators": shares or {config.generator.identity: 1.0},
        "prompts": config.prompts.model_dump(),
        "max_attempts": config.max_attempts,
        "max_steps": config.max_steps,
        "sources": config.sources.value,
        "seed": config.seed,
    }


def _counts(folder: Path) -> dict[str, int]:
    counts = Counter({"requests": 0, "done": 0, "short": 0, "failed": 0, "with forced steps": 0})
    for ended in read_index(folder):
        counts["requests"] += 1
        counts[ended.status] += 1
        counts["with forced steps"] += bool(ended.forced)
        if ended.generator:
            counts[f"drawn by {ended.generator}"] += 1
    return dict(counts)


def _notes(casting: Casting, work: Work) -> tuple[str, ...]:
    said = [note for config in casting.configs for note in config.notes]
    return (*dict.fromkeys(said), *(f"left out: {problem}" for problem in work.left_out))

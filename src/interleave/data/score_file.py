"""The file that scores are written to: append-only, synced, taken up again where it was left."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import SerializerFunctionWrapHandler, model_serializer

from interleave.agents.prompts import PromptPack
from interleave.backends.registry import note_for
from interleave.batches.shards import WHOLE, Shard
from interleave.config.run_config import PackConfig
from interleave.config.specs import parse_spec, without_tuning
from interleave.data.collect import MANIFEST_NAME
from interleave.data.manifest import SUFFIX, Manifest, file_digest, read_manifest, write_manifest
from interleave.data.scores import FOLDER, NAME, Place, read_scores, score_files
from interleave.errors import ConfigurationError, InputError, RunError
from interleave.runs.folder import alone_in, open_journal
from interleave.text import slug
from interleave.types import Scores, Value

NAME_CHARACTERS = 60


class ScoreLine(Value):
    """What every line has: which attempt it is about."""

    run: str
    step: int
    attempt: int

    @model_serializer(mode="wrap")
    def without_what_is_not_known(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in dump(self).items() if value is not None}


class Scored(ScoreLine):
    """The marks of an attempt, and what they took."""

    semantics: float
    quality: float
    calls: int | None = None
    """Answers of the model; None for a scorer that computes."""
    cost: float | None = None
    """US dollars, where the model knows its price."""


class Failed(ScoreLine):
    """Why an attempt has no marks, and what that took."""

    failure: str
    calls: int | None = None
    cost: float | None = None


@dataclass(frozen=True)
class Maker:
    """Who gives the marks: the scorer as it was named, and the words it is asked with."""

    spec: str
    prompts: PackConfig | None
    """None for a scorer that is asked nothing in words."""

    @property
    def identity(self) -> str:
        return str(without_tuning(parse_spec(self.spec)))

    @property
    def default_name(self) -> str:
        return slug(self.identity, NAME_CHARACTERS)

    def as_options(self) -> dict[str, object]:
        words = self.prompts.model_dump() if self.prompts else None
        return {"scorer": self.identity, "prompts": words}


def maker_of(spec: str, pack: PromptPack | None) -> Maker:
    words = PackConfig(name=pack.name, version=pack.description.version, digest=pack.digest) if pack else None
    return Maker(spec, words)


class ScoreBook:
    """The scores of one scorer, open for writing."""

    def __init__(self, collection: Path, name: str, maker: Maker, *, shard: Shard = WHOLE) -> None:
        if not NAME.fullmatch(name):
            raise ConfigurationError(f"--name {name!r}: use letters, digits, '-' and '_', at most 100")
        self.collection, self.name, self.maker = collection, name, maker
        self.folder = collection / FOLDER
        self._refuse_other_maker()
        self.journal = open_journal(self.folder, f"{name}{shard.label}.jsonl")
        try:
            self.before = read_scores(collection, name)
            self.calls, self.cost = _spent(score_files(collection, name))
            if not self._manifest.exists():
                self.describe()  # whoever takes this up must know who began it
        except BaseException:
            self.journal.close()
            raise

    def has(self, place: Place, *, retry_failed: bool) -> bool:
        """Whether nothing is left to do for an attempt."""
        return isinstance(self.before.get(place), Scores) or (place in self.before and not retry_failed)

    def describe(self) -> Manifest:
        """Write down who scored, and how many scores there are now."""
        with alone_in(self.folder, f"{self.name}.lock"):
            scores = read_scores(self.collection, self.name).values()
            scored = sum(isinstance(score, Scores) for score in scores)
            manifest = Manifest(
                stage="score",
                options=self.maker.as_options(),
                inputs=_inputs(self.collection),
                counts={"attempts": len(scores), "scored": scored, "failed": len(scores) - scored},
                notes=tuple(filter(None, [note_for(self.maker.spec, role="scorer")])),
            )
            write_manifest(self._manifest, manifest)
        return manifest

    @property
    def _manifest(self) -> Path:
        return self.folder / f"{self.name}{SUFFIX}"

    def _refuse_other_maker(self) -> None:
        if not self._manifest.exists():
            return
        there, here = read_manifest(self._manifest).options, self.maker.as_options()
        if there != json.loads(json.dumps(here)):
            raise RunError(
                f"the scores {self.name!r} in {self.collection} were made by {there.get('scorer')!r}"
                f"{' with other prompts' if there.get('scorer') == here['scorer'] else ''}: "
                "choose another name with --name"
            )


def _inputs(collection: Path) -> dict[str, str]:
    """The manifest of the collection, where it was collected here and has one."""
    with suppress(InputError):
        return {MANIFEST_NAME: file_digest(collection / MANIFEST_NAME)}
    return {}


def _spent(files: list[Path]) -> tuple[int, float]:
    calls, cost = 0, 0.0
    for row in _rows(files):
        calls += int(_counted(row, "calls"))
        cost += _counted(row, "cost")
    return calls, cost


def _counted(row: dict[str, Any], name: str) -> float:
    """What a line adds to a count; raises `InputError` for what no scorer writes."""
    value = row.get(name)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise InputError(
            f"the line of {row.get('run')!r:.80} has {name} {value!r:.40}, which is no count: remove it"
        )
    return value


def _rows(files: list[Path]) -> Iterator[dict[str, Any]]:
    for path in files:
        with open(path, "rb") as file:
            yield from (json.loads(line) for line in file if line.endswith(b"\n"))

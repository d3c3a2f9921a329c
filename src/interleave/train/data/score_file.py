"""The score files of a collection: one line per attempt, with its scores or why it has none.

COLLECTION/scores/NAME.jsonl            the lines of one scorer; each scorer has its own file
COLLECTION/scores/NAME.1-of-4.jsonl     the lines of a shard, read together with the others of that name

Files are append-only and synced; the next session continues them.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from sys import intern
from typing import Any

from pydantic import SerializerFunctionWrapHandler, ValidationError, model_serializer

from interleave import ConfigurationError, InputError, RunError, Scores
from interleave.plugin import (
    PromptPack,
    Value,
    backends,
    batches,
    config,
    did_you_mean,
    folder_lock,
    parse_spec,
    runs,
    slug,
)
from interleave.train.data.manifest import (
    COLLECTION_MANIFEST,
    SUFFIX,
    Manifest,
    file_digest,
    read_manifest,
    write_manifest,
)

FOLDER = "scores"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
"""Valid names of score files; without dots, because shards add a suffix after a dot."""
AttemptKey = tuple[str, int, int]
"""Run name, step number, attempt number."""
NAME_CHARACTERS = 60


class Unscored(Value):
    """An attempt that could not be scored: a failure never counts as a number."""

    reason: str


def score_names(collection: Path) -> list[str]:
    """Return the names of the scorers of a collection."""
    return sorted({path.name.partition(".")[0] for path in (collection / FOLDER).glob("*.jsonl")})


def score_files(collection: Path, name: str) -> list[Path]:
    """Return the files of one scorer, shards included."""
    files = (collection / FOLDER).glob(f"{name}*.jsonl")
    return sorted(path for path in files if path.name.partition(".")[0] == name)


def read_scores(collection: Path, name: str | None = None) -> dict[AttemptKey, Scores | Unscored]:
    """Return the scores of a scorer by attempt; the name may be omitted if there is only one scorer."""
    scores: dict[AttemptKey, Scores | Unscored] = {}
    for path in score_files(collection, _chosen(collection, name)):
        for key, score in _ScoreReader(path).lines():
            # A later line wins, but a failure never replaces scores.
            if not (isinstance(score, Unscored) and isinstance(scores.get(key), Scores)):
                scores[key] = score
    return scores


def _chosen(collection: Path, name: str | None) -> str:
    names = score_names(collection)
    if not names:
        raise InputError(f"{collection} has no scores: make them with 'interleave data score {collection}'")
    if name is None and len(names) > 1:
        raise InputError(
            f"{collection} has the scores of {len(names)} scorers: name one of {', '.join(names)}"
        )
    if name is not None and name not in names:
        raise InputError(f"{collection} has no scores named {name!r}. {did_you_mean(name, names)}")
    return name or names[0]


class _ScoreReader:
    """Reads one file; equal scores and names share one object, so that a million lines fit into memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: dict[tuple[Any, Any], Scores] = {}

    def lines(self) -> Iterator[tuple[AttemptKey, Scores | Unscored]]:
        try:
            with open(self.path, "rb") as file:
                for number, line in enumerate(file, start=1):
                    if line.endswith(b"\n"):  # an incomplete last line is ignored
                        yield self._read(number, line)
        except OSError as error:
            raise InputError(f"{self.path} cannot be read ({error.strerror})") from None

    def _read(self, number: int, line: bytes) -> tuple[AttemptKey, Scores | Unscored]:
        try:
            row = json.loads(line)
            key = (intern(row["run"]), _whole_number(row["step"]), _whole_number(row["attempt"]))
            return key, Unscored(reason=row["failure"]) if "failure" in row else self._scores(row)
        except (ValueError, KeyError, TypeError, RecursionError, ValidationError) as error:
            reason = " ".join(str(error).split())[:100]
            raise InputError(f"{self.path}:{number} is not a score ({reason}): remove the line") from None

    def _scores(self, row: dict[str, Any]) -> Scores:
        values = (row["semantics"], row["quality"])
        if values not in self._seen:
            self._seen[values] = Scores(semantics=values[0], quality=values[1])
        return self._seen[values]


def _whole_number(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r:.40} is not a whole number")
    return value


class ScoreLine(Value):
    """Fields common to all lines: the attempt."""

    run: str
    step: int
    attempt: int

    @model_serializer(mode="wrap")
    def without_missing_values(self, dump: SerializerFunctionWrapHandler) -> dict[str, Any]:
        return {name: value for name, value in dump(self).items() if value is not None}


class Scored(ScoreLine):
    """The scores of an attempt, with calls and cost."""

    semantics: float
    quality: float
    calls: int | None = None
    """Model calls; None for a scorer that calls no model."""
    cost: float | None = None
    """US dollars, if the model knows its price."""


class Failed(ScoreLine):
    """Why an attempt has no scores, with calls and cost."""

    failure: str
    calls: int | None = None
    cost: float | None = None


@dataclass(frozen=True)
class ScorerConfig:
    """The scorer of a file: its spec and its prompts."""

    spec: str
    prompts: config.PackConfig | None
    """None for a scorer without prompts."""

    @property
    def identity(self) -> str:
        return str(config.without_tuning(parse_spec(self.spec)))

    @property
    def default_name(self) -> str:
        return slug(self.identity, NAME_CHARACTERS)

    def as_options(self) -> dict[str, object]:
        words = self.prompts.model_dump() if self.prompts else None
        return {"scorer": self.identity, "prompts": words}


def scorer_config(spec: str, pack: PromptPack | None) -> ScorerConfig:
    return ScorerConfig(spec, pack.identity if pack else None)


class ScoreFile:
    """The file of one scorer, open for appending."""

    def __init__(
        self, collection: Path, name: str, scorer: ScorerConfig, *, shard: batches.Shard = batches.WHOLE
    ) -> None:
        if not NAME.fullmatch(name):
            raise ConfigurationError(f"--name {name!r}: use letters, digits, '-' and '_', at most 100")
        self.collection, self.name, self.scorer = collection, name, scorer
        self.folder = collection / FOLDER
        self._refuse_other_scorer()
        self.journal = runs.open_journal(self.folder, f"{name}{shard.label}.jsonl")
        try:
            self.existing = read_scores(collection, name)
            self.calls, self.cost = _spent(score_files(collection, name))
            if not self._manifest.exists():
                self.save_manifest()  # later sessions check which scorer began the file
        except BaseException:
            self.journal.close()
            raise

    def has(self, key: AttemptKey, *, retry_failed: bool) -> bool:
        """Return whether an attempt is done: scored, or failed and not to be retried."""
        return isinstance(self.existing.get(key), Scores) or (key in self.existing and not retry_failed)

    def save_manifest(self) -> Manifest:
        """Write the manifest: the scorer, and the current counts."""
        with folder_lock(self.folder, f"{self.name}.lock"):
            scores = read_scores(self.collection, self.name).values()
            scored = sum(isinstance(score, Scores) for score in scores)
            manifest = Manifest(
                stage="score",
                options=self.scorer.as_options(),
                inputs=_inputs(self.collection),
                counts={"attempts": len(scores), "scored": scored, "failed": len(scores) - scored},
                notes=tuple(filter(None, [backends.note_for(self.scorer.spec, role="scorer")])),
            )
            write_manifest(self._manifest, manifest)
        return manifest

    @property
    def _manifest(self) -> Path:
        return self.folder / f"{self.name}{SUFFIX}"

    def _refuse_other_scorer(self) -> None:
        if not self._manifest.exists():
            return
        stored, current = read_manifest(self._manifest).options, self.scorer.as_options()
        if stored != json.loads(json.dumps(current)):
            raise RunError(
                f"the scores {self.name!r} in {self.collection} were made by {stored.get('scorer')!r}"
                f"{' with other prompts' if stored.get('scorer') == current['scorer'] else ''}: "
                "choose another name with --name"
            )


def _inputs(collection: Path) -> dict[str, str]:
    """Return the digest of the collection's manifest, if it has one: imported runs have none."""
    with suppress(InputError):
        return {COLLECTION_MANIFEST: file_digest(collection / COLLECTION_MANIFEST)}
    return {}


def _spent(files: list[Path]) -> tuple[int, float]:
    calls, cost = 0, 0.0
    for row in _rows(files):
        calls += int(_counted(row, "calls"))
        cost += _counted(row, "cost")
    return calls, cost


def _counted(row: dict[str, Any], name: str) -> float:
    """Return a number of a line, 0 if absent; raises `InputError` for a value no scorer writes."""
    value = row.get(name)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise InputError(
            f"the line of {row.get('run')!r:.80} has {name} {value!r:.40}, which is not a count: remove it"
        )
    return value


def _rows(files: list[Path]) -> Iterator[dict[str, Any]]:
    for path in files:
        with open(path, "rb") as file:
            yield from (json.loads(line) for line in file if line.endswith(b"\n"))

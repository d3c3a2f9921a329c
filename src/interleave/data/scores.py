"""The scores of a collection: a line for every attempt, what a scorer gave it or why it gave nothing.

COLLECTION/scores/NAME.jsonl            one scorer's lines; another scorer's stand beside it
COLLECTION/scores/NAME.1-of-4.jsonl     those of a shard: read together with the others of that name
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from sys import intern
from typing import Any

from pydantic import ValidationError

from interleave.errors import InputError, did_you_mean
from interleave.types import Scores, Value

FOLDER = "scores"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,99}")
"""What a scorer's scores may be called; no dots, so that the files of shards can be told apart."""

Place = tuple[str, int, int]
"""An attempt: the name of its run, the number of its step, its own number."""


class Failure(Value):
    """An attempt that was not scored: never a number, always a reason."""

    reason: str


def score_names(collection: Path) -> list[str]:
    """The scorers that have scored here."""
    return sorted({path.name.partition(".")[0] for path in (collection / FOLDER).glob("*.jsonl")})


def score_files(collection: Path, name: str) -> list[Path]:
    """The files of one scorer: its own, and those of shards."""
    files = (collection / FOLDER).glob(f"{name}*.jsonl")
    return sorted(path for path in files if path.name.partition(".")[0] == name)


def read_scores(collection: Path, name: str | None = None) -> dict[Place, Scores | Failure]:
    """What a scorer gave every attempt; without a name, the only scorer there is."""
    scores: dict[Place, Scores | Failure] = {}
    for path in score_files(collection, _chosen(collection, name)):
        for place, score in _ScoreFile(path).lines():
            # A later line wins, but no failure takes a number back: numbers are never scored again.
            if not (isinstance(score, Failure) and isinstance(scores.get(place), Scores)):
                scores[place] = score
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


class _ScoreFile:
    """Reads one file; equal scores and names are one object, so that a million lines fit into memory."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._seen: dict[tuple[Any, Any], Scores] = {}

    def lines(self) -> Iterator[tuple[Place, Scores | Failure]]:
        try:
            with open(self.path, "rb") as file:
                for number, line in enumerate(file, start=1):
                    if line.endswith(b"\n"):  # a last line that was never finished counts for nothing
                        yield self._read(number, line)
        except OSError as error:
            raise InputError(f"{self.path} cannot be read ({error.strerror})") from None

    def _read(self, number: int, line: bytes) -> tuple[Place, Scores | Failure]:
        try:
            row = json.loads(line)
            place = (intern(row["run"]), _whole(row["step"]), _whole(row["attempt"]))
            return place, Failure(reason=row["failure"]) if "failure" in row else self._scores(row)
        except (ValueError, KeyError, TypeError, RecursionError, ValidationError) as error:
            reason = " ".join(str(error).split())[:100]
            raise InputError(f"{self.path}:{number} is no score ({reason}): remove the line") from None

    def _scores(self, row: dict[str, Any]) -> Scores:
        marks = (row["semantics"], row["quality"])
        if marks not in self._seen:
            self._seen[marks] = Scores(semantics=marks[0], quality=marks[1])
        return self._seen[marks]


def _whole(value: Any) -> int:
    if type(value) is not int:
        raise TypeError(f"{value!r:.40} is not a whole number")
    return value

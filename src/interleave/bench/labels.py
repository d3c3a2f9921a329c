"""Labels: a rater's statement about an attempt, a pair of attempts or a run; one JSON object per line.

{"kind": "accept", "rater": "ann", "at": "2026-01-31T12:00:00Z", "run": "runs/frog", "step": 2, "attempt": 1,
 "other": null, "value": true, "blind": true, "critic": {"accepted": false, "confidence": 0.31},
 "prompt": "a green frog on a leaf", "picture": "images/ab12.png"}

| kind       | subject                   | value                                                    |
|------------|---------------------------|----------------------------------------------------------|
| accept     | an attempt                | true or false: the image shows what its step planned     |
| better     | an attempt, and `other`   | "first", "second" or "same"                              |
| score      | an attempt, a step, a run | a number from 0 to 10                                    |
| wrong_step | a run                     | the number of its first wrong step, 0 if all are right   |
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path

from pydantic import AwareDatetime, Field, ValidationError, model_validator

from interleave import InputError
from interleave.plugin import Prose, Value, files, first_problem

MAX_FILE_BYTES = 4_000_000_000
MAX_LINE_BYTES = 1_000_000


class Kind(StrEnum):
    """The kind of a label."""

    ACCEPT = "accept"
    BETTER = "better"
    SCORE = "score"
    WRONG_STEP = "wrong_step"


class Preferred(StrEnum):
    """The better of two attempts. The label's own subject is the first."""

    FIRST = "first"
    SECOND = "second"
    SAME = "same"


class Subject(Value):
    """An attempt, a step (without `attempt`) or a run (without `step`)."""

    run: str = Field(min_length=1)
    """The id of a run, or the path of its folder."""
    step: int | None = Field(default=None, ge=1)
    attempt: int | None = Field(default=None, ge=1)

    @model_validator(mode="after")
    def check_attempt_has_step(self) -> Subject:
        if self.attempt is not None and self.step is None:
            raise ValueError("'attempt' needs a 'step'")
        return self


class CriticVerdict(Value):
    """The critic's verdict on the attempt in its run."""

    accepted: bool
    confidence: float | None = Field(default=None, ge=0, le=1)
    """The probability that the image is right, if the critic gave one."""
    quick: float | None = Field(default=None, ge=0, le=1)
    """The same before it has reasoned, if it was asked."""


class Label(Subject):
    """One statement by one rater."""

    kind: Kind
    rater: str = Field(min_length=1)
    at: AwareDatetime
    other: Subject | None = None
    """The second attempt of a pair."""
    value: bool | int | float | str
    blind: bool = False
    """Whether the rater saw neither the critic's verdict nor the system that drew the image."""
    critic: CriticVerdict | None = None
    prompt: Prose | None = None
    """The step's planned prompt."""
    picture: str | None = None
    """SHA-256 of the image file, or its path relative to the label file."""

    @model_validator(mode="after")
    def check_value(self) -> Label:
        if problem := _problem_with_value(self) or _problem_with_subject(self):
            raise ValueError(problem)
        return self

    @property
    def subject(self) -> Subject:
        """The subject of the label."""
        return Subject(run=self.run, step=self.step, attempt=self.attempt)


def _problem_with_value(label: Label) -> str | None:
    value, is_number = label.value, isinstance(label.value, int | float) and type(label.value) is not bool
    if label.kind is Kind.ACCEPT and type(value) is not bool:
        return f"value of 'accept' must be true or false, not {value!r:.60}"
    if label.kind is Kind.BETTER and value not in set(Preferred):
        return f"value of 'better' must be 'first', 'second' or 'same', not {value!r:.60}"
    if label.kind is Kind.SCORE and not (is_number and 0 <= float(value) <= 10):
        return f"value of 'score' must be a number from 0 to 10, not {value!r:.60}"
    if label.kind is Kind.WRONG_STEP and not (type(value) is int and value >= 0):
        return f"value of 'wrong_step' must be a step number, or 0 for none, not {value!r:.60}"
    return None


def _problem_with_subject(label: Label) -> str | None:
    if label.kind in (Kind.ACCEPT, Kind.BETTER) and label.attempt is None:
        return f"{label.kind.value!r} needs an attempt: give 'step' and 'attempt'"
    if label.kind is Kind.WRONG_STEP and label.step is not None:
        return "'wrong_step' labels a run: 'step' must be null, 'value' is the step"
    if label.kind is not Kind.BETTER:
        return None if label.other is None else "only 'better' may have 'other'"
    if label.other is None or label.other.attempt is None:
        return "'better' needs the second attempt under 'other', with its run, step and attempt"
    return "'better' compares an attempt with itself" if label.other == label.subject else None


def read_labels(path: Path) -> list[Label]:
    """Read the labels of a file. Raises `InputError` with the number of a malformed line.

    An unreadable last line without a newline was cut off by a crash and is ignored.
    """
    labels = []
    try:
        for number, _, line in files.read_lines(
            path, most_bytes=MAX_FILE_BYTES, most_in_a_line=MAX_LINE_BYTES
        ):
            try:
                labels.append(_read(line))
            except ValueError as error:
                if line.endswith(b"\n") or len(line) > MAX_LINE_BYTES:
                    raise InputError(f"{path}:{number} is not a label ({error}): correct the line") from None
    except OSError as error:
        raise InputError(f"cannot read the labels {path} ({files.why(error)})") from None
    return labels


def _read(line: bytes) -> Label:
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"it is longer than {MAX_LINE_BYTES:,} bytes")
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise ValueError("it is not a JSON object") from None
    if not isinstance(row, dict):
        raise ValueError("it is not a JSON object")
    try:
        return Label.model_validate(row)
    except ValidationError as error:
        raise ValueError(first_problem(error)) from None


def label_lines(labels: Iterable[Label]) -> bytes:
    """Encode labels as the lines of a file."""
    return b"".join(label.model_dump_json().encode() + b"\n" for label in labels)


def of_kind(labels: Sequence[Label], kind: Kind) -> list[Label]:
    """Return the labels of one kind."""
    return [label for label in labels if label.kind is kind]

"""Samples (rows of GRPO) and results (the reward of one reply, or why there is none)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from interleave import InputError, Scores
from interleave.plugin import first_problem
from interleave.train.rewards.formula import Parts

if TYPE_CHECKING:
    from PIL.Image import Image


@dataclass(frozen=True)
class Sample:
    """One attempt to judge, with its label: a row of `critic_rl.parquet`."""

    id: str
    planned_prompt: str
    used_prompt: str
    """Prompt of the judged image."""
    sources: tuple[Image, ...]
    """Source images of a redraw; empty for text-to-image."""
    success: bool
    previous: Scores
    """Scores of the judged image, which a redraw is compared with."""

    @classmethod
    def of_row(cls, row: Mapping[str, Any]) -> Sample:
        """Build a sample from a row with decoded images; raises `InputError` with the problem."""
        try:
            return cls(
                id=str(row["id"]),
                planned_prompt=str(row["planned_prompt"]),
                used_prompt=str(row["used_prompt"]),
                sources=tuple(row["sources"] or ()),
                success=_truth(row["success"]),
                previous=Scores(semantics=row["semantics"], quality=row["quality"]),
            )
        except KeyError as error:
            raise InputError(f"row {row.get('id')!r} has no {error.args[0]!r}: not a row for GRPO") from None
        except (ValueError, TypeError) as error:
            reason = first_problem(error) if isinstance(error, ValidationError) else str(error)
            raise InputError(f"row {row.get('id')!r} cannot be used: {reason[:200]}") from None


def _truth(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError(f"'success' is {value!r}, not true or false")


class Case(StrEnum):
    """Outcome of a reply."""

    SUCCESS = "success"
    """The image was right: no redraw for the whole group."""
    ACCEPTED_FAILURE = "accepted_failure"
    """The image was wrong and the critic accepted it: no redraw."""
    UNREADABLE = "unreadable"
    """The reply could not be parsed: no judgement, no prompt, no redraw."""
    REDRAWN = "redrawn"
    MASKED = "masked"
    """The generator or the scorer failed: no reward."""


@dataclass(frozen=True)
class Timing:
    """Seconds spent waiting for the semaphore, drawing, scoring, and in total."""

    waited: float = 0.0
    drawing: float = 0.0
    scoring: float = 0.0
    all: float = 0.0


@dataclass(frozen=True)
class Result:
    """The reward of one reply, or why there is none."""

    total: float | None
    """None: masked."""
    parts: Parts | None
    case: Case
    cause: str = ""
    """Why the reward is masked."""
    judged: bool | None = None
    """Whether the critic accepted; None if its reply could not be parsed."""
    prompt: str | None = None
    """Prompt of the redraw, if there was one."""
    scores: Scores | None = None
    image: Image | None = field(default=None, repr=False)
    timing: Timing = Timing()
    from_cache: bool = False
    blameless: bool = False
    """Whether the failure is independent of the reply: the generator did not refuse this prompt."""

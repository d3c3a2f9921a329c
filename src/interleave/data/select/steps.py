"""What the rules look at: the attempts of one step with their scores, and three figures of the step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate

from interleave.data.scores import Failure
from interleave.runs.record import AttemptRecord
from interleave.types import Outcome, Scores, Verdict

NO_SCORE = "no score"
SCORE_FAILED = "score failed"
UNJUDGED = "not judged"
UNREADABLE = "unreadable verdict"
NO_PROMPT = "refused without a better prompt"

Judgement = tuple[int, bool, str | None]
"""Number and judgement of an attempt, and why it can be no row, if it cannot."""


@dataclass(frozen=True, slots=True)
class ScoredAttempt:
    """One picture: what the critic said and the scorer gave."""

    number: int
    accepted: bool
    scores: Scores | None
    flaw: str | None = None
    """Why it can be no row at all, whatever its step is like."""


@dataclass(frozen=True)
class ScoredStep:
    """The attempts of one step, in the order of drawing."""

    collection: str
    run: str
    number: int
    attempts: tuple[ScoredAttempt, ...]

    @property
    def usable(self) -> int:
        """How many attempts can be rows."""
        return sum(attempt.flaw is None for attempt in self.attempts)

    @cached_property
    def figures(self) -> Figures | None:
        """None where no attempt has a score."""
        marks = [attempt.scores.overall for attempt in self.attempts if attempt.scores is not None]
        return figures_of(marks) if marks else None


@dataclass(frozen=True, slots=True)
class Figures:
    """What the scores of a step's attempts come to, each the geometric mean of semantics and quality."""

    fall: float
    """How far the last attempt is below the best one before it; 0 where it is not, or stands alone."""
    best: float
    variance: float


def figures_of(marks: list[float]) -> Figures:
    """The three figures of a step; its marks in the order of drawing, at least one."""
    best_so_far = list(accumulate(marks, max))
    fall = max(0.0, best_so_far[-2] - marks[-1]) if len(marks) > 1 else 0.0
    mean = math.fsum(marks) / len(marks)
    variance = math.fsum((mark - mean) ** 2 for mark in marks) / len(marks)
    return Figures(round(fall, 6), round(best_so_far[-1], 6), round(variance, 6))


def judged(attempt: AttemptRecord) -> Judgement:
    """Number, judgement and flaw of an attempt: all that selecting needs of it besides its score."""
    verdict = attempt.verdict
    return attempt.number, verdict is not None and verdict.accepted, _flaw_of_verdict(verdict)


def scored(judgement: Judgement, score: Scores | Failure | None) -> ScoredAttempt:
    """A judged attempt beside its score."""
    number, accepted, flaw = judgement
    if isinstance(score, Scores):
        return ScoredAttempt(number, accepted, score, flaw)
    return ScoredAttempt(number, accepted, None, flaw or (NO_SCORE if score is None else SCORE_FAILED))


def _flaw_of_verdict(verdict: Verdict | None) -> str | None:
    if verdict is None:
        return UNJUDGED
    if verdict.outcome is Outcome.UNREADABLE:
        return UNREADABLE
    if not verdict.accepted and not (verdict.refined_prompt or "").strip():
        return NO_PROMPT  # as a target it would teach to refuse and stay silent
    return None

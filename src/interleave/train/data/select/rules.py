"""Rules that assign every attempt to SFT or RL or drop it, and the balancing of verdicts.

A step with falling scores shows refinements that made the image worse. A step that never scores well shows
none that helped. Both would mislead a critic and are dropped. Of the rest, a step whose scores vary is worth
exploring by reinforcement learning; one whose scores do not vary is an example to imitate. Steps accepted at
the first attempt do not vary, and refusals come from redrawn steps. So, by default, at most the upper half of
the varying steps goes to RL, and SFT receives refusals too.

Balancing: later attempts are refused more often, first ones accepted more often. A critic trained on that
learns to rely on the attempt number, or to accept everything. So within each part and iteration the rarer
verdict is repeated, up to a number of copies, and the surplus of the other is dropped. Varying steps were all
refused at the first attempt, so a critic trained by RL on those alone learns to refuse every first attempt.
Some surplus first acceptances therefore move from SFT to RL. Iterations with only one verdict are balanced
against each other.
"""

from __future__ import annotations

import hashlib
import math
import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import accumulate

from interleave import ConfigurationError, Outcome, Scores, Verdict
from interleave.plugin import Value, runs
from interleave.train.data.score_file import Unscored

NO_SCORE = "no score"
SCORE_FAILED = "score failed"
UNJUDGED = "not judged"
UNREADABLE = "unreadable verdict"
NO_PROMPT = "refused without a better prompt"
VerdictSummary = tuple[int, bool, str | None]
"""Attempt number, whether it was accepted, and why it cannot become a row, or None."""
SFT, RL, DROPPED = "sft", "rl", "dropped"
FALLING = "falling scores"
LOW = "persistently low"
FALLING_SHARE = 0.25
"""Default maximum share of the redrawn steps dropped for falling scores."""
LOW_SHARE = 0.1
"""Default maximum share of the steps dropped for low scores."""
GOOD = 8.0
"""Default score from which a step is never dropped as low."""
SFT_TO_RL = 2.0
SURPLUS = "surplus in balancing"
MAX_COPIES = 4


@dataclass(frozen=True, slots=True)
class ScoredAttempt:
    """One attempt with its verdict and scores."""

    number: int
    accepted: bool
    scores: Scores | None
    problem: str | None = None
    """Why it cannot become a row, independent of its step."""


@dataclass(frozen=True)
class ScoredStep:
    """Consecutive attempts of one step, in the order of drawing."""

    collection: str
    run: str
    number: int
    attempts: tuple[ScoredAttempt, ...]
    take: int = 1
    """Above 1 if a person had the step, or an earlier one, redrawn."""

    @property
    def usable(self) -> int:
        """Number of attempts that can become rows."""
        return sum(attempt.problem is None for attempt in self.attempts)

    @cached_property
    def stats(self) -> StepStats | None:
        """Statistics of the scores; None if no attempt has scores."""
        scores = [attempt.scores.overall for attempt in self.attempts if attempt.scores is not None]
        return step_stats(scores) if scores else None


@dataclass(frozen=True, slots=True)
class StepStats:
    """Statistics of a step's scores, where a score is the geometric mean of semantics and quality."""

    fall: float
    """Difference between the best earlier attempt and the last one; at least 0."""
    best: float
    variance: float


def step_stats(scores: list[float]) -> StepStats:
    """Compute the statistics of a step from its scores in the order of drawing, at least one."""
    best_so_far = list(accumulate(scores, max))
    fall = max(0.0, best_so_far[-2] - scores[-1]) if len(scores) > 1 else 0.0
    mean = math.fsum(scores) / len(scores)
    variance = math.fsum((mark - mean) ** 2 for mark in scores) / len(scores)
    return StepStats(round(fall, 6), round(best_so_far[-1], 6), round(variance, 6))


def summarize_verdict(attempt: runs.AttemptRecord) -> VerdictSummary:
    """Return all that selection needs of an attempt except its score."""
    verdict = attempt.verdict
    return attempt.number, verdict is not None and verdict.accepted, _verdict_problem(verdict)


def with_score(judgement: VerdictSummary, score: Scores | Unscored | None) -> ScoredAttempt:
    """Add a score to an attempt."""
    number, accepted, problem = judgement
    if isinstance(score, Scores):
        return ScoredAttempt(number, accepted, score, problem)
    return ScoredAttempt(number, accepted, None, problem or (NO_SCORE if score is None else SCORE_FAILED))


def _verdict_problem(verdict: Verdict | None) -> str | None:
    if verdict is None:
        return UNJUDGED
    if verdict.outcome is Outcome.UNREADABLE:
        return UNREADABLE
    if not verdict.accepted and not (verdict.refined_prompt or "").strip():
        return NO_PROMPT  # as a target it would teach the critic to refuse without a better prompt
    return None


class Thresholds(Value):
    """Thresholds of the rules; None disables a rule."""

    max_fall: float | None
    """Maximum difference between the best earlier score and the last one of a step."""
    min_best: float | None
    """Score that at least one attempt of a step must reach."""
    spares_accepted: bool = False
    """Whether `min_best` keeps steps that end accepted: true unless the user gave it."""
    variance: float
    """Variance above which a step goes to RL."""


@dataclass(frozen=True)
class ThresholdOptions:
    """Thresholds given by the user; the others are derived from the data."""

    max_fall: float | None = None
    min_best: float | None = None
    variance: float | None = None
    sft_to_rl: float | None = None
    """None: as close to `SFT_TO_RL` as possible with half of the varying steps in SFT."""
    filtered: bool = True

    def __post_init__(self) -> None:
        if self.sft_to_rl is not None and not (math.isfinite(self.sft_to_rl) and self.sft_to_rl > 0):
            raise ConfigurationError(f"the ratio of SFT to RL rows must be above 0, not {self.sft_to_rl:g}")


def thresholds_for(steps: Sequence[ScoredStep], options: ThresholdOptions) -> Thresholds:
    """Return the thresholds; those not given are derived from the steps, in any order."""
    known = [step.stats for step in steps if step.stats is not None and step.usable]
    max_fall = min_best = None
    if options.filtered:
        max_fall = _or_default(options.max_fall, lambda: _max_fall_for(steps))
        bests = [each.best for each in known]
        min_best = _or_default(options.min_best, lambda: min(quantile(bests, LOW_SHARE), GOOD))
    spares = options.filtered and options.min_best is None
    line = Thresholds(max_fall=max_fall, min_best=min_best, spares_accepted=spares, variance=0.0)
    kept = [step for step in steps if why_dropped(step, line) is None]
    variance = _or_default(options.variance, lambda: variance_for(kept, options.sft_to_rl))
    return line.model_copy(update={"variance": variance})


def why_dropped(step: ScoredStep, thresholds: Thresholds) -> str | None:
    """Return why a step is dropped, or None."""
    if step.stats is None:
        return None  # its attempts have their own reasons
    if thresholds.max_fall is not None and step.stats.fall > thresholds.max_fall:
        return FALLING
    spared = thresholds.spares_accepted and step.attempts[-1].accepted
    if thresholds.min_best is not None and step.stats.best < thresholds.min_best and not spared:
        return LOW
    return None


def part_of(stats: StepStats, thresholds: Thresholds) -> str:
    """Return the part of a kept step."""
    return RL if stats.variance > thresholds.variance else SFT


def quantile(values: Iterable[float], share: float) -> float:
    """Return the value with at most this share of the values below it; 0 for no values."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


def variance_for(steps: Iterable[ScoredStep], sft_to_rl: float | None = None) -> float:
    """Return the variance above which steps go to RL, for a row ratio as close as possible to `sft_to_rl`.

    It is never below 0, because a step that does not vary has nothing to explore. Without a given ratio it is
    also never below the median of the varying steps.
    """
    usable = [(step.stats.variance, step.usable) for step in steps if step.stats and step.usable]
    if sft_to_rl is not None:
        return _line_for_ratio(usable, sft_to_rl)
    varying = [variance for variance, _ in usable if variance > 0]
    half = statistics.median_low(varying) if varying else 0.0
    return max(half, _line_for_ratio(usable, SFT_TO_RL))


def _line_for_ratio(usable: Iterable[tuple[float, int]], sft_to_rl: float) -> float:
    """Return the threshold for the ratio alone, from each step's variance and number of rows."""
    rows: Counter[float] = Counter()
    for variance, number in usable:
        rows[variance] += number
    wanted = rows.total() / (1 + sft_to_rl)
    to_rl, best, line = 0, wanted, max(rows, default=0.0)
    for variance in sorted(rows, reverse=True):
        if abs(to_rl - wanted) < best:
            best, line = abs(to_rl - wanted), variance
        to_rl += rows[variance]
    return line


def _max_fall_for(steps: Sequence[ScoredStep]) -> float:
    """Return a threshold that drops at most the worst quarter of the redrawn steps."""
    tried_again = [step.stats.fall for step in steps if step.stats is not None and len(step.attempts) > 1]
    return quantile(tried_again, 1 - FALLING_SHARE)


def _or_default(option: float | None, from_data: Callable[[], float]) -> float:
    return from_data() if option is None else option


@dataclass(frozen=True, slots=True)
class Candidate:
    """An attempt selected as a row."""

    key: str
    """Name of the attempt; its hash with the seed gives a random order, independent of the input order."""
    part: str
    iteration: int
    accepted: bool


def move_acceptances_to_rl(candidates: Sequence[Candidate], *, seed: int) -> list[Candidate]:
    """Move acceptances from SFT to RL in iterations in which RL has only refusals.

    The number moved is that of RL's refusals, at most SFT's surplus over its own refusals, and at most half.
    """
    positions: dict[tuple[str, int, bool], list[int]] = defaultdict(list)
    for position, each in enumerate(candidates):
        positions[each.part, each.iteration, each.accepted].append(position)
    moved = list(candidates)
    for part, iteration, accepted in list(positions):
        if (part, accepted) != (RL, False) or positions[RL, iteration, True]:
            continue
        own = len(positions[SFT, iteration, True])
        spare = min(own - len(positions[SFT, iteration, False]), own // 2)
        wanted = len(positions[RL, iteration, False])
        shuffled = sorted(
            positions[SFT, iteration, True],
            key=lambda position: _shuffle_key(candidates[position].key, seed),
        )
        for position in shuffled[: max(0, min(spare, wanted))]:
            moved[position] = replace(candidates[position], part=RL)
    return moved


def copy_counts(candidates: Sequence[Candidate], *, seed: int, max_copies: int = MAX_COPIES) -> list[int]:
    """Return the number of copies of each candidate, 0 for the surplus."""
    groups = _groups(candidates)
    copies = [1] * len(candidates)
    for refused, accepted in groups:
        rarer, other = sorted((refused, accepted), key=len)
        if not rarer:
            continue  # nothing to balance it against
        even = min(len(other), len(rarer) * max_copies)
        for positions in (rarer, other):
            share, left = divmod(even, len(positions))
            shuffled = sorted(positions, key=lambda position: _shuffle_key(candidates[position].key, seed))
            for place, position in enumerate(shuffled):
                copies[position] = share + (place < left)
    return copies


def _groups(candidates: Sequence[Candidate]) -> list[tuple[list[int], list[int]]]:
    """Return the positions of the refusals and acceptances to balance against each other."""
    by_iteration: dict[tuple[str, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for position, each in enumerate(candidates):
        by_iteration[each.part, each.iteration][each.accepted].append(position)
    one_sided: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    mixed = []
    for (part, _), (refused, accepted) in by_iteration.items():
        if refused and accepted:
            mixed.append((refused, accepted))
        else:
            one_sided[part][0].extend(refused)
            one_sided[part][1].extend(accepted)
    return mixed + list(one_sided.values())


def _shuffle_key(key: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}/{key}".encode()).digest()

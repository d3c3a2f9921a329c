"""The rules that assign every attempt to SFT or RL or drop it, and the balancing of verdicts.

A step with falling scores shows refinements that made things worse; a step that never scores well shows none
that helped. Both teach a critic the wrong thing and are dropped. Of the rest, a step whose scores vary is
worth exploring, which is what reinforcement learning does; one that does not vary is an example to imitate.
Steps accepted at once do not vary, and refusals come from steps that were redrawn. So, by default, at most
the upper half of the varying steps goes to RL, and SFT sees refusals too.

Balancing: later attempts are refused more often, first ones accepted more often. A critic trained on that
learns to look at the attempt number, or to accept everything. So within each part and iteration the rarer
verdict is repeated, up to a number of copies, and the surplus of the other is left out. Varying steps were
all refused at first: a critic trained by RL on those alone learns to refuse every first attempt. So some
first acceptances that SFT has in surplus move to RL. Iterations with one verdict only are balanced against
each other.
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
"""Attempt number, whether it was accepted, and why it cannot become a row, if so."""
SFT, RL, DROPPED = "sft", "rl", "dropped"
FALLING = "falling scores"
LOW = "persistently low"
FALLING_SHARE = 0.25
"""By default, at most this share of the redrawn steps is dropped for falling scores."""
LOW_SHARE = 0.1
"""By default, at most this share of the steps is dropped for low scores."""
GOOD = 8.0
"""By default, a step that reaches this score is never dropped as low."""
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
    """Why it cannot become a row, whatever its step is like."""


@dataclass(frozen=True)
class ScoredStep:
    """The attempts of one step that follow from each other, in the order of drawing."""

    collection: str
    run: str
    number: int
    attempts: tuple[ScoredAttempt, ...]
    take: int = 1
    """Above 1 where a person had the step, or one before it, drawn again."""

    @property
    def usable(self) -> int:
        """How many attempts can become rows."""
        return sum(attempt.problem is None for attempt in self.attempts)

    @cached_property
    def stats(self) -> StepStats | None:
        """None when no attempt has scores."""
        scores = [attempt.scores.overall for attempt in self.attempts if attempt.scores is not None]
        return step_stats(scores) if scores else None


@dataclass(frozen=True, slots=True)
class StepStats:
    """Statistics of a step's scores, each the geometric mean of semantics and quality."""

    fall: float
    """How far the last attempt is below the best one before it; at least 0."""
    best: float
    variance: float


def step_stats(scores: list[float]) -> StepStats:
    """The statistics of a step from its scores in the order of drawing, at least one."""
    best_so_far = list(accumulate(scores, max))
    fall = max(0.0, best_so_far[-2] - scores[-1]) if len(scores) > 1 else 0.0
    mean = math.fsum(scores) / len(scores)
    variance = math.fsum((mark - mean) ** 2 for mark in scores) / len(scores)
    return StepStats(round(fall, 6), round(best_so_far[-1], 6), round(variance, 6))


def summarize_verdict(attempt: runs.AttemptRecord) -> VerdictSummary:
    """All that selection needs of an attempt besides its score."""
    verdict = attempt.verdict
    return attempt.number, verdict is not None and verdict.accepted, _verdict_problem(verdict)


def with_score(judgement: VerdictSummary, score: Scores | Unscored | None) -> ScoredAttempt:
    """The attempt with its score added."""
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
        return NO_PROMPT  # as a target it would teach to refuse without a better prompt
    return None


class Thresholds(Value):
    """The thresholds of the rules; None: that rule drops nothing."""

    max_fall: float | None
    """A step is dropped when its last score is more than this below the best one before."""
    min_best: float | None
    """A step is dropped when none of its attempts reaches this."""
    spares_accepted: bool = False
    """Whether `min_best` spares steps that end accepted: true unless the user gave it."""
    variance: float
    """A step whose scores vary more than this goes to RL."""


@dataclass(frozen=True)
class ThresholdOptions:
    """The thresholds a user gives; the others are derived from the data."""

    max_fall: float | None = None
    min_best: float | None = None
    variance: float | None = None
    sft_to_rl: float | None = None
    """None: as near to `SFT_TO_RL` as possible with half of the varying steps in SFT."""
    filtered: bool = True

    def __post_init__(self) -> None:
        if self.sft_to_rl is not None and not (math.isfinite(self.sft_to_rl) and self.sft_to_rl > 0):
            raise ConfigurationError(f"the ratio of SFT to RL rows must be above 0, not {self.sft_to_rl:g}")


def thresholds_for(steps: Sequence[ScoredStep], options: ThresholdOptions) -> Thresholds:
    """The thresholds, those not given derived from the steps in any order."""
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
    """Why a step is dropped, or None."""
    if step.stats is None:
        return None  # its attempts have their own reasons
    if thresholds.max_fall is not None and step.stats.fall > thresholds.max_fall:
        return FALLING
    spared = thresholds.spares_accepted and step.attempts[-1].accepted
    if thresholds.min_best is not None and step.stats.best < thresholds.min_best and not spared:
        return LOW
    return None


def part_of(stats: StepStats, thresholds: Thresholds) -> str:
    """The part of a step that is kept."""
    return RL if stats.variance > thresholds.variance else SFT


def quantile(values: Iterable[float], share: float) -> float:
    """The value with at most this share of the values below it; 0 for no values."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


def variance_for(steps: Iterable[ScoredStep], sft_to_rl: float | None = None) -> float:
    """The variance above which steps go to RL, so that the rows come as near to the ratio as possible.

    It is never below 0: a step that does not vary has nothing to explore, whatever the ratio. Without a given
    ratio it is also never below the median of the varying steps.
    """
    usable = [(step.stats.variance, step.usable) for step in steps if step.stats and step.usable]
    if sft_to_rl is not None:
        return _line_for_ratio(usable, sft_to_rl)
    varying = [variance for variance, _ in usable if variance > 0]
    half = statistics.median_low(varying) if varying else 0.0
    return max(half, _line_for_ratio(usable, SFT_TO_RL))


def _line_for_ratio(usable: Iterable[tuple[float, int]], sft_to_rl: float) -> float:
    """The threshold for the ratio alone, from each step's variance and number of rows."""
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
    """A threshold that drops at most the worst quarter of the redrawn steps."""
    tried_again = [step.stats.fall for step in steps if step.stats is not None and len(step.attempts) > 1]
    return quantile(tried_again, 1 - FALLING_SHARE)


def _or_default(option: float | None, from_data: Callable[[], float]) -> float:
    return from_data() if option is None else option


@dataclass(frozen=True, slots=True)
class Candidate:
    """An attempt that will become a row."""

    key: str
    """Names the attempt; its hash with the seed gives a random order, whatever the input order."""
    part: str
    iteration: int
    accepted: bool


def move_acceptances_to_rl(candidates: Sequence[Candidate], *, seed: int) -> list[Candidate]:
    """Move acceptances from SFT to RL in iterations where RL has refusals only.

    As many as RL has refusals, at most SFT's surplus over its own refusals, and at most half.
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
    """How often each candidate is repeated, 0 for the surplus."""
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
    """The positions of the refusals and acceptances that are balanced against each other."""
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

"""What the rules look at: the attempts of one step with their scores, and three figures of the step.

The rules that give every attempt its part: which steps are dropped, and who of the rest teaches what.

A step whose scores fall shows refinements that made things worse, and one that never gets good shows none
that helped: both teach a critic the wrong thing. Of the rest, a step whose scores vary has something to be
found out by trying, which is what reinforcement learning does; one that does not vary is an example to copy.
But a step that was accepted at once does not vary either, and refusals come from steps that were drawn again:
so, unless told, no more than the upper half of those that vary goes to RL, and copying sees refusals too.


Judgements made even: as many acceptances as refusals, part by part and iteration by iteration.

Later attempts are refused more often, and first ones accepted more often. A critic trained on that learns to
look at the number of the attempt, or to accept everything. So within each part and iteration the rarer
judgement is repeated, up to a number of copies, and the surplus of the other is left out.

Steps that vary were refused at first, every one of them. A critic that tries on those alone finds out that
first attempts are to be refused, and refuses them all. So copying lends first acceptances it has too many of
to RL. Iterations that still know one judgement only are weighed against each other.
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

from interleave.data.score_file import Unscored
from interleave.errors import ConfigurationError
from interleave.runs.record import AttemptRecord
from interleave.types import Outcome, Scores, Value, Verdict

NO_SCORE = "no score"
SCORE_FAILED = "score failed"
UNJUDGED = "not judged"
UNREADABLE = "unreadable verdict"
NO_PROMPT = "refused without a better prompt"
VerdictSummary = tuple[int, bool, str | None]
"""Number and judgement of an attempt, and why it can be no row, if it cannot."""
SFT, RL, DROPPED = "sft", "rl", "dropped"
FALLING = "falling scores"
LOW = "persistently low"
FALLING_SHARE = 0.25
"""At most this share of the steps that were drawn more than once is dropped for falling, unless told."""
LOW_SHARE = 0.1
"""At most this share of the steps is dropped for never being good, unless told."""
GOOD = 8.0
"""A step that reaches this is never called low, unless told."""
SFT_TO_RL = 2.0
SURPLUS = "surplus in balancing"
MAX_COPIES = 4


@dataclass(frozen=True, slots=True)
class ScoredAttempt:
    """One picture: what the critic said and the scorer gave."""

    number: int
    accepted: bool
    scores: Scores | None
    problem: str | None = None
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
        return sum(attempt.problem is None for attempt in self.attempts)

    @cached_property
    def stats(self) -> StepStats | None:
        """None where no attempt has a score."""
        scores = [attempt.scores.overall for attempt in self.attempts if attempt.scores is not None]
        return step_stats(scores) if scores else None


@dataclass(frozen=True, slots=True)
class StepStats:
    """What the scores of a step's attempts come to, each the geometric mean of semantics and quality."""

    fall: float
    """How far the last attempt is below the best one before it; 0 where it is not, or stands alone."""
    best: float
    variance: float


def step_stats(scores: list[float]) -> StepStats:
    """The three figures of a step; its marks in the order of drawing, at least one."""
    best_so_far = list(accumulate(scores, max))
    fall = max(0.0, best_so_far[-2] - scores[-1]) if len(scores) > 1 else 0.0
    mean = math.fsum(scores) / len(scores)
    variance = math.fsum((mark - mean) ** 2 for mark in scores) / len(scores)
    return StepStats(round(fall, 6), round(best_so_far[-1], 6), round(variance, 6))


def summarize_verdict(attempt: AttemptRecord) -> VerdictSummary:
    """Number, judgement and flaw of an attempt: all that selecting needs of it besides its score."""
    verdict = attempt.verdict
    return attempt.number, verdict is not None and verdict.accepted, _verdict_problem(verdict)


def with_score(judgement: VerdictSummary, score: Scores | Unscored | None) -> ScoredAttempt:
    """A judged attempt beside its score."""
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
        return NO_PROMPT  # as a target it would teach to refuse and stay silent
    return None


class Thresholds(Value):
    """Where the rules draw their lines; None: that rule drops nothing."""

    max_fall: float | None
    """A step is dropped when its last score is further than this below its best one before."""
    min_best: float | None
    """A step is dropped when not one of its attempts reaches this."""
    spares_accepted: bool = False
    """Whether a step that ends accepted stays all the same: where `min_best` is not a user's word."""
    variance: float
    """A step whose scores vary more than this goes to RL."""


@dataclass(frozen=True)
class ThresholdOptions:
    """What a user says about the thresholds; what is left open comes from the data."""

    max_fall: float | None = None
    min_best: float | None = None
    variance: float | None = None
    sft_to_rl: float | None = None
    """None: as near to `SFT_TO_RL` as leaves half of the steps that vary to SFT."""
    filtered: bool = True

    def __post_init__(self) -> None:
        if self.sft_to_rl is not None and not (math.isfinite(self.sft_to_rl) and self.sft_to_rl > 0):
            raise ConfigurationError(f"the ratio of SFT to RL rows must be above 0, not {self.sft_to_rl:g}")


def thresholds_for(steps: Sequence[ScoredStep], options: ThresholdOptions) -> Thresholds:
    """The thresholds, those not given taken from the steps; the order of the steps does not matter."""
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
    """The reason why a step is dropped, or None when it stays."""
    if step.stats is None:
        return None  # its attempts have reasons of their own
    if thresholds.max_fall is not None and step.stats.fall > thresholds.max_fall:
        return FALLING
    spared = thresholds.spares_accepted and step.attempts[-1].accepted
    if thresholds.min_best is not None and step.stats.best < thresholds.min_best and not spared:
        return LOW
    return None


def part_of(stats: StepStats, thresholds: Thresholds) -> str:
    """The part of a step that stays."""
    return RL if stats.variance > thresholds.variance else SFT


def quantile(values: Iterable[float], share: float) -> float:
    """One of the values, below which lies at most this share of them; 0 where there are none."""
    ordered = sorted(values)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] if ordered else 0.0


def variance_for(steps: Iterable[ScoredStep], sft_to_rl: float | None = None) -> float:
    """The variance above which steps go to RL, so that the rows come as near to the ratio as they can.

    It is never below 0: where nothing varies there is nothing to explore, whatever the ratio. Where no ratio
    is given it is never below the median of the steps that vary either.
    """
    usable = [(step.stats.variance, step.usable) for step in steps if step.stats and step.usable]
    if sft_to_rl is not None:
        return _line_for_ratio(usable, sft_to_rl)
    varying = [variance for variance, _ in usable if variance > 0]
    half = statistics.median_low(varying) if varying else 0.0
    return max(half, _line_for_ratio(usable, SFT_TO_RL))


def _line_for_ratio(usable: Iterable[tuple[float, int]], sft_to_rl: float) -> float:
    """The same for the ratio alone, from the variance and the number of rows of every step."""
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
    """Drop the worst quarter of the steps that were tried again, as far as they fall at all."""
    tried_again = [step.stats.fall for step in steps if step.stats is not None and len(step.attempts) > 1]
    return quantile(tried_again, 1 - FALLING_SHARE)


def _or_default(option: float | None, from_data: Callable[[], float]) -> float:
    return from_data() if option is None else option


@dataclass(frozen=True, slots=True)
class Candidate:
    """An attempt that is to be a row."""

    key: str
    """Names the attempt; with the seed it decides by lot, whatever the order."""
    part: str
    iteration: int
    accepted: bool


def move_acceptances_to_rl(candidates: Sequence[Candidate], *, seed: int) -> list[Candidate]:
    """The same candidates, some acceptances of SFT now of RL: in iterations where RL knows refusals only, as
    many as there are of those, no more than SFT has above its own refusals, and never the larger half."""
    summarize_verdict: dict[tuple[str, int, bool], list[int]] = defaultdict(list)
    for position, each in enumerate(candidates):
        summarize_verdict[each.part, each.iteration, each.accepted].append(position)
    lent = list(candidates)
    for part, iteration, accepted in list(summarize_verdict):
        if (part, accepted) != (RL, False) or summarize_verdict[RL, iteration, True]:
            continue
        own = len(summarize_verdict[SFT, iteration, True])
        spare = min(own - len(summarize_verdict[SFT, iteration, False]), own // 2)
        wanted = len(summarize_verdict[RL, iteration, False])
        shuffled = sorted(
            summarize_verdict[SFT, iteration, True],
            key=lambda position: _shuffle_key(candidates[position].key, seed),
        )
        for position in shuffled[: max(0, min(spare, wanted))]:
            lent[position] = replace(candidates[position], part=RL)
    return lent


def copy_counts(candidates: Sequence[Candidate], *, seed: int, max_copies: int = MAX_COPIES) -> list[int]:
    """How often each candidate is taken, 0 for the surplus."""
    groups = _groups(candidates)
    copies = [1] * len(candidates)
    for refused, accepted in groups:
        rarer, other = sorted((refused, accepted), key=len)
        if not rarer:
            continue  # nothing to weigh it against: it stays as it is
        even = min(len(other), len(rarer) * max_copies)
        for positions in (rarer, other):
            share, left = divmod(even, len(positions))
            shuffled = sorted(positions, key=lambda position: _shuffle_key(candidates[position].key, seed))
            for place, position in enumerate(shuffled):
                copies[position] = share + (place < left)
    return copies


def _groups(candidates: Sequence[Candidate]) -> list[tuple[list[int], list[int]]]:
    """The positions of refusals and acceptances that are weighed against each other."""
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

"""TRL: a reward function that returns the total or None, and logs the parts.

TRL masks a sample only if every reward function returns None for it, so there is only one. It awaits reward
functions without a deadline, and their exceptions end the training. The core handles both.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from interleave.train.rewards.core import RewardCore
from interleave.train.rewards.health import MOST_FAILURES, FailureLimits, Health, Screened
from interleave.train.rewards.samples import Case, Result, Sample
from interleave.train.trainers.shared import FIRST_PAUSE_SECONDS, pauses, screen

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScoredBatch:
    """One call of the reward function: the samples, and the results in the same order."""

    samples: Sequence[Sample]
    completions: Sequence[str]
    results: Sequence[Result]

    @property
    def causes(self) -> list[str]:
        """Why rewards failed."""
        return [result.cause for result in self.results if result.cause]


@dataclass
class TrlReward:
    """Reward for `GRPOTrainer(reward_funcs=[….reward])`; rows need the columns of `critic_rl.parquet`."""

    core: RewardCore
    patience: float = 600.0
    """Total seconds to wait while every redraw of a step fails."""
    limits: FailureLimits = field(default_factory=FailureLimits)
    first_pause: float = FIRST_PAUSE_SECONDS
    screening: bool = True
    """Whether to discard groups and steps with too many failures; False if the trainer does that."""
    on_scored: Callable[[ScoredBatch], None] | None = None
    """Callback with the results of every batch: TRL passes on only the totals."""
    health: Health = field(init=False)

    def __post_init__(self) -> None:
        self.health = Health(self.limits)

    async def reward(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        *,
        trainer_state: Any = None,
        log_extra: Callable[[str, list[Any]], None] | None = None,
        log_metric: Callable[[str, float], None] | None = None,
        **columns: Any,
    ) -> list[float | None]:
        samples = samples_of(columns, len(completions))
        texts = [text_of(completion) for completion in completions]
        step = int(getattr(trainer_state, "global_step", 0) or 0)
        results = await self._score_with_retries(samples, texts, step)
        scored = ScoredBatch(samples, texts, results)
        if self.on_scored is not None:
            self.on_scored(scored)
        if log_extra is not None:
            log_extra("case", [result.case.value for result in results])
            log_extra("cause", [result.cause for result in results])
        if log_metric is not None:
            for name, value in metrics(results, samples).items():
                log_metric(name, value)
        if not self.screening:
            return [result.total for result in results]
        kept = self._screened(scored)
        if log_metric is not None:
            log_metric("redraws/failed", kept.share)
            log_metric("redraws/failed_lately", self.health.lately)
        return list(kept.totals)

    def _screened(self, scored: ScoredBatch) -> Screened:
        """Return the rewards to learn from; raises if too many failed for too long."""
        step = screen(scored.samples, scored.results, self.limits)
        self.health.note(step, scored.causes)
        if self.health.unhealthy:
            raise self.health.complaint(saved="Training resumes from its last checkpoint")
        return step

    def begin(self, row: dict[str, Any], completion: str, step: int) -> None:
        """Start the reward of one reply before its batch is complete; in the loop of `reward`."""
        self.core.begin(Sample.of_row(row), completion, step=step)

    async def _score_with_retries(
        self, samples: Sequence[Sample], completions: Sequence[str], step: int
    ) -> list[Result]:
        """Return the results; while every redraw fails, wait and score the failed ones again."""
        results = await self.core.score_all(samples, completions, step=step)
        for pause in pauses(self.patience, self.first_pause):
            if not is_outage(results, self.limits.step):
                break
            failed = [index for index, result in enumerate(results) if result.case is Case.MASKED]
            cause = Counter(results[index].cause for index in failed).most_common(1)[0][0]
            log.warning("all %d rewards failed (%s); retrying in %.0f s", len(failed), cause, pause)
            await asyncio.sleep(pause)
            again = await self.core.score_all(
                [samples[index] for index in failed], [completions[index] for index in failed], step=step
            )
            for index, result in zip(failed, again, strict=True):
                results[index] = result
        return results


def is_outage(results: Sequence[Result], most_failures: float = MOST_FAILURES) -> bool:
    """Return whether every redraw of a batch failed: the generator or the scorer is down."""
    masked = sum(result.blameless for result in results)
    drawn = any(result.case is Case.REDRAWN for result in results)
    return not drawn and masked >= 2 and masked > most_failures * len(results)


def metrics(results: Sequence[Result], samples: Sequence[Sample]) -> dict[str, float]:
    """Compute the metrics of a step."""
    valid = [result for result in results if result.parts is not None]
    drawn = [result for result in valid if result.case is Case.REDRAWN]
    found: dict[str, float] = {"reward/masked": float(len(results) - len(valid))}
    for part in ("format", "accuracy", "semantics", "quality"):
        if valid:
            found[f"reward/{part}"] = _mean([getattr(result.parts, part) for result in valid])
    read = [(result.judged, sample) for result, sample in zip(results, samples, strict=True)]
    for name, rows in (
        ("judgement/accuracy", read),
        ("judgement/accuracy_on_right", [each for each in read if each[1].success]),
        ("judgement/accuracy_on_wrong", [each for each in read if not each[1].success]),
    ):
        if rows:
            found[name] = _mean([float(judged is sample.success) for judged, sample in rows])
    found["judgement/unreadable"] = float(sum(judged is None for judged, _ in read))
    for case in Case:
        found[f"case/{case.value}"] = float(sum(result.case is case for result in results))
    if drawn:
        found["time/drawing"] = _mean([result.timing.drawing for result in drawn])
        found["time/scoring"] = _mean([result.timing.scoring for result in drawn])
        found["reward/from_cache"] = float(sum(result.from_cache for result in drawn))
    return found


def samples_of(columns: dict[str, Any], count: int) -> list[Sample]:
    """Build the samples of a batch from TRL's columns."""
    names = [name for name, values in columns.items() if isinstance(values, list) and len(values) == count]
    return [Sample.of_row({name: columns[name][index] for name in names}) for index in range(count)]


def text_of(completion: Any) -> str:
    """Return a reply as text, from a conversation or from plain text."""
    if isinstance(completion, str):
        return completion
    content = completion[-1]["content"] if completion else ""
    if isinstance(content, str):
        return content
    return "".join(part.get("text") or "" for part in content)


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)

"""The reward core: a row and a critic's reply in, a reward or a reason for none out. It knows no trainer.

What a reply is worth is what would have come of it in use. The picture was right: nothing is drawn, whatever
the critic says, and its group differs in form and judgement only. It was wrong and the critic took it:
nothing is drawn, no change. It was wrong and the critic said so: its prompt is drawn from the same sources,
with one seed for the whole group, and scored against what was planned.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Sequence
from dataclasses import replace

from interleave.agents.replies import parse_verdict
from interleave.backends.retries import IMAGE_DEADLINE_SECONDS
from interleave.errors import Failure, InterleaveError, ReplyError
from interleave.text import one_line
from interleave.training.rewards.format_reward import is_strict
from interleave.training.rewards.formula import Parts, Weights, accuracy, change, total
from interleave.training.rewards.redraws import Order, Redraw, Redraws
from interleave.training.rewards.samples import Case, Result, Sample, Timing
from interleave.types import Verdict

CONCURRENCY = 64
ABOUT_THE_PROMPT = (Failure.REFUSED, Failure.INVALID, Failure.NO_PICTURE)
"""Failures that another try with the same prompt would not mend."""


class RewardCore:
    """Scores replies, so many at a time, each within a deadline."""

    def __init__(
        self,
        redraws: Redraws,
        weights: Weights | None = None,
        *,
        concurrency: int = CONCURRENCY,
        deadline: float = IMAGE_DEADLINE_SECONDS,
        seed: int = 0,
    ) -> None:
        self.redraws = redraws
        self.weights = weights or Weights()
        self.concurrency = concurrency
        self.deadline = deadline
        self.seed = seed

    async def score_all(
        self, samples: Sequence[Sample], completions: Sequence[str], *, step: int = 0
    ) -> list[Result]:
        """The results of many replies at once, in their order."""
        turns = asyncio.Semaphore(self.concurrency)
        pairs = zip(samples, completions, strict=True)
        work = [
            asyncio.create_task(self.score(sample, text, step=step, turns=turns)) for sample, text in pairs
        ]
        try:
            return list(await asyncio.gather(*work))
        finally:
            for each in work:
                each.cancel()

    async def score(
        self, sample: Sample, completion: str, *, step: int = 0, turns: asyncio.Semaphore | None = None
    ) -> Result:
        """The reward of one reply; a failure of generator or scorer is masked, never raised."""
        started = time.monotonic()
        verdict = _read(completion)
        judged = None if verdict is None else verdict.accepted
        if sample.success or verdict is None or judged:
            case = _undrawn(sample, judged)
            result = self._rewarded(sample, completion, judged, None, case)
            return replace(result, timing=Timing(all=time.monotonic() - started))
        prompt = verdict.refined_prompt or sample.used_prompt
        async with turns or asyncio.Semaphore(1):
            waited = time.monotonic() - started
            result = await self._redrawn(sample, completion, prompt, step)
        timing = replace(result.timing, waited=waited, all=time.monotonic() - started)
        return replace(result, timing=timing)

    async def _redrawn(self, sample: Sample, completion: str, prompt: str, step: int) -> Result:
        order = Order(sample.planned_prompt, prompt, sample.sources, group_seed(self.seed, step, sample.id))
        try:
            async with asyncio.timeout(self.deadline) as window:
                redraw, cached = await self.redraws.redraw(order)
            result = self._rewarded(sample, completion, False, redraw, Case.REDRAWN)
        except TimeoutError:
            cause = f"no reward within {self.deadline:g} s" if window.expired() else "the backend timed out"
            return _masked(cause, prompt)
        except Exception as error:  # somebody else's backend may raise anything; one sample is not the step
            known = isinstance(error, InterleaveError)
            cause = one_line(str(error) if known else f"{type(error).__name__}: {error}", 200)
            return _masked(cause, prompt, blameless=getattr(error, "kind", None) not in ABOUT_THE_PROMPT)
        timing = Timing(drawing=redraw.drawing, scoring=redraw.scoring)
        return replace(result, prompt=prompt, timing=timing, from_cache=cached)

    def _rewarded(
        self, sample: Sample, completion: str, judged: bool | None, redraw: Redraw | None, case: Case
    ) -> Result:
        scores = redraw.scores if redraw else None
        semantics, quality = change(scores, sample.previous, self.weights)
        parts = Parts(
            format=float(is_strict(completion)),
            accuracy=accuracy(judged, sample.success, self.weights),
            semantics=semantics,
            quality=quality,
        )
        picture = redraw.picture if redraw else None
        return Result(total(parts, self.weights), parts, case, judged=judged, scores=scores, picture=picture)


def group_seed(seed: int, step: int, row: str) -> int:
    """The seed of all redraws of a group in one training step: only the prompts differ in it."""
    told = hashlib.sha256(f"{seed}/{step}/{row}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(told[:4], "big") >> 1


def _undrawn(sample: Sample, judged: bool | None) -> Case:
    if judged is None:
        return Case.UNREADABLE
    return Case.SUCCESS if sample.success else Case.ACCEPTED_FAILURE


def _masked(cause: str, prompt: str, *, blameless: bool = True) -> Result:
    return Result(None, None, Case.MASKED, cause=cause, judged=False, prompt=prompt, blameless=blameless)


def _read(completion: str) -> Verdict | None:
    """The verdict as the loop would read it, or None."""
    try:
        return parse_verdict(completion)
    except ReplyError:
        return None

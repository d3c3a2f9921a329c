"""Computes the reward of a critic's reply for any trainer, or the reason why there is none.

A reply is rewarded for its format, its judgement, and the change that a redraw with its prompt makes:

- The image was right, or the critic accepted a wrong one: no redraw, no change. For the latter,
  `Weights.accepted_failures` can request a redraw.
- The image was wrong and the critic rejected it: its refined prompt is drawn from the same sources, with
  one seed for the whole group, and scored against the planned prompt.

A rejection without a refined prompt redraws with the prompt of the rejected image. The pipeline would use
the planned prompt instead (`pipeline.next_prompt`).
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

from interleave import Failure, InterleaveError, ReplyError, Verdict
from interleave.plugin import agents, backends, one_line
from interleave.train.rewards.formula import Parts, Weights, accuracy, change, total
from interleave.train.rewards.redraws import Redraw, Redrawer, RedrawRequest
from interleave.train.rewards.samples import Case, Result, Sample, Timing

CONCURRENCY = 64
ABOUT_THE_PROMPT = (Failure.REFUSED, Failure.INVALID, Failure.NO_IMAGE)
"""Failures that a retry with the same prompt would repeat."""


class RewardCore:
    """Scores replies, up to `concurrency` concurrently, each within a deadline."""

    def __init__(
        self,
        redraws: Redrawer,
        weights: Weights | None = None,
        *,
        concurrency: int = CONCURRENCY,
        deadline: float = backends.IMAGE_DEADLINE_SECONDS,
        seed: int = 0,
        answers: agents.AnswerForm = "json",
    ) -> None:
        """`answers` is the reply format that the critic's prompts request (`PromptPack.answers`)."""
        self.redraws = redraws
        self.weights = weights or Weights()
        self.concurrency = concurrency
        self.deadline = deadline
        self.seed = seed
        self.answers: agents.AnswerForm = answers
        self._begun: dict[tuple[str, str, int], list[asyncio.Task[Result]]] = {}
        """Scoring tasks started by `begin` before `score_all`, by row, reply and step."""
        self._semaphore: asyncio.Semaphore | None = None
        """Shared by `begin` and the following call of `score_all`."""

    def begin(self, sample: Sample, completion: str, *, step: int = 0) -> None:
        """Start scoring a reply of the next `score_all` call, which must run in the same event loop."""
        self._semaphore = self._semaphore or asyncio.Semaphore(self.concurrency)
        scoring = self.score(sample, completion, step=step, semaphore=self._semaphore)
        key = (sample.id, completion, step)
        self._begun.setdefault(key, []).append(asyncio.get_running_loop().create_task(scoring))

    async def score_all(
        self, samples: Sequence[Sample], completions: Sequence[str], *, step: int = 0
    ) -> list[Result]:
        """Score many replies; results are in the same order."""
        semaphore = self._semaphore or asyncio.Semaphore(self.concurrency)
        begun, self._begun, self._semaphore = self._begun, {}, None
        tasks: list[asyncio.Task[Result]] = []
        for sample, completion in zip(samples, completions, strict=True):
            if waiting := begun.get((sample.id, completion, step)):
                tasks.append(waiting.pop(0))
            else:
                scoring = self.score(sample, completion, step=step, semaphore=semaphore)
                tasks.append(asyncio.create_task(scoring))
        try:
            return list(await asyncio.gather(*tasks))
        finally:
            for task in (*tasks, *chain.from_iterable(begun.values())):
                task.cancel()

    async def score(
        self, sample: Sample, completion: str, *, step: int = 0, semaphore: asyncio.Semaphore | None = None
    ) -> Result:
        """Score one reply; a failure of generator or scorer is masked, never raised."""
        started = time.monotonic()
        verdict = _parse(completion)
        judged = None if verdict is None else verdict.accepted
        redraws_accepted = self.weights.accepted_failures == "redraw"
        if sample.success or verdict is None or (judged and not redraws_accepted):
            case = _case_without_redraw(sample, judged)
            result = self._rewarded(sample, completion, judged, None, case)
            return replace(result, timing=Timing(all=time.monotonic() - started))
        refined = agents.parse_prompt(completion) if judged else verdict.refined_prompt
        prompt = refined or sample.used_prompt
        async with semaphore or asyncio.Semaphore(1):
            waited = time.monotonic() - started
            result = await self._redrawn(sample, completion, verdict.accepted, prompt, step)
        timing = replace(result.timing, waited=waited, all=time.monotonic() - started)
        return replace(result, timing=timing)

    async def _redrawn(self, sample: Sample, completion: str, judged: bool, prompt: str, step: int) -> Result:
        request = RedrawRequest(
            sample.planned_prompt, prompt, sample.sources, group_seed(self.seed, step, sample.id)
        )
        deadline = backends.Deadline(self.deadline)
        try:
            async with deadline.running():
                redraw, cached = await self.redraws.redraw(request)
            result = self._rewarded(sample, completion, judged, redraw, Case.REDRAWN)
        except TimeoutError:
            cause = f"no reward within {self.deadline:g} s" if deadline.expired else "the backend timed out"
            return _masked(cause, prompt, judged)
        except Exception as error:  # a plugin may raise anything; one sample must not end the step
            known = isinstance(error, InterleaveError)
            cause = one_line(str(error) if known else f"{type(error).__name__}: {error}", 200)
            return _masked(
                cause, prompt, judged, blameless=getattr(error, "kind", None) not in ABOUT_THE_PROMPT
            )
        timing = Timing(drawing=redraw.drawing, scoring=redraw.scoring)
        return replace(result, prompt=prompt, timing=timing, from_cache=cached)

    def _rewarded(
        self, sample: Sample, completion: str, judged: bool | None, redraw: Redraw | None, case: Case
    ) -> Result:
        scores = redraw.scores if redraw else None
        semantics, quality = change(scores, sample.previous, self.weights)
        parts = Parts(
            format=float(agents.is_strict_verdict(completion, self.answers)),
            accuracy=accuracy(judged, sample.success, self.weights),
            semantics=semantics,
            quality=quality,
        )
        image = redraw.image if redraw else None
        return Result(total(parts, self.weights), parts, case, judged=judged, scores=scores, image=image)


def group_seed(seed: int, step: int, row: str) -> int:
    """Return the seed of all redraws of a group in one training step, so that only their prompts differ."""
    digest = hashlib.sha256(f"{seed}/{step}/{row}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:4], "big") >> 1


def _case_without_redraw(sample: Sample, judged: bool | None) -> Case:
    if judged is None:
        return Case.UNREADABLE
    return Case.SUCCESS if sample.success else Case.ACCEPTED_FAILURE


def _masked(cause: str, prompt: str, judged: bool, *, blameless: bool = True) -> Result:
    return Result(None, None, Case.MASKED, cause=cause, judged=judged, prompt=prompt, blameless=blameless)


def _parse(completion: str) -> Verdict | None:
    """Parse the verdict as the pipeline does; None if that fails."""
    try:
        return agents.parse_verdict(completion)
    except ReplyError:
        return None

"""The critics' exam: their verdicts on the attempts, and the images drawn from their refined prompts.

A failure counts as repaired when the critic rejects it and the image drawn from its prompt is right. The
baseline is simply drawing again: the same prompt, from the same image, with the same new seed.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from interleave import (
    Critic,
    ImageRequest,
    InputError,
    Message,
    Outcome,
    Reply,
    Sampling,
    Verdict,
    VisionLanguageModel,
)
from interleave.plugin import PromptPack, RetriedVlm, Value, agents, critic_input, folder_lock
from interleave_mini.bench.critic_exam import (
    LOCK_NAME,
    Attempt,
    Exam,
    Question,
    concurrently,
    of_other_steps,
    questions,
    read_lines,
    write_lines,
)
from interleave_mini.bench.scores import Difference, difference, read_images
from interleave_mini.bench.systems import same_model
from interleave_mini.intervals import Estimate, estimate
from interleave_mini.reader.scores import shows

AGAIN_NAME = "again.jsonl"
VERDICT_BATCH = 1000
"""Verdicts between two writes to disk."""


class Judged(Value):
    """A critic's verdict on one attempt."""

    id: str
    verdict: Verdict
    tokens: int
    """Completion tokens, retries included."""


class Redrawn(Value):
    """A failure drawn again."""

    id: str
    prompt: str
    image: str
    right: bool


class CriticResult(Value):
    """The result of a critic in the exam."""

    key: str
    critic: str
    """Its spec."""
    attempts: int
    failures: int
    accuracy: Estimate
    """Of the verdicts; an unreadable one is wrong."""
    caught: Estimate
    """The share of failures that it rejects."""
    false_alarms: Estimate
    """The share of right images that it rejects."""
    unreadable: Estimate
    other_steps: Estimate | None
    """The share of right images of another step of the same task that it rejects."""
    tokens: float
    """Written for a verdict, on average."""
    repaired: Estimate
    """The share of all failures that it rejects and repairs."""
    repaired_of_caught: Estimate | None
    again: Estimate
    """The share of all failures that are right when simply drawn again."""
    again_of_caught: Estimate | None
    gain: Difference | None
    """`repaired` less `again`, failure by failure."""
    gain_of_caught: Difference | None


class Examiner:
    """Examines critics; verdicts and images that exist already are read from disk."""

    def __init__(self, exam: Exam, attempts: Sequence[Attempt], report: Callable[[str], None]) -> None:
        self.exam = exam
        self.attempts = attempts
        self.questions: Mapping[str, Question] = {
            each.id: each for each in questions(exam.seed)[: len(attempts)]
        }
        if unknown := [each.id for each in attempts if each.id not in self.questions]:
            raise InputError(
                f"{exam.folder} has attempts of another version of the miniature's language ({unknown[0]}): "
                "take another folder"
            )
        self.failures = [each for each in attempts if not each.right]
        targets = {each.id: each.target for each in self.questions.values()}
        self.other_steps = of_other_steps(attempts, targets)
        self.report = report
        self.results: dict[str, tuple[dict[str, Judged], dict[str, Redrawn]]] = {}
        """The verdicts of every critic, and the images drawn from its prompts."""

    def examine(self, key: str, spec: str, load: Callable[[], Any], pack: PromptPack) -> CriticResult:
        """The result of a critic, which is loaded only if verdicts are missing."""
        judged = self.judge(key, spec, load, pack)
        redrawn = self.redraw(key, spec, pack, judged)
        self.results[key] = (judged, redrawn)
        outcomes = [judged[each.id].verdict.outcome for each in self.other_steps]
        refused = _share([each is Outcome.REJECTED for each in outcomes]) if outcomes else None
        return _result(key, spec, self.attempts, judged, redrawn, self.again(), refused)

    def judge(self, key: str, spec: str, load: Callable[[], Any], pack: PromptPack) -> dict[str, Judged]:
        """Its verdict on every attempt."""
        path = self._file(key, spec, pack, "verdicts")
        there = {each.id: each for each in read_lines(path, Judged)}
        left = [each for each in (*self.attempts, *self.other_steps) if each.id not in there]
        for start in range(0, len(left), VERDICT_BATCH):
            whole = len(self.attempts) + len(self.other_steps)
            self.report(f"exam: {key} has judged {len(there):,} of {whole:,} images")
            some = left[start : start + VERDICT_BATCH]
            there |= {each.id: each for each in asyncio.run(self._judged(some, load(), pack))}
            write_lines(path, list(there.values()))
        return there

    def redraw(
        self, key: str, spec: str, pack: PromptPack, judged: Mapping[str, Judged]
    ) -> dict[str, Redrawn]:
        """The failures it rejected, drawn from its prompts; from the planned prompt where it gave none."""
        prompts = {
            each.id: judged[each.id].verdict.refined_prompt or each.prompt
            for each in self.failures
            if judged[each.id].verdict.outcome is Outcome.REJECTED
        }
        self.report(f"exam: {len(prompts)} failures are drawn from the prompts of {key}")
        return self._drawn(self._file(key, spec, pack, "redrawn"), prompts)

    def again(self) -> dict[str, Redrawn]:
        """All failures, drawn again with the same prompt."""
        with folder_lock(self.exam.folder, LOCK_NAME):  # the same images for all processes
            prompts = {each.id: each.prompt for each in self.failures}
            return self._drawn(self.exam.folder / AGAIN_NAME, prompts)

    async def _judged(self, attempts: Sequence[Attempt], model: Any, pack: PromptPack) -> list[Judged]:
        async def one(attempt: Attempt) -> Judged:
            open_image = self.exam.image
            before = await asyncio.to_thread(open_image, attempt.before) if attempt.before else None
            after = await asyncio.to_thread(open_image, attempt.after)
            counter = TokenCounter(model) if isinstance(model, VisionLanguageModel) else None
            critic: Critic = agents.VlmCritic(RetriedVlm("the critic", counter), pack) if counter else model
            slot = self.questions[attempt.id.partition(":")[0]].slot
            sources = (before,) if before else ()
            verdict = await critic.judge(critic_input(attempt.prompt, attempt.prompt, sources, after, slot))
            return Judged(id=attempt.id, verdict=verdict, tokens=counter.tokens if counter else 0)

        at_once = model.capabilities.concurrency if isinstance(model, VisionLanguageModel) else None
        return await concurrently(attempts, one, min(self.exam.concurrency, at_once or self.exam.concurrency))

    def _drawn(self, path: Path, prompts: Mapping[str, str]) -> dict[str, Redrawn]:
        there = {each.id: each for each in read_lines(path, Redrawn) if prompts.get(each.id) == each.prompt}
        left = {identity: prompt for identity, prompt in prompts.items() if identity not in there}
        if left:
            there |= asyncio.run(self._draw(left))
            write_lines(path, list(there.values()))
        return there

    async def _draw(self, prompts: Mapping[str, str]) -> dict[str, Redrawn]:
        attempts = {each.id: each for each in self.attempts}

        def request(identity: str) -> ImageRequest:
            question, before = self.questions[identity], attempts[identity].before
            sources = (self.exam.image(before),) if before else ()
            return ImageRequest(prompts[identity], question.seed(2), sources, question.slot)

        drawn = await self.exam.draw([request(identity) for identity in prompts])
        readings = await asyncio.to_thread(read_images, drawn)
        names = await asyncio.to_thread(self.exam.keep, drawn)
        return {
            identity: Redrawn(
                id=identity,
                prompt=prompt,
                image=str(name),
                right=shows(reading, self.questions[identity].target),
            )
            for (identity, prompt), name, reading in zip(prompts.items(), names, readings, strict=True)
        }

    def _file(self, key: str, spec: str, pack: PromptPack, what: str) -> Path:
        """A file per critic and prompt pack; the digest tells critics of the same name apart."""
        digest = hashlib.sha256(f"{same_model(spec)}/{pack.digest}".encode()).hexdigest()[:8]
        folder = self.exam.folder / "critics"
        folder.mkdir(parents=True, exist_ok=True)
        return folder / f"{key}-{digest}-{what}.jsonl"


class TokenCounter:
    """A model that counts its completion tokens."""

    def __init__(self, vlm: VisionLanguageModel) -> None:
        self.vlm = vlm
        self.capabilities = vlm.capabilities
        self.tokens = 0

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        reply = await self.vlm.complete(messages, sampling)
        self.tokens += reply.usage.get("completion_tokens", 0)
        return reply


def _result(
    key: str,
    spec: str,
    attempts: Sequence[Attempt],
    judged: Mapping[str, Judged],
    redrawn: Mapping[str, Redrawn],
    again: Mapping[str, Redrawn],
    other_steps: Estimate | None,
) -> CriticResult:
    outcome = {each.id: judged[each.id].verdict.outcome for each in attempts}
    failures = [each.id for each in attempts if not each.right]
    right = [each.id for each in attempts if each.right]
    caught = [each for each in failures if outcome[each] is Outcome.REJECTED]
    repaired = {each: float(each in redrawn and redrawn[each].right) for each in failures}
    baseline = {each: float(again[each].right) for each in failures}
    judged_right = [
        outcome[each.id] is (Outcome.ACCEPTED if each.right else Outcome.REJECTED) for each in attempts
    ]
    return CriticResult(
        key=key,
        critic=spec,
        attempts=len(attempts),
        failures=len(failures),
        accuracy=_share(judged_right),
        caught=_share([each in caught for each in failures]),
        false_alarms=_share([outcome[each] is Outcome.REJECTED for each in right]),
        unreadable=_share([each is Outcome.UNREADABLE for each in outcome.values()]),
        other_steps=other_steps,
        tokens=round(sum(judged[each.id].tokens for each in attempts) / len(attempts), 1),
        repaired=estimate(list(repaired.values())),
        repaired_of_caught=estimate([repaired[each] for each in caught]) if caught else None,
        again=estimate(list(baseline.values())),
        again_of_caught=estimate([baseline[each] for each in caught]) if caught else None,
        gain=difference(repaired, baseline),
        gain_of_caught=difference({each: repaired[each] for each in caught}, baseline),
    )


def _share(values: Sequence[bool]) -> Estimate:
    return estimate([float(value) for value in values])

"""The critic exam: a critic's verdicts on the pairs, kept on disk, and what they are worth."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image
from pydantic import Field, ValidationError

from interleave import (
    BackendError,
    ConfigurationError,
    Critic,
    CriticInput,
    Message,
    Outcome,
    Reply,
    Sampling,
    Verdict,
    VisionLanguageModel,
)
from interleave.plugin import (
    PromptPack,
    RetriedVlm,
    Value,
    agents,
    backends,
    critic_input,
    load_pack,
    parse_spec,
)
from interleave_mini.bench.critic_exam import concurrently, read_lines, write_lines
from interleave_mini.bench.critic_exam_run import TokenCounter
from interleave_mini.bench.pairs import FAULTS, Pair, edition
from interleave_mini.bench.systems import same_model
from interleave_mini.intervals import Estimate, estimate

FIXED = {"always-yes": Outcome.ACCEPTED, "always-no": Outcome.REJECTED}
"""Critics that do not look: what an examinee has to beat."""
_BATCH = 50
"""Verdicts between two writes to disk."""


class FixedCritic:
    """Gives the same verdict on everything."""

    def __init__(self, outcome: Outcome) -> None:
        self.outcome = outcome

    async def judge(self, seen: CriticInput) -> Verdict:
        return Verdict(outcome=self.outcome)


class PairVerdict(Value):
    """A critic's verdict on one pair."""

    id: str
    outcome: Outcome
    confidence: float | None = None
    """The probability of acceptance, if the model gives token probabilities."""
    refined_prompt: str | None = None
    tokens: int = 0
    """Completion tokens, retries included."""
    cost: float | None = None
    """US dollars, if the model knows its price."""


class Repeated(Value):
    """Two runs of the same critic on the same pairs."""

    pairs: int
    different: int
    """Verdicts that are not the same."""
    accuracy: Estimate
    """Of the second run."""


class PairsResult(Value):
    """The result of the critic exam; fractions from 0 to 1, with 95 % intervals."""

    critic: str
    prompts: str
    edition: str
    pairs: int
    accuracy: Estimate
    """Verdicts that are right; an unreadable one is wrong. Without looking: 0.5."""
    questions: Estimate
    """Questions with both verdicts right, of those whose two pairs were judged."""
    false_alarms: Estimate
    """The share of right pairs that it rejects."""
    caught: dict[str, Estimate]
    """The share of wrong pairs that it rejects, by fault."""
    unreadable: Estimate
    repeated: Repeated | None = None
    tokens: float
    """Completion tokens of a verdict, on average."""
    cost: float | None
    """US dollars of all verdicts; None if the model does not know its price."""
    seconds: float = Field(description="Of the verdicts given now; those on disk take none.")


def check_critic(critic: str) -> None:
    """Refuse an unknown critic, or one without its package or key, before anything is drawn."""
    if critic not in FIXED:
        backends.require_backend(critic, "critic")


@dataclass(frozen=True)
class Expected:
    """What judging will take."""

    calls: int
    already: int
    """Verdicts on disk."""
    images: int
    price: float | None
    """US dollars, None if the critic does not know its price."""


@dataclass(frozen=True)
class PairExam:
    """A critic, the pairs, and the folder of its verdicts."""

    critic: str
    pairs: Sequence[Pair]
    data: Path
    """The folder of the images."""
    folder: Path
    prompts: str | None = None
    """The prompt pack; None for the miniature's own where it is the critic, else the default."""
    runs: int = 1
    concurrency: int = 16

    @property
    def pack(self) -> PromptPack:
        is_mini = self.critic not in FIXED and parse_spec(self.critic).name == "mini"
        return load_pack(self.prompts or ("mini" if is_mini else "default"))

    def load(self) -> Any:
        fixed = FIXED.get(self.critic)
        return FixedCritic(fixed) if fixed else backends.load_agent(self.critic, "critic")

    def verdicts(self, run: int) -> list[PairVerdict]:
        """The verdicts on disk."""
        wanted = {pair.id for pair in self.pairs}
        return [each for each in read_lines(self._file(run), PairVerdict) if each.id in wanted]

    def expected(self, model: Any) -> Expected:
        """What the missing verdicts cost."""
        already = sum(len(self.verdicts(run)) for run in range(self.runs))
        calls = self.runs * len(self.pairs) - already
        price = model.capabilities.typical_price if isinstance(model, VisionLanguageModel) else 0.0
        return Expected(calls, already, 2 * calls, None if price is None else price * calls)

    def judge(self, model: Any, show: Callable[[int, int], None], max_cost: float | None = None) -> float:
        """Give the missing verdicts; return the seconds it took. Stops at a cost in US dollars."""
        began, spent = time.monotonic(), 0.0
        done, whole = self.expected(model).already, self.runs * len(self.pairs)
        for run in range(self.runs):
            there = self.verdicts(run)
            known = {each.id for each in there}
            left = [pair for pair in self.pairs if pair.id not in known]
            for start in range(0, len(left), _BATCH):
                if max_cost is not None and spent >= max_cost:
                    raise ConfigurationError(
                        f"--max-cost {max_cost:g} is reached after {done:,} of {whole:,} verdicts, which are "
                        "kept: repeat the command with a higher limit to continue"
                    )
                new = asyncio.run(self._judged(left[start : start + _BATCH], model))
                there += new
                self.folder.mkdir(parents=True, exist_ok=True)
                write_lines(self._file(run), there)
                spent += sum(each.cost or 0 for each in new)
                done += len(new)
                show(done, whole)
        return time.monotonic() - began

    async def _judged(self, pairs: Sequence[Pair], model: Any) -> list[PairVerdict]:
        is_vlm = isinstance(model, VisionLanguageModel)
        at_once = model.capabilities.concurrency if is_vlm else None
        pack = self.pack

        async def one(pair: Pair) -> PairVerdict:
            before = await asyncio.to_thread(_opened, self.data / pair.before)
            after = await asyncio.to_thread(_opened, self.data / pair.after)
            counter = CostCounter(model) if is_vlm else None
            critic: Critic = agents.VlmCritic(RetriedVlm("the critic", counter), pack) if counter else model
            verdict = await critic.judge(critic_input(pair.prompt, pair.prompt, (before,), after))
            return PairVerdict(
                id=pair.id,
                outcome=verdict.outcome,
                confidence=verdict.confidence,
                refined_prompt=verdict.refined_prompt,
                tokens=counter.tokens if counter else 0,
                cost=counter.cost if counter else 0.0,
            )

        return await concurrently(pairs, one, min(self.concurrency, at_once or self.concurrency))

    def _file(self, run: int) -> Path:
        return self.folder / f"verdicts-{self._digest}-{run + 1}.jsonl"

    @property
    def result_file(self) -> Path:
        return self.folder / f"result-{self._digest}.json"

    @property
    def _digest(self) -> str:
        """One for each critic and prompt pack; the model's answer does not depend on the rest."""
        spec = self.critic if self.critic in FIXED else same_model(self.critic)
        identity = f"{spec}/{self.pack.digest}/{edition(self.pairs[:2])}"
        return hashlib.sha256(identity.encode()).hexdigest()[:8]

    def others(self) -> list[PairsResult]:
        """The results of other critics on the same pairs, in this folder."""
        found = []
        for path in sorted(self.folder.glob("result-*.json")):
            if path != self.result_file:
                with suppress(ValidationError):  # of another version
                    found.append(PairsResult.model_validate_json(path.read_bytes()))
        return [each for each in found if each.edition == edition(self.pairs)]


class CostCounter(TokenCounter):
    """A model that counts its completion tokens and its cost."""

    cost: float | None = 0.0

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        reply = await super().complete(messages, sampling)
        self.cost = None if self.cost is None or reply.cost is None else self.cost + reply.cost
        return reply


def result_of(exam: PairExam, seconds: float) -> PairsResult:
    """The numbers of all verdicts."""
    runs = [{each.id: each for each in exam.verdicts(run)} for run in range(exam.runs)]
    if missing := [pair.id for run in runs for pair in exam.pairs if pair.id not in run]:
        raise BackendError(f"{len(missing):,} verdicts are missing, the first of {missing[0]}")
    first = runs[0]
    costs = [each.cost for each in first.values()]
    rejected = {each.id: each.outcome is Outcome.REJECTED for each in first.values()}
    good = [_is_right(pair, first[pair.id]) for pair in exam.pairs]
    both: dict[str, list[bool]] = {}
    for pair, right in zip(exam.pairs, good, strict=True):
        both.setdefault(pair.before, []).append(right)
    return PairsResult(
        critic=exam.critic,
        prompts=exam.pack.digest[:8],
        edition=edition(exam.pairs),
        pairs=len(exam.pairs),
        accuracy=_share(good),
        questions=_share([all(each) for each in both.values() if len(each) == 2]),
        false_alarms=_share([rejected[pair.id] for pair in exam.pairs if pair.right]),
        caught={
            fault: _share([rejected[pair.id] for pair in exam.pairs if pair.fault == fault])
            for fault in FAULTS
            if any(pair.fault == fault for pair in exam.pairs)
        },
        unreadable=_share([each.outcome is Outcome.UNREADABLE for each in first.values()]),
        repeated=_repeated(exam, runs) if exam.runs > 1 else None,
        tokens=round(sum(each.tokens for each in first.values()) / len(first), 1),
        cost=None if None in costs else round(sum(each or 0 for each in costs), 4),
        seconds=round(seconds, 1),
    )


def _repeated(exam: PairExam, runs: Sequence[dict[str, PairVerdict]]) -> Repeated:
    one, other = runs[:2]
    return Repeated(
        pairs=len(one),
        different=sum(one[pair.id].outcome is not other[pair.id].outcome for pair in exam.pairs),
        accuracy=_share([_is_right(pair, other[pair.id]) for pair in exam.pairs]),
    )


def _opened(path: Path) -> Image.Image:
    with Image.open(path) as image:
        return image.convert("RGB")


def _is_right(pair: Pair, verdict: PairVerdict) -> bool:
    return verdict.outcome is (Outcome.ACCEPTED if pair.right else Outcome.REJECTED)


def _share(values: Sequence[bool]) -> Estimate:
    return estimate([float(each) for each in values])

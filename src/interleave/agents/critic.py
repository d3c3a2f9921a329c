"""Critics: from the images before and after to a verdict, with a better prompt for a rejected image."""

from __future__ import annotations

import asyncio
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from interleave.agents.prompts import PromptPack, ask
from interleave.agents.replies import (
    JUDGEMENT_KEYS,
    MARKS_SCHEMA,
    VERDICT_SCHEMA,
    parse_marks,
    parse_prompt,
    parse_verdict,
)
from interleave.backends.protocols import Message, Reply, Sampling, VisionLanguageModel
from interleave.config.specs import BackendOptions, Spec
from interleave.errors import BackendError, ConfigurationError, Failure, ReplyError
from interleave.images import white_canvas
from interleave.types import ImagePart, Outcome, Plan, PlanStep, Request, Scores, Slot, Text, Verdict

if TYPE_CHECKING:
    from PIL.Image import Image


_JUDGEMENT = re.compile(
    rf"[\"'](?:{'|'.join(JUDGEMENT_KEYS)})[\"']\s*:\s*[\"']?(?P<value>true|false)", re.IGNORECASE
)


@dataclass(frozen=True)
class CriticInput:
    """Input of a critic for one attempt."""

    planned_prompt: str
    prompt: str
    """Prompt of this attempt."""
    before: Image
    after: Image
    slot: Slot = Slot()


class Critic(Protocol):
    """Judges one attempt."""

    async def judge(self, seen: CriticInput) -> Verdict: ...


def critic_input(
    planned_prompt: str, prompt: str, sources: tuple[Image, ...], image: Image, slot: Slot = Slot()
) -> CriticInput:
    """Return the critic's input, always a pair of images, for inference, data, training and benchmarks."""
    before = sources[-1] if sources else white_canvas(image.size)
    return CriticInput(planned_prompt, prompt, before, image, slot)


def critic_messages(seen: CriticInput, pack: PromptPack) -> tuple[Message, ...]:
    """Return the critic's messages. They are built only here."""
    return pack.messages("critic", pair_slots(seen))


def pair_slots(seen: CriticInput) -> dict[str, str | tuple[ImagePart]]:
    """Return the slots of every prompt about a pair of images."""
    return {
        "planned_prompt": seen.planned_prompt,
        "prompt": seen.prompt,
        "before": (ImagePart(seen.before),),
        "after": (ImagePart(seen.after),),
    }


def critic_sampling(token_probabilities: bool = True, slot: Slot = Slot()) -> Sampling:
    """Return the sampling of a critic's reply. It is built only here."""
    return Sampling(token_probabilities=token_probabilities, schema=VERDICT_SCHEMA, slot=slot)


def read_verdict(reply: Reply) -> Verdict:
    """Return the verdict in a critic's reply, with its confidence. Raises `ReplyError`."""
    return parse_verdict(reply).model_copy(update={"confidence": acceptance_probability(reply)})


def judged_strictly(verdict: Verdict, reply: Reply, strict: float) -> Verdict:
    """Return the verdict by the acceptance probability instead of the critic's own judgement."""
    if not reply.tokens:
        raise BackendError(
            "the critic's reply has no token probabilities, which ?strict needs: "
            "use a server that gives them, or drop ?strict",
            kind=Failure.BAD_REPLY,
        )
    if verdict.confidence is None:
        raise ReplyError("the judgement is not written as a token of its own", reply=reply.text)
    if verdict.confidence >= strict:
        return verdict.model_copy(update={"outcome": Outcome.ACCEPTED, "refined_prompt": None})
    refined = verdict.refined_prompt if verdict.outcome is Outcome.REJECTED else parse_prompt(reply)
    return verdict.model_copy(update={"outcome": Outcome.REJECTED, "refined_prompt": refined})


QUICKLY = "Accepted without reasoning."


class VlmCritic:
    """A critic that prompts a vision-language model."""

    def __init__(
        self,
        vlm: VisionLanguageModel,
        pack: PromptPack,
        *,
        strict: float | None = None,
        quick: float | None = None,
    ) -> None:
        if strict is not None and not vlm.capabilities.token_probabilities:
            raise ConfigurationError(
                f"?strict={strict:g} of the critic needs token probabilities, and this model gives none "
                "(openai: has them with ?logprobs=true)"
            )
        self.vlm = vlm
        self.pack = pack
        self.strict = strict
        self.quick = quick
        if quick is not None and not self.judges_quickly:
            raise ConfigurationError(
                f"?quick={quick:g} of the critic needs a model that continues a reply and gives token "
                "probabilities: local models do. Drop ?quick"
            )

    @property
    def judges_quickly(self) -> bool:
        """Whether the probability of "this image is right" can be asked for before the critic reasons."""
        able = self.vlm.capabilities
        return able.token_probabilities and able.continues_replies and self.pack.description.quick is not None

    async def judge(self, seen: CriticInput) -> Verdict:
        """Return the verdict. An unreadable reply is a separate outcome, not a rejection.

        With `quick`, an image that is surely right is accepted at once. Any other is judged with reasoning,
        because a better prompt comes of it.
        """
        if self.quick is not None and (probability := await self.quick_probability(seen)) >= self.quick:
            return Verdict(outcome=Outcome.ACCEPTED, reasoning=QUICKLY, confidence=probability)
        return await self._judge_with_reasoning(seen)

    async def quick_probability(self, seen: CriticInput) -> float:
        """Return the probability that the critic accepts, from the next token of a reply begun for it.

        It is 0 if another token is likelier.
        """
        quick = self.pack.description.quick
        if quick is None:
            raise ConfigurationError(f"the prompt pack {self.pack.name} has no quick verdicts")
        begun = Message("assistant", (Text(quick.prefix),))
        sampling = Sampling(max_tokens=1, token_probabilities=True, slot=seen.slot)
        reply = await self.vlm.complete((*critic_messages(seen, self.pack), begun), sampling)
        said = reply.text.strip().lower()
        accepts = bool(said) and quick.accepts.lower().startswith(said)
        return reply.tokens[0].probability if accepts and reply.tokens else 0.0

    async def _judge_with_reasoning(self, seen: CriticInput) -> Verdict:
        sampling = critic_sampling(self.vlm.capabilities.token_probabilities, seen.slot)
        reader = _VerdictReader(self.strict)
        try:
            return await ask(
                self.vlm, critic_messages(seen, self.pack), reader.read, sampling=sampling, pack=self.pack
            )
        except ReplyError as error:
            return Verdict(outcome=Outcome.UNREADABLE, reasoning=str(error))


class _VerdictReader:
    """Parser of verdicts. It sends the first rejection without a better prompt back and accepts the second.

    A rejection by strictness alone is not sent back, because the critic would have to contradict itself.
    """

    def __init__(self, strict: float | None) -> None:
        self.strict = strict
        self.asked_for_a_prompt = False

    def read(self, reply: Reply) -> Verdict:
        verdict = read_verdict(reply)
        if self.strict is not None:
            strictly = judged_strictly(verdict, reply, self.strict)
            if verdict.accepted or strictly.accepted:
                return strictly
        lacks_prompt = verdict.outcome is Outcome.REJECTED and verdict.refined_prompt is None
        if lacks_prompt and not self.asked_for_a_prompt:
            self.asked_for_a_prompt = True
            raise ReplyError(
                "the picture is refused, but no better prompt is given: write one", reply=reply.text
            )
        return verdict


def acceptance_probability(reply: Reply) -> float | None:
    """Return the probability of "this image is right", from the token with the judgement."""
    text = "".join(token.text for token in reply.tokens)
    thought = text.lower().rfind("</think>")
    judged = _JUDGEMENT.search(text, max(thought, 0))
    if judged is None:
        return None
    position = 0
    for token in reply.tokens:
        position += len(token.text)
        if position > judged.start("value"):
            if not 0 <= token.probability <= 1:
                return None
            return token.probability if judged["value"].lower() == "true" else 1 - token.probability
    return None


class Scorer(Protocol):
    """Scores one attempt, for data and rewards. The loop itself does not score.

    Raises `ReplyError` if the scores cannot be read: a failure is never a number."""

    async def score(self, seen: CriticInput) -> Scores: ...


class VlmScorer:
    """A scorer that prompts a vision-language model concurrently for semantics and for quality."""

    def __init__(self, vlm: VisionLanguageModel, pack: PromptPack) -> None:
        self.vlm = vlm
        self.pack = pack

    async def score(self, seen: CriticInput) -> Scores:
        questions = [
            asyncio.create_task(self._marks(prompt, seen))
            for prompt in ("scorer_semantics", "scorer_quality")
        ]
        try:
            semantics, quality = await asyncio.gather(*questions)
        finally:
            for question in questions:
                question.cancel()  # if one fails, do not pay for the other
        return Scores(semantics=min(semantics), quality=min(quality))

    async def _marks(self, prompt: str, seen: CriticInput) -> tuple[float, float]:
        messages = self.pack.messages(prompt, pair_slots(seen))
        sampling = Sampling(schema=MARKS_SCHEMA, slot=seen.slot)
        return await ask(self.vlm, messages, parse_marks, sampling=sampling, pack=self.pack)


ROLES = ("planner", "critic")


class NoAgent:
    """`none`: omits the planner or the critic, to measure the contribution of each.

    As planner, it uses the request as the prompt of one image. As critic, it accepts every image.
    """

    class Options(BackendOptions):
        """No further options."""

    def __init__(self, *, spec: Spec, options: Options, role: str) -> None:
        if spec.model or spec.base_url:
            raise ConfigurationError(f"{str(spec)!r}: 'none' takes no model and no address")
        if role not in ROLES:
            raise ConfigurationError(f"no {role} 'none': only the planner and the critic can be omitted")

    async def plan(self, request: Request) -> Plan:
        if not request.text.strip():
            raise ConfigurationError("without a planner the request needs text as the prompt of its image")
        return Plan(steps=(PlanStep(number=1, prompt=request.text),))

    async def judge(self, seen: CriticInput) -> Verdict:
        return Verdict(outcome=Outcome.ACCEPTED)

"""A picture before and after → marks from 0 to 10. For data and rewards; the loop itself never scores."""

from __future__ import annotations

import asyncio
from typing import Protocol

from interleave.agents.critic import CriticInput, pair_slots
from interleave.agents.prompts import PromptPack
from interleave.agents.reask import ask
from interleave.agents.replies import MARKS_SCHEMA, parse_marks
from interleave.backends.protocols import Sampling, VisionLanguageModel
from interleave.types import Scores


class Scorer(Protocol):
    """Scores one attempt. Raises `ReplyError` when the marks cannot be read: a failure is never a number."""

    async def score(self, seen: CriticInput) -> Scores: ...


class VlmScorer:
    """A scorer that prompts a vision-language model twice at once: for semantics, and for quality."""

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
                question.cancel()  # when one fails, the other is not paid for
        return Scores(semantics=min(semantics), quality=min(quality))

    async def _marks(self, prompt: str, seen: CriticInput) -> tuple[float, float]:
        messages = self.pack.messages(prompt, pair_slots(seen))
        sampling = Sampling(schema=MARKS_SCHEMA, slot=seen.slot)
        return await ask(self.vlm, messages, parse_marks, sampling=sampling, pack=self.pack)

"""Tiny data of critics' benchmarks: images whose colour tells them apart, and critics that look at it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from PIL import Image

from interleave.backends.protocols import Message, Reply, Sampling, Token, VlmCapabilities
from interleave.bench.base import Benchmark, Dataset
from interleave.bench.judge import Judged, JudgeSession
from interleave.bench.scoring import Label, Outcome, Scorable, outcome_of
from interleave.bench.stages import judge_prompts
from interleave.images import encode_png
from interleave.types import ImagePart

SIZE = (16, 16)


def image(level: int, size: tuple[int, int] = SIZE) -> bytes:
    """An image of one grey."""
    return encode_png(Image.new("RGB", size, (level, level, level)))


def cell(level: int, size: tuple[int, int] = SIZE) -> dict[str, Any]:
    """An image as the Hub's tables hold it."""
    return {"bytes": image(level, size), "path": None}


@dataclass
class Asked:
    """What a question showed."""

    text: str
    levels: tuple[int, ...]
    sizes: tuple[tuple[int, int], ...]


@dataclass
class Critic:
    """A critic in this process; a function of what it sees decides what it says."""

    says: Callable[[Asked], str | Reply]
    questions: list[Asked] = field(default_factory=list)
    samplings: list[Sampling] = field(default_factory=list)
    capabilities: VlmCapabilities = field(default_factory=lambda: VlmCapabilities(token_probabilities=True))

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        parts = [part for message in messages for part in message.parts]
        images = [part.image for part in parts if isinstance(part, ImagePart)]
        levels = tuple(int(image.getpixel((0, 0))[0]) for image in images)  # type: ignore[index]
        asked = Asked("\n".join(message.text for message in messages), levels, tuple(i.size for i in images))
        self.questions.append(asked)
        self.samplings.append(sampling)
        said = self.says(asked)
        return said if isinstance(said, Reply) else Reply(said)


def verdict(accepted: bool, confidence: float | None = None) -> Reply:
    """What a critic of ours writes, with the probability of its judgement."""
    word = "true" if accepted else "false"
    start, end = (
        '<think>seen</think><answer>{"previous_step_success": ',
        ', "refine_prompt": "Draw it"}</answer>',
    )
    if confidence is None:
        return Reply(start + word + end)
    probability = confidence if accepted else 1 - confidence
    return Reply(start + word + end, tokens=(Token(start, 1.0), Token(word, probability), Token(end, 1.0)))


def judged(benchmark: Benchmark, dataset: Dataset, folder: Path, checkout: Path | None = None) -> Judged:
    return Judged(benchmark, dataset, {}, folder, "test:critic", judge_prompts(benchmark, checkout))


def ask(work: Judged, critic: Critic) -> dict[tuple[str, str], Any]:
    """The records of a session, by item and key."""

    async def follow() -> list[Any]:
        return [record async for record in JudgeSession(work, critic).run(concurrency=4)]

    return {(record.item, record.key): record for record in asyncio.run(follow())}


def scorable(work: Judged, missing: Any = "zero") -> Scorable:
    items = work.dataset.items
    keys = {item.id: work.keys(item) for item in items}
    return Scorable(work.benchmark, items, keys, work.records(), missing)


def outcome(work: Judged, missing: Any = "zero") -> Outcome:
    return outcome_of(scorable(work, missing), Label("1", "c", "p", "r"))


def values(work: Judged, missing: Any = "zero") -> dict[str, float | None]:
    """The numbers alone, without the work of their intervals."""
    table = scorable(work, missing).table()
    found = {number.name: number.aggregate(table) * number.scale for number in work.benchmark.numbers()}
    return {name: None if value != value else round(value, 6) for name, value in found.items()}

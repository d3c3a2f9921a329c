"""Writes `samples.html`: rows with their images, the model's answers and their rewards."""

from __future__ import annotations

import math
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from trl.data_utils import prepare_multimodal_messages

from interleave.plugin import write_atomic
from interleave.train.pages import data_url, rendered
from interleave.train.rewards.samples import Result, Sample
from interleave.train.trainers.trl import ScoredBatch

if TYPE_CHECKING:
    from PIL.Image import Image

PAGE_NAME = "samples.html"
MOST_SHOWN = 32
ROWS_OF_STEP = 4
ANSWERS_OF_ROW = 4
SFT_SHOWN = 8
SFT_LOOKED_AT = 512
"""Number of rows searched for different ones."""
SFT_TOKENS = 512
PAGE_SECONDS = 60.0


@dataclass(frozen=True)
class Answer:
    """One answer to a row; images are data URLs with a caption each."""

    text: str
    images: tuple[tuple[str, str], ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    right: bool | None = None


@dataclass(frozen=True)
class SampleCard:
    """One row on the page, with some of its answers."""

    title: str
    asked: str
    answers: tuple[Answer, ...]
    wanted: str = ""
    images: tuple[tuple[str, str], ...] = ()


class SamplePage:
    """The page of the latest answers, rewritten at most every `every` seconds so as not to slow the steps."""

    def __init__(self, folder: Path, title: str, *, every: float = PAGE_SECONDS) -> None:
        self.path = folder / PAGE_NAME
        self.title = title
        self.every = every
        self._written = -math.inf
        self._cards: deque[Callable[[], SampleCard]] = deque(maxlen=MOST_SHOWN)

    @property
    def shown(self) -> list[SampleCard]:
        """The cards of the page, newest first."""
        return [make() for make in reversed(self._cards)]

    def add(self, step: int, scored: ScoredBatch, images: Sequence[Sequence[Image]]) -> None:
        """Add some rows of a step, each with some of its answers."""
        answers = list(zip(scored.samples, scored.completions, scored.results, strict=True))
        for places in rows_of([sample.id for sample in scored.samples])[:ROWS_OF_STEP]:
            taken = [answers[place] for place in places[:ANSWERS_OF_ROW]]
            self._cards.append(partial(_scored, step, taken, images[places[0]]))

    def write(self) -> Path:
        self._written = time.monotonic()
        write_page(self.path, self.title, self.shown)
        return self.path

    def write_if_due(self) -> None:
        """Write the page unless it was written less than `every` seconds ago."""
        if time.monotonic() - self._written >= self.every:
            self.write()


def rows_of(ids: Sequence[str]) -> list[list[int]]:
    """Group the positions of answers by row; the ids of copies of a row end in `#` and a number."""
    places: dict[str, list[int]] = {}
    for place, name in enumerate(ids):
        places.setdefault(name.partition("#")[0], []).append(place)
    return list(places.values())


def different_rows(rows: Any, most: int) -> list[Any]:
    """Return up to `most` rows that differ in question, images or answer."""
    found: dict[Any, Any] = {}
    for index in range(min(len(rows), SFT_LOOKED_AT)):
        row = rows[index]
        shown = tuple(image.tobytes() for image in row["images"])
        found.setdefault((_text(row["prompt"]), _text(row["completion"]), shown), row)
        if len(found) == most:
            break
    return list(found.values())


def write_page(path: Path, title: str, shown: Sequence[SampleCard]) -> None:
    write_atomic(path, rendered("samples.html.j2", title=title, shown=shown).encode())


def sft_page(model: Any, processor: Any, rows: Any, folder: Path) -> Path:
    """Write a page with the trained model's answers to a few rows and the expected ones."""
    taken = different_rows(rows, SFT_SHOWN)
    wanted = [_text(row["completion"]) for row in taken]
    longest = max(len(processor.tokenizer(text)["input_ids"]) for text in wanted)
    answers = answer_greedily(model, processor, taken, min(SFT_TOKENS, longest + 16))
    shown = [
        SampleCard(
            title=str(row.get("id", "")),
            asked=_text(row["prompt"]),
            answers=(Answer(answer, right=answer.strip() == right.strip()),),
            wanted=right,
            images=tuple((data_url(image), "") for image in row["images"]),
        )
        for row, answer, right in zip(taken, answers, wanted, strict=True)
    ]
    path = folder / PAGE_NAME
    write_page(path, "After supervised fine-tuning", shown)
    return path


def answer_greedily(model: Any, processor: Any, rows: Sequence[Any], tokens: int) -> list[str]:
    """Return the model's greedy answers to some rows, decoded in one batch."""
    messages = [prepare_multimodal_messages(row["prompt"], images=list(row["images"])) for row in rows]
    inputs = processor.apply_chat_template(
        messages,
        tokenize=True,
        add_generation_prompt=True,
        return_dict=True,
        return_tensors="pt",
        processor_kwargs={"padding": True, "padding_side": "left"},
    ).to(model.device)
    model.eval()
    with torch.inference_mode():
        written = model.generate(**inputs, max_new_tokens=tokens, do_sample=False)
    begun = inputs["input_ids"].shape[1]
    return list(processor.batch_decode(written[:, begun:], skip_special_tokens=True))


def _scored(step: int, taken: Sequence[tuple[Sample, str, Result]], seen: Sequence[Image]) -> SampleCard:
    sample = taken[0][0]
    words = ("before", "after")
    label = "right" if sample.success else "wrong"
    return SampleCard(
        title=f"step {step} · {sample.id}",
        asked=f"planned: {sample.planned_prompt}\nused: {sample.used_prompt}\nlabel: {label}",
        answers=tuple(_answer(*each) for each in taken),
        images=tuple((data_url(image), word) for image, word in zip(seen, words, strict=False)),
    )


def _answer(sample: Sample, completion: str, result: Result) -> Answer:
    facts = [("case", result.case.value)]
    facts.append(("reward", "masked" if result.total is None else f"{result.total:.3f}"))
    if result.parts is not None:
        facts += [(name, f"{value:.2f}") for name, value in result.parts.model_dump().items()]
    if result.scores is not None:
        before = sample.previous
        facts.append(("semantics", f"{before.semantics:.1f} → {result.scores.semantics:.1f}"))
        facts.append(("quality", f"{before.quality:.1f} → {result.scores.quality:.1f}"))
    if result.cause:
        facts.append(("why", result.cause))
    drawn = () if result.image is None else ((data_url(result.image), "redrawn"),)
    right = None if result.judged is None else result.judged is sample.success
    return Answer(completion, drawn, tuple(facts), right)


def _text(messages: Sequence[Any]) -> str:
    return "\n".join(
        "".join(part.get("text") or "" for part in message["content"]) for message in messages
    ).strip()

"""`samples.html`: answers of the model beside the pictures they are about, and their rewards."""

from __future__ import annotations

import base64
import io
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import jinja2
import torch
from trl.data_utils import prepare_multimodal_messages

from interleave.files import write_atomic
from interleave.training.rewards.samples import Result, Sample
from interleave.training.trainers.trl import ScoredBatch

if TYPE_CHECKING:
    from PIL.Image import Image

PAGE_NAME = "samples.html"
MOST_SHOWN = 64
SFT_SHOWN = 8
SFT_TOKENS = 512
THUMBNAIL = 160
PAGE_SECONDS = 60.0


@dataclass(frozen=True)
class SampleCard:
    """One answer on the page; pictures are data URLs with a caption each."""

    title: str
    asked: str
    answer: str
    wanted: str = ""
    pictures: tuple[tuple[str, str], ...] = ()
    facts: tuple[tuple[str, str], ...] = ()
    right: bool | None = None


class SamplePage:
    """The last answers of a training, rewritten at most every `every` seconds so as not to slow the steps."""

    def __init__(self, folder: Path, title: str, *, every: float = PAGE_SECONDS) -> None:
        self.path = folder / PAGE_NAME
        self.title = title
        self.every = every
        self._written = -math.inf
        self._cards: deque[Callable[[], SampleCard]] = deque(maxlen=MOST_SHOWN)

    @property
    def shown(self) -> list[SampleCard]:
        """The cards of the page, the newest first."""
        return [make() for make in reversed(self._cards)]

    def add(
        self,
        step: int,
        scored: ScoredBatch,
        pictures: Sequence[Sequence[Image]],
        *,
        most: int = 8,
    ) -> None:
        """Add some answers of a step: to as many different rows as there are."""
        rows = list(zip(scored.samples, scored.completions, scored.results, pictures, strict=True))
        places = spread([sample.id for sample in scored.samples], most)
        self._cards.extend(partial(_scored, step, *rows[place]) for place in places)

    def write(self) -> Path:
        self._written = time.monotonic()
        write_page(self.path, self.title, self.shown)
        return self.path

    def write_if_due(self) -> None:
        """Write the page, unless that was done less than `every` seconds ago."""
        if time.monotonic() - self._written >= self.every:
            self.write()


def spread(ids: Sequence[str], most: int) -> list[int]:
    """The places of some items, in order: one of each id, then a second of each, and so on.

    Copies of a row differ by a number at the end of their ids alone.
    """
    seen: Counter[str] = Counter()
    turns = []
    for place, name in enumerate(ids):
        row = name.partition("#")[0]
        turns.append((seen[row], place))
        seen[row] += 1
    return sorted(place for _, place in sorted(turns)[:most])


def write_page(path: Path, title: str, shown: Sequence[SampleCard]) -> None:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(Path(__file__).parent / "templates"), autoescape=True
    )
    page = environment.get_template("samples.html.j2").render(title=title, shown=shown)
    write_atomic(path, page.encode())


def sft_page(model: Any, processor: Any, rows: Any, folder: Path) -> Path:
    """A page of the trained model's answers to a few rows, beside the expected ones."""
    ids = rows.with_format(None)["id"] if "id" in rows.column_names else [str(n) for n in range(len(rows))]
    taken = [rows[index] for index in spread(list(ids), SFT_SHOWN)]
    wanted = [_text(row["completion"]) for row in taken]
    longest = max(len(processor.tokenizer(text)["input_ids"]) for text in wanted)
    answers = answer_greedily(model, processor, taken, min(SFT_TOKENS, longest + 16))
    shown = [
        SampleCard(
            title=str(row.get("id", "")),
            asked=_text(row["prompt"]),
            answer=answer,
            wanted=right,
            pictures=tuple((data_url(picture), "") for picture in row["images"]),
            right=answer.strip() == right.strip(),
        )
        for row, answer, right in zip(taken, answers, wanted, strict=True)
    ]
    path = folder / PAGE_NAME
    write_page(path, "After supervised fine-tuning", shown)
    return path


def answer_greedily(model: Any, processor: Any, rows: Sequence[Any], tokens: int) -> list[str]:
    """The model's greedy answers to some rows, decoded in one batch."""
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


def data_url(picture: Image) -> str:
    """A thumbnail as a data URL: the page needs no other file."""
    small = picture.copy()
    small.thumbnail((THUMBNAIL, THUMBNAIL))
    data = io.BytesIO()
    small.save(data, "WEBP", quality=85)
    return f"data:image/webp;base64,{base64.b64encode(data.getvalue()).decode()}"


def _scored(step: int, sample: Sample, completion: str, result: Result, seen: Sequence[Image]) -> SampleCard:
    words = ("before", "after")
    pictures = [(data_url(picture), word) for picture, word in zip(seen, words, strict=False)]
    if result.picture is not None:
        pictures.append((data_url(result.picture), "drawn again"))
    facts = [("label", "right" if sample.success else "wrong"), ("case", result.case.value)]
    facts.append(("reward", "masked" if result.total is None else f"{result.total:.3f}"))
    if result.parts is not None:
        facts += [(name, f"{value:.2f}") for name, value in result.parts.model_dump().items()]
    if result.scores is not None:
        before = sample.previous
        facts.append(("semantics", f"{before.semantics:.1f} → {result.scores.semantics:.1f}"))
        facts.append(("quality", f"{before.quality:.1f} → {result.scores.quality:.1f}"))
    if result.cause:
        facts.append(("why", result.cause))
    return SampleCard(
        title=f"step {step} · {sample.id}",
        asked=f"planned: {sample.planned_prompt}\nused: {sample.used_prompt}",
        answer=completion,
        pictures=tuple(pictures),
        facts=tuple(facts),
        right=None if result.judged is None else result.judged is sample.success,
    )


def _text(messages: Sequence[Any]) -> str:
    return "\n".join(
        "".join(part.get("text") or "" for part in message["content"]) for message in messages
    ).strip()

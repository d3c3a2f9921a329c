"""What the pages show of items, outputs and verdicts: plain values, with links instead of images."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from interleave.bench.base import Benchmark, Item, JudgeRecord, Unparsed
from interleave.bench.outputs import Output
from interleave.bench.parsing import json_object
from interleave.bench.scoring import Measured
from interleave.plugin import images, make_folder, runs, write_atomic

if TYPE_CHECKING:
    from PIL.Image import Image

NONE = "–"
REASONS = ("reason", "reasoning", "explanation", "rationale", "justification", "feedback", "analysis")
"""Where judges that reply in JSON put their words."""
MAX_REPLY = 6_000
"""Characters of a reply that a page shows; the whole of it is in the judge's file."""
KEPT = "report-pictures"
"""Where images of items go that are not files yet."""


@dataclass(frozen=True)
class Shown:
    """An image of a page, by its address; none where the file is missing."""

    name: str
    address: str | None


@dataclass(frozen=True)
class Piece:
    """A text, an image, or a text with the image that follows it."""

    text: str = ""
    image: Shown | None = None


@dataclass(frozen=True)
class VerdictView:
    """A question to the judge and what became of it."""

    criterion: str
    verdict: str
    kind: str
    """`yes`, `no`, `mark` for anything else that is a value, `none` for no value."""
    words: str = ""
    reply: str = ""
    """The judge's reply, where its words could not be told from it or it has no value."""
    key: str = ""


@dataclass(frozen=True)
class ItemView:
    """An item as a page shows it."""

    anchor: str
    id: str
    group: str
    asked: tuple[Piece, ...]
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class AnswerView:
    """What one system answered to an item, and what the judge said of it."""

    pieces: tuple[Piece, ...]
    reason: str
    run: str | None
    """The address of the run's own page."""
    verdicts: tuple[VerdictView, ...]
    measures: tuple[tuple[str, str], ...]

    @property
    def unanswered(self) -> bool:
        return any(verdict.kind == "none" for verdict in self.verdicts)

    @property
    def tally(self) -> str:
        """How the questions ended, for the line that unfolds them."""
        counts: dict[str, int] = {}
        for verdict in self.verdicts:
            name = verdict.verdict if verdict.kind in ("yes", "no", "none") else "marked"
            counts[name] = counts.get(name, 0) + 1
        return ", ".join(f"{number:,} {name}" for name, number in counts.items())


@dataclass(frozen=True)
class Pages:
    """Makes views for one page."""

    benchmark: Benchmark
    page: Path
    """The folder of the page: addresses are relative to it."""

    def item(self, item: Item) -> ItemView:
        facts = _simple_facts(item.facts) if self.benchmark.tests == "critics" else ()
        return ItemView(anchor_of(item.id), item.id, item.group, tuple(self._asked(item)), tuple(facts))

    def _asked(self, item: Item) -> Iterator[Piece]:
        for part in item.parts:
            if isinstance(part, str):
                yield Piece(text=part)
            else:
                yield Piece(image=self.image(part if isinstance(part, Path) else self._kept(part)))
        for asset in item.assets:
            yield Piece(text=f"{asset.name}: {asset.description}".removesuffix(": "))
            if asset.image is not None:
                yield Piece(image=self.image(asset.image))

    def _kept(self, image: Image) -> Path:
        data = images.encode_png(image)
        path = self.page / KEPT / f"{hashlib.sha256(data).hexdigest()[:24]}.png"
        if not path.exists():
            make_folder(path.parent)
            write_atomic(path, data)
        return path

    def answer(
        self,
        item: Item,
        output: Output | None,
        folder: Path,
        records: Mapping[str, JudgeRecord],
        measures: Mapping[str, float | None],
        keys: Sequence[str],
        known: bool = True,
    ) -> AnswerView:
        """What a system whose files are in `folder` answered; of an unknown item, questions are bare keys."""
        run = folder / output.run / runs.DOCUMENT_NAME if output is not None and output.run else None
        reason = output.reason if output is not None else ""
        if output is None and self.benchmark.tests == "systems":
            reason = "there is no output"
        return AnswerView(
            tuple(self._pieces(output, folder)) if output is not None else (),
            reason,
            self.address(run) if run is not None and run.exists() else None,
            tuple(
                _verdict(key, self.benchmark.criterion(key, item) if known else key, records.get(key))
                for key in keys
            ),
            tuple((name, in_digits(value)) for name, value in measures.items()),
        )

    def _pieces(self, output: Output, folder: Path) -> Iterator[Piece]:
        """Texts stand with the images they come before, as in the document."""
        texts: list[str] = []
        for part in output.parts:
            if part.image is None:
                texts.append(part.text or "")
                continue
            yield Piece("\n".join(texts), self.image(folder / part.image))
            texts = []
        if texts:
            yield Piece("\n".join(texts))

    def image(self, path: Path) -> Shown:
        return Shown(path.name, self.address(path) if path.is_file() else None)

    def address(self, path: Path) -> str:
        """A relative address, in which no character of a file name means anything."""
        relative = os.path.relpath(path.absolute(), self.page.absolute())
        return quote(Path(relative).as_posix())


def _verdict(key: str, criterion: str, record: JudgeRecord | None) -> VerdictView:
    if record is None:
        return VerdictView(criterion, "not asked", "none", key=key)
    if record.status != "ok":
        status = record.status.replace("_", " ")
        return VerdictView(criterion, status, "none", record.reason, record.reply[:MAX_REPLY], key)
    words = words_of(record.reply)
    kind = ("yes" if record.value else "no") if isinstance(record.value, bool) else "mark"
    return VerdictView(
        criterion, value_of(record.value), kind, words, "" if words else record.reply[:MAX_REPLY], key
    )


def anchor_of(item: str) -> str:
    """The name of an item in a page's address: the same in every page, and never that of another item."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", item)[:60]
    return (
        f"item-{plain}" if plain == item else f"item-{plain}-{hashlib.sha256(item.encode()).hexdigest()[:8]}"
    )


def words_of(reply: str) -> str:
    """The judge's reasons out of a reply in JSON; nothing where there are none by a usual name."""
    try:
        found = json_object(reply)
    except Unparsed:
        return ""
    said = {name.lower(): value for name, value in found.items()}
    return next((said[name] for name in REASONS if isinstance(said.get(name), str) and said[name]), "")


def value_of(value: Any) -> str:
    """A value of the judge, for readers."""
    match value:
        case bool():
            return "met" if value else "not met"
        case int() | float():
            return f"{value:g}"
        case list() | tuple():
            return " · ".join(map(value_of, value))
        case dict():
            return " · ".join(f"{name} {value_of(each)}" for name, each in value.items())
        case None:
            return NONE
    return str(value)


def in_digits(value: float | None, digits: int = 2) -> str:
    return NONE if value is None else f"{value:.{digits}f}"


def as_published(value: float | None, digits: int) -> str:
    """A number as it was printed, with at least so many digits."""
    if value is None:
        return ""
    printed = f"{value:.10g}"
    return printed if len(printed.partition(".")[2]) >= digits else f"{value:.{digits}f}"


def bounds_of(number: Measured) -> str:
    """The interval of a number."""
    if number.low is None or number.high is None:
        return NONE
    return f"{number.low:.{number.digits}f} to {number.high:.{number.digits}f}"


def _simple_facts(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Facts that can be read: what people said of an item, mostly."""
    for name, value in facts.items():
        shown = value_of(value) if _is_simple(value) else ""
        if shown:
            yield name, shown if len(shown) <= 400 else f"{shown[:399]}…"


def _is_simple(value: Any) -> bool:
    match value:
        case str() | int() | float():
            return True
        case list() | tuple():
            return all(map(_is_simple, value))
        case dict():
            return all(map(_is_simple, value.values()))
    return False

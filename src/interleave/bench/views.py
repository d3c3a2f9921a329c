"""Items, outputs and verdicts as the pages show them: plain values, with links to images."""

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
"""Keys under which judges that reply in JSON give their reasons."""
MAX_REPLY = 6_000
"""Maximum characters of a reply on a page; the judge's file has the rest."""
KEPT = "report-pictures"
"""Folder for images of items that are not files yet."""


@dataclass(frozen=True)
class Shown:
    """An image of a page; its address is `None` if the file is missing."""

    name: str
    address: str | None


@dataclass(frozen=True)
class Piece:
    """A text, an image, or a text with the image that follows it."""

    text: str = ""
    image: Shown | None = None


@dataclass(frozen=True)
class VerdictView:
    """A question to the judge and its outcome."""

    criterion: str
    verdict: str
    kind: str
    """`yes`, `no`, `mark` for any other value, `none` for no value."""
    words: str = ""
    reply: str = ""
    """The judge's reply, if it has no value or no recognizable reasons."""
    key: str = ""


@dataclass(frozen=True)
class ItemView:
    """An item on a page."""

    anchor: str
    id: str
    group: str
    asked: tuple[Piece, ...]
    facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class AnswerView:
    """One system's answer to an item, and the judge's verdicts."""

    pieces: tuple[Piece, ...]
    reason: str
    run: str | None
    """The address of the run's page."""
    verdicts: tuple[VerdictView, ...]
    measures: tuple[tuple[str, str], ...]

    @property
    def unanswered(self) -> bool:
        return any(verdict.kind == "none" for verdict in self.verdicts)

    @property
    def tally(self) -> str:
        """Counts of verdicts, for the summary line."""
        counts: dict[str, int] = {}
        for verdict in self.verdicts:
            name = verdict.verdict if verdict.kind in ("yes", "no", "none") else "marked"
            counts[name] = counts.get(name, 0) + 1
        return ", ".join(f"{number:,} {name}" for name, number in counts.items())


@dataclass(frozen=True)
class Pages:
    """Builds the views of one page."""

    benchmark: Benchmark
    page: Path
    """The folder of the page, to which addresses are relative."""

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
        """Build the view of an answer. Questions of an unknown item are shown as keys."""
        run = folder / output.run / runs.DOCUMENT_NAME if output is not None and output.run else None
        reason = output.reason if output is not None else ""
        if output is None and self.benchmark.tests == "systems":
            reason = "no output"
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
        """Yield each image with the texts before it, as in the document."""
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
        """Return a relative URL with special characters escaped."""
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
    """Return an item's anchor: the same in every page, and unique."""
    plain = re.sub(r"[^A-Za-z0-9_.-]+", "-", item)[:60]
    return (
        f"item-{plain}" if plain == item else f"item-{plain}-{hashlib.sha256(item.encode()).hexdigest()[:8]}"
    )


def words_of(reply: str) -> str:
    """Return the judge's reasons from a JSON reply; empty if no usual key has them."""
    try:
        found = json_object(reply)
    except Unparsed:
        return ""
    said = {name.lower(): value for name, value in found.items()}
    return next((said[name] for name in REASONS if isinstance(said.get(name), str) and said[name]), "")


def value_of(value: Any) -> str:
    """Format a judge's value."""
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
    """Format a number as it was printed, with at least `digits` digits."""
    if value is None:
        return ""
    printed = f"{value:.10g}"
    return printed if len(printed.partition(".")[2]) >= digits else f"{value:.{digits}f}"


def bounds_of(number: Measured) -> str:
    """Format a number's interval."""
    if number.low is None or number.high is None:
        return NONE
    return f"{number.low:.{number.digits}f} to {number.high:.{number.digits}f}"


def _simple_facts(facts: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield facts that can be shown as text, mostly human verdicts."""
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

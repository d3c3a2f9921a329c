"""A run as a book: the content that all formats show, in order and in each language, without layout."""

from __future__ import annotations

import io
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image

from interleave import ConfigurationError, RunError, RunRecord
from interleave.books.languages import Language, language_of
from interleave.books.notices import ai_notice
from interleave.books.texts import Translation, translations
from interleave.plugin import ImageStore, one_line, parse_spec, render, runs, text

MAX_PNG_BYTES = 1_500_000
"""Largest PNG to embed; larger images become JPEG, so that a book of fifty photographs can be sent."""
JPEG_QUALITY = 92
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
MISSING_IMAGE = "The image of this step is missing or was altered."
NOTHING_ACCEPTED = "The images may not show what the text says: none of them passed a check."
_PNG_HEAD = 8
_METADATA = (b"tEXt", b"zTXt", b"iTXt", b"eXIf")
_SOFTWARE = b"Software\0"
"""Key of the only metadata that exported images keep: it tells that a program made them."""


@dataclass(frozen=True)
class BookImage:
    """An embedded image."""

    name: str
    data: bytes
    media_type: str
    width: int
    height: int
    alt: str


@dataclass(frozen=True)
class Letters:
    """Words upon an image, in one language."""

    kind: str
    text: str
    target: str = ""
    at: tuple[float, float] | None = None


@dataclass(frozen=True)
class Words:
    """Words of a page in one language."""

    language: Language
    heading: str
    """Name of the step; empty if it has none."""
    text: str
    alt: str = ""
    lettering: tuple[Letters, ...] = ()


@dataclass(frozen=True)
class BookPage:
    """One step."""

    number: int
    words: tuple[Words, ...]
    """The words in each language of the book, the first language first."""
    image: BookImage | None
    remarks: tuple[str, ...] = ()

    @property
    def heading(self) -> str:
        return self.words[0].heading

    @property
    def text(self) -> str:
        """Text in all languages."""
        return "\n".join(each.text for each in self.words if each.text)

    @property
    def label(self) -> str:
        """Name of the page in a table of contents."""
        first = self.heading or self.words[0].text or f"{self.number}"
        return one_line(first, 120)


@dataclass(frozen=True)
class Book:
    """The whole document."""

    titles: tuple[Words, ...]
    """The title as heading, in each language; as text the line that AI made the document, if it is wanted."""
    remarks: tuple[str, ...]
    """Remarks for readers about the whole document."""
    given: tuple[str | BookImage, ...]
    """The request, if it is more than the title."""
    pages: tuple[BookPage, ...]
    credits: tuple[str, ...]
    """How the book was made, for its last page."""
    software: str
    started: float

    @property
    def title(self) -> str:
        return self.titles[0].heading

    @property
    def languages(self) -> tuple[Language, ...]:
        return tuple(each.language for each in self.titles)

    @property
    def images(self) -> list[BookImage]:
        """All images, without duplicates."""
        given = [part for part in self.given if isinstance(part, BookImage)]
        shown = [page.image for page in self.pages if page.image]
        return list({image.name: image for image in (*given, *shown)}.values())

    @property
    def cover(self) -> BookImage | None:
        """The cover image: that of the first step with one."""
        return next((page.image for page in self.pages if page.image), None)

    @property
    def last_remarks(self) -> tuple[str, ...]:
        """All remarks, for the last page."""
        ours = (f"{page.number}. {remark}" for page in self.pages for remark in page.remarks)
        return (*self.remarks, *ours)

    @property
    def date(self) -> str:
        """Start of the run, as ISO 8601 in UTC."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.started))

    def texts(self) -> Iterator[tuple[Language, str]]:
        """Yield each language with all that is shown in it."""
        for place, title in enumerate(self.titles):
            own = [page.words[place] for page in self.pages]
            letters = (f"{each.text}{each.target}" for words in own for each in words.lettering)
            shown = (f"{words.heading}{words.text}" for words in (title, *own))
            yield title.language, "".join((*shown, *letters))

    def words(self) -> Iterator[Words]:
        """Yield all words in all languages."""
        yield from self.titles
        for page in self.pages:
            yield from page.words


def book_of(folder: Path, record: RunRecord, options: render.ExportOptions | None = None) -> Book:
    """Return the book of a run, with its images, in the languages of the options."""
    store, document = ImageStore(folder), runs.as_shown(record)
    options = options or render.ExportOptions()
    chosen = translations(document, options)
    is_title = [part.text for part in record.request] == [record.request_title]
    given = () if is_title else tuple(_given(store, part.text, part.image) for part in record.request)
    return Book(
        titles=tuple(_title(document.title, each, options.ai_notice) for each in chosen),
        remarks=tuple(clean(remark) for remark in _remarks(record, document, options.details) if remark),
        given=tuple(part for part in given if part),
        pages=_pages(store, record, document, chosen, options.details),
        credits=tuple(map(clean, _credits(record))),
        software=record.software,
        started=record.started,
    )


def clean(shown: str) -> str:
    """Return text that XML can hold; control characters are made visible, and tabs are spaces."""
    lines = text.visible(shown).replace("\r\n", "\n").replace("\t", "    ")
    return _NOT_XML.sub("\ufffd", lines.strip())


def heading_of(name: str) -> str:
    return clean(" ".join(name.split()))


def _title(title: str, translated: Translation, with_notice: bool) -> Words:
    own = title if translated.is_original else translated.words["title"]
    language = language_of(translated.language, own)
    return Words(language, heading_of(own), ai_notice(language) if with_notice else "")


def _remarks(record: RunRecord, document: runs.DocumentAsShown, details: bool) -> list[str]:
    """Return the remarks for readers; what the critic refused and why a run ended are details."""
    incomplete = forced = ""
    if record.status != "done":
        reason = f" ({record.status}). {one_line(record.reason, 300)}" if details else "."
        incomplete = f"This document is incomplete{reason}".strip()
    if details:
        forced = render.forced_note(document.forced)
    elif document.forced and document.forced == sum(bool(step.record.attempt) for step in document.steps):
        forced = NOTHING_ACCEPTED
    return [incomplete, render.merged_notes(record.model_notes), forced]


def _credits(record: RunRecord) -> Iterator[str]:
    """Yield who made the book. Addresses, paths and options of models are not shown."""
    config = record.config
    roles = (("Plan", config.planner), ("Images", config.generator), ("Checked", config.critic))
    named = {role: name for role, each in roles if each and (name := _model_name(each))}
    if named:
        yield ". ".join(f"{role} by {name}" for role, name in named.items()) + "."
    date = time.strftime("%Y-%m-%d", time.gmtime(record.started))
    yield f"Made with InterleaveThinker {record.software}, {date}."


def _model_name(role: object) -> str:
    shown = str(getattr(role, "shown", ""))
    try:
        spec = parse_spec(shown)
    except ConfigurationError:
        return shown
    model = spec.model or ""
    return (model.rstrip("/").rpartition("/")[2] if model[:1] in "/." else model) or spec.name


def _given(store: ImageStore, shown: str | None, image: str | None) -> str | BookImage | None:
    if image is not None:
        return embedded(store, image, "An image given with the request")
    return clean(shown or "")


def _pages(
    store: ImageStore,
    record: RunRecord,
    document: runs.DocumentAsShown,
    chosen: tuple[Translation, ...],
    details: bool,
) -> tuple[BookPage, ...]:
    """Return the pages; the last one ends with the notes about the request."""
    pages = [_page(store, step, chosen, details) for step in document.steps]
    if pages:
        pages[-1] = replace(pages[-1], remarks=(*pages[-1].remarks, *map(clean, record.plan_notes)))
    return tuple(pages)


def _page(
    store: ImageStore, step: runs.StepAsShown, chosen: tuple[Translation, ...], details: bool
) -> BookPage:
    record, shown = step.record, step.record.attempt
    refused = details and record.forced
    remarks = ["Not accepted by the critic; the best attempt is shown."] if refused else []
    words = tuple(_words(step, each) for each in chosen)
    image = embedded(store, shown.image, words[0].alt) if shown else None
    if shown and image is None:
        remarks.append(MISSING_IMAGE)
    elif record.plan.prompt is not None and shown is None:
        remarks.append("No image yet.")
    return BookPage(step.number, words, image, tuple(remarks))


def _words(step: runs.StepAsShown, translated: Translation) -> Words:
    own = translated.of_step(step)
    language = language_of(translated.language, f"{own.text} {own.heading}")
    lettering = tuple(
        Letters(each.kind, clean(said), clean(each.target), each.at)
        for each, said in zip(step.lettering, own.lettering, strict=True)
    )
    alt = clean(one_line(own.alt or own.text or own.heading, runs.ALT_CHARACTERS))
    return Words(language, heading_of(own.heading), clean(own.text), alt, lettering)


def embedded(store: ImageStore, name: str, alt: str) -> BookImage | None:
    """Return an image with its alternative text, or `None` if its file is missing or altered."""
    try:
        image, data, media_type = store.get(name), store.read(name), "image/png"
    except RunError:
        return None
    if len(data) > MAX_PNG_BYTES:
        name, data, media_type = f"{name.removesuffix('.png')}.jpg", _jpeg(image), "image/jpeg"
    else:
        data = without_metadata(data)
    description = clean(one_line(alt, runs.ALT_CHARACTERS))
    return BookImage(name, data, media_type, image.width, image.height, description)


def without_metadata(png: bytes) -> bytes:
    """Return a PNG file without its prompt, seed and generator; its pixels stay as they are coded."""
    kept, at = [png[:_PNG_HEAD]], _PNG_HEAD
    while at + 8 <= len(png):
        end = at + 12 + int.from_bytes(png[at : at + 4], "big")
        if png[at + 4 : at + 8] not in _METADATA or png.startswith(_SOFTWARE, at + 8):
            kept.append(png[at:end])
        at = end
    return b"".join(kept)


def _jpeg(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, "JPEG", quality=JPEG_QUALITY)
    return buffer.getvalue()

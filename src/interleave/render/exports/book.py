"""A run as a book: the content that all export formats show, in order, without layout."""

from __future__ import annotations

import io
import re
import time
from dataclasses import dataclass, replace
from pathlib import Path

from PIL import Image

from interleave.errors import RunError
from interleave.render.html import forced_note, merged_notes
from interleave.runs.folder import ImageStore
from interleave.runs.record import RunRecord
from interleave.runs.shown_document import ALT_CHARACTERS, DocumentAsShown, StepAsShown, as_shown
from interleave.text import one_line, visible

MAX_PNG_BYTES = 1_500_000
"""Largest PNG to embed; larger images become JPEG, so that a book of fifty photographs can be sent."""
JPEG_QUALITY = 92
TITLE_CHARACTERS = 200
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
MISSING_IMAGE = "The image of this step is missing or was altered."


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
class BookPage:
    """One step."""

    number: int
    heading: str
    """Name of the step; empty if it has none."""
    text: str
    image: BookImage | None
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True)
class Book:
    """The whole document."""

    title: str
    remarks: tuple[str, ...]
    """Remarks for readers about the whole document."""
    given: tuple[str | BookImage, ...]
    """The request, if it is more than the title."""
    pages: tuple[BookPage, ...]
    software: str
    started: float

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
    def text(self) -> str:
        """All text, for choosing fonts."""
        pages = (f"{page.heading}\n{page.text}\n{' '.join(page.remarks)}" for page in self.pages)
        given = (part for part in self.given if isinstance(part, str))
        return "\n".join([self.title, *self.remarks, *given, *pages])

    @property
    def date(self) -> str:
        """Start of the run, as ISO 8601 in UTC."""
        return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(self.started))


def book_of(folder: Path, record: RunRecord) -> Book:
    """Return the book of a run, with its images."""
    store, document = ImageStore(folder), as_shown(record)
    is_title = [part.text for part in record.request] == [record.request_title]
    given = () if is_title else tuple(_given(store, part.text, part.image) for part in record.request)
    return Book(
        title=clean(one_line(document.title, TITLE_CHARACTERS)),
        remarks=tuple(clean(remark) for remark in _remarks(record, document) if remark),
        given=tuple(part for part in given if part),
        pages=_pages(store, record, document),
        software=record.software,
        started=record.started,
    )


def clean(text: str) -> str:
    """Return text that XML can hold; control characters are made visible."""
    return _NOT_XML.sub("\ufffd", visible(text).replace("\r\n", "\n").strip())


def _remarks(record: RunRecord, document: DocumentAsShown) -> list[str]:
    incomplete = "" if record.status == "done" else f"This document is incomplete ({record.status})."
    reason = one_line(record.reason, 300) if incomplete else ""
    forced = forced_note(document.forced)
    return [f"{incomplete} {reason}".strip(), merged_notes(record.model_notes), forced]


def _given(store: ImageStore, text: str | None, image: str | None) -> str | BookImage | None:
    if image is not None:
        return embedded(store, image, "An image given with the request")
    return clean(text or "")


def _pages(store: ImageStore, record: RunRecord, document: DocumentAsShown) -> tuple[BookPage, ...]:
    """Return the pages; the last one ends with the notes about the request."""
    pages = [_page(store, step) for step in document.steps]
    if pages:
        pages[-1] = replace(pages[-1], remarks=(*pages[-1].remarks, *map(clean, record.plan_notes)))
    return tuple(pages)


def _page(store: ImageStore, step: StepAsShown) -> BookPage:
    record, shown = step.record, step.record.attempt
    remarks = ["Not accepted by the critic; the best attempt is shown."] if record.forced else []
    image = embedded(store, shown.image, step.alt) if shown else None
    if shown and image is None:
        remarks.append(MISSING_IMAGE)
    elif record.plan.prompt is not None and shown is None:
        remarks.append("No image yet.")
    return BookPage(
        number=step.number,
        heading=clean(one_line(step.name, TITLE_CHARACTERS)),
        text=clean(step.text),
        image=image,
        remarks=tuple(remarks),
    )


def embedded(store: ImageStore, name: str, alt: str) -> BookImage | None:
    """Return an image with its alternative text, or `None` if its file is missing or altered."""
    try:
        image, data, media_type = store.get(name), store.read(name), "image/png"
    except RunError:
        return None
    if len(data) > MAX_PNG_BYTES:
        name, data, media_type = f"{name.removesuffix('.png')}.jpg", _jpeg(image), "image/jpeg"
    description = clean(one_line(alt, ALT_CHARACTERS))
    return BookImage(name, data, media_type, image.width, image.height, description)


def _jpeg(image: Image.Image) -> bytes:
    buffer = io.BytesIO()
    image.convert("RGB").save(buffer, "JPEG", quality=JPEG_QUALITY)
    return buffer.getvalue()

"""`index.html`: the runs of a batch on one page, each as a strip of thumbnails with a link to its document.

A request that was refused before it became a run is listed in its place, with the reason.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interleave.batches.batch import Ended
from interleave.errors import RunError
from interleave.files import write_atomic
from interleave.render.html import EmbeddedImages, merged_notes, page_template, write_document
from interleave.runs.folder import DOCUMENT_NAME, ImageStore
from interleave.runs.record import RunRecord, read_record
from interleave.runs.shown_document import StepAsShown, as_shown
from interleave.text import count, one_line

log = logging.getLogger(__name__)

FILE_NAME = "index.html"
IMAGES_IN_A_STRIP = 6
TITLE_CHARACTERS = 120


@dataclass(frozen=True)
class Thumbnail:
    """One image of a strip, and the number of images left out before it."""

    image: dict[str, Any]
    text: str
    left_out: int = 0


@dataclass(frozen=True)
class Strip:
    """One request: its title, its images and a link to its document; without a run, the reason."""

    title: str
    facts: str
    link: str | None = None
    images: tuple[Thumbnail, ...] = ()
    reason: str = ""
    advice: str = ""


def write_gallery(folder: Path, all_ended: Iterable[Ended], requests: Mapping[str, str]) -> Path:
    """Write a document for every ended run, and one page of all `requests`, given as texts by id."""
    strips: list[Strip] = []
    notes: dict[str, None] = {}
    for ended in all_ended:
        title = one_line(requests.get(ended.id, ended.id), TITLE_CHARACTERS)
        record = _record(folder / ended.folder)
        if record is None:
            strips.append(Strip(title, "no images", reason=ended.reason, advice=_advice(ended)))
            continue
        write_document(folder / ended.folder, record)
        notes |= dict.fromkeys(record.model_notes)
        strips.append(
            _strip(folder / ended.folder, f"{ended.folder}/{DOCUMENT_NAME}", record, _advice(ended))
        )
    page = page_template("gallery.html.j2").render(
        strips=strips, heading=_heading(strips), notes=merged_notes(notes)
    )
    path = folder / FILE_NAME
    write_atomic(path, page.encode())
    return path


def _record(run: Path) -> RunRecord | None:
    """Return the record of a run, or `None` if it failed before its first step or cannot be read."""
    if not run.exists():
        return None
    try:
        record = read_record(run)
    except RunError as error:  # still write the other pages
        log.warning("%s", error)
        return None
    return record if record.steps or record.status != "failed" else None


def _strip(run: Path, link: str, record: RunRecord, advice: str) -> Strip:
    drawn = [step for step in as_shown(record).steps if step.record.attempt is not None]
    return Strip(
        one_line(record.title, TITLE_CHARACTERS),
        _facts(record),
        link,
        tuple(_thumbnails(EmbeddedImages(ImageStore(run)), drawn)),
        "" if record.status == "done" else record.reason,
        advice,
    )


def _facts(record: RunRecord) -> str:
    facts = [
        count(len(record.steps), "step"),
        f"{count(record.calls.generator, 'image')} drawn",
        *([f"{len(record.forced_steps)} not accepted"] if record.forced_steps else []),
        *([record.status] if record.status != "done" else []),
    ]
    return " · ".join(facts)


def _thumbnails(images: EmbeddedImages, drawn: list[StepAsShown]) -> Iterator[Thumbnail]:
    """Yield the first and the last images; the first after a gap has the number left out."""
    half, left_out = IMAGES_IN_A_STRIP // 2, max(0, len(drawn) - IMAGES_IN_A_STRIP)
    kept = drawn[:half] + drawn[-half:] if left_out else drawn
    for place, step in enumerate(kept):
        attempt = step.record.attempt
        image = images.thumbnail(attempt.image) if attempt else None
        if image is not None:
            yield Thumbnail(image, step.alt, left_out if place == half else 0)


def _advice(ended: Ended) -> str:
    """Return what to do about a request that did not finish."""
    if ended.status not in ("failed", "short"):
        return ""
    if ended.bad_request:
        return "Reword it under a new id, or remove it."
    return "Run the same command with --retry-failed."


def _heading(strips: list[Strip]) -> str:
    refused = sum(strip.link is None for strip in strips)
    heading = count(len(strips) - refused, "document")
    return f"{heading}, {count(refused, 'request')} without one" if refused else heading

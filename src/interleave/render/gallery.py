"""`index.html`: many runs on one page, each as a strip of thumbnails that links to its document."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interleave.batches.batch import Ended
from interleave.errors import RunError
from interleave.files import write_atomic
from interleave.render.html import EmbeddedPictures, page_template, write_document
from interleave.runs.folder import DOCUMENT_NAME
from interleave.runs.record import RunRecord, read_record
from interleave.runs.store import PictureStore
from interleave.text import one_line

log = logging.getLogger(__name__)

FILE_NAME = "index.html"
PICTURES_IN_A_STRIP = 6


@dataclass(frozen=True)
class Strip:
    """One run: its title, a link, and thumbnails of its first and last pictures."""

    title: str
    link: str
    record: RunRecord
    pictures: list[dict[str, Any]]


def write_gallery(folder: Path, all_ended: Iterable[Ended]) -> Path:
    """Write a document for every run that has ended, and one page with all of them."""
    strips = list(_strips(folder, all_ended))
    notes = dict.fromkeys(note for strip in strips for note in strip.record.config.notes)
    page = page_template("gallery.html.j2").render(strips=strips, notes=notes)
    path = folder / FILE_NAME
    write_atomic(path, page.encode())
    return path


def _strips(folder: Path, all_ended: Iterable[Ended]) -> Iterator[Strip]:
    for ended in all_ended:
        run = folder / ended.folder
        if not run.exists():  # it failed before it had a folder; the summary has the reason
            continue
        try:
            record = read_record(run)
        except RunError as error:  # the other pages are written nevertheless
            log.warning("%s", error)
            continue
        write_document(run, record)
        pictures = EmbeddedPictures(PictureStore(run))
        shown = [step.attempt.image for step in record.steps if step.attempt is not None]
        thumbnails = (pictures.thumbnail(name) for name in _first_and_last(shown))
        yield Strip(
            one_line(record.title, 120),
            f"{ended.folder}/{DOCUMENT_NAME}",
            record,
            [picture for picture in thumbnails if picture is not None],
        )


def _first_and_last(names: list[str]) -> list[str]:
    if len(names) <= PICTURES_IN_A_STRIP:
        return names
    half = PICTURES_IN_A_STRIP // 2
    return names[:half] + names[-half:]

"""`document.html`: a run as one self-contained page, to print or to study.

The page has no script and loads nothing; everything a user or a model wrote goes through autoescaping.
Pictures are embedded: those a reader sees at full size, those folded away as thumbnails with links.
"""

from __future__ import annotations

import base64
import io
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from PIL import Image

from interleave.errors import RunError
from interleave.files import write_atomic
from interleave.render.word_diff import prompt_changes
from interleave.runs.folder import DOCUMENT_NAME
from interleave.runs.record import AttemptRecord, RunRecord, StepRecord
from interleave.runs.store import FOLDER, PictureStore
from interleave.text import one_line, visible

if TYPE_CHECKING:
    from jinja2 import Template

EMBED_AS_IS_BYTES = 400_000
THUMBNAIL_SIDE = 320


def write_document(folder: Path, record: RunRecord) -> Path:
    """Write the page of a run into its folder."""
    path = folder / DOCUMENT_NAME
    write_atomic(path, render_document(folder, record).encode())
    return path


def render_document(folder: Path, record: RunRecord) -> str:
    """The page of a run."""
    pictures = EmbeddedPictures(PictureStore(folder))
    return page_template("document.html.j2").render(
        record=record,
        title=one_line(record.title, 120),
        pictures=pictures,
        request=record.request,
        request_is_title=[part.text for part in record.request] == [one_line(record.title, 120)],
        steps=record.steps,
        planned=sum(len(step.attempts) for step in record.steps),
        prompt_changes=prompt_changes,
        folder=FOLDER,
    )


class EmbeddedPictures:
    """Pictures as data URLs."""

    def __init__(self, store: PictureStore) -> None:
        self.store = store

    def full(self, name: str) -> dict[str, Any] | None:
        """The picture at full size; None where its file is missing."""
        try:
            image = self.store.get(name)
        except RunError:
            return None
        data = self.store.path(name).read_bytes()
        if len(data) <= EMBED_AS_IS_BYTES:
            return _embedded(data, "png", image.size)
        return _embedded(_webp(image, quality=92), "webp", image.size)

    def thumbnail(self, name: str) -> dict[str, Any] | None:
        try:
            image = self.store.get(name)
        except RunError:
            return None
        image.thumbnail((THUMBNAIL_SIDE, THUMBNAIL_SIDE))
        return _embedded(_webp(image, quality=85), "webp", image.size)


def _embedded(data: bytes, kind: str, size: tuple[int, int]) -> dict[str, Any]:
    url = f"data:image/{kind};base64,{base64.b64encode(data).decode()}"
    return {"url": url, "width": size[0], "height": size[1]}


def _webp(image: Image.Image, quality: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=quality, method=4)
    return buffer.getvalue()


def state_of(step: StepRecord) -> str:
    """The state of a step as one word, for styles and tests."""
    if step.plan.prompt is None:
        return "text"
    if step.forced:
        return "forced"
    if step.accepted:
        return "accepted"
    return "unfinished"


def verdict_of(attempt: AttemptRecord) -> str:
    """The verdict of an attempt, in words for readers."""
    if attempt.verdict is None:
        return "not judged"
    return {"accepted": "accepted", "rejected": "rejected", "unreadable": "not readable"}[
        attempt.verdict.outcome
    ]


@cache
def page_template(name: str, *, package: str = "interleave.render") -> Template:
    """A page template of a package, with autoescaping."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("interleave.render")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = visible
    environment.filters["state"] = state_of
    environment.filters["verdict"] = verdict_of
    return environment.get_template(name)

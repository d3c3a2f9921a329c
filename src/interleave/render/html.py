"""`document.html`: a run as one self-contained page.

The page has no script and loads nothing. All text of users and models is autoescaped. Images are embedded:
shown images at full size, those of other attempts as thumbnails with links.
"""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup
from PIL import Image

from interleave.errors import RunError
from interleave.files import write_atomic
from interleave.render.word_diff import prompt_changes
from interleave.runs.folder import DOCUMENT_NAME, IMAGES_FOLDER, ImageStore
from interleave.runs.record import AttemptRecord, RunRecord, StepRecord
from interleave.runs.shown_document import as_shown
from interleave.text import count, one_line, visible

if TYPE_CHECKING:
    from jinja2 import Template


EMBED_AS_IS_BYTES = 400_000
TITLE_CHARACTERS = 120
THUMBNAIL_SIDE = 320


def write_document(folder: Path, record: RunRecord) -> Path:
    """Write the page of a run into its folder."""
    path = folder / DOCUMENT_NAME
    write_atomic(path, render_document(folder, record, for_editor=True).encode())
    return path


def render_document(folder: Path, record: RunRecord, *, for_editor: bool = False) -> str:
    """Render the page of a run; with `for_editor`, it marks texts that were written for an earlier image."""
    images = EmbeddedImages(ImageStore(folder))
    document = as_shown(record)
    made = sorted(document.steps, key=lambda step: step.record.plan.number)
    steps = [step.record for step in made]
    return page_template("document.html.j2").render(
        record=record,
        document=document,
        title=one_line(document.title, TITLE_CHARACTERS),
        notes=merged_notes(record.model_notes),
        forced=forced_note(document.forced),
        images=images,
        request=record.request,
        request_is_title=[part.text for part in record.request]
        == [one_line(record.request_title, TITLE_CHARACTERS)],
        steps=steps,
        made=made,
        layout=layout_of(images.sizes(_shown(steps)), len(steps)),
        attempts=sum(len(step.attempts) for step in steps),
        drawn=sum(bool(step.attempts) for step in steps),
        assets=record.plan.assets if record.plan else (),
        worst_drift=max((step.drift.outside for step in steps if step.drift), default=0.0),
        rollbacks=[each for each in record.decisions if each.cause == "rollback"],
        redrawn_from_scene=[each for each in record.decisions if each.cause == "drift"],
        prompt_changes=prompt_changes,
        for_editor=for_editor,
        folder=IMAGES_FOLDER,
    )


def _shown(steps: Iterable[StepRecord]) -> list[str]:
    return [step.attempt.image for step in steps if step.attempt is not None]


class EmbeddedImages:
    """Images as data URLs."""

    def __init__(self, store: ImageStore) -> None:
        self.store = store

    def full(self, name: str) -> dict[str, Any] | None:
        """Return the image at full size, or `None` if its file is missing."""
        try:
            image, data = self.store.get(name), self.store.read(name)
        except RunError:
            return None
        if len(data) <= EMBED_AS_IS_BYTES:
            return _embedded(data, "png", image.size)
        return _embedded(_webp(image, quality=92), "webp", image.size)

    def sizes(self, names: Iterable[str]) -> list[tuple[int, int]]:
        """Return the width and height of the images that exist."""
        return [size for name in names if (size := self._size(name)) is not None]

    def _size(self, name: str) -> tuple[int, int] | None:
        try:
            with self.store.open(name) as file, Image.open(file) as image:  # reads only the header
                return image.size
        except (OSError, ValueError, SyntaxError, RunError):
            return None

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


def image_attributes(image: Mapping[str, Any]) -> Markup:
    """Return the attributes of an `img`: URL, size, and a class for pixel art."""
    kind = "pixels" if image["width"] <= PIXEL_ART_SIDE else ""
    return Markup('src="{}" width="{}" height="{}" class="{}"').format(
        image["url"], image["width"], image["height"], kind
    )


def _webp(image: Image.Image, quality: int) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, "WEBP", quality=quality, method=4)
    return buffer.getvalue()


def state_of(step: StepRecord) -> str:
    """Return the state of a step as one word, for styles and tests."""
    if step.plan.prompt is None:
        return "text"
    if step.forced:
        return "forced"
    if step.accepted:
        return "accepted"
    return "chosen" if step.finished else "unfinished"


def by_hand_of(step: StepRecord) -> str:
    """Describe the decision by hand about a step; empty if there is none."""
    match step.by_hand:
        case "redrawn":
            return "redrawn by hand"
        case "chosen":
            return "chosen by hand"
        case "kept":
            return "kept by hand although an earlier image changed"
    return ""


def verdict_of(attempt: AttemptRecord) -> str:
    """Return the verdict of an attempt in words."""
    if attempt.verdict is None:
        return "not judged"
    return {"accepted": "accepted", "rejected": "rejected", "unreadable": "unreadable"}[
        attempt.verdict.outcome
    ]


@cache
def page_template(name: str, *, package: str = "interleave.render") -> Template:
    """Return a page template of a package, with autoescaping."""
    from jinja2 import ChoiceLoader, Environment, PackageLoader, StrictUndefined

    environment = Environment(
        loader=ChoiceLoader([PackageLoader(package), PackageLoader("interleave.render")]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["visible"] = visible
    environment.filters["size"] = image_attributes
    environment.filters["state"] = state_of
    environment.filters["by_hand"] = by_hand_of
    environment.filters["verdict"] = verdict_of
    return environment.get_template(name)


PIXEL_ART_SIDE = 128
"""Widest image that is enlarged without smoothing, which would blur it."""
SMALL_SIDE = 400
"""Widest image that is enlarged a little; larger ones are shown at their size or smaller."""


@dataclass(frozen=True)
class Layout:
    """The grid of a document."""

    columns: int
    """Maximum number of columns; narrow windows have fewer."""
    tile: int
    """Maximum width of an image, in CSS pixels."""
    ratio: str
    """Aspect ratio of a cell without an image: that of the other images."""


def layout_of(sizes: Sequence[tuple[int, int]], steps: int) -> Layout:
    """Return the grid for `steps` steps with images of these sizes."""
    if not sizes:
        return Layout(1, 720, "auto")
    columns = 1 if steps == 1 else 2 if steps in (2, 4) else 3
    room = {1: 1024, 2: 560, 3: 400}[columns]
    width, height = max(sizes)
    return Layout(columns, min(room, enlarged(width, columns)), f"{width} / {height}")


def enlarged(width: int, columns: int) -> int:
    """Return the largest width at which an image still looks sharp."""
    if width <= PIXEL_ART_SIDE:
        return width * max(1, 384 // width)
    if width <= SMALL_SIDE:
        return round(width * {1: 2, 2: 1.75, 3: 1.5}[columns])
    return width


_WORK = re.compile(r"(The (?:plan|verdicts|images|pictures)) comes? (?=from )")


def merged_notes(notes: Iterable[str]) -> str:
    """Merge the notes about a run's models into one paragraph, without repeating equal statements."""
    by_statement: dict[str, list[str]] = {}
    for note in notes:
        work = _WORK.match(note)
        statement = note[work.end() :] if work else note
        by_statement.setdefault(statement, []).append(work[1] if work else "")
    return " ".join(_sentence(work, statement) for statement, work in by_statement.items())


def _sentence(work: list[str], statement: str) -> str:
    named = [each for each in work if each]
    if not named:
        return statement
    if len(named) == 1:
        verb = "comes" if named[0] == "The plan" else "come"
        return f"{named[0]} {verb} {statement}"
    *others, last = [named[0], *(each[:1].lower() + each[1:] for each in named[1:])]
    return f"{', '.join(others)} and {last} come {statement}"


def forced_note(forced: int) -> str:
    """Describe the number of shown images that the critic did not accept; empty if there are none."""
    if not forced:
        return ""
    them = "it is" if forced == 1 else "they are"
    return f"{count(forced, 'image')} {'was' if forced == 1 else 'were'} not accepted; {them} marked."

"""`document.html`: a run as one self-contained page, to print or to study.

The page has no script and loads nothing; everything a user or a model wrote goes through autoescaping.
Images are embedded: those a reader sees at full size, those folded away as thumbnails with links.
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
from interleave.text import count, one_line, visible

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
    images = EmbeddedImages(ImageStore(folder))
    title = one_line(record.title, 120)
    return page_template("document.html.j2").render(
        record=record,
        title=title,
        notes=merged_notes(record.notes),
        forced=forced_note(len(record.forced_steps)),
        images=images,
        request=record.request,
        request_is_title=[part.text for part in record.request] == [title],
        steps=record.steps,
        layout=layout_of(images.sizes(_shown(record)), len(record.steps)),
        attempts=sum(len(step.attempts) for step in record.steps),
        drawn=sum(bool(step.attempts) for step in record.steps),
        assets=record.plan.assets if record.plan else (),
        worst_drift=max((step.drift.outside for step in record.steps if step.drift), default=0.0),
        rollbacks=[each for each in record.decisions if each.cause == "rollback"],
        redrawn_anew=[each for each in record.decisions if each.cause == "drift"],
        prompt_changes=prompt_changes,
        folder=IMAGES_FOLDER,
    )


def _shown(record: RunRecord) -> list[str]:
    return [step.attempt.image for step in record.steps if step.attempt is not None]


class EmbeddedImages:
    """Images as data URLs."""

    def __init__(self, store: ImageStore) -> None:
        self.store = store

    def full(self, name: str) -> dict[str, Any] | None:
        """The image at full size; None where its file is missing."""
        try:
            image = self.store.get(name)
        except RunError:
            return None
        data = self.store.path(name).read_bytes()
        if len(data) <= EMBED_AS_IS_BYTES:
            return _embedded(data, "png", image.size)
        return _embedded(_webp(image, quality=92), "webp", image.size)

    def sizes(self, names: Iterable[str]) -> list[tuple[int, int]]:
        """Width and height of those images that are there."""
        return [size for name in names if (size := self._size(name)) is not None]

    def _size(self, name: str) -> tuple[int, int] | None:
        try:
            with Image.open(self.store.path(name)) as image:  # the header alone is read
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
    """The attributes of an `img`: where it is, how large, and whether its pixels are to be seen as such."""
    kind = "pixels" if image["width"] <= PIXEL_ART_SIDE else ""
    return Markup('src="{}" width="{}" height="{}" class="{}"').format(
        image["url"], image["width"], image["height"], kind
    )


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
    return "chosen" if step.finished else "unfinished"


def by_hand_of(step: StepRecord) -> str:
    """What was decided by hand about a step, as text for the page; empty where nothing was."""
    match step.by_hand:
        case "redrawn":
            return "redrawn by hand"
        case "chosen":
            return "chosen by hand"
        case "kept":
            return "kept by hand, although an image before it changed"
    return ""


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
    environment.filters["size"] = image_attributes
    environment.filters["state"] = state_of
    environment.filters["by_hand"] = by_hand_of
    environment.filters["verdict"] = verdict_of
    return environment.get_template(name)


PIXEL_ART_SIDE = 128
"""Images up to this wide are enlarged pixel by pixel; smoothed, they would be a blur."""
SMALL_SIDE = 400
"""Images up to this wide are enlarged a little; larger ones stand at their real size or below."""


@dataclass(frozen=True)
class Layout:
    """The grid of a document."""

    columns: int
    """At most so many side by side; narrow windows have fewer."""
    tile: int
    """The largest width of an image, in CSS pixels."""
    ratio: str
    """Width to height of a cell without an image: that of the images around it."""


def layout_of(sizes: Sequence[tuple[int, int]], steps: int) -> Layout:
    """The grid for so many steps with images of these sizes."""
    if not sizes:
        return Layout(1, 720, "auto")
    columns = 1 if steps == 1 else 2 if steps in (2, 4) else 3
    room = {1: 1024, 2: 560, 3: 400}[columns]
    width, height = max(sizes)
    return Layout(columns, min(room, enlarged(width, columns)), f"{width} / {height}")


def enlarged(width: int, columns: int) -> int:
    """The width at which an image still looks sharp."""
    if width <= PIXEL_ART_SIDE:
        return width * max(1, 384 // width)
    if width <= SMALL_SIDE:
        return round(width * {1: 2, 2: 1.75, 3: 1.5}[columns])
    return width


_WORK = re.compile(r"(The (?:plan|verdicts|pictures)) comes? (?=from )")


def merged_notes(notes: Iterable[str]) -> str:
    """The notes of a run's models as one paragraph; what holds for several of them is said once."""
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
    """How many steps show an image that the critic did not accept."""
    if not forced:
        return ""
    them = "it is" if forced == 1 else "they are"
    return f"{count(forced, 'image')} {'was' if forced == 1 else 'were'} not accepted; {them} marked."

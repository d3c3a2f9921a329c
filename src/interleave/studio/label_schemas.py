"""The JSON of labels and of items to label, as types."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from interleave.bench.labels import Kind, Subject
from interleave.plugin import Value
from interleave.studio.schemas import GalleryItem

MAX_LABELS = 100
"""Maximum labels in one request."""
MAX_RUNS = 200
RaterName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=60)]
Relation = Literal["parent", "branch", "sibling", "same_request"]


class NewLabel(Value):
    """A rater's label. The rest of the stored label comes from the run."""

    kind: Kind
    run: str
    step: int | None = None
    attempt: int | None = None
    other: Subject | None = None
    value: bool | int | float | str
    blind: bool = False


class NewLabels(Value):
    """The body of `POST /v1/studio/labels`: labels that are undone together."""

    rater: RaterName
    labels: list[NewLabel] = Field(min_length=1, max_length=MAX_LABELS)


class StoredLabels(Value):
    """The numbers of new and of known labels."""

    stored: int
    known: int


class Undo(Value):
    """The body of `POST /v1/studio/labels/undo`."""

    rater: RaterName
    kind: Kind | None = None


class Reveal(Value):
    """The body of `POST /v1/studio/labels/reveal`."""

    rater: RaterName
    runs: list[str] = Field(min_length=1, max_length=MAX_RUNS)


class RunLabel(Value):
    """A label, without anything that would unblind the rater."""

    number: int
    kind: Kind
    rater: str
    at: str
    run: str
    step: int | None
    attempt: int | None
    other: Subject | None
    value: bool | int | float | str
    blind: bool
    thumbnail: str | None
    """URL of the image's thumbnail."""


class RunLabels(Value):
    """`GET /v1/studio/labels`: the newest first."""

    object: Literal["list"] = "list"
    data: list[RunLabel]
    total: int
    cursor: str | None


class UndoneLabels(Value):
    """`POST /v1/studio/labels/undo`."""

    units: list[str]
    """Names of the items to judge again; empty if there was nothing to undo."""


class JudgedImage(Value):
    """An image to judge."""

    run: str
    step: int
    attempt: int
    picture: str
    before: str | None
    prompt: str
    text: str


class JudgedStep(Value):
    """A step of a document to judge."""

    number: int
    text: str
    picture: str | None


class JudgeItem(Value):
    """An item to judge: an image, two images, or the steps of a document."""

    unit: str
    run: str
    title: str
    """The request."""
    first: JudgedImage | None
    second: JudgedImage | None
    steps: list[JudgedStep]


class JudgeItems(Value):
    """`GET /v1/studio/judging/{task}`: items that a rater has not labelled."""

    object: Literal["list"] = "list"
    data: list[JudgeItem]
    cursor: str | None
    total: int | None
    left: int | None
    """Numbers of all items, and of those without a label; only on the first page."""
    complete: bool
    """Whether all documents are indexed. Indexing takes a while after the first start."""


class RaterCount(Value):
    rater: str
    labels: int


class KindAgreement(Value):
    """Agreement of the raters on one kind of label."""

    kind: Kind
    level: Literal["nominal", "interval"]
    labels: int
    raters: list[RaterCount]
    units: int
    """Items with labels of at least two raters."""
    alpha: float | None
    """Krippendorff's alpha; null if no item has two labels, or all labels are equal."""
    low: float | None
    high: float | None
    """95 % interval."""


class AgreementFacts(Value):
    """`GET /v1/studio/agreement`."""

    data: list[KindAgreement]


class RelatedItem(Value):
    relation: Relation
    document: GalleryItem


class Related(Value):
    """`GET /v1/studio/documents/{id}/related`: documents to compare this one with."""

    data: list[RelatedItem]

"""The JSON of labels and of what is to be labelled, as types."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from interleave.bench.labels import Kind, Subject
from interleave.plugin import Value
from interleave.studio.schemas import GalleryItem

MOST_LABELS = 100
"""Labels in one request."""
MOST_RUNS = 200
RaterName = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=60)]
Relation = Literal["parent", "branch", "sibling", "same_request"]


class NewLabel(Value):
    """What a rater says; what the label holds besides is taken from the run."""

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
    labels: list[NewLabel] = Field(min_length=1, max_length=MOST_LABELS)


class StoredLabels(Value):
    """How many labels were new, and how many were known already."""

    stored: int
    known: int


class Undo(Value):
    """The body of `POST /v1/studio/labels/undo`."""

    rater: RaterName
    kind: Kind | None = None


class Reveal(Value):
    """The body of `POST /v1/studio/labels/reveal`."""

    rater: RaterName
    runs: list[str] = Field(min_length=1, max_length=MOST_RUNS)


class RunLabel(Value):
    """A label without what would tell the rater more than they should know."""

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
    """The address of a small copy of the image."""


class RunLabels(Value):
    """`GET /v1/studio/labels`: the newest first."""

    object: Literal["list"] = "list"
    data: list[RunLabel]
    total: int
    cursor: str | None


class UndoneLabels(Value):
    """`POST /v1/studio/labels/undo`."""

    units: list[str]
    """The names of what is to be judged again; none where there was nothing to undo."""


class JudgedImage(Value):
    """An image to be judged."""

    run: str
    step: int
    attempt: int
    picture: str
    before: str | None
    prompt: str
    text: str


class JudgedStep(Value):
    """A step of a document to be judged."""

    number: int
    text: str
    picture: str | None


class JudgeItem(Value):
    """Something to be judged: an image, two of them, or the steps of a document."""

    unit: str
    run: str
    title: str
    """The request."""
    first: JudgedImage | None
    second: JudgedImage | None
    steps: list[JudgedStep]


class JudgeItems(Value):
    """`GET /v1/studio/judging/{task}`: what a rater has not labelled yet."""

    object: Literal["list"] = "list"
    data: list[JudgeItem]
    cursor: str | None
    total: int | None
    left: int | None
    """How many there are, and how many of them are not labelled yet; only on the first page."""
    complete: bool
    """Whether all documents have been read: after the first start that takes a while."""


class RaterCount(Value):
    rater: str
    labels: int


class KindAgreement(Value):
    """How far the raters of one kind of label agree."""

    kind: Kind
    level: Literal["nominal", "interval"]
    labels: int
    raters: list[RaterCount]
    units: int
    """Things that at least two raters labelled."""
    alpha: float | None
    """Krippendorff's alpha; null where nothing was labelled twice, or all labels are the same."""
    low: float | None
    high: float | None
    """Its 95 % interval."""


class AgreementFacts(Value):
    """`GET /v1/studio/agreement`."""

    data: list[KindAgreement]


class RelatedItem(Value):
    relation: Relation
    document: GalleryItem


class Related(Value):
    """`GET /v1/studio/documents/{id}/related`: what a document can be compared with."""

    data: list[RelatedItem]

"""The JSON of the studio's routes as types, for answers and for the OpenAPI description."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from interleave.plugin import Value

Outcome = Literal[
    "completed", "forced", "failed", "incomplete", "cancelled", "held", "asked", "open", "deleted"
]
"""The outcome of a document. `forced`: the critic did not accept an image. `deleted`: can be restored."""


class Example(Value):
    """An example request."""

    text: str


class Strictness(Value):
    """A limit on redrawing images that the critic rejects."""

    name: Literal["quick", "normal", "strict"]
    max_attempts: int


class RoleModels(Value):
    """The models of a profile or a document."""

    planner: str
    critic: str
    generator: str


class ProfileFacts(Value):
    """A profile and its features."""

    name: str
    description: str
    notes: list[str]
    """Notes on its models for readers."""
    models: RoleModels
    max_attempts: int
    max_steps: int
    examples: list[Example]
    """Requests that this profile accepts."""
    strictness: list[Strictness]


class ExportFormat(Value):
    """An export format."""

    format: str
    media_type: str
    available: bool
    missing: str | None
    """The command that installs its dependencies, if they are missing."""


class InputLimits(Value):
    """Limits of a request."""

    max_pictures: int
    max_picture_bytes: int
    max_text: int


class Start(Value):
    """`GET /v1/studio/start`. Without a required API key, only the first fields have values."""

    version: str
    needs_key: bool
    signed_in: bool
    guest: bool = False
    can_manage: bool = False
    """Whether the caller may pause the queue."""
    rater: str = ""
    """The caller's default rater name; empty if they must choose one."""
    models_state: Literal["loading", "ready", "failed"] = "loading"
    default_profile: str = ""
    profiles: list[ProfileFacts] = Field(default_factory=list)
    exports: list[ExportFormat] = Field(default_factory=list)
    signs: bool = False
    """Whether exports can be signed."""
    limits: InputLimits | None = None


Status = Literal["queued", "in_progress", "held", "asked", "completed", "incomplete", "failed", "cancelled"]


class GalleryItem(Value):
    """A document in the gallery."""

    id: str
    status: Status
    title: str
    created_at: int
    finished_at: int | None
    profile: str
    steps: int
    pictures: int
    forced: int
    seconds: float | None
    cost: float | None
    cover: str | None
    """URL of the last image's thumbnail."""
    thumbnails: list[str]
    """URLs of the first images' thumbnails."""
    alt: str
    parent: str | None
    parent_title: str | None = None
    """What it was branched from."""
    branch_step: int | None = None
    """The step from which on it differs from its parent."""
    error: str | None


class Gallery(Value):
    """`GET /v1/studio/documents`."""

    object: Literal["list"] = "list"
    data: list[GalleryItem]
    total: int
    cursor: str | None
    """Cursor of the next page; null on the last."""
    complete: bool
    """Whether all documents are indexed. The first indexing takes a while."""
    profiles: list[str] | None = None
    outcomes: dict[Outcome, int] | None = None
    """Number of documents by outcome, regardless of the search. Like `profiles`, only on the first page."""


class ReadingStep(Value):
    """A step as readers see it."""

    number: int
    name: str
    text: str
    picture: str | None
    alt: str
    width: int
    height: int


class Reading(Value):
    """A document as readers see it."""

    title: str
    request: str
    notes: list[str]
    """Notes about its models."""
    steps: list[ReadingStep]


class Story(Value):
    """A finished document that comes with the studio."""

    name: str
    title: str
    steps: int
    cover: str
    alt: str


class Stories(Value):
    """`GET /v1/studio/stories`."""

    object: Literal["list"] = "list"
    data: list[Story]


class Owned(Value):
    """The new document of a caller."""

    id: str


class Share(Value):
    """The link of a shared document: its address ends in `#/s/TOKEN`."""

    token: str | None


class Deletion(Value):
    """Whether a document was deleted in the library, and can be restored."""

    deleted: bool


class Chosen(Value):
    """Documents that something is done with."""

    ids: list[str] = Field(min_length=1, max_length=200)


class Done(Value):
    """The documents with which it was done; the others do not exist."""

    ids: list[str]


class QueueItem(Value):
    """A running, waiting or failed document."""

    id: str
    title: str
    status: Status
    created_at: int
    profile: str
    step: int | None = None
    """The step being drawn."""
    steps: int | None = None
    error: str | None = None
    cover: str | None = None


class Queue(Value):
    """`GET /v1/studio/queue`."""

    paused: bool
    running: list[QueueItem]
    waiting: list[QueueItem]
    """The next documents, in order of starting."""
    waiting_total: int
    failed: list[QueueItem]
    """The newest failed documents."""


class Move(Value):
    """The body of a move."""

    place: int = Field(ge=0, le=1_000_000)
    """0 is next; a number past the end is last."""


class Retried(Value):
    """`POST /v1/studio/queue/retry-failed`."""

    continued: list[str]
    left: int
    """Number of documents that could not be resumed."""


ReportKind = Literal["benchmark", "data", "training", "other"]


class Report(Value):
    """A page written by a command."""

    folder: str
    """The folder's name here. Links consist of it and `path`."""
    path: str
    title: str
    kind: ReportKind
    changed_at: int
    bytes: int
    address: str
    """URL prefix of this folder's files, valid for some hours."""
    beside: list[str]
    """Paths of JSON files next to it."""


class Reports(Value):
    """`GET /v1/studio/reports`."""

    object: Literal["list"] = "list"
    data: list[Report]
    total: int
    folders: list[str]
    """The scanned folders."""

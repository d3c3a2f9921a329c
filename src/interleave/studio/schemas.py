"""The JSON of the studio's routes as types: answers are made from them, and the API's description too."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from interleave.plugin import Value

Outcome = Literal["completed", "forced", "failed", "incomplete", "cancelled", "held", "open"]
"""How a document came out: `forced` is completed with images that the critic did not accept."""


class Example(Value):
    """A request to start from."""

    text: str


class Strictness(Value):
    """How often an image that the critic rejects is drawn again."""

    name: Literal["quick", "normal", "strict"]
    max_attempts: int


class RoleModels(Value):
    """The models of a profile or a document."""

    planner: str
    critic: str
    generator: str


class ProfileFacts(Value):
    """What a profile is, and what it can be asked for."""

    name: str
    description: str
    notes: list[str]
    """What readers must be told about its models."""
    models: RoleModels
    max_attempts: int
    max_steps: int
    examples: list[Example]
    """Requests that this profile can take."""
    strictness: list[Strictness]


class ExportFormat(Value):
    """A format to save a document in."""

    format: str
    media_type: str
    available: bool
    missing: str | None
    """The command that installs what it needs, where that is not installed."""


class InputLimits(Value):
    """What a request may have at most."""

    max_pictures: int
    max_picture_bytes: int
    max_text: int


class Start(Value):
    """`GET /v1/studio/start`; without an API key where one is needed, only the first fields have values."""

    version: str
    needs_key: bool
    signed_in: bool
    guest: bool = False
    can_manage: bool = False
    """Whether the queue may be paused."""
    rater: str = ""
    """The name under which this caller labels, unless they choose another; empty: they must choose one."""
    models_state: Literal["loading", "ready", "failed"] = "loading"
    default_profile: str = ""
    profiles: list[ProfileFacts] = Field(default_factory=list)
    exports: list[ExportFormat] = Field(default_factory=list)
    limits: InputLimits | None = None


Status = Literal["queued", "in_progress", "held", "completed", "incomplete", "failed", "cancelled"]


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
    """The address of the thumbnail of its last image."""
    thumbnails: list[str]
    """The addresses of the thumbnails of its first images."""
    alt: str
    parent: str | None
    error: str | None


class Gallery(Value):
    """`GET /v1/studio/documents`."""

    object: Literal["list"] = "list"
    data: list[GalleryItem]
    total: int
    cursor: str | None
    """What to ask with for the next page; null on the last one."""
    complete: bool
    """Whether all documents are in the index: the first time that it is made, that takes a while."""
    profiles: list[str] | None = None
    outcomes: dict[Outcome, int] | None = None
    """How many documents there are by outcome, whatever was searched for; both only on the first page."""


class QueueItem(Value):
    """A document that is made, or waits, or failed."""

    id: str
    title: str
    status: Status
    created_at: int
    profile: str
    step: int | None = None
    """The step that is being drawn."""
    steps: int | None = None
    error: str | None = None
    cover: str | None = None


class Queue(Value):
    """`GET /v1/studio/queue`."""

    paused: bool
    running: list[QueueItem]
    waiting: list[QueueItem]
    """In the order in which they are started; the first of them, where there are many."""
    waiting_total: int
    failed: list[QueueItem]
    """The newest of those that failed."""


class Move(Value):
    """The body of a move."""

    place: int = Field(ge=0, le=1_000_000)
    """0 is next; more than there are is last."""


class Retried(Value):
    """`POST /v1/studio/queue/retry-failed`."""

    continued: list[str]
    left: int
    """How many could not be continued."""


ReportKind = Literal["benchmark", "data", "training", "other"]


class Report(Value):
    """A page that a command has written."""

    folder: str
    """The name of its folder here; with `path` it is what a link names."""
    path: str
    title: str
    kind: ReportKind
    changed_at: int
    bytes: int
    address: str
    """What stands before the path of a file of this folder; it is taken for some hours."""
    beside: list[str]
    """The paths of JSON files beside it."""


class Reports(Value):
    """`GET /v1/studio/reports`."""

    object: Literal["list"] = "list"
    data: list[Report]
    total: int
    folders: list[str]
    """The folders that are looked through."""

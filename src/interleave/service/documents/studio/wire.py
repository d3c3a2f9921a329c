"""The JSON of the studio's routes as types: answers are made from them, and the API's description too."""

from __future__ import annotations

from typing import Literal

from interleave.types import Value

Outcome = Literal["completed", "forced", "failed", "incomplete", "cancelled", "held", "open"]
"""How a document came out: `forced` is completed with pictures that the critic did not accept."""


class Example(Value):
    """A request to start from."""

    text: str


class Strictness(Value):
    """How often a picture that the critic rejects is drawn again."""

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
    models_state: Literal["loading", "ready", "failed"] = "loading"
    default_profile: str = ""
    profiles: list[ProfileFacts] = []
    exports: list[ExportFormat] = []
    limits: InputLimits | None = None

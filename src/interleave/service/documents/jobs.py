"""Jobs as values. `job_table.py` stores them.

A job is stored before its submission is acknowledged. Its state goes from `queued` to `in_progress` to a
final state. Only a person's decision changes that: it puts the job back into the queue, and the earlier final
state is kept. The run folder of a job holds everything else.
"""

from __future__ import annotations

import operator
import re
import secrets
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field

from interleave.plugin import RunConfig, Value, journal, runs

JobStatus = Literal[
    "queued", "in_progress", "completed", "failed", "cancelled", "incomplete", "held", "asked"
]
"""Status of a job, in the words of a Response; `held` and `asked` are plans that wait for a person."""
Decision = runs.MadeDecision
OPEN: tuple[JobStatus, ...] = ("queued", "in_progress")
_ID = re.compile(r"resp_[0-9a-f]{48}\Z")
_FILE_ID = re.compile(r"file-[0-9a-f]{32}\Z")


class JobError(Value):
    """Reason why a job failed, in the form of OpenAI's API."""

    code: str
    message: str


class JobEnd(Value):
    """An earlier final state of a job that a person's decision reopened."""

    status: JobStatus
    finished: float | None = None
    error: JobError | None = None
    lines: int
    """Number of journal lines at that time."""


class Job(Value):
    """A submitted job and its state. Fields of a newer version are kept as they are."""

    model_config = ConfigDict(frozen=True, extra="allow")

    id: str
    key: str = ""
    """Id of its API key; empty if the service has no keys."""
    created: float
    request_id: str = ""
    """Id of the HTTP request that submitted it; also in the logs of its model calls."""
    parts: tuple[journal.RequestPart, ...]
    """Request parts; images by their names in the inputs folder of the job."""
    assets: tuple[journal.StoredAsset, ...] = Field(default=(), exclude_if=operator.not_)
    """Assets of the request; their images are also in the inputs folder."""
    config: RunConfig
    model: str
    background: bool = False
    previous: str | None = None
    metadata: dict[str, str] | None = None
    settings: dict[str, Any] = Field(default_factory=dict)
    """Request parameters that the response echoes."""
    partial_images: int = 0
    webhook: str | None = None
    traceparent: str | None = None
    hold_plan: bool = False
    """Whether its plan waits for a person's release."""
    parent: str | None = None
    """Id of the job it was branched from."""
    ends: tuple[JobEnd, ...] = ()
    """Earlier final states, in order."""
    edited_from: dict[int, int] = Field(default_factory=dict, exclude_if=operator.not_)
    """Number of journal lines at a final state, by its place in order, if words were edited after it."""
    edits: int = Field(default=0, exclude_if=operator.not_)
    """Number of edits of its words, so that the state of a document changes with each."""
    decision: Annotated[Decision, Field(discriminator="event")] | None = None
    """Last decision; it is written to the journal when the job runs."""

    number: int = 0
    """Sequence number in the order of arrival."""
    status: JobStatus = "queued"
    cancelling: bool = False
    finished: float | None = None
    error: JobError | None = None

    @property
    def is_new(self) -> bool:
        """Whether it has never run, so that it has no run folder yet."""
        return self.status == "queued" and not self.ends and self.parent is None

    @property
    def is_final(self) -> bool:
        return self.status not in OPEN

    @property
    def waits_for_person(self) -> bool:
        """Whether it has a plan that a person must release."""
        return self.status in ("held", "asked")

    @property
    def has_inputs(self) -> bool:
        """Whether its request has images."""
        return any(part.image for part in self.parts) or any(asset.image for asset in self.assets)


def end_of(job: Job, lines: int) -> JobEnd:
    """Return the final state of a job, to keep it when the job is reopened."""
    return JobEnd(status=job.status, finished=job.finished, error=job.error, lines=lines)


def new_job_id() -> str:
    return f"resp_{secrets.token_hex(24)}"


def new_file_id() -> str:
    return f"file-{secrets.token_hex(16)}"


def is_job_id(text: str) -> bool:
    """Return whether `text` has the form of a job id, so that other ids need no database query."""
    return _ID.match(text) is not None


def is_file_id(text: str) -> bool:
    return _FILE_ID.match(text) is not None

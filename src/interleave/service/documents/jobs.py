"""Jobs and the table that stores them.

A job is stored before its submission is acknowledged. Its state goes from `queued` to `in_progress` to a
final state. Only a person's decision changes that: it puts the job back into the queue, and the earlier final
state is kept. The run folder of a job holds everything else.
"""

from __future__ import annotations

import json
import operator
import re
import secrets
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field

from interleave.plugin import RunConfig, Value, journal, runs
from interleave.service.documents.database import Database, SqlConnection, SqlDatabase

JobStatus = Literal[
    "queued", "in_progress", "completed", "failed", "cancelled", "incomplete", "held", "asked"
]
"""Status of a job, in the words of a Response; `held` and `asked` are plans that wait for a person."""
Decision = runs.MadeDecision
OPEN: tuple[JobStatus, ...] = ("queued", "in_progress")
_ID = re.compile(r"resp_[0-9a-f]{48}\Z")
_FILE_ID = re.compile(r"file-[0-9a-f]{32}\Z")

VERSION = 1
SCHEMA = """
CREATE TABLE jobs (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    id TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL,
    status TEXT NOT NULL,
    cancelling INTEGER NOT NULL DEFAULT 0,
    finished REAL,
    error TEXT,
    job TEXT NOT NULL
);
CREATE INDEX open_jobs ON jobs (number) WHERE status IN ('queued', 'in_progress');
CREATE INDEX jobs_by_key ON jobs (key, number);
CREATE TABLE idempotency (
    key TEXT NOT NULL, name TEXT NOT NULL, digest TEXT NOT NULL, job TEXT NOT NULL,
    PRIMARY KEY (key, name)
) WITHOUT ROWID;
CREATE INDEX idempotency_by_job ON idempotency (job);
CREATE TABLE removals (job TEXT PRIMARY KEY) WITHOUT ROWID;
CREATE TABLE files (
    id TEXT PRIMARY KEY, key TEXT NOT NULL, image TEXT NOT NULL, filename TEXT NOT NULL,
    purpose TEXT NOT NULL, bytes INTEGER NOT NULL, created REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX files_by_image ON files (image);
CREATE TABLE deliveries (
    id TEXT PRIMARY KEY, url TEXT NOT NULL, body TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0
) WITHOUT ROWID
"""


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
    """A submitted job and its state."""

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


STATE = {"number", "status", "cancelling", "finished", "error"}
"""Fields with separate columns; the column `job` holds the others."""


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


class StoredFile(Value):
    """An uploaded image."""

    id: str
    key: str
    image: str
    filename: str
    purpose: str
    bytes: int
    created: float


class Delivery(Value):
    """A pending webhook call."""

    id: str
    url: str
    body: str
    attempts: int = 0


class IdempotencyConflict(Exception):
    """The idempotency key was used for a different request."""


class JobTable:
    """Job table of a service, in SQLite for one process; `SharedJobTable` is for several."""

    def __init__(self, where: Path | SqlDatabase) -> None:
        self.database: SqlDatabase = (
            Database(where, SCHEMA, version=VERSION) if isinstance(where, Path) else where
        )

    def close(self) -> None:
        self.database.close()

    async def insert(self, job: Job, *, idempotency: tuple[str, str] | None = None) -> Job:
        """Store a new job; return the earlier job if `idempotency` (key, digest) is already known."""

        def work(connection: SqlConnection) -> Job:
            if idempotency is not None and (earlier := _earlier(connection, job.key, *idempotency)):
                return earlier
            if (stored := _find(connection, job.id)) is not None:  # the reply of the database was lost
                return stored
            connection.execute("DELETE FROM removals WHERE job = ?", (job.id,))
            row = (job.id, job.key, job.status, job.model_dump_json(exclude=STATE))
            connection.execute("INSERT INTO jobs (id, key, status, job) VALUES (?, ?, ?, ?)", row)
            if idempotency is not None:
                connection.execute(
                    "INSERT INTO idempotency VALUES (?, ?, ?, ?)", (job.key, *idempotency, job.id)
                )
            number = connection.execute("SELECT number FROM jobs WHERE id = ?", (job.id,)).fetchone()
            return job.model_copy(update={"number": number["number"]})

        return await self.database.run(work)

    async def earlier(self, key: str, name: str, digest: str) -> Job | None:
        """Return the job with this idempotency key; raise `IdempotencyConflict` if its digest differs."""
        return await self.database.run(lambda connection: _earlier(connection, key, name, digest))

    async def get(self, id_: str) -> Job | None:
        return await self.database.run(lambda connection: _find(connection, id_))

    async def newest(self, key: str | None, *, limit: int, before: int | None = None) -> list[Job]:
        """Return the newest jobs of a key, or of all keys, with numbers below `before`."""
        ends = before if before is not None else 2**62
        chosen = ("key = ? AND ", (key, ends, limit)) if key is not None else ("", (ends, limit))

        def work(connection: SqlConnection) -> list[Job]:
            query = f"SELECT * FROM jobs WHERE {chosen[0]}number < ? ORDER BY number DESC LIMIT ?"
            return [job_of(row) for row in connection.execute(query, chosen[1])]

        return await self.database.run(work)

    async def open_jobs(self) -> list[Job]:
        """Return all open jobs, in order of arrival."""
        query = "SELECT * FROM jobs WHERE status IN ('queued', 'in_progress') ORDER BY number"
        return await self.database.run(lambda connection: [job_of(row) for row in connection.execute(query)])

    async def start(self, id_: str, *, token: int | None = None) -> Job | None:
        """Mark a job as in progress; `None` if it has ended, is gone, or has a later lease."""
        return await self._update(id_, "status = 'in_progress'", (), token)

    async def ask_to_cancel(self, id_: str) -> Job | None:
        """Mark a job to be cancelled; `None` if it has ended or is gone."""
        return await self._update(id_, "cancelling = 1", ())

    async def finish(
        self,
        id_: str,
        status: JobStatus,
        finished: float,
        *,
        token: int | None = None,
        error: JobError | None = None,
        deliveries: Callable[[Job], list[Delivery]] = lambda job: [],
    ) -> Job | None:
        """Store the final state of a job with its webhook calls; `None` if it already has one.

        With the `token` of a lease, also `None` if there is a later lease.
        """

        def work(connection: SqlConnection) -> Job | None:
            values = (status, finished, error.model_dump_json() if error else None)
            job = updated(connection, id_, "status = ?, finished = ?, error = ?", values, token)
            for delivery in deliveries(job) if job else []:
                connection.execute(
                    "INSERT INTO deliveries VALUES (?, ?, ?, 0) ON CONFLICT DO NOTHING",
                    (delivery.id, delivery.url, delivery.body),
                )
            return job

        return await self.database.run(work)

    async def reopen(
        self,
        job: Job,
        end: JobEnd,
        decision: Decision | None = None,
        *,
        cancelling: bool = False,
        idempotency: tuple[str, str, str] | None = None,
    ) -> tuple[Job, bool] | None:
        """Put an ended job back into the queue; `None` if it has changed in the meantime.

        `idempotency` is (key, name, digest). If it is already known, return that job and False.
        """

        def work(connection: SqlConnection) -> tuple[Job, bool] | None:
            if idempotency is not None and (earlier := _earlier(connection, *idempotency)):
                return earlier, False
            row = connection.execute("SELECT * FROM jobs WHERE id = ?", (job.id,)).fetchone()
            now = job_of(row) if row else None
            if now is None or not now.is_final or now.ends != job.ends:
                return None
            opened = now.model_copy(update={"ends": (*now.ends, end), "decision": decision})
            statement = (
                "UPDATE jobs SET status = 'queued', cancelling = ?, finished = NULL, error = NULL, job = ? "
                "WHERE id = ? AND status NOT IN ('queued', 'in_progress') AND job = ?"
            )
            values = (int(cancelling), opened.model_dump_json(exclude=STATE), job.id, row["job"])
            if connection.execute(statement, values).rowcount == 0:
                return None
            if idempotency is not None:
                connection.execute("INSERT INTO idempotency VALUES (?, ?, ?, ?)", (*idempotency, job.id))
            state = {"number": now.number, "cancelling": cancelling}
            return opened.model_copy(
                update={"status": "queued", "finished": None, "error": None, **state}
            ), True

        return await self.database.run(work)

    async def begin_removal(self, id_: str) -> None:
        """Schedule a folder for removal at the next start, unless a job with this id is stored first."""
        await self._do("INSERT INTO removals VALUES (?) ON CONFLICT DO NOTHING", (id_,))

    async def ended_before(self, time: float, *, limit: int) -> list[str]:
        """Return the ids of jobs that finished before `time`, the oldest first."""
        query = "SELECT id FROM jobs WHERE finished < ? ORDER BY finished LIMIT ?"
        return await self.database.run(
            lambda connection: [row["id"] for row in connection.execute(query, (time, limit))]
        )

    async def files_before(self, time: float, *, limit: int) -> list[StoredFile]:
        """Return the uploads created before `time`."""
        query = "SELECT * FROM files WHERE created < ? ORDER BY created LIMIT ?"
        return await self.database.run(
            lambda connection: [StoredFile(**row) for row in connection.execute(query, (time, limit))]
        )

    async def remove(self, id_: str) -> bool:
        """Delete a job from the table; its files are removed afterwards, even if the process dies."""

        def work(connection: SqlConnection) -> bool:
            if connection.execute("DELETE FROM jobs WHERE id = ?", (id_,)).rowcount == 0:
                return False
            connection.execute("DELETE FROM idempotency WHERE job = ?", (id_,))
            connection.execute("INSERT INTO removals VALUES (?) ON CONFLICT DO NOTHING", (id_,))
            return True

        return await self.database.run(work)

    async def removals(self) -> list[str]:
        """Return the ids of deleted jobs whose folders still exist."""
        query = "SELECT job FROM removals"
        return await self.database.run(lambda connection: [row["job"] for row in connection.execute(query)])

    async def removed(self, id_: str) -> None:
        await self._do("DELETE FROM removals WHERE job = ?", (id_,))

    async def add_file(self, file: StoredFile) -> None:
        names = ", ".join(file.model_dump())
        marks = ", ".join("?" for _ in file.model_dump())
        await self._do(f"INSERT INTO files ({names}) VALUES ({marks})", tuple(file.model_dump().values()))

    async def file(self, id_: str) -> StoredFile | None:
        def work(connection: SqlConnection) -> StoredFile | None:
            row = connection.execute("SELECT * FROM files WHERE id = ?", (id_,)).fetchone()
            return StoredFile(**row) if row else None

        return await self.database.run(work)

    async def files(self, key: str | None, *, limit: int) -> list[StoredFile]:
        chosen = ("WHERE key = ? ", (key, limit)) if key is not None else ("", (limit,))

        def work(connection: SqlConnection) -> list[StoredFile]:
            query = f"SELECT * FROM files {chosen[0]}ORDER BY created DESC, id LIMIT ?"
            return [StoredFile(**row) for row in connection.execute(query, chosen[1])]

        return await self.database.run(work)

    async def remove_file(self, id_: str) -> bool:
        """Delete an upload; return whether no other upload uses its image."""

        def work(connection: SqlConnection) -> bool:
            row = connection.execute("SELECT image FROM files WHERE id = ?", (id_,)).fetchone()
            if row is None:
                return False
            connection.execute("DELETE FROM files WHERE id = ?", (id_,))
            query = "SELECT id FROM files WHERE image = ? LIMIT 1"
            return connection.execute(query, (row["image"],)).fetchone() is None

        return await self.database.run(work)

    async def deliveries(self) -> list[Delivery]:
        """Return the pending webhook calls."""

        def work(connection: SqlConnection) -> list[Delivery]:
            return [Delivery(**row) for row in connection.execute("SELECT * FROM deliveries")]

        return await self.database.run(work)

    async def begin_delivery(self, id_: str, attempt: int) -> bool:
        """Count an attempt before it is made; return False if another process has taken it."""
        statement = "UPDATE deliveries SET attempts = attempts + 1 WHERE id = ? AND attempts = ?"
        return await self.database.run(
            lambda connection: connection.execute(statement, (id_, attempt)).rowcount > 0
        )

    async def delivered(self, id_: str) -> None:
        await self._do("DELETE FROM deliveries WHERE id = ?", (id_,))

    async def _do(self, statement: str, values: tuple[Any, ...]) -> None:
        await self.database.run(lambda connection: connection.execute(statement, values))

    async def _update(
        self, id_: str, change: str, values: tuple[Any, ...], token: int | None = None
    ) -> Job | None:
        return await self.database.run(lambda connection: updated(connection, id_, change, values, token))


def updated(
    connection: SqlConnection, id_: str, change: str, values: tuple[Any, ...], token: int | None = None
) -> Job | None:
    """Update an open job and return it; `None` if it has ended, is gone, or has another lease."""
    statement = f"UPDATE jobs SET {change} WHERE id = ? AND status IN ('queued', 'in_progress')"
    fence = () if token is None else (token,)
    changed = connection.execute(statement + " AND token = ?" * len(fence), (*values, id_, *fence)).rowcount
    return _find(connection, id_) if changed else None


def _find(connection: SqlConnection, id_: str) -> Job | None:
    row = connection.execute("SELECT * FROM jobs WHERE id = ?", (id_,)).fetchone()
    return job_of(row) if row else None


def _earlier(connection: SqlConnection, key: str, name: str, digest: str) -> Job | None:
    query = "SELECT digest, job FROM idempotency WHERE key = ? AND name = ?"
    row = connection.execute(query, (key, name)).fetchone()
    if row is None:
        return None
    if row["digest"] != digest:
        raise IdempotencyConflict
    return _find(connection, row["job"])


def job_of(row: Any) -> Job:
    state = {
        "number": row["number"],
        "status": row["status"],
        "cancelling": bool(row["cancelling"]),
        "finished": row["finished"],
        "error": json.loads(row["error"]) if row["error"] else None,
    }
    return Job.model_validate({**json.loads(row["job"]), **state})

"""The job table: one queue for all jobs, in SQLite for one process and in Postgres for many.

A worker claims jobs. In a shared table each claim is a lease, renewed while the worker lives; when it
expires, another worker claims the job and resumes from its journal. Every claim raises the job's token, and
the table and the journal reject writes with an older one.

Keys take turns: the next job is that of the key with the fewest running ones. A claim looks at each waiting
key once and never at all waiting jobs, so it costs the same with a hundred thousand of them.
"""

from __future__ import annotations

import heapq
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, TypeVar
from zlib import crc32

from pydantic import ValidationError

from interleave import RunError
from interleave.plugin import first_problem, runs
from interleave.service.documents.admission import Admission
from interleave.service.documents.database import Database, SqlConnection, SqlDatabase
from interleave.service.documents.deliveries import Delivery, store_deliveries
from interleave.service.documents.jobs import Decision, Job, JobEnd, JobError, JobStatus
from interleave.service.documents.schema import FORMAT, HELD, ORDER, SQLITE_STEPS, WAITS

T = TypeVar("T")
log = logging.getLogger(__name__)
STATE = {"number", "status", "cancelling", "finished", "error"}
"""Fields with separate columns; the column `job` holds the others."""
NEEDS = 1
"""Job format that this version can run; rows of newer formats are left to newer workers."""
SET_ASIDE_SECONDS = 600.0
"""Time for which a row that cannot be parsed is left to workers of other versions."""
CLAIMS = 1
"""Number of the lock under which jobs are claimed, one worker after the other."""
MINE = f"{WAITS} AND needs <= {NEEDS}"
"""Condition for jobs that this version may claim."""
RUNS = f"{HELD} AND stalls >= 0"
"""Condition for jobs that a worker runs, without those set aside."""
TURNS = f"""
WITH RECURSIVE keys (key) AS (
    SELECT min(key) FROM jobs WHERE {MINE}
    UNION ALL
    SELECT (SELECT min(key) FROM jobs WHERE {MINE} AND jobs.key > keys.key) FROM keys WHERE key IS NOT NULL
)
SELECT key,
       (SELECT count(*) FROM jobs WHERE {RUNS} AND jobs.key = keys.key) AS running,
       (SELECT number FROM jobs WHERE {MINE} AND jobs.key = keys.key ORDER BY {ORDER} LIMIT 1) AS first
FROM keys WHERE key IS NOT NULL
"""
"""All keys with waiting jobs, each found by one index lookup."""


class IdempotencyConflict(Exception):
    """The idempotency key was used for a different request."""


@dataclass(frozen=True)
class Claimed:
    """A job that a worker has claimed."""

    job: Job
    token: int
    stalled_worker: str
    """The worker whose lease on it expired; empty for a job that was not claimed before."""
    stalls: int
    """Number of consecutive expired leases."""
    leased_until: float | None
    """End of the lease on this machine's clock; `None` if it has none."""


@dataclass(frozen=True)
class Load:
    """Open jobs of all keys."""

    waiting: int = 0
    running: int = 0
    oldest_seconds: float = 0.0
    """Age of the oldest waiting job."""


class JobTable:
    """Jobs in a database."""

    def __init__(self, where: Path | SqlDatabase, *, patient: bool = False) -> None:
        self.database: SqlDatabase = (
            Database(where, SQLITE_STEPS, version=FORMAT) if isinstance(where, Path) else where
        )
        self._is_patient = patient

    @property
    def patient(self) -> JobTable:
        """The same table, for work that no client waits for."""
        return JobTable(self.database, patient=True)

    def close(self) -> None:
        self.database.close()

    async def run(self, work: Callable[[SqlConnection], T]) -> T:
        return await self.database.run(work, patient=self._is_patient)

    async def insert(
        self, job: Job, *, admission: Admission | None = None, idempotency: tuple[str, str] | None = None
    ) -> Job:
        """Store a new job; return the earlier job if `idempotency` (key, digest) is already known."""

        def work(connection: SqlConnection) -> Job:
            if idempotency is not None and (earlier := _earlier(connection, job.key, *idempotency)):
                return earlier
            if (stored := _find(connection, job.id)) is not None:  # the reply of the database was lost
                return stored
            self._admit(connection, admission)
            connection.execute("DELETE FROM removals WHERE job = ?", (job.id,))
            connection.execute(
                "INSERT INTO jobs (id, key, status, finished, job, arrived, needs) "
                "VALUES (?, ?, ?, ?, ?, now(), ?)",
                (job.id, job.key, job.status, job.finished, job.model_dump_json(exclude=STATE), NEEDS),
            )
            if idempotency is not None:
                connection.execute(
                    "INSERT INTO idempotency VALUES (?, ?, ?, ?)", (job.key, *idempotency, job.id)
                )
            number = connection.execute("SELECT number FROM jobs WHERE id = ?", (job.id,)).fetchone()
            return job.model_copy(update={"number": number["number"]})

        return await self.run(work)

    async def check(self, admission: Admission) -> None:
        """Refuse a job before its images are stored. `insert` checks again, and counts it."""
        await self.run(admission.check)

    def _admit(self, connection: SqlConnection, admission: Admission | None) -> None:
        if admission is not None:
            self._one_at_a_time(connection, crc32(admission.caller.key.encode()))
            admission.check(connection)
            admission.spend(connection, self.database.dialect)

    def _one_at_a_time(self, connection: SqlConnection, number: int) -> None:
        if statement := self.database.dialect.one_at_a_time:
            connection.execute(statement, (number,))

    async def earlier(self, key: str, name: str, digest: str) -> Job | None:
        """Return the job with this idempotency key; raise `IdempotencyConflict` if its digest differs."""
        return await self.run(lambda connection: _earlier(connection, key, name, digest))

    async def get(self, id_: str) -> Job | None:
        return await self.run(lambda connection: _find(connection, id_))

    async def newest(self, key: str | None, *, limit: int, before: int | None = None) -> list[Job]:
        """Return the newest jobs of a key, or of all keys, with numbers below `before`."""
        ends = before if before is not None else 2**62
        chosen = ("key = ? AND ", (key, ends, limit)) if key is not None else ("", (ends, limit))
        query = f"SELECT * FROM jobs WHERE {chosen[0]}number < ? ORDER BY number DESC LIMIT ?"
        return await self._all(query, chosen[1])

    async def _all(self, query: str, values: Sequence[Any] = ()) -> list[Job]:
        """Return the jobs of a query, without those of a newer version."""

        def work(connection: SqlConnection) -> list[Job]:
            return [job for row in connection.execute(query, values) if (job := _readable(row)) is not None]

        return await self.run(work)

    async def claim(
        self, worker: str, *, most: int, seconds: float | None, per_key: int | None = None
    ) -> list[Claimed]:
        """Claim the next jobs for a worker, each until its lease expires; `None` seconds for ever."""

        def work(connection: SqlConnection) -> list[Claimed]:
            until = None if seconds is None else runs.clock_that_never_stops() + seconds
            self._one_at_a_time(connection, CLAIMS)
            self._free_expired(connection)
            if _is_paused(connection):
                return []
            rows = list(connection.execute(TURNS))
            shares = fair_shares({row["key"]: (row["running"], row["first"]) for row in rows}, most, per_key)
            ids = [id_ for key, share in shares.items() for id_ in _first_of(connection, key, share)]
            taken = [self._take(connection, id_, worker, seconds, until) for id_ in ids]
            return [each for each in taken if each is not None]

        return await self.run(work)

    def _free_expired(self, connection: SqlConnection) -> None:
        """Let workers claim the jobs whose leases have expired."""
        connection.execute(
            "UPDATE jobs SET stalled = worker, worker = '', stalls = stalls + 1 "
            f"WHERE {HELD} AND leased_until <= now()"
        )

    def _take(
        self,
        connection: SqlConnection,
        id_: str,
        worker: str,
        seconds: float | None,
        leased_until: float | None,
    ) -> Claimed | None:
        until, values = ("NULL", ()) if seconds is None else (self.database.dialect.later, (seconds,))
        row = connection.execute(
            f"UPDATE jobs SET token = token + 1, worker = ?, leased_until = {until}, "
            "stalls = CASE WHEN status = 'queued' THEN 0 ELSE stalls END, status = 'in_progress' "
            f"WHERE id = ? AND {WAITS} RETURNING *",
            (worker, *values, id_),
        ).fetchone()
        if row is None:
            return None
        job = _readable(row)
        if job is None:
            self._set_aside(connection, id_)
            return None
        connection.execute("UPDATE jobs SET stalled = '' WHERE id = ? AND stalled <> ''", (id_,))
        return Claimed(job, row["token"], row["stalled"], row["stalls"], leased_until)

    def _set_aside(self, connection: SqlConnection, id_: str) -> None:
        """Keep a job that cannot be parsed from being claimed again and again."""
        statement = f"UPDATE jobs SET stalls = -1, leased_until = {self.database.dialect.later} WHERE id = ?"
        connection.execute(statement, (SET_ASIDE_SECONDS, id_))

    async def free_all(self) -> int:
        """Make all open jobs claimable and return their number. No other process may use the table."""

        def work(connection: SqlConnection) -> int:
            connection.execute(f"UPDATE jobs SET worker = '' WHERE {HELD}")
            query = f"SELECT count(*) AS jobs FROM jobs WHERE {WAITS}"
            return int(connection.execute(query).fetchone()["jobs"])

        return await self.run(work)

    def renew(self, connection: SqlConnection, tokens: Mapping[str, int], seconds: float) -> dict[str, bool]:
        """Extend leases, by job and token; return those extended, each with whether it is cancelled."""
        if not tokens:
            return {}
        held = ", ".join("(?, ?)" for _ in tokens)
        rows = connection.execute(
            f"UPDATE jobs SET leased_until = {self.database.dialect.later} "
            f"WHERE (id, token) IN (VALUES {held}) AND {HELD} AND leased_until > now() "
            "RETURNING id, cancelling",
            (seconds, *chain.from_iterable(tokens.items())),
        )
        return {row["id"]: bool(row["cancelling"]) for row in rows}

    async def release(self, id_: str, token: int) -> None:
        """Let the next worker claim an open job immediately.

        If its lease has expired, the holder reports here that it is alive: the job did not stall it.
        """

        def work(connection: SqlConnection) -> None:
            released = (
                f"UPDATE jobs SET worker = '', leased_until = now() WHERE id = ? AND token = ? AND {HELD}"
            )
            if connection.execute(released, (id_, token)).rowcount == 0:
                connection.execute("UPDATE jobs SET stalls = stalls - 1 WHERE id = ? AND stalls > 0", (id_,))

        await self.run(work)

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

        With the `token` of a claim, also `None` if there is a later claim.
        """
        values = (status, finished, error.model_dump_json() if error else None)

        def work(connection: SqlConnection) -> Job | None:
            job = _updated(connection, id_, "status = ?, finished = ?, error = ?", values, token)
            if job is not None:
                store_deliveries(connection, deliveries(job))
            return job

        return await self.run(work)

    async def finish_unclaimed(
        self,
        id_: str,
        status: JobStatus,
        finished: float,
        deliveries: Callable[[Job], list[Delivery]] = lambda job: [],
    ) -> Job | None:
        """End a job that no worker holds, invalidating earlier claims; `None` if a worker holds it."""

        def work(connection: SqlConnection) -> Job | None:
            self._free_expired(connection)
            statement = (
                f"UPDATE jobs SET token = token + 1, status = ?, finished = ? WHERE id = ? AND {WAITS}"
            )
            if connection.execute(statement, (status, finished, id_)).rowcount == 0:
                return None
            job = _find(connection, id_)
            store_deliveries(connection, deliveries(job) if job else ())
            return job

        return await self.run(work)

    async def reopen(
        self,
        job: Job,
        end: JobEnd,
        decision: Decision | None = None,
        *,
        cancelling: bool = False,
        admission: Admission | None = None,
        idempotency: tuple[str, str, str] | None = None,
    ) -> tuple[Job, bool] | None:
        """Put an ended job back at the end of the queue; `None` if it has changed in the meantime.

        `idempotency` is (key, name, digest). If it is already known, return that job and False.
        """

        def work(connection: SqlConnection) -> tuple[Job, bool] | None:
            if idempotency is not None and (earlier := _earlier(connection, *idempotency)):
                return earlier, False
            row = connection.execute("SELECT * FROM jobs WHERE id = ?", (job.id,)).fetchone()
            now = job_of(row) if row else None
            if now is None or not now.is_final or now.ends != job.ends:
                return None
            self._admit(connection, admission)
            opened = now.model_copy(update={"ends": (*now.ends, end), "decision": decision})
            statement = (
                "UPDATE jobs SET status = 'queued', cancelling = ?, finished = NULL, error = NULL, job = ?, "
                "worker = '', arrived = now(), place = (SELECT max(number) FROM jobs) + 0.5 "
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

        return await self.run(work)

    async def note_edit(self, job: Job, lines: int) -> Job | None:
        """Count an edit of an ended job's words, made when its journal had `lines` lines.

        Return the job; `None` if it has changed in the meantime.
        """

        def work(connection: SqlConnection) -> Job | None:
            row = connection.execute("SELECT * FROM jobs WHERE id = ?", (job.id,)).fetchone()
            now = job_of(row) if row else None
            if now is None or not now.is_final or (now.ends, now.edits) != (job.ends, job.edits):
                return None
            edited_from = {len(now.ends): lines, **now.edited_from}
            edited = now.model_copy(update={"edited_from": edited_from, "edits": now.edits + 1})
            statement = (
                "UPDATE jobs SET job = ? WHERE id = ? AND status NOT IN ('queued', 'in_progress') AND job = ?"
            )
            values = (edited.model_dump_json(exclude=STATE), job.id, row["job"])
            return edited if connection.execute(statement, values).rowcount else None

        return await self.run(work)

    async def pause(self, paused: bool) -> None:
        """Stop or allow claims by all workers; running jobs continue."""
        statement = (
            "INSERT INTO switches VALUES ('paused', ?) "
            "ON CONFLICT (name) DO UPDATE SET value = excluded.value"
        )
        await self._do(statement, ("yes" if paused else "no",))

    async def is_paused(self) -> bool:
        return await self.run(_is_paused)

    async def waiting(self, key: str | None, *, limit: int) -> list[Job]:
        """Return the waiting jobs of a key, or of all keys, in the order in which they start."""
        query = f"SELECT * FROM jobs WHERE {WAITS} AND key = ? ORDER BY {ORDER} LIMIT ?"

        def work(connection: SqlConnection) -> list[Job]:
            keys = [key] if key is not None else [row["key"] for row in connection.execute(TURNS)]
            of_each = [[_readable(row) for row in connection.execute(query, (each, limit))] for each in keys]
            rounds = chain.from_iterable(zip_longest(*of_each))
            return [job for job in rounds if job is not None][:limit]

        return await self.run(work)

    async def running(self, key: str | None, *, limit: int) -> list[Job]:
        """Return jobs that workers hold, the earliest first."""
        chosen = ("AND key = ? ", (key, limit)) if key is not None else ("", (limit,))
        return await self._all(
            f"SELECT * FROM jobs WHERE {RUNS} {chosen[0]}ORDER BY number LIMIT ?", chosen[1]
        )

    async def count_waiting(self, key: str | None) -> int:
        """Return the number of waiting jobs of a key, or of all keys."""
        chosen, values = (" AND key = ?", (key,)) if key is not None else ("", ())
        query = f"SELECT count(*) AS jobs FROM jobs WHERE {WAITS}{chosen}"
        return await self.run(lambda connection: int(connection.execute(query, values).fetchone()["jobs"]))

    async def move(self, job: Job, to: int) -> bool:
        """Move a waiting job to another place among those of its key; return whether it was waiting."""
        query = (
            "SELECT id, coalesce(place, number) AS place FROM jobs "
            "WHERE status = 'queued' AND key = ? ORDER BY coalesce(place, number)"
        )

        def work(connection: SqlConnection) -> bool:
            self._one_at_a_time(connection, CLAIMS)
            places = {row["id"]: row["place"] for row in connection.execute(query, (job.key,))}
            if job.id not in places:
                return False
            order = [id_ for id_ in places if id_ != job.id]
            order.insert(to, job.id)
            for id_, place in zip(order, places.values(), strict=True):
                if places[id_] != place:
                    connection.execute("UPDATE jobs SET place = ? WHERE id = ?", (place, id_))
            return True

        return await self.run(work)

    async def load(self) -> Load:
        """Return the numbers of open jobs."""
        age = self.database.dialect.seconds_since.format("arrived")
        query = (
            f"SELECT count(*) AS waiting, max({age}) AS oldest, "
            f"(SELECT count(*) FROM jobs WHERE {RUNS}) AS running FROM jobs WHERE {WAITS}"
        )

        def work(connection: SqlConnection) -> Load:
            row = connection.execute(query).fetchone()
            return Load(row["waiting"], row["running"], max(0.0, row["oldest"] or 0.0))

        return await self.run(work)

    async def open_ids(self) -> set[str]:
        """Return the ids of all open jobs."""
        query = "SELECT id FROM jobs WHERE status IN ('queued', 'in_progress')"
        return set(await self.run(lambda connection: [row["id"] for row in connection.execute(query)]))

    async def begin_removal(self, id_: str) -> None:
        """Schedule a folder for removal at the next start, unless a job with this id is stored first."""
        await self._do("INSERT INTO removals VALUES (?) ON CONFLICT DO NOTHING", (id_,))

    async def ended_before(self, time: float, *, limit: int) -> list[str]:
        """Return the ids of jobs that finished before `time`, the oldest first."""
        query = "SELECT id FROM jobs WHERE finished < ? ORDER BY finished LIMIT ?"
        return await self.run(
            lambda connection: [row["id"] for row in connection.execute(query, (time, limit))]
        )

    async def remove(self, id_: str) -> bool:
        """Delete a job from the table; its files are removed afterwards, even if the process dies."""

        def work(connection: SqlConnection) -> bool:
            if connection.execute("DELETE FROM jobs WHERE id = ?", (id_,)).rowcount == 0:
                return False
            connection.execute("DELETE FROM idempotency WHERE job = ?", (id_,))
            connection.execute("INSERT INTO removals VALUES (?) ON CONFLICT DO NOTHING", (id_,))
            return True

        return await self.run(work)

    async def removals(self) -> list[str]:
        """Return the ids of deleted jobs whose folders still exist."""
        query = "SELECT job FROM removals"
        return await self.run(lambda connection: [row["job"] for row in connection.execute(query)])

    async def removed(self, id_: str) -> None:
        await self._do("DELETE FROM removals WHERE job = ?", (id_,))

    async def _do(self, statement: str, values: tuple[Any, ...]) -> None:
        await self.run(lambda connection: connection.execute(statement, values))

    async def _update(
        self, id_: str, change: str, values: tuple[Any, ...], token: int | None = None
    ) -> Job | None:
        return await self.run(lambda connection: _updated(connection, id_, change, values, token))


def fair_shares(keys: Mapping[str, tuple[int, int]], most: int, per_key: int | None = None) -> dict[str, int]:
    """Divide `most` places among keys; each has a number of running jobs and its first waiting job's number.

    Each place goes to the key with the fewest jobs so far, and among equals to the one that waited longest.
    """
    turns = [(running, first, key) for key, (running, first) in keys.items()]
    heapq.heapify(turns)
    shares: dict[str, int] = {}
    for _ in range(most if turns else 0):
        running, first, key = turns[0]
        if per_key is not None and running >= per_key:
            break
        shares[key] = shares.get(key, 0) + 1
        heapq.heapreplace(turns, (running + 1, first, key))
    return shares


def _first_of(connection: SqlConnection, key: str, limit: int) -> list[str]:
    query = f"SELECT id FROM jobs WHERE {MINE} AND key = ? ORDER BY {ORDER} LIMIT ?"
    return [row["id"] for row in connection.execute(query, (key, limit))]


def _is_paused(connection: SqlConnection) -> bool:
    row = connection.execute("SELECT value FROM switches WHERE name = 'paused'").fetchone()
    return row is not None and row["value"] == "yes"


def _updated(
    connection: SqlConnection, id_: str, change: str, values: tuple[Any, ...], token: int | None = None
) -> Job | None:
    """Update an open job and return it; `None` if it has ended, is gone, or has another claim."""
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
    """Return the job of a row; raise `RunError` if this version cannot read what a newer one has stored."""
    state = {
        "number": row["number"],
        "status": row["status"],
        "cancelling": bool(row["cancelling"]),
        "finished": row["finished"],
        "error": json.loads(row["error"]) if row["error"] else None,
    }
    try:
        return Job.model_validate({**json.loads(row["job"]), **state})
    except ValidationError as error:
        raise RunError(
            f"job {row['id']} cannot be read by this version of interleave: {first_problem(error)}"
        ) from None


def _readable(row: Any) -> Job | None:
    """Return the job of a row; `None`, with a log line, if this version cannot read it."""
    try:
        return job_of(row)
    except RunError as error:
        log.error("%s", error)
        return None

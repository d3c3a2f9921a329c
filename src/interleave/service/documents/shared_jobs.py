"""The job table of several machines, in Postgres: each job has at most one lease holder.

A worker claims jobs for some seconds and renews its claims while it lives. When a lease expires, another
worker claims the job and resumes from its journal. Every claim raises the job's token, and the table and the
journal reject writes with an older token.

Procrastinate and other Postgres task queues keep a second table of tasks and have no such token: a job could
have two states, and two workers. Here the row of the job is the task.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from interleave.service.documents.database import SqlConnection
from interleave.service.documents.jobs import Delivery, Job, JobStatus, JobTable, job_of, updated
from interleave.service.documents.postgres import PostgresDatabase

CHANNEL = "interleave_jobs"
VERSION = 1
SCHEMA = f"""
CREATE TABLE jobs (
    number BIGINT GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL,
    status TEXT NOT NULL,
    cancelling INTEGER NOT NULL DEFAULT 0,
    finished DOUBLE PRECISION,
    error TEXT,
    job TEXT NOT NULL,
    token BIGINT NOT NULL DEFAULT 0,
    worker TEXT NOT NULL DEFAULT '',
    leased_until TIMESTAMPTZ,
    stalls INTEGER NOT NULL DEFAULT 0,
    arrived TIMESTAMPTZ NOT NULL DEFAULT now()
);
CREATE INDEX open_jobs ON jobs (number) WHERE status IN ('queued', 'in_progress');
CREATE INDEX jobs_by_key ON jobs (key, number);
CREATE INDEX ended_jobs ON jobs (finished);
CREATE TABLE idempotency (
    key TEXT NOT NULL, name TEXT NOT NULL, digest TEXT NOT NULL, job TEXT NOT NULL,
    PRIMARY KEY (key, name)
);
CREATE INDEX idempotency_by_job ON idempotency (job);
CREATE TABLE removals (job TEXT PRIMARY KEY);
CREATE TABLE files (
    id TEXT PRIMARY KEY, key TEXT NOT NULL, image TEXT NOT NULL, filename TEXT NOT NULL,
    purpose TEXT NOT NULL, bytes BIGINT NOT NULL, created DOUBLE PRECISION NOT NULL
);
CREATE INDEX files_by_image ON files (image);
CREATE TABLE deliveries (
    id TEXT PRIMARY KEY, url TEXT NOT NULL, body TEXT NOT NULL, attempts INTEGER NOT NULL DEFAULT 0
);
CREATE FUNCTION tell_of_job() RETURNS trigger AS $$
BEGIN
    PERFORM pg_notify('{CHANNEL}', NEW.status || ' ' || NEW.cancelling || ' ' || NEW.id);
    RETURN NULL;
END $$ LANGUAGE plpgsql;
CREATE TRIGGER tell_of_new AFTER INSERT ON jobs FOR EACH ROW EXECUTE FUNCTION tell_of_job();
CREATE TRIGGER tell_of_change AFTER UPDATE ON jobs FOR EACH ROW
    WHEN (OLD.status <> NEW.status OR OLD.cancelling <> NEW.cancelling) EXECUTE FUNCTION tell_of_job();
"""
WAITS = "(status = 'queued' OR (status = 'in_progress' AND leased_until <= now()))"
CLAIM = f"""
WITH busy AS (
    SELECT key, count(*) AS jobs FROM jobs
    WHERE status = 'in_progress' AND leased_until > now() GROUP BY key
), waiting AS (
    SELECT id, key, number, row_number() OVER (PARTITION BY key ORDER BY number) AS place
    FROM jobs WHERE {WAITS}
), next AS (
    SELECT waiting.id, waiting.number, coalesce(busy.jobs, 0) + waiting.place AS turn
    FROM waiting LEFT JOIN busy ON busy.key = waiting.key
    WHERE coalesce(busy.jobs, 0) + waiting.place <= ?
    ORDER BY turn, number LIMIT ?
), chosen AS (
    SELECT jobs.id FROM jobs JOIN next ON next.id = jobs.id
    WHERE {WAITS} ORDER BY next.turn, next.number LIMIT ? FOR UPDATE OF jobs SKIP LOCKED
), before AS (
    SELECT jobs.id, jobs.worker, status = 'in_progress' AS stalled
    FROM jobs JOIN chosen ON chosen.id = jobs.id
)
UPDATE jobs SET
    status = 'in_progress', token = token + 1, worker = ?,
    leased_until = now() + make_interval(secs => ?),
    stalls = CASE WHEN status = 'in_progress' AND jobs.worker <> '' THEN stalls + 1
                  WHEN status = 'queued' THEN 0 ELSE stalls END
FROM before WHERE jobs.id = before.id
RETURNING jobs.*, CASE WHEN before.stalled THEN before.worker ELSE '' END AS stalled_worker
"""
"""Fair among keys: the running jobs of a key count before its waiting ones."""
RENEW = """
UPDATE jobs SET leased_until = now() + make_interval(secs => ?)
FROM unnest(?::text[], ?::bigint[]) AS held (id, token)
WHERE jobs.id = held.id AND jobs.token = held.token AND status = 'in_progress' AND leased_until > now()
RETURNING jobs.id, jobs.cancelling
"""
LOAD = f"""
SELECT key, count(*) FILTER (WHERE {WAITS}) AS waiting, count(*) FILTER (WHERE NOT {WAITS}) AS running,
       coalesce(max(extract(epoch FROM now() - arrived)) FILTER (WHERE {WAITS}), 0)::float8 AS oldest
FROM jobs WHERE status IN ('queued', 'in_progress') GROUP BY key
"""


@dataclass(frozen=True)
class Claimed:
    """A job that a worker has claimed."""

    job: Job
    token: int
    stalled_worker: str
    """The worker whose lease on it expired; empty for a job that was not claimed before."""
    stalls: int
    """Number of consecutive expired leases."""


@dataclass(frozen=True)
class KeyLoad:
    """Open jobs of a key."""

    waiting: int
    running: int
    oldest_seconds: float


class SharedJobTable(JobTable):
    """Job table of services and workers on several machines."""

    def __init__(self, url: str) -> None:
        self.postgres = PostgresDatabase(url, SCHEMA, version=VERSION)
        super().__init__(self.postgres)

    async def claim(
        self, worker: str, *, most: int, seconds: float, per_key: int | None = None
    ) -> list[Claimed]:
        """Claim the next jobs for a worker, each until its lease expires."""

        def work(connection: SqlConnection) -> list[Claimed]:
            limit = per_key if per_key is not None else 2**31
            rows = connection.execute(CLAIM, (limit, 4 * most, most, worker, seconds))
            return [Claimed(job_of(row), row["token"], row["stalled_worker"], row["stalls"]) for row in rows]

        return await self.database.run(work)

    def renew(self, held: Mapping[str, int], *, seconds: float, within: float) -> dict[str, bool]:
        """Renew leases by their tokens; map each job still held to whether it is to be cancelled.

        Runs in the caller's thread: renewal must not wait for other work.
        """

        def work(connection: SqlConnection) -> dict[str, bool]:
            rows = connection.execute(RENEW, (seconds, list(held), list(held.values())))
            return {row["id"]: bool(row["cancelling"]) for row in rows}

        return self.postgres.transaction(work, within)

    async def release(self, id_: str, token: int) -> None:
        """Release an open job, so that the next worker can claim it immediately."""
        await self._update(id_, "worker = '', leased_until = now()", (), token)

    async def finish_unclaimed(
        self,
        id_: str,
        status: JobStatus,
        finished: float,
        deliveries: Callable[[Job], list[Delivery]] = lambda job: [],
    ) -> Job | None:
        """End a job that no worker holds, invalidating earlier leases; `None` if a worker holds it."""

        def work(connection: SqlConnection) -> int | None:
            statement = f"UPDATE jobs SET token = token + 1 WHERE id = ? AND {WAITS}"
            if connection.execute(statement, (id_,)).rowcount == 0:
                return None
            row = connection.execute("SELECT token FROM jobs WHERE id = ?", (id_,)).fetchone()
            token: int = row["token"]
            updated(connection, id_, "worker = '', leased_until = now()", (), token)
            return token

        token = await self.database.run(work)
        if token is None:
            return None
        return await self.finish(id_, status, finished, token=token, deliveries=deliveries)

    async def load(self) -> dict[str, KeyLoad]:
        """Return the open jobs by key."""

        def work(connection: SqlConnection) -> dict[str, KeyLoad]:
            return {
                row["key"]: KeyLoad(row["waiting"], row["running"], row["oldest"])
                for row in connection.execute(LOAD)
            }

        return await self.database.run(work)

"""Tables of the document service: steps that are applied once, in order, to SQLite and Postgres.

A step only adds tables, columns and indexes. So services and workers of an older version go on working with
the same tables during an upgrade, and after a rollback. `FORMAT` would only rise with a change that they
cannot bear; they then refuse to start.
"""

from __future__ import annotations

from dataclasses import dataclass

FORMAT = 1
CHANNEL = "interleave_jobs"
"""Postgres channel with one notice per changed job: status, cancelling, id."""
WAITS = "(status = 'queued' OR (status = 'in_progress' AND worker = ''))"
"""Condition for jobs that a worker may claim."""
HELD = "(status = 'in_progress' AND worker <> '')"
"""Condition for jobs that a worker has claimed."""
ORDER = "status, coalesce(place, number)"
"""Order of the waiting jobs of one key: interrupted ones first, then as they arrived or were moved."""


@dataclass(frozen=True)
class Dialect:
    """SQL that differs between the databases. `now()` and `?` as placeholder work in both."""

    later: str
    """The time that is `?` seconds from now."""
    seconds_since: str
    """Seconds since the time in a column `{}`."""
    for_update: str
    """Suffix of a query whose rows must not change until the transaction ends."""
    one_at_a_time: str
    """Statement after which no other transaction with the same number runs; empty if none ever does."""


SQLITE = Dialect("now() + ?", "now() - {}", "", "")
POSTGRES = Dialect(
    "now() + make_interval(secs => ?)",
    "extract(epoch FROM now() - {})::float8",
    " FOR UPDATE",
    "SELECT pg_advisory_xact_lock(?)",
)

_FIRST_SQLITE = """
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
_FIRST_POSTGRES = f"""
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
    WHEN (OLD.status <> NEW.status OR OLD.cancelling <> NEW.cancelling) EXECUTE FUNCTION tell_of_job()
"""
_LEASES_SQLITE = """
ALTER TABLE jobs ADD COLUMN token INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN worker TEXT NOT NULL DEFAULT '';
ALTER TABLE jobs ADD COLUMN leased_until REAL;
ALTER TABLE jobs ADD COLUMN stalls INTEGER NOT NULL DEFAULT 0;
ALTER TABLE jobs ADD COLUMN arrived REAL NOT NULL DEFAULT 0;
UPDATE jobs SET arrived = json_extract(job, '$.created');
CREATE INDEX ended_jobs ON jobs (finished);
"""
_ONE_QUEUE = f"""
ALTER TABLE jobs ADD COLUMN place DOUBLE PRECISION;
ALTER TABLE jobs ADD COLUMN needs INTEGER NOT NULL DEFAULT 1;
ALTER TABLE jobs ADD COLUMN stalled TEXT NOT NULL DEFAULT '';
CREATE INDEX waiting_jobs ON jobs (key, {ORDER}) WHERE {WAITS};
CREATE INDEX held_jobs ON jobs (key) WHERE {HELD};
CREATE TABLE switches (name TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE rates (key TEXT PRIMARY KEY, remaining DOUBLE PRECISION NOT NULL, counted {{time}} NOT NULL);
CREATE TABLE delivery_times (id TEXT PRIMARY KEY, due {{time}} NOT NULL)
"""
SQLITE_STEPS = (_FIRST_SQLITE, _LEASES_SQLITE + _ONE_QUEUE.format(time="REAL"))
POSTGRES_STEPS = (_FIRST_POSTGRES, _ONE_QUEUE.format(time="TIMESTAMPTZ"))

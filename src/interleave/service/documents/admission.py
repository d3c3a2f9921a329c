"""Quotas, checked in the transaction that stores a job, so they hold over restarts and for all services."""

from __future__ import annotations

from dataclasses import dataclass

from interleave.service.documents.database import SqlConnection
from interleave.service.documents.keys import Caller
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.schema import WAITS, Dialect

HOUR = 3600.0
BUSY_RETRY_SECONDS = 10.0


@dataclass(frozen=True)
class Admission:
    """The quotas that a new or reopened job must meet."""

    caller: Caller
    max_waiting: int
    """Maximum waiting jobs of all keys."""

    def check(self, connection: SqlConnection) -> None:
        """Refuse a job if its key has too many open ones or the queue is full."""
        if (most := self.caller.max_jobs) is not None:
            query = "SELECT count(*) AS jobs FROM jobs WHERE key = ? AND status IN ('queued', 'in_progress')"
            open_ = connection.execute(query, (self.caller.key,)).fetchone()["jobs"]
            if open_ >= most:
                raise _limited(f"this key has {open_} open jobs, its maximum: wait until one has ended")
        query = f"SELECT count(*) AS jobs FROM (SELECT 1 FROM jobs WHERE {WAITS} LIMIT ?) AS waiting"
        if connection.execute(query, (self.max_waiting,)).fetchone()["jobs"] >= self.max_waiting:
            raise ApiRefusal(
                "the queue is full: try again later",
                status=503,
                code="server_overloaded",
                retry_after=BUSY_RETRY_SECONDS,
            )

    def spend(self, connection: SqlConnection, dialect: Dialect) -> None:
        """Take one submission from the token bucket of the key, which refills evenly over an hour."""
        per_hour = self.caller.per_hour
        if per_hour is None:
            return
        elapsed = dialect.seconds_since.format("counted")
        query = f"SELECT remaining, {elapsed} AS elapsed FROM rates WHERE key = ?{dialect.for_update}"
        row = connection.execute(query, (self.caller.key,)).fetchone()
        left = float(per_hour)
        if row is not None:
            left = min(left, row["remaining"] + max(0.0, row["elapsed"]) * per_hour / HOUR)
        if left < 1:
            raise _limited(
                f"this key may submit {per_hour} jobs per hour: try again later", (1 - left) * HOUR / per_hour
            )
        if row is None:  # a concurrent first submission conflicts, and is repeated
            connection.execute("INSERT INTO rates VALUES (?, ?, now())", (self.caller.key, left - 1))
        else:
            update = "UPDATE rates SET remaining = ?, counted = now() WHERE key = ?"
            connection.execute(update, (left - 1, self.caller.key))


def _limited(message: str, retry_after: float = BUSY_RETRY_SECONDS) -> ApiRefusal:
    return ApiRefusal(message, status=429, code="rate_limit_exceeded", retry_after=retry_after)

"""Pending webhook calls: stored together with the end of their job, and made by whichever service is alive.

Each attempt is counted before it is made, and the time of the next one is stored with the count. So a sender
that dies costs only a delay, and an attempt is never made by two services.
"""

from __future__ import annotations

from collections.abc import Iterable

from interleave.plugin import Value
from interleave.service.documents.database import SqlConnection, SqlDatabase


class Delivery(Value):
    """A pending webhook call."""

    id: str
    url: str
    body: str
    attempts: int = 0


def store_deliveries(connection: SqlConnection, deliveries: Iterable[Delivery]) -> None:
    for each in deliveries:
        connection.execute(
            "INSERT INTO deliveries VALUES (?, ?, ?, 0) ON CONFLICT DO NOTHING",
            (each.id, each.url, each.body),
        )


class Deliveries:
    """Table of the pending webhook calls."""

    def __init__(self, database: SqlDatabase) -> None:
        self.database = database

    async def due(self, *, limit: int) -> list[Delivery]:
        """Return calls whose next attempt is due."""
        query = (
            "SELECT deliveries.* FROM deliveries "
            "LEFT JOIN delivery_times ON deliveries.id = delivery_times.id "
            "WHERE due IS NULL OR due <= now() LIMIT ?"
        )
        return await self.database.run(
            lambda connection: [Delivery(**row) for row in connection.execute(query, (limit,))]
        )

    async def begin(self, delivery: Delivery, *, next_in: float) -> bool:
        """Count an attempt before it is made; return False if another service has begun it."""
        statement = "UPDATE deliveries SET attempts = attempts + 1 WHERE id = ? AND attempts = ?"

        def work(connection: SqlConnection) -> bool:
            if connection.execute(statement, (delivery.id, delivery.attempts)).rowcount == 0:
                return False
            self._postpone(connection, delivery.id, next_in)
            return True

        return await self.database.run(work)

    async def postpone(self, id_: str, seconds: float) -> None:
        """Let the next attempt be due in so many seconds."""
        await self.database.run(lambda connection: self._postpone(connection, id_, seconds))

    def _postpone(self, connection: SqlConnection, id_: str, seconds: float) -> None:
        connection.execute(
            f"INSERT INTO delivery_times VALUES (?, {self.database.dialect.later}) "
            "ON CONFLICT (id) DO UPDATE SET due = excluded.due",
            (id_, seconds),
        )

    async def remove(self, id_: str) -> None:
        """Remove a call that was acknowledged or given up."""

        def work(connection: SqlConnection) -> None:
            connection.execute("DELETE FROM deliveries WHERE id = ?", (id_,))
            connection.execute("DELETE FROM delivery_times WHERE id = ?", (id_,))

        await self.database.run(work)

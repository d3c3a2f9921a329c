"""Uploaded images: a table beside the jobs; the images themselves lie in the folder `files`."""

from __future__ import annotations

from interleave.plugin import Value
from interleave.service.documents.database import SqlConnection, SqlDatabase


class StoredFile(Value):
    """An uploaded image."""

    id: str
    key: str
    image: str
    filename: str
    purpose: str
    bytes: int
    created: float


class Uploads:
    """Table of the uploaded images."""

    def __init__(self, database: SqlDatabase) -> None:
        self.database = database

    async def add(self, file: StoredFile) -> None:
        names = ", ".join(file.model_dump())
        marks = ", ".join("?" for _ in file.model_dump())
        statement = f"INSERT INTO files ({names}) VALUES ({marks})"
        values = tuple(file.model_dump().values())
        await self.database.run(lambda connection: connection.execute(statement, values))

    async def get(self, id_: str) -> StoredFile | None:
        def work(connection: SqlConnection) -> StoredFile | None:
            row = connection.execute("SELECT * FROM files WHERE id = ?", (id_,)).fetchone()
            return StoredFile(**row) if row else None

        return await self.database.run(work)

    async def newest(self, key: str | None, *, limit: int) -> list[StoredFile]:
        """Return the newest uploads of a key, or of all keys."""
        chosen = ("WHERE key = ? ", (key, limit)) if key is not None else ("", (limit,))
        query = f"SELECT * FROM files {chosen[0]}ORDER BY created DESC, id LIMIT ?"
        return await self._all(query, chosen[1])

    async def before(self, time: float, *, limit: int) -> list[StoredFile]:
        """Return uploads created before `time`, the oldest first."""
        return await self._all(
            "SELECT * FROM files WHERE created < ? ORDER BY created LIMIT ?", (time, limit)
        )

    async def remove(self, id_: str) -> bool:
        """Delete an upload; return whether no other upload uses its image."""

        def work(connection: SqlConnection) -> bool:
            row = connection.execute("SELECT image FROM files WHERE id = ?", (id_,)).fetchone()
            if row is None:
                return False
            connection.execute("DELETE FROM files WHERE id = ?", (id_,))
            query = "SELECT id FROM files WHERE image = ? LIMIT 1"
            return connection.execute(query, (row["image"],)).fetchone() is None

        return await self.database.run(work)

    async def _all(self, query: str, values: tuple[object, ...]) -> list[StoredFile]:
        return await self.database.run(
            lambda connection: [StoredFile(**row) for row in connection.execute(query, values)]
        )

"""The labels of a service, in a separate table next to the jobs.

Only undoing removes rows. A rater who labels the same item again adds a row, and the latest counts. A label
is on disk before its request is answered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interleave.bench.labels import Kind, Label
from interleave.service.documents.database import Database, SqlConnection
from interleave.studio.subjects import unit_of

FILE_NAME = "labels.sqlite"
VERSION = 1
SCHEMA = """
CREATE TABLE labels (
    number INTEGER PRIMARY KEY AUTOINCREMENT,
    request INTEGER NOT NULL,
    key TEXT NOT NULL,
    rater TEXT NOT NULL,
    kind TEXT NOT NULL,
    unit TEXT NOT NULL,
    run TEXT NOT NULL,
    label TEXT NOT NULL
);
CREATE INDEX labels_by_unit ON labels (key, rater, kind, unit);
CREATE INDEX labels_by_run ON labels (run);
CREATE TABLE revealed (
    key TEXT NOT NULL, rater TEXT NOT NULL, run TEXT NOT NULL, PRIMARY KEY (key, rater, run)
) WITHOUT ROWID
"""
IMPORTED = 0
"""The request number of imported labels."""
_LATEST = "SELECT max(number) FROM labels WHERE {where} GROUP BY key, rater, kind, unit"


@dataclass(frozen=True)
class Rater:
    """A rater: a name, and the API key in use."""

    key: str
    name: str


@dataclass(frozen=True)
class Choice:
    """A filter of labels; `None` matches anything."""

    key: str | None = None
    rater: str | None = None
    kind: Kind | None = None
    runs: Sequence[str] = ()

    @property
    def where(self) -> tuple[str, list[Any]]:
        given = {"key = ?": self.key, "rater = ?": self.rater, "kind = ?": self.kind}
        chosen = {condition: value for condition, value in given.items() if value is not None}
        conditions, values = list(chosen), [str(each) for each in chosen.values()]
        if self.runs:
            conditions.append(f"run IN ({', '.join('?' * len(self.runs))})")
            values += self.runs
        return " AND ".join(conditions or ["1"]), values


class LabelStore:
    """The table, opened on first use. The caller closes it."""

    def __init__(self, folder: Path) -> None:
        self.database = Database(folder / FILE_NAME, (SCHEMA,), version=VERSION)

    def close(self) -> None:
        self.database.close()

    async def put(self, key: str, labels: Sequence[Label]) -> int:
        """Store the labels of one request, which are undone together; return the number of new ones.

        A label equal to its rater's latest for the same item is not stored again.
        """

        def work(connection: SqlConnection) -> int:
            query = "SELECT coalesce(max(request), 0) + 1 FROM labels"
            request = connection.execute(query).fetchone()[0]
            return sum(_add(connection, request, key, label) for label in labels)

        return await self.database.run(work)

    async def take_in(self, key: str, labels: Sequence[Label]) -> int:
        """Store imported labels, which undo does not affect; return the number of new ones.

        A label older than its rater's latest for the same item is skipped.
        """

        def work(connection: SqlConnection) -> int:
            return sum(_add(connection, IMPORTED, key, label) for label in labels)

        return await self.database.run(work)

    async def undo(self, rater: Rater, kind: Kind | None) -> list[Label]:
        """Remove and return a rater's last labels; empty if there are none."""

        def work(connection: SqlConnection) -> list[Label]:
            where, values = Choice(rater.key, rater.name, kind).where
            query = f"SELECT max(request) FROM labels WHERE {where} AND request > {IMPORTED}"
            request = connection.execute(query, values).fetchone()[0]
            values = [*values, request]
            query = f"SELECT label FROM labels WHERE {where} AND request = ? ORDER BY number"
            undone = [Label.model_validate_json(row[0]) for row in connection.execute(query, values)]
            connection.execute(f"DELETE FROM labels WHERE {where} AND request = ?", values)
            return undone

        return await self.database.run(work)

    async def units(self, rater: Rater, kind: Kind) -> set[str]:
        """Return the items that a rater has labelled."""
        where, values = Choice(rater.key, rater.name, kind).where
        query = f"SELECT unit FROM labels WHERE {where}"
        return await self.database.run(
            lambda connection: {row[0] for row in connection.execute(query, values)}
        )

    async def labels(self, choice: Choice) -> list[Label]:
        """Return the latest label of each rater for each item, in order of storing."""
        return await self.database.run(lambda connection: list(_labels(connection, choice)))

    async def lines(self, choice: Choice) -> bytes:
        """Return the same as the lines of a label file."""
        return await self.database.run(
            lambda connection: b"".join(row["label"].encode() + b"\n" for row in _latest(connection, choice))
        )

    async def newest(
        self, choice: Choice, *, limit: int, before: int | None = None
    ) -> tuple[list[tuple[int, Label]], int]:
        """Return a page of the latest labels with their numbers, newest first, and their total."""
        where, values = choice.where

        def work(connection: SqlConnection) -> tuple[list[tuple[int, Label]], int]:
            latest = _LATEST.format(where=where)
            total = connection.execute(f"SELECT count(*) FROM ({latest})", values).fetchone()[0]
            condition, more = ("AND number < ?", [before]) if before is not None else ("", [])
            query = f"""SELECT number, label FROM labels WHERE number IN ({latest}) {condition}
                ORDER BY number DESC LIMIT ?"""
            rows = connection.execute(query, (*values, *more, limit))
            return [(row["number"], Label.model_validate_json(row["label"])) for row in rows], total

        return await self.database.run(work)

    async def raters(self, choice: Choice) -> list[tuple[str, Kind, int]]:
        """Return the number of labelled items by rater and kind."""
        where, values = choice.where
        query = f"""SELECT rater, kind, count(DISTINCT key || ' ' || unit) AS number FROM labels
            WHERE {where} GROUP BY rater, kind ORDER BY rater"""

        def work(connection: SqlConnection) -> list[tuple[str, Kind, int]]:
            rows = connection.execute(query, values)
            return [(row["rater"], Kind(row["kind"]), row["number"]) for row in rows]

        return await self.database.run(work)

    async def rows(self, key: str) -> int:
        """Return the number of rows stored for a key."""
        query = """SELECT (SELECT count(*) FROM labels WHERE key = ?)
            + (SELECT count(*) FROM revealed WHERE key = ?)"""
        return await self.database.run(
            lambda connection: int(connection.execute(query, (key, key)).fetchone()[0])
        )

    async def reveal(self, rater: Rater, runs: Sequence[str]) -> None:
        """Record that a rater knows the systems behind these runs: later labels of them are not blind."""

        def work(connection: SqlConnection) -> None:
            for run in runs:
                values = (rater.key, rater.name, run)
                connection.execute("INSERT OR IGNORE INTO revealed VALUES (?, ?, ?)", values)

        await self.database.run(work)

    async def revealed(self, rater: Rater, runs: Sequence[str]) -> set[str]:
        """Return the runs that were revealed to a rater."""
        query = f"""SELECT run FROM revealed WHERE key = ? AND rater = ?
            AND run IN ({", ".join("?" * len(runs))})"""
        values = (rater.key, rater.name, *runs)
        return await self.database.run(
            lambda connection: {row[0] for row in connection.execute(query, values)}
        )


def _add(connection: SqlConnection, request: int, key: str, label: Label) -> bool:
    own = (key, label.rater, label.kind.value, unit_of(label.subject, label.other))
    query = """SELECT label FROM labels WHERE key = ? AND rater = ? AND kind = ? AND unit = ?
        ORDER BY number DESC LIMIT 1"""
    latest = connection.execute(query, own).fetchone()
    if latest is not None:
        known = Label.model_validate_json(latest["label"])
        if _says(known) == _says(label) or (request == IMPORTED and known.at > label.at):
            return False
    query = """INSERT INTO labels (request, key, rater, kind, unit, run, label)
        VALUES (?, ?, ?, ?, ?, ?, ?)"""
    connection.execute(query, (request, *own, label.run, label.model_dump_json()))
    return True


def _says(label: Label) -> tuple[object, ...]:
    return label.subject, label.other, label.value, label.blind


def _latest(connection: SqlConnection, choice: Choice) -> Iterator[Any]:
    where, values = choice.where
    query = f"SELECT label FROM labels WHERE number IN ({_LATEST.format(where=where)}) ORDER BY number"
    return iter(connection.execute(query, values))


def _labels(connection: SqlConnection, choice: Choice) -> Iterator[Label]:
    for row in _latest(connection, choice):
        yield Label.model_validate_json(row["label"])

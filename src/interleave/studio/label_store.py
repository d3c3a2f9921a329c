"""The labels of a service: what raters said, in a table of its own beside the jobs.

Nothing is changed or removed but by undoing: a rater who labels the same thing again adds a row, and the
latest counts. A label is on disk when its request is answered.
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
"""The request of labels that were not given here."""
_LATEST = "SELECT max(number) FROM labels WHERE {where} GROUP BY key, rater, kind, unit"


@dataclass(frozen=True)
class Rater:
    """Who labels: a name, and the key that they use."""

    key: str
    name: str


@dataclass(frozen=True)
class Choice:
    """Which labels are looked for; None: whatever they have."""

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
    """The table, opened when it is first needed; the caller closes it."""

    def __init__(self, folder: Path) -> None:
        self.database = Database(folder / FILE_NAME, SCHEMA, version=VERSION)

    def close(self) -> None:
        self.database.close()

    async def put(self, key: str, labels: Sequence[Label]) -> int:
        """Store the labels of one request, which are undone together; returns how many were new.

        A label that says what its rater said of the same thing last is not stored again.
        """

        def work(connection: SqlConnection) -> int:
            query = "SELECT coalesce(max(request), 0) + 1 FROM labels"
            request = connection.execute(query).fetchone()[0]
            return sum(_add(connection, request, key, label) for label in labels)

        return await self.database.run(work)

    async def take_in(self, key: str, labels: Sequence[Label]) -> int:
        """Store labels that were given elsewhere, which undoing does not reach; returns how many were new.

        Older ones than what their rater said of the same thing here are not stored.
        """

        def work(connection: SqlConnection) -> int:
            return sum(_add(connection, IMPORTED, key, label) for label in labels)

        return await self.database.run(work)

    async def undo(self, rater: Rater, kind: Kind | None) -> list[Label]:
        """Take back what a rater said last; returns it, which is nothing where they said nothing."""

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
        """What a rater has labelled."""
        where, values = Choice(rater.key, rater.name, kind).where
        query = f"SELECT unit FROM labels WHERE {where}"
        return await self.database.run(
            lambda connection: {row[0] for row in connection.execute(query, values)}
        )

    async def labels(self, choice: Choice) -> list[Label]:
        """The latest label of each rater for each thing, in the order in which they were given."""
        return await self.database.run(lambda connection: list(_labels(connection, choice)))

    async def lines(self, choice: Choice) -> bytes:
        """The same as a file of labels has them."""
        return await self.database.run(
            lambda connection: b"".join(row["label"].encode() + b"\n" for row in _latest(connection, choice))
        )

    async def newest(
        self, choice: Choice, *, limit: int, before: int | None = None
    ) -> tuple[list[tuple[int, Label]], int]:
        """A page of the latest labels with their numbers, the newest first, and how many there are."""
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
        """How many things each rater has labelled, by kind."""
        where, values = choice.where
        query = f"""SELECT rater, kind, count(DISTINCT key || ' ' || unit) AS number FROM labels
            WHERE {where} GROUP BY rater, kind ORDER BY rater"""

        def work(connection: SqlConnection) -> list[tuple[str, Kind, int]]:
            rows = connection.execute(query, values)
            return [(row["rater"], Kind(row["kind"]), row["number"]) for row in rows]

        return await self.database.run(work)

    async def rows(self, key: str) -> int:
        """How much is stored for a key."""
        query = """SELECT (SELECT count(*) FROM labels WHERE key = ?)
            + (SELECT count(*) FROM revealed WHERE key = ?)"""
        return await self.database.run(
            lambda connection: int(connection.execute(query, (key, key)).fetchone()[0])
        )

    async def reveal(self, rater: Rater, runs: Sequence[str]) -> None:
        """Note that a rater knows which systems drew these runs: what they say of them is not blind."""

        def work(connection: SqlConnection) -> None:
            for run in runs:
                values = (rater.key, rater.name, run)
                connection.execute("INSERT OR IGNORE INTO revealed VALUES (?, ?, ?)", values)

        await self.database.run(work)

    async def revealed(self, rater: Rater, runs: Sequence[str]) -> set[str]:
        """Those of the runs that were revealed to a rater."""
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

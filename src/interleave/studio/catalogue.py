"""The catalogue: the gallery's searchable entries of all documents, in an SQLite index.

It is built from the job table and the run folders, and can always be rebuilt. It has a separate file, so that
a search never blocks the storing of a job.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from interleave import ConfigurationError, RunError, RunRecord
from interleave.plugin import Value, one_line, runs
from interleave.service.documents.database import Database, SqlConnection
from interleave.service.documents.jobs import OPEN, Job
from interleave.studio import subjects

log = logging.getLogger(__name__)
FILE_NAME = "studio.sqlite"
VERSION = 3
SCHEMA = """
CREATE TABLE entries (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    key TEXT NOT NULL,
    outcome TEXT NOT NULL,
    profile TEXT NOT NULL,
    created REAL NOT NULL,
    state TEXT NOT NULL,
    entry TEXT NOT NULL,
    words TEXT NOT NULL
);
CREATE INDEX entries_by_outcome ON entries (outcome, number);
CREATE INDEX entries_by_profile ON entries (profile, number);
CREATE INDEX entries_by_time ON entries (created);
"""
WORDS = """
CREATE VIRTUAL TABLE IF NOT EXISTS word_index USING fts5(words, tokenize='unicode61 remove_diacritics 2')
"""
MAX_INDEXED_CHARACTERS = 50_000
"""Searchable characters per document."""
TITLE_CHARACTERS = 200
THUMBNAILS = 4
DELETED = "deleted"
"""The outcome of documents that can still be restored. Searches leave them out unless asked for them."""
_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|[\U00020000-\U0003ffff])"
)
"""Characters of scripts without spaces between words. Each is indexed as a word."""
_WORD = re.compile(r"\w+")


class Entry(Value):
    """A document in the gallery."""

    id: str
    status: str
    title: str
    created_at: float
    finished_at: float | None = None
    profile: str
    steps: int = 0
    pictures: int = 0
    forced: int = 0
    seconds: float | None = None
    cost: float | None = None
    cover: str | None = None
    """The name of its cover image."""
    shown: tuple[str, ...] = ()
    """The names of its first images."""
    alt: str = ""
    parent: str | None = None
    branch_step: int | None = None
    error: str | None = None


@dataclass(frozen=True)
class Search:
    """A search; `None` and empty fields match anything."""

    words: str = ""
    profile: str | None = None
    outcome: str | None = None
    since: float | None = None
    until: float | None = None
    newest_first: bool = True


@dataclass(frozen=True)
class Found:
    """A page of results."""

    entries: list[Entry]
    total: int
    next: int | None
    """The start of the next page."""


def state_of(job: Job) -> str:
    """Return the state that an entry was made from. A job that has changed has another state."""
    edits = [job.edits] if job.edits else []
    return json.dumps([job.status, job.finished, len(job.ends), *edits])


def outcome_of(job: Job, record: RunRecord | None, *, deleted: bool = False) -> str:
    if deleted:
        return DELETED
    if job.status in OPEN:
        return "open"
    return "forced" if job.status == "completed" and record and record.forced_steps else job.status


def entry_of(job: Job, record: RunRecord | None, profile: str) -> Entry:
    """Return the entry of a document."""
    shown = [step for step in runs.as_shown(record).steps if step.record.attempt] if record else []
    names = [step.record.attempt.image for step in shown if step.record.attempt]
    branched = record.parent.step if record and record.parent else None
    new = [each.record.attempt for each in shown if each.record.plan.number == branched]
    covers = [attempt.image for attempt in new if attempt] or names[-1:]  # a branch: what is new in it
    title = next((line for part in job.parts if part.text and (line := one_line(part.text))), "")
    return Entry(
        id=job.id,
        status=job.status,
        title=one_line(record.title if record else title, TITLE_CHARACTERS),
        created_at=job.created,
        finished_at=job.finished,
        profile=profile,
        steps=len(record.steps) if record else 0,
        pictures=len(runs.image_names(record)) if record else 0,
        forced=len(record.forced_steps) if record else 0,
        seconds=record.seconds if record else None,
        cost=record.cost if record else None,
        cover=covers[0] if covers else None,
        shown=tuple(names[:THUMBNAILS]),
        alt=one_line(shown[0].alt, 300) if shown else "",
        parent=job.parent,
        branch_step=branched,
        error=one_line(job.error.message, 300) if job.error else None,
    )


def words_of(job: Job, record: RunRecord | None) -> str:
    """Return a document's searchable words: its request, texts and prompts."""
    texts = [part.text or "" for part in job.parts]
    for shown in runs.as_shown(record).steps if record and record.words else ():
        texts += [record.title if record else "", shown.name, shown.text]
    for step in record.steps if record else ():
        texts += [step.plan.name or "", step.plan.text, step.plan.prompt or ""]
    return "\n".join(dict.fromkeys(filter(None, texts)))[:MAX_INDEXED_CHARACTERS]


class Catalogue:
    """The index on disk. Without SQLite's full-text module, words are searched one by one."""

    def __init__(self, folder: Path) -> None:
        self.database = Database(folder / FILE_NAME, (SCHEMA + subjects.SCHEMA,), version=VERSION)
        self.subjects = subjects.Subjects(self.database)
        self.has_word_index: bool | None = None

    @classmethod
    def opened(cls, folder: Path) -> Catalogue:
        """Open the catalogue of a folder. An unreadable one, or one of another version, is rebuilt."""
        try:
            return cls(folder)
        except (ConfigurationError, RunError) as error:
            log.warning("rebuilding the catalogue: %s", error)
        for file in folder.glob(f"{FILE_NAME}*"):
            file.unlink(missing_ok=True)
        return cls(folder)

    def close(self) -> None:
        self.database.close()

    async def put(self, entries: Sequence[tuple[Job, Entry, str, str]]) -> None:
        """Store entries, each with its outcome and words, replacing older ones of the same jobs."""
        if not entries:
            return

        def work(connection: SqlConnection) -> None:
            indexed = self._word_index(connection)
            for job, entry, outcome, words in entries:
                row = (job.number, job.id, job.key, outcome, entry.profile, job.created, state_of(job))
                connection.execute(
                    "INSERT OR REPLACE INTO entries VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
                    (*row, entry.model_dump_json(), "" if indexed else _spaced(words).lower()),
                )
                if indexed:
                    connection.execute("DELETE FROM word_index WHERE rowid = ?", (job.number,))
                    values = (job.number, _spaced(words))
                    connection.execute("INSERT INTO word_index (rowid, words) VALUES (?, ?)", values)

        await self.database.run(work)

    async def remove(self, id_: str) -> None:
        def work(connection: SqlConnection) -> None:
            if self._word_index(connection):
                query = "DELETE FROM word_index WHERE rowid = (SELECT number FROM entries WHERE id = ?)"
                connection.execute(query, (id_,))
            connection.execute("DELETE FROM entries WHERE id = ?", (id_,))

        await self.database.run(work)
        await self.subjects.remove(id_)

    async def states(self) -> dict[str, str]:
        """Return the stored state of every job."""
        query = "SELECT id, state FROM entries"
        return await self.database.run(lambda connection: dict(map(tuple, connection.execute(query))))

    async def states_of(self, ids: Sequence[str]) -> dict[str, str]:
        """Return the stored states of these jobs."""
        query = f"SELECT id, state FROM entries WHERE id IN ({', '.join('?' * len(ids))})"
        return await self.database.run(lambda connection: dict(map(tuple, connection.execute(query, ids))))

    async def search(self, key: str | None, search: Search, *, limit: int, start: int | None = None) -> Found:
        """Return a page of a key's documents, or of all keys, from `start`."""

        def work(connection: SqlConnection) -> Found:
            where, values = self._conditions(connection, key, search)
            total = connection.execute(f"SELECT count(*) FROM entries WHERE {where}", values).fetchone()[0]
            if start is not None:
                where, values = (
                    f"{where} AND number {'<=' if search.newest_first else '>='} ?",
                    [*values, start],
                )
            order = "DESC" if search.newest_first else "ASC"
            query = f"SELECT number, entry FROM entries WHERE {where} ORDER BY number {order} LIMIT ?"
            rows = list(connection.execute(query, (*values, limit + 1)))
            entries = [Entry.model_validate_json(row["entry"]) for row in rows[:limit]]
            return Found(entries, total, rows[limit]["number"] if len(rows) > limit else None)

        return await self.database.run(work)

    async def entries(self, ids: Sequence[str]) -> dict[str, Entry]:
        """Return the entries of these jobs."""
        query = f"SELECT id, entry FROM entries WHERE id IN ({', '.join('?' * len(ids))})"

        def work(connection: SqlConnection) -> dict[str, Entry]:
            rows = connection.execute(query, ids)
            return {row["id"]: Entry.model_validate_json(row["entry"]) for row in rows}

        return await self.database.run(work)

    async def counts(self, key: str | None) -> tuple[list[str], dict[str, int]]:
        """Return the profiles in use, and the number of documents by outcome."""
        where, values = ("key = ?", (key,)) if key is not None else ("1", ())

        def work(connection: SqlConnection) -> tuple[list[str], dict[str, int]]:
            profiles = connection.execute(f"SELECT DISTINCT profile FROM entries WHERE {where}", values)
            query = f"SELECT outcome, count(*) FROM entries WHERE {where} GROUP BY outcome"
            names = sorted(row[0] for row in profiles)
            return names, dict(map(tuple, connection.execute(query, values)))

        return await self.database.run(work)

    def _conditions(
        self, connection: SqlConnection, key: str | None, search: Search
    ) -> tuple[str, list[Any]]:
        given: list[tuple[str, Any]] = [
            ("key = ?", key),
            ("profile = ?", search.profile),
            ("outcome = ?", search.outcome),
            ("created >= ?", search.since),
            ("created < ?", search.until),
            ("outcome != ?", DELETED if search.outcome is None else None),
        ]
        chosen = [(condition, value) for condition, value in given if value is not None]
        words = _WORD.findall(_spaced(search.words))
        if words and self._word_index(connection):
            chosen.append(
                ("number IN (SELECT rowid FROM word_index WHERE word_index MATCH ?)", _query(search.words))
            )
        else:
            chosen += [("instr(words, ?) > 0", word.lower()) for word in words]
        conditions, values = [each for each, _ in chosen], [value for _, value in chosen]
        return " AND ".join(conditions or ["1"]), values

    def _word_index(self, connection: SqlConnection) -> bool:
        """Return whether this SQLite has the full-text module, creating the index on first use."""
        if self.has_word_index is None:
            query = "SELECT 1 FROM pragma_module_list WHERE name = 'fts5'"
            self.has_word_index = connection.execute(query).fetchone() is not None
            if self.has_word_index:
                connection.execute(WORDS)
        return self.has_word_index


def _spaced(text: str) -> str:
    return _UNSPACED.sub(r" \1 ", text)


def _query(text: str) -> str:
    """Convert typed words to a query: all of them, in any order; the last may be a prefix.

    Adjacent characters of a script without spaces are searched as a phrase.
    """
    groups = [_WORD.findall(_spaced(group)) for group in text.split()]
    phrases = [f'"{" ".join(words)}"' for words in groups if words]
    return " ".join(phrases) + ("*" if text[-1:].isalnum() else "")

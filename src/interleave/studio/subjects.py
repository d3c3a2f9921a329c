"""Items to judge: the attempts and documents of a service, in tables of the catalogue.

The place of each item depends only on its id. In this order neighbours are unrelated, so a rater does not see
that an image was redrawn. The order is the same for every rater and after every restart.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from interleave import RunRecord
from interleave.bench.labels import CriticVerdict, Kind, Subject
from interleave.plugin import Value, runs
from interleave.service.documents.database import Database, SqlConnection
from interleave.service.documents.jobs import Job
from interleave.service.documents.response_json import images_before

SCHEMA = """
CREATE TABLE documents (
    number INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, key TEXT NOT NULL, request TEXT NOT NULL,
    parent TEXT, place INTEGER NOT NULL, steps TEXT
);
CREATE INDEX documents_by_request ON documents (request, key, number);
CREATE INDEX documents_by_parent ON documents (parent);
CREATE INDEX documents_by_place ON documents (place) WHERE steps IS NOT NULL;
CREATE TABLE attempts (
    document INTEGER NOT NULL, step INTEGER NOT NULL, attempt INTEGER NOT NULL, place INTEGER NOT NULL,
    shown INTEGER NOT NULL, picture TEXT NOT NULL, facts TEXT NOT NULL,
    PRIMARY KEY (document, step, attempt)
) WITHOUT ROWID;
CREATE INDEX attempts_by_place ON attempts (place)
"""
PLACES = 2**60
Task = Literal["accept", "better", "score", "document_score", "wrong_step"]
"""A rater's task: attempts, pairs of attempts, or documents."""
KIND_OF: dict[Task, Kind] = {
    "accept": Kind.ACCEPT,
    "better": Kind.BETTER,
    "score": Kind.SCORE,
    "document_score": Kind.SCORE,
    "wrong_step": Kind.WRONG_STEP,
}


class AttemptFacts(Value):
    """An attempt as a rater sees it, without critic and models."""

    picture: str
    before: str | None
    prompt: str
    """The planned prompt, which all attempts of a step share."""
    text: str


class StepFacts(Value):
    """A step of a document that is judged as a whole."""

    number: int
    text: str
    picture: str | None


@dataclass(frozen=True)
class Found:
    """An attempt, the second of a pair, or the steps of a document."""

    first: Subject
    second: Subject | None
    facts: AttemptFacts | None
    second_facts: AttemptFacts | None
    steps: tuple[StepFacts, ...]


@dataclass(frozen=True)
class Page:
    """The next items to judge."""

    items: list[Found]
    next: int | None
    """The start of the next page; `None` on the last."""
    total: int | None = None
    left: int | None = None
    """Numbers of all items, and of those not done; only on the first page."""


def unit_of(first: Subject, second: Subject | None = None) -> str:
    """Return the name of an item. A pair has the same name in either order."""
    names = [_name(each) for each in (first, second) if each is not None]
    return " ".join(sorted(names))


def _name(subject: Subject) -> str:
    return "#".join(str(each) for each in (subject.run, subject.step, subject.attempt) if each is not None)


def place_of(name: str) -> int:
    return int.from_bytes(hashlib.sha256(name.encode("utf-8", "backslashreplace")).digest()[:8]) % PLACES


def request_digest(job: Job) -> str:
    """Return a digest that is equal for requests with the same texts and images."""
    parts = [[part.text, part.image] for part in job.parts]
    parts += [[asset.name, asset.kind, asset.description, asset.image] for asset in job.assets]
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()


def verdict_of(attempt: runs.AttemptRecord) -> CriticVerdict | None:
    """Return the critic's verdict for a label; `None` if there is no readable one."""
    verdict = attempt.verdict
    if verdict is None or verdict.outcome.value == "unreadable":
        return None
    return CriticVerdict(accepted=verdict.accepted, confidence=verdict.confidence)


def aim_of(step: runs.StepRecord, attempt: runs.AttemptRecord) -> str:
    """Return what an attempt should show."""
    return attempt.aim or step.plan.prompt or ""


class Subjects:
    """The tables, in the catalogue's database."""

    def __init__(self, database: Database) -> None:
        self.database = database

    async def put(self, documents: Sequence[tuple[Job, RunRecord | None]]) -> None:
        """Store the items of these documents, replacing earlier ones."""

        def work(connection: SqlConnection) -> None:
            for job, record in documents:
                _remove(connection, job.id)
                ended = record if job.is_final and not job.waits_for_person else None
                steps = json.dumps([each.model_dump() for each in _steps(ended)]) if ended else None
                has_images = ended is not None and any(step.attempt for step in ended.steps)
                values = (job.number, job.id, job.key, request_digest(job), job.parent, place_of(job.id))
                row = (*values, steps if has_images else None)
                connection.execute("INSERT INTO documents VALUES (?, ?, ?, ?, ?, ?, ?)", row)
                for attempt in _attempts(job, ended) if ended else ():
                    connection.execute("INSERT INTO attempts VALUES (?, ?, ?, ?, ?, ?, ?)", attempt)

        if documents:
            await self.database.run(work)

    async def remove(self, id_: str) -> None:
        await self.database.run(lambda connection: _remove(connection, id_))

    async def page(
        self,
        task: Task,
        key: str | None,
        done: Collection[str],
        *,
        runs: Sequence[str] = (),
        start: int | None = None,
        limit: int = 50,
    ) -> Page:
        """Return the next items of a key, or of all keys, that are not done; only of `runs` if given."""

        def work(connection: SqlConnection) -> Page:
            chosen: list[tuple[int, Subject, Subject | None]] = []
            total = left = 0
            for place, first, second in _rows(connection, task, key, runs, start or 0):
                total += 1
                if unit_of(first, second) in done:
                    continue
                left += 1
                if len(chosen) <= limit:
                    chosen.append((place, first, second))
                elif start is not None:  # only the first page has totals
                    break
            items = [_found(connection, first, second) for _, first, second in chosen[:limit]]
            following = chosen[limit][0] if len(chosen) > limit else None
            return Page(items, following, *((total, left) if start is None else ()))

        return await self.database.run(work)

    async def one(self, key: str | None, first: Subject, second: Subject | None) -> Found | None:
        """Return one item; `None` if it does not exist or the key may not see it."""

        def work(connection: SqlConnection) -> Found | None:
            try:
                for each in (first, second):
                    query = "SELECT key FROM documents WHERE id = ?"
                    row = connection.execute(query, (each.run,)).fetchone() if each else None
                    if each is not None and (row is None or key not in (None, row["key"])):
                        return None
                return _found(connection, first, second)
            except LookupError:
                return None

        return await self.database.run(work)

    async def related(self, key: str | None, id_: str, limit: int) -> list[tuple[str, str]]:
        """Return the ids of this document's parent, its branches, and documents of the same request."""
        query = """
            SELECT other.id AS id, CASE
                WHEN other.id = own.parent THEN 'parent' WHEN other.parent = own.id THEN 'branch'
                WHEN other.parent = own.parent THEN 'sibling' ELSE 'same_request' END AS relation
            FROM documents own JOIN documents other ON other.id = own.parent
                OR other.parent IN (own.id, own.parent) OR other.request = own.request
            WHERE own.id = ? AND other.number != own.number AND (? IS NULL OR other.key = ?)
            ORDER BY relation = 'same_request', other.number DESC LIMIT ?"""

        def work(connection: SqlConnection) -> list[tuple[str, str]]:
            rows = connection.execute(query, (id_, key, key, limit))
            return [(row["id"], row["relation"]) for row in rows]

        return await self.database.run(work)


def _remove(connection: SqlConnection, id_: str) -> None:
    connection.execute(
        "DELETE FROM attempts WHERE document = (SELECT number FROM documents WHERE id = ?)", (id_,)
    )
    connection.execute("DELETE FROM documents WHERE id = ?", (id_,))


def _steps(record: RunRecord) -> list[StepFacts]:
    return [
        StepFacts(
            number=step.plan.number,
            text=step.plan.text,
            picture=step.attempt.image if step.attempt else None,
        )
        for step in record.steps
    ]


def _attempts(job: Job, record: RunRecord) -> Iterator[tuple[Any, ...]]:
    for step, before in zip(record.steps, images_before(record), strict=True):
        number = step.plan.number
        for attempt in step.attempts:
            subject = Subject(run=job.id, step=number, attempt=attempt.number)
            facts = AttemptFacts(
                picture=attempt.image,
                before=attempt.sources[-1] if attempt.sources else before,
                prompt=aim_of(step, attempt),
                text=step.plan.text,
            )
            place, is_shown = place_of(unit_of(subject)), int(attempt.number == step.shown)
            own = (job.number, number, attempt.number, place, is_shown)
            yield (*own, attempt.image, facts.model_dump_json())


def _rows(
    connection: SqlConnection, task: Task, key: str | None, runs: Sequence[str], start: int
) -> Iterator[tuple[int, Subject, Subject | None]]:
    """Return all items of a task from a place on, in the order of places."""
    seen, values = _visible(key, runs)
    if task == "better":
        for row in connection.execute(_PAIRS.format(seen=seen), (*values, *values, PLACES, start)):
            first = Subject.model_construct(run=row["run"], step=row["step"], attempt=row["attempt"])
            second = Subject.model_construct(run=row["other"], step=row["step"], attempt=row["second"])
            yield row["place"], first, second
        return
    query = _ATTEMPTS if task in ("accept", "score") else _DOCUMENTS
    for row in connection.execute(query.format(seen=seen), (*values, start)):
        yield (
            row["place"],
            Subject.model_construct(run=row["run"], step=row["step"], attempt=row["attempt"]),
            None,
        )


def _visible(key: str | None, runs: Sequence[str]) -> tuple[str, list[Any]]:
    given = [("d.key = ?", [key])] if key is not None else []
    if runs:
        given.append((f"d.id IN ({', '.join('?' * len(runs))})", list(runs)))
    conditions = [each for each, _ in given]
    return " AND ".join(conditions or ["1"]), [value for _, values in given for value in values]


_ATTEMPTS = """
SELECT a.place AS place, d.id AS run, a.step AS step, a.attempt AS attempt
FROM attempts a CROSS JOIN documents d ON d.number = a.document
WHERE {seen} AND a.place >= ? ORDER BY a.place
"""
_DOCUMENTS = """
SELECT d.place AS place, d.id AS run, NULL AS step, NULL AS attempt
FROM documents d WHERE {seen} AND d.steps IS NOT NULL AND d.place >= ? ORDER BY d.place
"""
_PAIRS = """
WITH following AS (
    SELECT d.number AS number, lead(d.number, 1) OVER same AS one, lead(d.number, 2) OVER same AS two
    FROM documents d WHERE {seen} AND d.steps IS NOT NULL
    WINDOW same AS (PARTITION BY d.request, d.key ORDER BY d.number)
), pairs AS (
    SELECT a.document AS x, a.step AS step, a.attempt AS x_attempt, a.place AS x_place,
        b.document AS y, b.attempt AS y_attempt, b.place AS y_place
    FROM documents d JOIN attempts a ON a.document = d.number
    JOIN attempts b ON b.document = a.document AND b.step = a.step AND b.attempt = a.attempt + 1
    WHERE {seen} AND a.picture != b.picture
    UNION ALL
    SELECT a.document, a.step, a.attempt, a.place, b.document, b.attempt, b.place
    FROM following f JOIN attempts a ON a.document = f.number AND a.shown
    JOIN attempts b ON b.document IN (f.one, f.two) AND b.step = a.step AND b.shown
    WHERE a.picture != b.picture
), placed AS (
    SELECT *, (x_place + y_place) % ? AS place, x_place < y_place AS kept FROM pairs
)
SELECT p.place AS place, step, iif(kept, dx.id, dy.id) AS run, iif(kept, x_attempt, y_attempt) AS attempt,
    iif(kept, dy.id, dx.id) AS other, iif(kept, y_attempt, x_attempt) AS second
FROM placed p JOIN documents dx ON dx.number = x JOIN documents dy ON dy.number = y
WHERE p.place >= ? ORDER BY p.place
"""
"""Consecutive attempts of a step, and the same step of documents of one request. The places decide which of
the two is first."""


def _found(connection: SqlConnection, first: Subject, second: Subject | None) -> Found:
    if first.step is None:
        row = connection.execute("SELECT steps FROM documents WHERE id = ?", (first.run,)).fetchone()
        if row is None or row["steps"] is None:
            raise LookupError(first.run)
        steps = tuple(StepFacts.model_validate(each) for each in json.loads(row["steps"]))
        return Found(first, None, None, None, steps)
    facts = _facts(connection, first)
    return Found(first, second, facts, _facts(connection, second) if second else None, ())


def _facts(connection: SqlConnection, subject: Subject) -> AttemptFacts:
    query = """SELECT a.facts AS facts FROM attempts a JOIN documents d ON d.number = a.document
        WHERE d.id = ? AND a.step = ? AND a.attempt = ?"""
    row = connection.execute(query, (subject.run, subject.step, subject.attempt)).fetchone()
    if row is None:
        raise LookupError(subject.run)
    return AttemptFacts.model_validate_json(row["facts"])

"""The routes of labels: items to judge, stored labels, rater agreement, import and export as JSONL."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from starlette.responses import Response

from interleave import RunRecord
from interleave.bench.labels import Kind, Label, Subject
from interleave.bench.rater_agreement import METRICS, label_agreement
from interleave.plugin import first_problem, runs
from interleave.service.documents.keys import Caller
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.response_json import image_url, thumbnail_url
from interleave.service.documents.routes import caller_of, read_value, value_json
from interleave.service.documents.service import Documents
from interleave.service.http.middleware import LEASE
from interleave.studio import label_schemas as wire
from interleave.studio.indexing import Indexing
from interleave.studio.label_store import Choice, LabelStore, Rater
from interleave.studio.subjects import (
    KIND_OF,
    AttemptFacts,
    Found,
    Task,
    aim_of,
    unit_of,
    verdict_of,
)

if TYPE_CHECKING:
    from starlette.requests import Request

Body = TypeVar("Body", bound=BaseModel)
TASKS: tuple[Task, ...] = get_args(Task)
PAGE, MOST = 50, 200
MAX_LINES = 200_000
MAX_GUEST_LABELS = 5_000
PARSING_COPIES = 10
"""Memory for the labels of a file, as a multiple of its size."""
MEDIA_TYPE = "application/jsonl"


class JudgingRoutes:
    """The handlers."""

    def __init__(self, documents: Documents, indexing: Indexing) -> None:
        self.documents = documents
        self.indexing = indexing
        self._store: LabelStore | None = None
        self._opening = asyncio.Lock()
        documents.closing.append(self._close)

    async def store(self) -> LabelStore:
        self.documents.refuse_when_draining()
        async with self._opening:
            if self._store is None:
                self._store = await asyncio.to_thread(LabelStore, self.documents.folders.root)
        return self._store

    async def _store_for(self, caller: Caller) -> LabelStore:
        """Return the store for writing. Guests have a limit, so that they cannot fill the disk."""
        store = await self.store()
        if caller.is_guest and await store.rows(caller.key) >= MAX_GUEST_LABELS:
            message = f"a guest may store at most {MAX_GUEST_LABELS:,} labels"
            raise ApiRefusal(message, status=429, code="too_many_labels")
        return store

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()

    # Items to judge

    async def items(self, request: Request) -> Response:
        """`GET /v1/studio/judging/{task}`: the next items, or the one named by `unit`."""
        caller, given = caller_of(request, "read"), request.query_params
        task, rater = _task(request.path_params["task"]), _rater(caller, given.get("rater"))
        runs = await self._runs(caller, given.get("runs"))
        catalogue, store = await self.indexing.catalogue(), await self.store()
        start = _number(given.get("cursor"), "cursor", 2**62)
        if "unit" in given:
            first, second = subjects_in(given["unit"], task)
            found = await catalogue.subjects.one(caller.sees, first, second)
            page, following, total, left = [found] if found else [], None, None, None
        else:
            if start is None:
                await self.indexing.refresh_newest()
            done = await store.units(rater, KIND_OF[task])
            limit = _number(given.get("limit"), "limit", MOST) or PAGE
            read = await catalogue.subjects.page(task, caller.sees, done, runs=runs, start=start, limit=limit)
            page, following, total, left = read.items, read.next, read.total, read.left
        titles = await catalogue.entries([each.first.run for each in page])
        answer = wire.JudgeItems(
            data=[_item(each, titles[each.first.run].title) for each in page if each.first.run in titles],
            cursor=None if following is None else str(following),
            total=total,
            left=left,
            complete=self.indexing.is_complete,
        )
        return value_json(answer)

    # Stored labels

    async def add(self, request: Request) -> Response:
        """`POST /v1/studio/labels`."""
        caller = caller_of(request, "submit")
        body = await read_value(request, wire.NewLabels)
        rater, store = Rater(caller.key, body.rater), await self._store_for(caller)
        named = {each.run for new in body.labels for each in (new, new.other) if each is not None}
        revealed = await store.revealed(rater, sorted(named))
        labels = [await self._label(caller, body.rater, new, revealed) for new in body.labels]
        stored = await store.put(caller.key, labels)
        return value_json(wire.StoredLabels(stored=stored, known=len(labels) - stored))

    async def _label(self, caller: Caller, rater: str, new: wire.NewLabel, revealed: set[str]) -> Label:
        """Build a label with its run's facts about the attempt. Raises if the attempt does not exist."""
        step, attempt = await self._found(caller, new)
        if new.other is not None:
            await self._found(caller, new.other)
        is_blind = new.blind and not {new.run, new.other.run if new.other else new.run} & revealed
        facts: dict[str, Any] = {}
        if step is not None and attempt is not None:
            critic, prompt = verdict_of(attempt), aim_of(step, attempt)
            facts = {"critic": critic, "prompt": prompt, "picture": attempt.image.removesuffix(".png")}
        given = new.model_dump() | {"rater": rater, "at": self._now(), "blind": is_blind}
        try:
            label = Label.model_validate(given | facts)
        except ValidationError as error:
            raise ApiRefusal(first_problem(error), parameter="labels") from None
        if label.kind is Kind.WRONG_STEP and label.value:
            number = int(label.value)
            await self._found(caller, Subject(run=label.run, step=max(1, number)))
        return label

    async def _found(
        self, caller: Caller, subject: Subject | wire.NewLabel
    ) -> tuple[runs.StepRecord | None, runs.AttemptRecord | None]:
        """Return the step and attempt. Raises if they do not exist or the caller may not see them."""
        job = await self.documents.get(caller, subject.run)
        if subject.step is None:
            return None, None
        record = await self.documents.in_thread(self.documents.record, job)
        step = _step(record, subject.step)
        if subject.attempt is None:
            return step, None
        attempt = next((each for each in step.attempts if each.number == subject.attempt), None)
        if attempt is None:
            raise ApiRefusal(
                f"step {subject.step} has no attempt {subject.attempt}", status=404, code="not_found"
            )
        return step, attempt

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self.documents.clock(), UTC)

    async def undo(self, request: Request) -> Response:
        """`POST /v1/studio/labels/undo`: remove a rater's last labels."""
        caller = caller_of(request, "submit")
        body = await read_value(request, wire.Undo)
        undone = await (await self.store()).undo(Rater(caller.key, body.rater), body.kind)
        return value_json(wire.UndoneLabels(units=[unit_of(each.subject, each.other) for each in undone]))

    async def reveal(self, request: Request) -> Response:
        """`POST /v1/studio/labels/reveal`: mark later labels by this rater as not blind."""
        caller = caller_of(request, "submit")
        body = await read_value(request, wire.Reveal)
        for run in body.runs:
            await self.documents.get(caller, run)
        await (await self._store_for(caller)).reveal(Rater(caller.key, body.rater), body.runs)
        return Response(status_code=204)

    async def listing(self, request: Request) -> Response:
        """`GET /v1/studio/labels`: the labels of a rater, newest first."""
        caller, given = caller_of(request, "read"), request.query_params
        rater = _rater(caller, given.get("rater"))
        choice = Choice(rater.key, rater.name, _kind(given.get("kind")), _ids(given.get("runs")))
        limit = _number(given.get("limit"), "limit", 1000) or PAGE
        before = _number(given.get("cursor"), "cursor", 2**62)
        rows, total = await (await self.store()).newest(choice, limit=limit, before=before)
        data = [_run_label(number, label) for number, label in rows]
        cursor = str(data[-1].number) if len(data) == limit else None
        return value_json(wire.RunLabels(data=data, total=total, cursor=cursor))

    async def agreement(self, request: Request) -> Response:
        """`GET /v1/studio/agreement`: of all raters whose labels the caller may see."""
        caller = caller_of(request, "read")
        store, choice = await self.store(), Choice(caller.sees)
        labels, counts = await store.labels(choice), await store.raters(choice)
        data = await self.documents.in_thread(lambda: [_agreement(kind, labels, counts) for kind in Kind])
        return value_json(wire.AgreementFacts(data=data))

    # Import and export

    async def export(self, request: Request) -> Response:
        """`GET /v1/studio/labels/export`: a file of labels, of all keys if the caller may see them."""
        caller, given = caller_of(request, "read"), request.query_params
        choice = Choice(caller.sees, given.get("rater") or None, _kind(given.get("kind")))
        data = await (await self.store()).lines(choice)
        request.scope[LEASE].keep(len(data))
        headers = {"content-disposition": 'attachment; filename="labels.jsonl"'}
        return Response(data, headers=headers, media_type=MEDIA_TYPE)

    async def take_in(self, request: Request) -> Response:
        """`POST /v1/studio/labels/import`: store all labels of a file, or none."""
        caller = caller_of(request, "submit")
        if caller.is_guest:
            raise ApiRefusal("guests cannot import labels", status=403, code="not_for_guests")
        body = bytearray()
        async for piece in request.stream():
            body += piece
        ends_at = asyncio.get_running_loop().time() + 60
        await request.scope[LEASE].reserve(PARSING_COPIES * len(body), ends_at)
        labels = await self.documents.in_thread(labels_in, bytes(body))
        stored = await (await self.store()).take_in(caller.key, labels)
        return value_json(wire.StoredLabels(stored=stored, known=len(labels) - stored))

    async def _runs(self, caller: Caller, text: str | None) -> list[str]:
        """Return the named documents. Raises if the caller may not see one."""
        runs = _ids(text)
        for run in runs:
            await self.documents.get(caller, run)
        return runs


def labels_in(data: bytes) -> list[Label]:
    """Parse the labels of a file. Raises with the number of the first malformed line."""
    labels = []
    lines = data.split(b"\n")
    if len(lines) > MAX_LINES:
        raise ApiRefusal(f"a file may have at most {MAX_LINES:,} labels", status=413)
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            label = Label.model_validate_json(line)
            wire.NewLabels.model_validate({"rater": label.rater, "labels": [_ANY]})
        except ValidationError as error:
            message = f"line {number} is not a label ({first_problem(error)}): nothing was imported"
            raise ApiRefusal(message, parameter="labels") from None
        labels.append(label)
    if not labels:
        raise ApiRefusal("the file has no labels: write one JSON object per line", parameter="labels")
    return labels


_ANY = {"kind": "wrong_step", "run": "-", "value": 0}


def subjects_in(unit: str, task: Task) -> tuple[Subject, Subject | None]:
    """Parse the name of an item to judge."""
    try:
        found = [_subject(name) for name in unit.split(" ")]
        if len(found) != (2 if task == "better" else 1):
            raise ValueError
    except ValueError:
        raise ApiRefusal("unit must be the name of an item to judge", parameter="unit") from None
    return found[0], found[1] if len(found) > 1 else None


def _subject(name: str) -> Subject:
    run, *numbers = name.split("#")
    step, attempt = (*(int(each[:9]) for each in numbers), None, None)[:2]
    return Subject(run=run, step=step, attempt=attempt)


def _item(found: Found, title: str) -> wire.JudgeItem:
    run = found.first.run
    return wire.JudgeItem(
        unit=unit_of(found.first, found.second),
        run=run,
        title=title,
        first=_image(found.first, found.facts),
        second=_image(found.second, found.second_facts),
        steps=[
            wire.JudgedStep(
                number=step.number,
                text=step.text,
                picture=image_url(run, step.picture) if step.picture else None,
            )
            for step in found.steps
        ],
    )


def _image(subject: Subject | None, facts: AttemptFacts | None) -> wire.JudgedImage | None:
    if subject is None or facts is None:
        return None
    return wire.JudgedImage(
        run=subject.run,
        step=subject.step or 0,
        attempt=subject.attempt or 0,
        picture=image_url(subject.run, facts.picture),
        before=image_url(subject.run, facts.before) if facts.before else None,
        prompt=facts.prompt,
        text=facts.text,
    )


def _run_label(number: int, label: Label) -> wire.RunLabel:
    shared = label.model_dump(include={"kind", "rater", "run", "step", "attempt", "other", "value", "blind"})
    thumbnail = thumbnail_url(label.run, label.picture) if label.picture else None
    return wire.RunLabel(number=number, at=label.at.isoformat(), thumbnail=thumbnail, **shared)


def _agreement(
    kind: Kind, labels: Sequence[Label], counts: Sequence[tuple[str, Kind, int]]
) -> wire.KindAgreement:
    found = label_agreement(labels, kind)
    raters = [wire.RaterCount(rater=rater, labels=number) for rater, of, number in counts if of is kind]
    return wire.KindAgreement(
        kind=kind,
        level=METRICS[kind],
        labels=sum(each.labels for each in raters),
        raters=raters,
        units=found.units,
        alpha=found.alpha,
        low=found.low,
        high=found.high,
    )


def _step(record: RunRecord | None, number: int) -> runs.StepRecord:
    steps = record.steps if record else ()
    step = next((each for each in steps if each.plan.number == number), None)
    if step is None:
        raise ApiRefusal(f"the document has no step {number}", status=404, code="not_found")
    return step


def _task(name: str) -> Task:
    if name not in TASKS:
        raise ApiRefusal(f"no task {name[:40]!r}: tasks are {', '.join(TASKS)}", status=404)
    return name


def _rater(caller: Caller, name: str | None) -> Rater:
    chosen = (name or caller.name).strip()
    if not chosen or len(chosen) > 60:
        raise ApiRefusal("rater must be a name of 1 to 60 characters", parameter="rater")
    return Rater(caller.key, chosen)


def _kind(name: str | None) -> Kind | None:
    if not name:
        return None
    if name not in set(Kind):
        raise ApiRefusal(f"kind must be one of {', '.join(Kind)}", parameter="kind")
    return Kind(name)


def _ids(text: str | None) -> list[str]:
    ids = list(dict.fromkeys(each for each in (text or "").split(",") if each))
    if len(ids) > wire.MAX_RUNS:
        raise ApiRefusal(f"at most {wire.MAX_RUNS} documents can be named", parameter="runs")
    return ids


def _number(text: str | None, name: str, most: int) -> int | None:
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or not int(text[:19]) <= most:
        raise ApiRefusal(f"{name} must be a number up to {most}", parameter=name)
    return int(text)

"""The routes of labels: items to judge, stored labels, rater agreement, import and export as JSONL."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Any, get_args

from fastapi import Depends, Query
from pydantic import ValidationError
from starlette.responses import Response

from interleave import RunRecord
from interleave.bench.labels import Kind, Label, Subject
from interleave.bench.rater_agreement import METRICS, label_agreement
from interleave.plugin import first_problem, runs
from interleave.service.documents.bodies import described_body, json_body
from interleave.service.documents.keys import Caller
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.response_json import image_url, thumbnail_url
from interleave.service.documents.routes import (
    BLANK,
    ReadCall,
    Router,
    SubmitCall,
    per_service,
    sending,
    value_json,
)
from interleave.service.documents.service import Documents
from interleave.studio import label_schemas as wire
from interleave.studio.indexing import OwnIndexing
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

TASKS: tuple[Task, ...] = get_args(Task)
PAGE, MOST = 50, 200
MAX_LINES = 200_000
MAX_GUEST_LABELS = 5_000
PARSING_COPIES = 10
"""Memory for the labels of a file, as a multiple of its size."""
MEDIA_TYPE = "application/jsonl"
router = Router(prefix="/v1/studio")


class Labels:
    """The labels of a service, opened on first use."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self._store: LabelStore | None = None
        self._opening = asyncio.Lock()
        documents.closing.append(self._close)

    async def store(self) -> LabelStore:
        self.documents.refuse_when_draining()
        async with self._opening:
            if self._store is None:
                self._store = await asyncio.to_thread(LabelStore, self.documents.folders.root)
        return self._store

    async def store_for(self, caller: Caller) -> LabelStore:
        """Return the store for writing. Guests have a limit, so that they cannot fill the disk."""
        store = await self.store()
        if caller.is_guest and await store.rows(caller.key) >= MAX_GUEST_LABELS:
            message = f"a guest may store at most {MAX_GUEST_LABELS:,} labels"
            raise ApiRefusal(message, status=429, code="too_many_labels")
        return store

    def _close(self) -> None:
        if self._store is not None:
            self._store.close()

    async def label(self, caller: Caller, rater: str, new: wire.NewLabel, revealed: set[str]) -> Label:
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


OwnLabels = Annotated[Labels, Depends(per_service(Labels))]
KindFilter = Annotated[Kind | None, BLANK]
Cursor = Annotated[int | None, BLANK, Query(ge=0, le=2**62)]


async def _rater(call: ReadCall, rater: str | None = None) -> Rater:
    chosen = (rater or call.caller.name).strip()
    if not chosen or len(chosen) > 60:
        raise ApiRefusal("rater must be a name of 1 to 60 characters", parameter="rater")
    return Rater(call.caller.key, chosen)


OwnRater = Annotated[Rater, Depends(_rater)]


@router.get("/judging/{task}", response_model=wire.JudgeItems)
async def items(
    call: ReadCall,
    indexing: OwnIndexing,
    labels: OwnLabels,
    rater: OwnRater,
    task: str,
    runs: str = "",
    unit: str | None = None,
    limit: Annotated[int, Query(ge=1, le=MOST)] = PAGE,
    cursor: Cursor = None,
) -> Response:
    """Items that a rater has not judged, or the one named by `unit`."""
    judged, named = _task(task), _ids(runs)
    for run in named:  # refuse those that the caller may not see
        await call.documents.get(call.caller, run)
    catalogue, store = await indexing.catalogue(), await labels.store()
    if unit is not None:
        first, second = subjects_in(unit, judged)
        found = await catalogue.subjects.one(call.caller.sees, first, second)
        page, following, total, left = [found] if found else [], None, None, None
    else:
        if cursor is None:
            await indexing.refresh_newest()
        done = await store.units(rater, KIND_OF[judged])
        read = await catalogue.subjects.page(
            judged, call.caller.sees, done, runs=named, start=cursor, limit=limit
        )
        page, following, total, left = read.items, read.next, read.total, read.left
    titles = await catalogue.entries([each.first.run for each in page])
    answer = wire.JudgeItems(
        data=[_item(each, titles[each.first.run].title) for each in page if each.first.run in titles],
        cursor=None if following is None else str(following),
        total=total,
        left=left,
        complete=indexing.is_complete,
    )
    return value_json(answer)


@router.post("/labels", response_model=wire.StoredLabels)
async def add(
    call: SubmitCall, labels: OwnLabels, body: Annotated[wire.NewLabels, json_body(wire.NewLabels)]
) -> Response:
    """Store labels."""
    caller = call.caller
    rater, store = Rater(caller.key, body.rater), await labels.store_for(caller)
    named = {each.run for new in body.labels for each in (new, new.other) if each is not None}
    revealed = await store.revealed(rater, sorted(named))
    new = [await labels.label(caller, body.rater, each, revealed) for each in body.labels]
    stored = await store.put(caller.key, new)
    return value_json(wire.StoredLabels(stored=stored, known=len(new) - stored))


@router.post("/labels/undo", response_model=wire.UndoneLabels)
async def undo(
    call: SubmitCall, labels: OwnLabels, body: Annotated[wire.Undo, json_body(wire.Undo)]
) -> Response:
    """Undo a rater's last labels."""
    undone = await (await labels.store()).undo(Rater(call.caller.key, body.rater), body.kind)
    return value_json(wire.UndoneLabels(units=[unit_of(each.subject, each.other) for each in undone]))


@router.post("/labels/reveal", status_code=204)
async def reveal(
    call: SubmitCall,
    labels: OwnLabels,
    body: Annotated[wire.Reveal, json_body(wire.Reveal)],
) -> Response:
    """Record that a rater knows the systems behind these documents: later labels are not blind."""
    for run in body.runs:
        await call.documents.get(call.caller, run)
    await (await labels.store_for(call.caller)).reveal(Rater(call.caller.key, body.rater), body.runs)
    return Response(status_code=204)


@router.get("/labels", response_model=wire.RunLabels)
async def listing(
    labels: OwnLabels,
    rater: OwnRater,
    kind: KindFilter = None,
    runs: str = "",
    limit: Annotated[int, Query(ge=1, le=1000)] = PAGE,
    cursor: Cursor = None,
) -> Response:
    """Labels of a rater, newest first."""
    choice = Choice(rater.key, rater.name, kind, _ids(runs))
    rows, total = await (await labels.store()).newest(choice, limit=limit, before=cursor)
    data = [_run_label(number, label) for number, label in rows]
    following = str(data[-1].number) if len(data) == limit else None
    return value_json(wire.RunLabels(data=data, total=total, cursor=following))


@router.get("/agreement", response_model=wire.AgreementFacts)
async def agreement(call: ReadCall, labels: OwnLabels) -> Response:
    """Agreement of all raters whose labels the caller may see."""
    store, choice = await labels.store(), Choice(call.caller.sees)
    found, counts = await store.labels(choice), await store.raters(choice)
    data = await call.documents.in_thread(lambda: [_agreement(kind, found, counts) for kind in Kind])
    return value_json(wire.AgreementFacts(data=data))


@router.get("/labels/export", response_class=sending(MEDIA_TYPE))
async def export(
    call: ReadCall, labels: OwnLabels, rater: str | None = None, kind: KindFilter = None
) -> Response:
    """Export labels, of all keys if the caller may see them."""
    data = await (await labels.store()).lines(Choice(call.caller.sees, rater or None, kind))
    call.lease.keep(len(data))
    headers = {"content-disposition": 'attachment; filename="labels.jsonl"'}
    return Response(data, headers=headers, media_type=MEDIA_TYPE)


@router.post("/labels/import", response_model=wire.StoredLabels)
async def take_in(
    call: SubmitCall,
    labels: OwnLabels,
    file: Annotated[None, described_body(str, media_type=MEDIA_TYPE)],
) -> Response:
    """Import all labels of a file, or none."""
    if call.caller.is_guest:
        raise ApiRefusal("guests cannot import labels", status=403, code="not_for_guests")
    body = bytearray()
    async for piece in call.request.stream():
        body += piece
    await call.lease.reserve(PARSING_COPIES * len(body), asyncio.get_running_loop().time() + 60)
    new = await call.documents.in_thread(labels_in, bytes(body))
    stored = await (await labels.store()).take_in(call.caller.key, new)
    return value_json(wire.StoredLabels(stored=stored, known=len(new) - stored))


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


def _ids(text: str) -> list[str]:
    ids = list(dict.fromkeys(each for each in text.split(",") if each))
    if len(ids) > wire.MAX_RUNS:
        raise ApiRefusal(f"at most {wire.MAX_RUNS} documents can be named", parameter="runs")
    return ids

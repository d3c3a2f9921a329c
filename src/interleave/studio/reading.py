"""Documents for readers: the stories that come with the studio, and documents that their owner shares.

Readers see a title, texts and images; no prompts, attempts, verdicts or settings.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Annotated

from fastapi import Depends
from starlette.responses import Response

from interleave import InterleaveError, RunError, RunRecord, read_record
from interleave.plugin import ImageStore, runs, write_atomic
from interleave.service.documents.document_routes import IMAGE_POLICY, IMMUTABLE, SeenJob
from interleave.service.documents.jobs import is_job_id
from interleave.service.documents.refusals import ApiRefusal, unknown
from interleave.service.documents.routes import (
    OPEN,
    Call,
    ReadCall,
    Router,
    SubmitCall,
    per_service,
    sending,
    value_json,
)
from interleave.service.documents.service import Documents
from interleave.studio.adoption import OwnAdoption
from interleave.studio.schemas import Owned, Reading, ReadingStep, Share, Stories, Story
from interleave.studio.trash import Trash

STORIES = Path(__file__).parent / "stories"
NAMES = ("frog", "birthday", "rabbit", "moon", "candle", "hen")
PREFIX = "/v1/studio/stories"
SHARED = "/v1/shared"
SHARES = "shares"
"""Folder of a service with a file for each shared document, named by the secret of its link."""
_TOKEN = re.compile(r"[0-9a-f]{32}\Z")
router = Router()


@cache
def story_record(name: str) -> RunRecord:
    """Return a story that comes with the studio."""
    return read_record(STORIES / name)


def reading_of(record: RunRecord, store: ImageStore, address: Callable[[str], str]) -> Reading:
    """Return what readers see of a run."""
    shown = runs.as_shown(record)
    steps = []
    for step in shown.steps:
        image = step.record.attempt.image if step.record.attempt else None
        width, height = _size(store, image) if image else (0, 0)
        steps.append(
            ReadingStep(
                number=step.number,
                name=step.name,
                text=step.text,
                picture=address(image) if image else None,
                alt=step.alt,
                width=width,
                height=height,
            )
        )
    request = "\n".join(part.text for part in record.request if part.text)
    return Reading(title=shown.title, request=request, notes=list(record.notes), steps=steps)


def _size(store: ImageStore, name: str) -> tuple[int, int]:
    try:
        return store.get(name).size
    except RunError:
        return 0, 0


@router.get(PREFIX, response_model=Stories)
async def stories(call: ReadCall) -> Response:
    """Finished documents that come with the studio."""
    return value_json(await call.documents.in_thread(_all))


@cache
def _all() -> Stories:
    return Stories(data=[_story(name) for name in NAMES if (STORIES / name).is_dir()])


def _story(name: str) -> Story:
    reading = _reading(name)
    last = reading.steps[-1]
    return Story(
        name=name, title=reading.title, steps=len(reading.steps), cover=last.picture or "", alt=last.alt
    )


@cache
def _reading(name: str) -> Reading:
    store = ImageStore(STORIES / name)
    return reading_of(story_record(name), store, lambda image: f"{PREFIX}/{name}/images/{image}")


@router.get(f"{PREFIX}/{{name}}", response_model=Reading)
async def story(call: ReadCall, name: str) -> Response:
    """A document that comes with the studio."""
    return value_json(await call.documents.in_thread(_reading, _known(name)))


@router.get(f"{PREFIX}/{{name}}/images/{{image}}", response_class=sending("image/png"))
async def story_image(call: ReadCall, name: str, image: str) -> Response:
    """An image of such a document."""
    if image not in runs.image_names(story_record(_known(name))):
        raise unknown("image", image)
    return _png(await call.documents.in_thread(ImageStore(STORIES / name).read, image))


@router.post(f"{PREFIX}/{{name}}/own", response_model=Owned)
async def own(call: SubmitCall, adoption: OwnAdoption, name: str) -> Response:
    """Copy such a document into the library of the caller, to change it."""
    caller, documents = call.caller, call.documents
    documents.refuse_when_draining()
    record = story_record(_known(name))
    await documents.jobs.check(documents.admission(caller))
    job = await adoption.adopt(STORIES / name, record, key=caller.key)
    return value_json(Owned(id=job.id))


def _known(name: str) -> str:
    if name not in NAMES:
        raise unknown("story", name)
    return name


class Shares:
    """Links with which anybody may read a document, until its owner ends them."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self.folder = documents.folders.root / SHARES
        self.trash = Trash(documents.folders.root)

    def token_of(self, job: str) -> str | None:
        """Return the link's secret of a document, if it is shared."""
        if not self.folder.is_dir():
            return None
        return next((path.name for path in self.folder.iterdir() if self.job_of(path.name) == job), None)

    def job_of(self, token: str) -> str | None:
        if not _TOKEN.match(token):
            return None
        try:
            job = (self.folder / token).read_text("ascii")
        except (OSError, UnicodeDecodeError):
            return None
        return job if is_job_id(job) else None

    def share(self, job: str) -> str:
        if (token := self.token_of(job)) is not None:
            return token
        self.folder.mkdir(mode=0o700, exist_ok=True)
        token = secrets.token_hex(16)
        write_atomic(self.folder / token, job.encode(), private=True)
        return token

    def end(self, job: str) -> None:
        while (token := self.token_of(job)) is not None:
            (self.folder / token).unlink(missing_ok=True)


OwnShares = Annotated[Shares, Depends(per_service(Shares))]


@router.get("/v1/studio/documents/{id}/share", response_model=Share)
async def shared_as(call: ReadCall, shares: OwnShares, job: SeenJob) -> Response:
    """The link with which others may read a document; null if it is not shared."""
    return value_json(Share(token=await call.documents.in_thread(shares.token_of, job.id)))


@router.post("/v1/studio/documents/{id}/share", response_model=Share)
async def share(call: SubmitCall, shares: OwnShares, job: SeenJob) -> Response:
    """Let everybody with the link read a document."""
    return value_json(Share(token=await call.documents.in_thread(shares.share, job.id)))


@router.delete("/v1/studio/documents/{id}/share", response_model=Share)
async def unshare(call: SubmitCall, shares: OwnShares, job: SeenJob) -> Response:
    """End the link."""
    await call.documents.in_thread(shares.end, job.id)
    return value_json(Share(token=None))


@router.get(f"{SHARED}/{{token}}", response_model=Reading, openapi_extra=OPEN)
async def shared(call: Call, shares: OwnShares, token: str) -> Response:
    """A shared document, for everybody with its link."""
    id_, record = await _shared(call.documents, shares, token)
    store = call.documents.folders.images(id_)
    reading = await call.documents.in_thread(
        reading_of, record, store, lambda image: f"{SHARED}/{token}/images/{image}"
    )
    return Response(
        reading.model_dump_json().encode(),
        media_type="application/json",
        headers={"cache-control": "no-store", "referrer-policy": "no-referrer", "x-robots-tag": "noindex"},
    )


@router.get(f"{SHARED}/{{token}}/images/{{image}}", response_class=sending("image/png"), openapi_extra=OPEN)
async def shared_image(call: Call, shares: OwnShares, token: str, image: str) -> Response:
    """An image that a shared document shows."""
    id_, record = await _shared(call.documents, shares, token)
    if image not in {
        step.record.attempt.image for step in runs.as_shown(record).steps if step.record.attempt
    }:
        raise unknown("image", image)
    try:
        data = await call.documents.in_thread(call.documents.folders.images(id_).read, image)
    except RunError:
        raise unknown("image", image) from None
    call.lease.keep(len(data))
    return _png(data)


async def _shared(documents: Documents, shares: Shares, token: str) -> tuple[str, RunRecord]:
    id_ = await documents.in_thread(shares.job_of, token)
    deleted = id_ is not None and await documents.in_thread(shares.trash.has, id_)
    job = await documents.jobs.get(id_) if id_ and not deleted else None
    try:
        record = await documents.in_thread(documents.record, job) if job else None
    except InterleaveError:
        record = None
    if job is None or record is None:
        raise ApiRefusal("this document is not shared, or no longer", status=404, code="not_found")
    return job.id, record


def _png(data: bytes) -> Response:
    headers = {
        "cache-control": IMMUTABLE,
        "content-security-policy": IMAGE_POLICY,
        "cross-origin-resource-policy": "same-origin",
    }
    return Response(data, headers=headers, media_type="image/png")

"""The gallery: documents by words, profile, outcome and date, in pages; and thumbnails."""

from __future__ import annotations

import asyncio
import re
from calendar import timegm
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal

from fastapi import Depends, Query
from pydantic import AfterValidator
from starlette.responses import Response

from interleave import RunError
from interleave.plugin import runs
from interleave.service.documents.document_routes import IMAGE_POLICY, IMMUTABLE, SeenJob
from interleave.service.documents.refusals import ApiRefusal, unknown
from interleave.service.documents.response_json import thumbnail_url
from interleave.service.documents.routes import (
    BLANK,
    Call,
    ReadCall,
    Router,
    per_service,
    sending,
    value_json,
)
from interleave.service.documents.service import Documents
from interleave.service.http.memory import MemoryLease
from interleave.studio.adoption import OwnAdoption
from interleave.studio.catalogue import Entry, Search
from interleave.studio.indexing import OwnIndexing
from interleave.studio.label_schemas import Related, RelatedItem
from interleave.studio.schemas import Gallery, GalleryItem, Outcome
from interleave.studio.thumbnails import SIDES, Thumbnails, image_name

PAGE, MOST = 60, 200
MAX_RELATED = 50
MAX_WORDS = 200
MAX_CONCURRENT_THUMBNAILS = 2
DAY = 86400
IMAGE_COPIES = 4
"""Bytes per pixel while a thumbnail is made."""
_SECONDS = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?\Z")
router = Router()


class ThumbnailMaker:
    """The thumbnails of a service, made within the memory budget."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self.thumbnails = Thumbnails(documents.folders)
        self._making = asyncio.Semaphore(MAX_CONCURRENT_THUMBNAILS)

    async def kept(self, job: str, image: str, side: int) -> bytes | None:
        return await self.documents.in_thread(self.thumbnails.kept, job, image, side)

    async def made(self, lease: MemoryLease, job: str, image: str, side: int) -> bytes:
        pixels = await self.documents.in_thread(self.thumbnails.pixels, job, image)
        await lease.reserve(IMAGE_COPIES * pixels, asyncio.get_running_loop().time() + 60)
        try:
            async with self._making:
                return await self.documents.in_thread(self.thumbnails.made, job, image, side)
        except RunError:
            raise unknown("picture", image) from None


async def _search(
    q: str = "",
    profile: str | None = None,
    outcome: Annotated[Outcome | None, BLANK] = None,
    since: str | None = None,
    until: str | None = None,
    order: Literal["newest", "oldest"] = "newest",
) -> Search:
    return Search(
        words=q[:MAX_WORDS],
        profile=profile or None,
        outcome=outcome,
        since=_time(since, "since", days_after=0),
        until=_time(until, "until", days_after=1),
        newest_first=order == "newest",
    )


@router.get("/v1/studio/documents", response_model=Gallery)
async def listing(
    call: ReadCall,
    indexing: OwnIndexing,
    adoption: OwnAdoption,
    search: Annotated[Search, Depends(_search)],
    limit: Annotated[int, Query(ge=1, le=MOST)] = PAGE,
    cursor: Annotated[int | None, BLANK, Query(ge=0, lt=10**18)] = None,
) -> Response:
    """Search the gallery."""
    catalogue = await indexing.catalogue()
    if cursor is None:
        await adoption.look()
        await indexing.refresh_newest()
    found = await catalogue.search(call.caller.sees, search, limit=limit, start=cursor)
    parents = await catalogue.entries([entry.parent for entry in found.entries if entry.parent])
    page = Gallery(
        data=[item_of(entry, parents) for entry in found.entries],
        total=found.total,
        cursor=None if found.next is None else str(found.next),
        complete=indexing.is_complete,
    )
    if cursor is None:
        profiles, outcomes = await catalogue.counts(call.caller.sees)
        page = page.model_copy(update={"profiles": profiles, "outcomes": outcomes})
    return value_json(page)


@router.get("/v1/studio/documents/{id}/related", response_model=Related)
async def related(call: Call, indexing: OwnIndexing, job: SeenJob) -> Response:
    """Documents to compare this one with: its parent, its branches, and others of the same request."""
    catalogue = await indexing.catalogue()
    await indexing.refresh_newest()
    found = await catalogue.subjects.related(call.caller.sees, job.id, MAX_RELATED)
    entries = await catalogue.entries([id_ for id_, _ in found])
    items = [
        RelatedItem.model_validate({"relation": relation, "document": item_of(entries[id_])})
        for id_, relation in found
        if id_ in entries
    ]
    return value_json(Related(data=items))


def _known_side(side: int) -> int:
    if side not in SIDES:
        raise ValueError(f"must be one of {', '.join(map(str, SIDES))}")
    return side


@router.get("/v1/documents/{id}/thumbnails/{name}", response_class=sending("image/webp"))
async def thumbnail(
    call: Call,
    maker: Annotated[ThumbnailMaker, Depends(per_service(ThumbnailMaker))],
    job: SeenJob,
    name: str,
    side: Annotated[int, AfterValidator(_known_side), Query(json_schema_extra={"enum": list(SIDES)})] = SIDES[
        1
    ],
) -> Response:
    """A thumbnail of an image."""
    image = image_name(name)
    if image is None:
        raise unknown("picture", name)
    data = await maker.kept(job.id, image, side)
    if data is None:
        record = await call.documents.in_thread(call.documents.record, job)
        if record is None or image not in runs.image_names(record):
            raise unknown("picture", name)
        data = await maker.made(call.lease, job.id, image, side)
    call.lease.keep(len(data))
    headers = {
        "cache-control": IMMUTABLE,
        "etag": f'"{name.removesuffix(".webp")}-{side}"',
        "content-security-policy": IMAGE_POLICY,
        "cross-origin-resource-policy": "same-origin",
    }
    return Response(data, headers=headers, media_type="image/webp")


def item_of(entry: Entry, parents: Mapping[str, Entry] | None = None) -> GalleryItem:
    parent = (parents or {}).get(entry.parent or "")
    return GalleryItem.model_validate(
        {
            **entry.model_dump(exclude={"shown", "cover"}),
            "parent_title": parent.title if parent else None,
            "created_at": int(entry.created_at),
            "finished_at": None if entry.finished_at is None else int(entry.finished_at),
            "cover": thumbnail_url(entry.id, entry.cover) if entry.cover else None,
            "thumbnails": [thumbnail_url(entry.id, name) for name in entry.shown],
        }
    )


def _time(text: str | None, name: str, *, days_after: int) -> float | None:
    """Parse seconds since 1970, or a day in UTC. `last` takes the end of the day."""
    if not text:
        return None
    if _SECONDS.match(text):
        return float(text)
    try:
        day = datetime.strptime(text, "%Y-%m-%d").replace(tzinfo=UTC)
    except ValueError:
        raise ApiRefusal(f"{name} must be a day such as 2026-11-01, or seconds", parameter=name) from None
    return float(timegm(day.timetuple()) + days_after * DAY)

"""The gallery: documents by words, profile, outcome and date, in pages; and thumbnails."""

from __future__ import annotations

import asyncio
import re
from calendar import timegm
from datetime import UTC, datetime
from typing import TYPE_CHECKING, get_args

from starlette.responses import Response

from interleave import RunError
from interleave.plugin import runs
from interleave.service.documents.document_routes import IMMUTABLE
from interleave.service.documents.refusals import ApiRefusal, unknown
from interleave.service.documents.response_json import thumbnail_url
from interleave.service.documents.routes import caller_of, number_in, value_json
from interleave.service.documents.service import Documents
from interleave.service.http.middleware import LEASE
from interleave.studio.catalogue import Entry, Search
from interleave.studio.indexing import Indexing
from interleave.studio.label_schemas import Related, RelatedItem
from interleave.studio.schemas import Gallery, GalleryItem, Outcome
from interleave.studio.thumbnails import SIDES, Thumbnails, image_name

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request

PAGE, MOST = 60, 200
MAX_RELATED = 50
MAX_WORDS = 200
MAX_CONCURRENT_THUMBNAILS = 2
DAY = 86400
IMAGE_COPIES = 4
"""Bytes per pixel while a thumbnail is made."""
_CURSOR = re.compile(r"[0-9]{1,18}\Z")
_SECONDS = re.compile(r"[0-9]{1,12}(\.[0-9]{1,6})?\Z")


class GalleryRoutes:
    """The handlers of the gallery."""

    def __init__(self, documents: Documents, indexing: Indexing) -> None:
        self.documents = documents
        self.indexing = indexing
        self.thumbnails = Thumbnails(documents.folders)
        self._making = asyncio.Semaphore(MAX_CONCURRENT_THUMBNAILS)

    async def listing(self, request: Request) -> Response:
        """`GET /v1/studio/documents`."""
        caller, given = caller_of(request, "read"), request.query_params
        search, start = search_in(given), _cursor(given.get("cursor"))
        limit = number_in(request, "limit", PAGE, MOST)
        catalogue = await self.indexing.catalogue()
        if start is None:
            await self.indexing.refresh_newest()
        found = await catalogue.search(caller.sees, search, limit=limit, start=start)
        page = Gallery(
            data=[item_of(entry) for entry in found.entries],
            total=found.total,
            cursor=None if found.next is None else str(found.next),
            complete=self.indexing.is_complete,
        )
        if start is None:
            profiles, outcomes = await catalogue.counts(caller.sees)
            page = page.model_copy(update={"profiles": profiles, "outcomes": outcomes})
        return value_json(page)

    async def related(self, request: Request) -> Response:
        """`GET /v1/studio/documents/{id}/related`: documents to compare this one with.

        Returns its parent, its branches, and others of the same request.
        """
        caller = caller_of(request)
        job = await self.documents.get(caller, request.path_params["id"])
        catalogue = await self.indexing.catalogue()
        await self.indexing.refresh_newest()
        found = await catalogue.subjects.related(caller.sees, job.id, MAX_RELATED)
        entries = await catalogue.entries([id_ for id_, _ in found])
        items = [
            RelatedItem.model_validate({"relation": relation, "document": item_of(entries[id_])})
            for id_, relation in found
            if id_ in entries
        ]
        return value_json(Related(data=items))

    async def thumbnail(self, request: Request) -> Response:
        """Return a small copy of a job's image."""
        job = await self.documents.get(caller_of(request), request.path_params["id"])
        side, name = _side(request.query_params.get("side")), request.path_params["name"]
        image = image_name(name)
        if image is None:
            raise unknown("picture", name)
        data = await self.documents.in_thread(self.thumbnails.kept, job.id, image, side)
        if data is None:
            record = await self.documents.in_thread(self.documents.record, job)
            if record is None or image not in runs.image_names(record):
                raise unknown("picture", name)
            data = await self._made(request, job.id, image, side)
        request.scope[LEASE].keep(len(data))
        headers = {
            "cache-control": IMMUTABLE,
            "etag": f'"{name.removesuffix(".webp")}-{side}"',
            "content-security-policy": "default-src 'none'; sandbox",
        }
        return Response(data, headers=headers, media_type="image/webp")

    async def _made(self, request: Request, job: str, image: str, side: int) -> bytes:
        pixels = await self.documents.in_thread(self.thumbnails.pixels, job, image)
        ends_at = asyncio.get_running_loop().time() + 60
        await request.scope[LEASE].reserve(IMAGE_COPIES * pixels, ends_at)
        try:
            async with self._making:
                return await self.documents.in_thread(self.thumbnails.made, job, image, side)
        except RunError:
            raise unknown("picture", image) from None


def item_of(entry: Entry) -> GalleryItem:
    return GalleryItem.model_validate(
        {
            **entry.model_dump(exclude={"shown", "cover"}),
            "created_at": int(entry.created_at),
            "finished_at": None if entry.finished_at is None else int(entry.finished_at),
            "cover": thumbnail_url(entry.id, entry.cover) if entry.cover else None,
            "thumbnails": [thumbnail_url(entry.id, name) for name in entry.shown],
        }
    )


def search_in(given: Mapping[str, str]) -> Search:
    """Parse the search of a query string. Raises if a parameter is invalid."""
    outcome, order = given.get("outcome") or None, given.get("order", "newest")
    if outcome is not None and outcome not in get_args(Outcome):
        raise ApiRefusal(f"outcome must be one of {', '.join(get_args(Outcome))}", parameter="outcome")
    if order not in ("newest", "oldest"):
        raise ApiRefusal("order must be newest or oldest", parameter="order")
    return Search(
        words=given.get("q", "")[:MAX_WORDS],
        profile=given.get("profile") or None,
        outcome=outcome,
        since=_time(given.get("since"), "since", days_after=0),
        until=_time(given.get("until"), "until", days_after=1),
        newest_first=order == "newest",
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


def _cursor(text: str | None) -> int | None:
    if not text:
        return None
    if not _CURSOR.match(text):
        raise ApiRefusal("cursor must come from the previous page", parameter="cursor")
    return int(text)


def _side(text: str | None) -> int:
    if text is None:
        return SIDES[1]
    if text not in map(str, SIDES):
        raise ApiRefusal(f"side must be one of {', '.join(map(str, SIDES))}", parameter="side")
    return int(text)

"""`GET /v1/responses/{id}/input_items`: the request of a job, one item for each of its parts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from interleave.plugin import journal
from interleave.service.documents.jobs import Job
from interleave.service.documents.refusals import ApiRefusal, unknown
from interleave.service.documents.stored_images import StoredPicture

MOST_ITEMS = 100


def input_items(job: Job, parts: tuple[journal.RequestPart, ...], asked: Mapping[str, str]) -> dict[str, Any]:
    """A page of the items, with pictures as data: URLs; `asked` are the parameters of the query."""
    items = [_item(job, number, part) for number, part in enumerate(parts)]
    order = asked.get("order", "desc")
    if order not in ("asc", "desc"):
        raise ApiRefusal("order must be asc or desc", parameter="order")
    if order == "desc":
        items.reverse()
    if (after := asked.get("after")) is not None:
        place = next((place for place, item in enumerate(items) if item["id"] == after), None)
        if place is None:
            raise unknown("item", after)
        items = items[place + 1 :]
    limit = _limit(asked.get("limit", "20"))
    page = items[:limit]
    return {
        "object": "list",
        "data": page,
        "first_id": page[0]["id"] if page else None,
        "last_id": page[-1]["id"] if page else None,
        "has_more": len(items) > limit,
    }


def _item(job: Job, number: int, part: journal.RequestPart) -> dict[str, Any]:
    content: dict[str, Any] = {"type": "input_text", "text": part.text or ""}
    if part.image:
        url = StoredPicture(part.image, prefix="data:image/png;base64,")
        content = {"type": "input_image", "detail": "auto", "image_url": url, "file_id": None}
    return {
        "id": f"msg_{job.id.removeprefix('resp_')}_input_{number}",
        "type": "message",
        "role": "user",
        "status": "completed",
        "content": [content],
    }


def _limit(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MOST_ITEMS:
        raise ApiRefusal(f"limit must be a number from 1 to {MOST_ITEMS}", parameter="limit")
    return int(text)

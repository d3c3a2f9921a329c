"""Texts and images of a document in order, from the items of its response or from their events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

from interleave.plugin import one_line
from interleave.service.documents.events import Event
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.response_json import ASKED_REASON
from interleave.service.documents.stored_images import StoredImage
from interleave.service.documents.submissions import OWN_FIELD

ShownPart = str | StoredImage
MAX_MESSAGE = 2000
ENDS = ("response.completed", "response.failed", "response.incomplete")


def parts_of(items: Iterable[Mapping[str, Any]]) -> list[ShownPart]:
    """Return the texts and images of output items, without images that could not be generated."""
    return [part for item in items if (part := _part(item)) is not None]


def _part(item: Mapping[str, Any]) -> ShownPart | None:
    if item["type"] == "message":
        return str(item["content"][0]["text"])
    image = item["result"]
    return image if isinstance(image, StoredImage) else None


class PartsInOrder:
    """Reordering of events into parts: each part is returned once, when it and all before it are final."""

    def __init__(self) -> None:
        self._done: dict[int, ShownPart | None] = {}
        self._given = 0

    def add(self, event: Event) -> list[ShownPart]:
        if event["type"] != "response.output_item.done":
            return []
        index = event["output_index"]
        if index >= self._given:
            self._done[index] = _part(event["item"])
        return self._ready()

    def _ready(self) -> list[ShownPart]:
        ready = []
        while self._given in self._done:
            part = self._done.pop(self._given)
            self._given += 1
            if part is not None:
                ready.append(part)
        return ready


@dataclass(frozen=True)
class Ending:
    """End of a document."""

    response: Mapping[str, Any] | None
    """The final Response; `None` if the service stops or the document was deleted."""

    @property
    def failure(self) -> ApiRefusal | None:
        """The error if there is no document; `None` otherwise."""
        if self.response is None:
            return ApiRefusal(
                "the answer was interrupted: the service is stopping, or the document was deleted",
                status=503,
                code="interrupted",
            )
        return failure_of(self.response)


def failure_of(response: Mapping[str, Any]) -> ApiRefusal | None:
    """Return the error of a failed, cancelled or asked response; `None` otherwise."""
    if response["status"] == "cancelled":
        return ApiRefusal("the job was cancelled", status=409, code="cancelled")
    if response.get("incomplete_details") == {"reason": ASKED_REASON}:  # such clients cannot edit the plan
        question = one_line(response[OWN_FIELD].get("reason") or "", MAX_MESSAGE)
        return ApiRefusal(question, status=400, code="invalid_prompt")
    if response["status"] != "failed":
        return None
    error = response["error"] or {"code": "server_error", "message": "the run failed"}
    status = 400 if error["code"] == "invalid_prompt" else 500
    return ApiRefusal(one_line(error["message"], MAX_MESSAGE), status=status, code=error["code"])


async def shown_parts(
    events: AsyncGenerator[Event | None],
) -> AsyncGenerator[ShownPart | Ending | None]:
    """Yield the parts of a job as they become final, then its end; `None` is a heartbeat."""
    order = PartsInOrder()
    async with aclosing(events):
        async for event in events:
            if event is None:
                yield None
                continue
            for part in order.add(event):
                yield part
            if event["type"] in ENDS:
                yield Ending(event["response"])
                return
    yield Ending(None)

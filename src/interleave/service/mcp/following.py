"""Waits for documents, and reports their progress meanwhile."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

from interleave.service.mcp.api import OPEN, Api

Report = Callable[[float, float | None, str], Awaitable[None]]
"""Receives the progress, its total if it is known, and what happened."""
PAUSE_SECONDS = 0.1
SMALL_STEP = 0.05
"""Progress of an event that finishes no step."""


class Progress:
    """Fold of a document's events into one number that only grows."""

    def __init__(self, since: float) -> None:
        self.since = since
        """Time from which events are reported; earlier ones were before this call."""
        self.value = 0.0
        self.total: float | None = None

    def of(self, event: dict[str, Any]) -> str | None:
        """Return what an event says; `None` if it is not worth a message."""
        said, weight = _said(event)
        if plan := event.get("plan"):
            self.total = 1.0 + len(plan["steps"])
        if said is None or event.get("time", self.since) < self.since:
            return None
        self.value += weight
        if self.total is not None:
            self.value = min(self.value, self.total)
        return said


def _said(event: dict[str, Any]) -> tuple[str | None, float]:
    step = event.get("step")
    match event["type"]:
        case "planned":
            return f"planned {len(event['plan']['steps'])} steps", 1.0
        case "called" if event["role"] == "generator":
            return f"generating the image of step {step}, attempt {event['attempt']}", SMALL_STEP
        case "judged":
            outcome = (event.get("verdict") or {}).get("outcome", "unreadable")
            return f"the critic's verdict on step {step}: {outcome}", SMALL_STEP
        case "step_finished":
            return f"step {step} is finished", 1.0
    return None, 0.0


async def follow(api: Api, id_: str, seconds: float, report: Report) -> dict[str, Any]:
    """Wait up to `seconds` until a document is not being made, and return it."""
    ends_at = time.monotonic() + seconds
    progress, last = Progress(time.time() - 1), -1
    while True:
        document = await api.document(id_)
        left = ends_at - time.monotonic()
        if document["status"] not in OPEN or left <= 0:
            return document
        with anyio.move_on_after(left):
            async for event in api.events(id_, last):
                last = event["sequence_number"]
                if said := progress.of(event):
                    await report(round(progress.value, 2), progress.total, said)
            await anyio.sleep(PAUSE_SECONDS)  # between the end of its events and its final state

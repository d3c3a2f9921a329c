"""Model calls of a run: role, prompt, reply, duration and cost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Literal

from pydantic import Field

from interleave.plugin import Value, journal


class ModelCall(Value):
    """One model call, including its retries."""

    role: journal.Role
    call: int
    step: int
    attempt: int
    status: Literal["running", "done", "failed"]
    started_at: float
    seconds: float | None = None
    cost: float | None = None
    usage: dict[str, int] = Field(default_factory=dict)
    finish_reason: str | None = None
    text: str | None = None
    """Raw reply of the model."""
    prompt: str | None = None
    seed: int | None = None
    picture: str | None = None
    errors: list[str] = Field(default_factory=list)
    """Reason of each failed try."""


class ModelCalls(Value):
    """`GET /v1/documents/{id}/calls`."""

    object: Literal["list"] = "list"
    data: list[ModelCall]


def calls_in(entries: Iterable[journal.Entry], image_url: Callable[[str], str]) -> ModelCalls:
    """Return the calls of a journal, in the order of their first try."""
    calls: dict[tuple[str, int], dict[str, Any]] = {}
    for entry in entries:
        match entry:
            case journal.Called():
                place = {"step": entry.step, "attempt": entry.attempt, "started_at": entry.time, "errors": []}
                known = calls.setdefault((entry.role, entry.call), place)
                known["status"] = "running"
            case journal.CallFailed():
                known = calls[entry.role, entry.call]
                known["status"] = "failed"
                known["errors"].append(entry.error)
            case journal.Replied():
                calls[entry.role, entry.call] |= {
                    "status": "done",
                    **entry.model_dump(include={"text", "finish_reason", "usage", "cost", "seconds"}),
                }
            case journal.Planned():  # a computed agent writes no reply
                _end(calls, "planner", entry.time)
            case journal.Judged():
                _end(calls, "critic", entry.time)
            case journal.Drawn():
                calls[entry.role, entry.call] |= {
                    "status": "done",
                    "picture": image_url(entry.image),
                    **entry.model_dump(include={"prompt", "seed", "cost", "seconds"}),
                }
    made = [{"role": role, "call": call, **more} for (role, call), more in calls.items()]
    return ModelCalls.model_validate({"data": made})


def _end(calls: dict[tuple[str, int], dict[str, Any]], role: str, ended: float) -> None:
    """Mark the running calls of a role as done, because their result exists."""
    for (other, _), call in calls.items():
        if other == role and call["status"] == "running":
            call |= {"status": "done", "seconds": round(max(0.0, ended - call["started_at"]), 3)}

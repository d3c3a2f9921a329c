"""Types of the journal's events, for the API description: one per kind of line, and those of the job."""

from __future__ import annotations

import operator
from functools import reduce
from typing import Annotated, Any, Literal, get_args

from pydantic import Field, RootModel, create_model

from interleave.plugin import Value, journal
from interleave.service.documents.schemas import DocumentError

NOT_SENT = {"event", "fingerprint", "tokens"}
"""Fields of journal lines that only a replay needs."""
STATES = ("held", "asked", "completed", "incomplete", "failed", "cancelled")
LINES: tuple[type[journal.Line], ...] = get_args(get_args(journal.Entry)[0])


class Event(Value):
    """Fields of every event."""

    sequence_number: int


def _line_event(line: type[journal.Line]) -> type[Event]:
    """Return the event of a journal line."""
    fields: dict[str, Any] = {
        name: (field.annotation, field) for name, field in line.model_fields.items() if name not in NOT_SENT
    }
    if line is journal.Drawn:
        fields["picture"] = str
    return create_model(f"{line.__name__}Event", __base__=Event, type=line.__annotations__["event"], **fields)


def _job_event(state: str) -> type[Event]:
    fields: dict[str, Any] = {"type": Literal[f"job.{state}"]}
    if state != "queued":
        fields["error"] = DocumentError | None
    return create_model(f"Job{state.capitalize()}Event", __base__=Event, **fields)


EVENTS = [*map(_line_event, LINES), *map(_job_event, ("queued", *STATES))]
_ANY_EVENT: Any = reduce(operator.or_, EVENTS)


class JournalEvent(RootModel[Annotated[_ANY_EVENT, Field(discriminator="type")]]):
    """A line of a run's journal, or a state change of its job."""

"""Events of the pipeline as facts in the journal, each told once."""

from __future__ import annotations

from collections.abc import Iterable

from interleave import events
from interleave.errors import RunError
from interleave.runs import journal as lines
from interleave.runs.journal import Entry, Line

Key = tuple[str, int, int]


class Facts:
    """What a journal has been told already."""

    def __init__(self, entries: Iterable[Entry], *, redraw: bool = False) -> None:
        told = (
            entry for entry in entries if isinstance(entry, lines.Planned | lines.Judged | lines.StepFinished)
        )
        self._told: dict[Key, Line] = {_key(fact): fact for fact in told}
        self._redraw = redraw

    def news(self, event: events.Event) -> Line | None:
        """The line to journal for an event, if it is new; raises when it contradicts what was told."""
        fact = _fact_of(event)
        if fact is None:
            return None
        key = _key(fact)
        before = self._told.get(key)
        self._told[key] = fact
        if before is None or self._redraw:  # what follows from a redrawn picture is told again
            return fact
        if before.model_copy(update={"time": fact.time}) != fact:
            raise RunError(
                "this run was made by a version that works differently: continue it with that version, "
                "or start again in a new folder"
            )
        return None


def _fact_of(event: events.Event) -> Line | None:
    """The journal line for an event; a drawing is journalled with the call that made it."""
    match event:
        case events.Planned(plan=plan):
            return lines.Planned(plan=plan)
        case events.Judged(slot=slot, verdict=verdict):
            return lines.Judged(step=slot.step, attempt=slot.attempt, verdict=verdict)
        case events.StepFinished(step=step, attempt=attempt):
            return lines.StepFinished(
                step=step.number,
                attempt=attempt.number if attempt else None,
                accepted=attempt is None or attempt.verdict.accepted,
                forced=event.forced,
            )
    return None


def _key(fact: Line) -> Key:
    match fact:
        case lines.Judged(step=step, attempt=attempt):
            return ("judged", step, attempt)
        case lines.StepFinished(step=step):
            return ("step_finished", step, 0)
    return ("planned", 0, 0)

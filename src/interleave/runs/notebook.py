"""Documents that show themselves in a notebook while they are generated."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from interleave.errors import MissingDependency
from interleave.events import Drawn, Judged, Planned, StepFinished
from interleave.runs.notebook_html import CellStep, cell_html
from interleave.runs.run import Event, RunResult
from interleave.text import one_line

REASON_CHARACTERS = 200


async def show(events: AsyncGenerator[Event]) -> RunResult:
    """Show a document in the output of a notebook cell while it is generated, and return its result.

    `events` come from `stream` or `stream_resume`. Rejected images are shown with the critic's reason.
    A run that ends early returns its result too: look at `status` and `reason`.
    """
    handle, live = _new_output(), LiveDocument()
    async with aclosing(events):
        async for event in events:
            live.add(event)
            handle.update(live)
    if live.result is None:
        raise ValueError("events must come from stream or stream_resume, which end with a RunResult")
    return live.result


def _new_output() -> Any:
    try:
        from IPython.display import display
    except ImportError:
        raise MissingDependency(
            "interleave.show needs a notebook: install it with pip install jupyterlab, or read the events "
            "with 'async for'"
        ) from None
    return display(LiveDocument(), display_id=True)  # type: ignore[no-untyped-call, unused-ignore]


class LiveDocument:
    """A document as far as its events go."""

    def __init__(self) -> None:
        self.steps: dict[int, CellStep] = {}
        self.result: RunResult | None = None

    def add(self, event: Event) -> None:
        match event:
            case Planned():
                for step in event.plan.steps:
                    waiting = "" if step.prompt is None else "waiting for its image"
                    known = CellStep(step.name or "", step.text, note=waiting)
                    self.steps.setdefault(step.number, known)
            case Drawn():
                self._change(event.slot.step, image=event.image, note="the critic looks at this image")
            case Judged():
                reason = one_line(event.verdict.reasoning, REASON_CHARACTERS)
                self._change(event.slot.step, note=f"{event.verdict.outcome}: {reason}".rstrip(": "))
            case StepFinished():
                image = event.attempt.image if event.attempt else None
                self._change(event.step.number, image=image, note="not accepted" if event.forced else "")
            case RunResult():
                self.result = event

    def _change(self, number: int, **changes: Any) -> None:
        if number in self.steps:
            self.steps[number] = replace(self.steps[number], **changes)

    def _repr_html_(self) -> str:
        if self.result is not None:
            return self.result._repr_html_()
        return cell_html("", self.steps.values(), "" if self.steps else "planning")

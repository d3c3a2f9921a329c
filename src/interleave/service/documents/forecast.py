"""What a redraw of a step would do: the later steps it redraws, and how long that takes."""

from __future__ import annotations

from typing import NamedTuple

from interleave import RunRecord
from interleave.plugin import runs


class Forecast(NamedTuple):
    """The consequences of redrawing one step."""

    follows: tuple[int, ...]
    """Later steps whose images follow from it."""
    seconds: dict[int, float]
    """Time to redraw each of these steps and the step itself, from the attempts so far."""


def forecasts_of(record: RunRecord) -> dict[int, Forecast]:
    """Return what a redraw of each step with an image would do."""
    if record.plan is None:
        return {}
    from_scene = {step.plan.number for step in record.steps if step.anew}
    drawn = [step for step in record.steps if step.plan.prompt is not None]
    times = {step.plan.number: _seconds_of(step) for step in drawn}
    known = [each for each in times.values() if each is not None]
    usual = sum(known) / len(known) if known else 0.0
    found = {}
    for number in times:
        follows = runs.steps_that_follow(
            record.plan,
            record.config.sources,
            number,
            anchor_every=record.config.remedies.anchor_every,
            from_scene=from_scene - {number},
        )
        steps = (number, *sorted(follows))
        seconds = {each: round(usual if (own := times[each]) is None else own, 1) for each in steps}
        found[number] = Forecast(tuple(sorted(follows)), seconds)
    return found


def _seconds_of(step: runs.StepRecord) -> float | None:
    """Return the mean time of a take of this step; `None` if it was never drawn."""
    takes = {attempt.take for attempt in step.attempts}
    if not takes:
        return None
    return sum(attempt.draw_seconds + attempt.judge_seconds for attempt in step.attempts) / len(takes)

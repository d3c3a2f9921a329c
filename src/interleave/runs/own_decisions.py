"""What a run decides itself while its steps are drawn: to draw a step anew, or to go back.

Steps may finish in any order, but what is decided about one depends on what was decided about those before
it. So decisions are made in the order of the plan: a step about which something may be decided waits until
all steps before it are finished, and no later step of its line begins until then. A plan whose steps are
drawn at once therefore comes to the same end as one whose steps are drawn one after another.
"""

from __future__ import annotations

from collections.abc import Sequence

from interleave.config.run_config import Remedies
from interleave.runs.journal import Cause, Entry, Line, RedrawDecided, StepFinished, Undone
from interleave.runs.rollback import is_better, next_rollback
from interleave.runs.steering import Steering, steering_after
from interleave.sources import anchored_steps

DRIFT: Cause = "drift"


class OwnDecisions:
    """The decision that comes next in one pass over the plan, if there is one; then no step begins."""

    def __init__(self, remedies: Remedies) -> None:
        self._remedies = remedies
        self._finished: set[int] = set()
        self._open: dict[int, StepFinished] = {}
        """Steps about which something may be decided."""
        self.made: list[RedrawDecided | Undone] = []

    def may_begin(self, needed: frozenset[int]) -> bool:
        """Whether a step that needs these steps may begin."""
        return not self.made and not needed & self._open.keys()

    def take_in(self, line: Line | None, entries: Sequence[Entry]) -> None:
        """Note that a step is finished, and decide what can be decided now."""
        if not isinstance(line, StepFinished):
            return
        self._finished.add(line.step)
        if line.attempt is not None and (line.forced or moved_too_far(line, self._remedies)):
            self._open[line.step] = line
        while self._open and not self.made:
            steering = steering_after(entries)
            number = min(self._open)
            if not self._are_finished_before(number, steering):
                break
            decision = next_decision(entries, steering, self._open.pop(number))
            self.made += [] if decision is None else [decision]

    def _are_finished_before(self, number: int, steering: Steering) -> bool:
        steps = steering.plan.steps if steering.plan else ()
        return all(step.number in self._finished for step in steps if step.number < number)


def next_decision(
    entries: Sequence[Entry], steering: Steering, finished: StepFinished
) -> RedrawDecided | Undone | None:
    """What to decide about a step that was refused, or has moved too far; None where the run goes on."""
    remedies = steering.config.remedies
    moved = moved_too_far(finished, remedies)
    if can_be_drawn_anew(steering, finished.step):
        if decision := _from_the_scene(entries, steering, finished, moved=moved):
            return decision
        moved = False
    return (
        next_rollback(entries, steering, finished)
        if remedies.rollbacks and (finished.forced or moved)
        else None
    )


def moved_too_far(finished: StepFinished, remedies: Remedies) -> bool:
    """Whether what a step was not to change has changed by more than is allowed."""
    drift, limit = finished.drift, remedies.drift_limit
    return drift is not None and limit is not None and drift.outside > limit


def can_be_drawn_anew(steering: Steering, number: int) -> bool:
    """Whether a step says what its whole picture is to be, and is not drawn from that by the plan."""
    step = steering.planned(number)
    anchored = (
        anchored_steps(steering.plan, steering.config.remedies.anchor_every) if steering.plan else set()
    )
    return step.scene is not None and step.sources is None and number not in anchored


def _from_the_scene(
    entries: Sequence[Entry], steering: Steering, finished: StepFinished, *, moved: bool
) -> RedrawDecided | Undone | None:
    """To draw a step from its scene, once; or to undo that, where the critic likes it less."""
    own = [
        each
        for each in entries
        if isinstance(each, RedrawDecided) and each.cause == DRIFT and each.step == finished.step
    ]
    if not own and moved:
        seed = steering.seed_of(finished.step)
        return RedrawDecided(step=finished.step, seed=seed, anew=True, cause=DRIFT)
    last = steering.decisions[-1] if steering.decisions else None
    if own and last is own[-1] and finished.forced and not is_better(entries, last, finished):
        return Undone(cause=DRIFT)
    return None

"""Going back: where a step stays refused, the run returns to a good ancestor and tries another way.

A rollback is a decision in the journal like a person's, with a cause. What it replaces stays there: where the
other way is no better, the decision is undone, and the earlier pictures are shown again without a call.
Everything here follows from the journal, so a run that was stopped goes on as it would have.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence

from interleave.dependencies import parents_of
from interleave.runs.journal import Cause, Entry, Judged, RedrawDecided, StepFinished, Undone
from interleave.runs.steering import Steering
from interleave.sources import anchored_steps
from interleave.types import PlanStep

CAUSE: Cause = "rollback"
UNKNOWN = 0.5
"""The confidence of a verdict that has none."""


def next_rollback(
    entries: Sequence[Entry], steering: Steering, finished: StepFinished
) -> RedrawDecided | Undone | None:
    """What to decide about a step that was refused to the last; None where the run goes on."""
    remedies = steering.config.remedies
    own = [each for each in entries if isinstance(each, RedrawDecided) and each.cause == CAUSE]
    for_step = [each for each in own if each.refused == finished.step]
    last = steering.decisions[-1] if steering.decisions else None
    if for_step and last is for_step[-1] and not is_better(entries, last, finished):
        return Undone(cause=CAUSE)
    if len(own) >= remedies.rollbacks:
        return None
    step = _where_to(entries, steering, finished.step, len(for_step))
    seed = hashlib.sha256(f"{steering.config.seed}/{step}/rollback {len(own) + 1}".encode()).digest()
    return RedrawDecided(
        step=step,
        seed=int.from_bytes(seed[:4], "big") >> 1,
        cause=CAUSE,
        refused=finished.step,
        anew=True if step in steering.anew else None,
    )


def _where_to(entries: Sequence[Entry], steering: Steering, refused: int, times: int) -> int:
    """The step to draw again: the one after the best ancestor, each time further back.

    The best ancestor is the one whose picture the critic was surest of; of equals, the nearest. The ancestors
    of earlier rollbacks for the same step, and those nearer than them, are no longer tried.
    """
    chain = ancestors(steering, refused)
    if not chain:
        return refused
    confidence = _confidences(entries)
    line = [refused, *chain]  # nearest first
    tried = 0
    for _ in range(times + 1):
        rest = range(tried, len(chain))
        if not rest:
            return line[-1]
        best = max(rest, key=lambda place: (confidence.get(chain[place], UNKNOWN), -place))
        tried = best + 1
    return line[best]


def ancestors(steering: Steering, number: int) -> list[int]:
    """The steps that a picture was drawn over, nearest first: back to one that was drawn anew."""
    if steering.plan is None:
        return []
    anew = anchored_steps(steering.plan, steering.config.remedies.anchor_every) | steering.anew
    parents = parents_of(steering.plan)
    steps = {step.number: step for step in steering.plan.steps}
    chain: list[int] = []
    while before := _before(steps[number], anew, parents):
        number = before[-1]
        chain.append(number)
    return chain


def _before(step: PlanStep, anew: set[int], parents: Mapping[int, tuple[int, ...]]) -> tuple[int, ...]:
    if step.sources is not None:
        return step.sources
    return () if step.number in anew else parents[step.number]


def _confidences(entries: Sequence[Entry]) -> dict[int, float]:
    """How sure the critic was of the picture that each step shows, as far as it said so."""
    judged: dict[tuple[int, int], float | None] = {}
    shown: dict[int, float] = {}
    for entry in entries:
        if isinstance(entry, Judged):
            judged[entry.step, entry.attempt] = entry.verdict.confidence
        elif isinstance(entry, StepFinished) and entry.attempt is not None:
            found = judged.get((entry.step, entry.attempt))
            shown[entry.step] = UNKNOWN if found is None else found
    return shown


def is_better(entries: Sequence[Entry], decision: RedrawDecided, now: StepFinished) -> bool:
    """Whether the critic is surer of the refused step than it was before the decision."""
    place = next(at for at, entry in enumerate(entries) if entry is decision)
    before = _confidences(entries[:place]).get(now.step, UNKNOWN)
    return _confidences(entries).get(now.step, UNKNOWN) > before

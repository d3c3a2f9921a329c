"""Decisions of a run itself: redraw a step from its scene, roll back, redo steps after an audit.

Steps may finish in any order, but a decision about one step depends on the decisions about earlier steps. So
decisions are made in plan order. A step that may need one waits until all earlier steps are finished, and no
step that depends on it begins until then. A plan drawn concurrently therefore ends like one drawn
sequentially.

A decision is a journal line like a person's, with a cause. The images that it replaces are kept: if the new
ones are no better, the decision is undone and the earlier images are shown again without a call. Everything
here follows from the journal, so a stopped run makes the same decisions when it is resumed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from interleave.agents.auditor import Document, FinishedStep
from interleave.config.run_config import DriftControl
from interleave.pipeline import derived_seed
from interleave.runs.folder import ImageStore
from interleave.runs.journal import Audited, Cause, Entry, Judged, Line, RedrawDecided, StepFinished, Undone
from interleave.runs.record import RunRecord
from interleave.runs.steering import Steering, steering_after
from interleave.scheduler import parents_of
from interleave.sources import anchored_steps
from interleave.types import Finding, PlanStep

DRIFT: Cause = "drift"


class OwnDecisions:
    """The next decision in one pass over the plan; once it is made, no further step begins."""

    def __init__(self, remedies: DriftControl) -> None:
        self._remedies = remedies
        self._finished: set[int] = set()
        self._open: dict[int, StepFinished] = {}
        """Finished steps that may need a decision."""
        self.made: list[RedrawDecided | Undone] = []

    def may_begin(self, needed: frozenset[int]) -> bool:
        """Return whether a step that depends on the `needed` steps may begin."""
        return not self.made and not needed & self._open.keys()

    def add(self, line: Line | None, entries: Sequence[Entry]) -> None:
        """Record that a step is finished and make the decisions that are due."""
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
    """Return the decision about a rejected or drifted step; `None` if the run continues."""
    remedies = steering.config.remedies
    moved = moved_too_far(finished, remedies)
    if can_redraw_from_scene(steering, finished.step):
        if decision := _from_the_scene(entries, steering, finished, moved=moved):
            return decision
        moved = False
    return (
        next_rollback(entries, steering, finished)
        if remedies.rollbacks and (finished.forced or moved)
        else None
    )


def moved_too_far(finished: StepFinished, remedies: DriftControl) -> bool:
    """Return whether the image outside the intended change drifted beyond the limit."""
    drift, limit = finished.drift, remedies.drift_limit
    return drift is not None and limit is not None and drift.outside > limit


def can_redraw_from_scene(steering: Steering, number: int) -> bool:
    """Return whether a step has a scene description and the plan does not draw it from that already."""
    step = steering.planned(number)
    anchored = (
        anchored_steps(steering.plan, steering.config.remedies.anchor_every) if steering.plan else set()
    )
    return step.scene is not None and step.sources is None and number not in anchored


def _from_the_scene(
    entries: Sequence[Entry], steering: Steering, finished: StepFinished, *, moved: bool
) -> RedrawDecided | Undone | None:
    """Decide to redraw a step from its scene, once; or to undo that if the critic likes it less."""
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


ROLLBACK: Cause = "rollback"
UNKNOWN = 0.5
"""Confidence assumed for a verdict without one."""


def next_rollback(
    entries: Sequence[Entry], steering: Steering, finished: StepFinished
) -> RedrawDecided | Undone | None:
    """Return the decision about a step whose attempts were all rejected; `None` if the run continues."""
    remedies = steering.config.remedies
    own = [each for each in entries if isinstance(each, RedrawDecided) and each.cause == ROLLBACK]
    for_step = [each for each in own if each.refused == finished.step]
    last = steering.decisions[-1] if steering.decisions else None
    if for_step and last is for_step[-1] and not is_better(entries, last, finished):
        return Undone(cause=ROLLBACK)
    if len(own) >= remedies.rollbacks:
        return None
    step = _rollback_step(entries, steering, finished.step, len(for_step))
    return RedrawDecided(
        step=step,
        seed=derived_seed(steering.config.seed, step, f"rollback {len(own) + 1}"),
        cause=ROLLBACK,
        refused=finished.step,
        anew=True if step in steering.from_scene else None,
    )


def _rollback_step(entries: Sequence[Entry], steering: Steering, refused: int, times: int) -> int:
    """Return the step to redraw: the one after the best ancestor, further back each time.

    The best ancestor has the image with the highest critic confidence; on a tie, the nearest wins. Ancestors
    of earlier rollbacks for the same step, and nearer ones, are not tried again.
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
    """Return the steps that an image was edited from, nearest first, back to one drawn from its scene."""
    if steering.plan is None:
        return []
    from_scene = anchored_steps(steering.plan, steering.config.remedies.anchor_every) | steering.from_scene
    parents = parents_of(steering.plan)
    steps = {step.number: step for step in steering.plan.steps}
    chain: list[int] = []
    while before := _before(steps[number], from_scene, parents):
        number = before[-1]
        chain.append(number)
    return chain


def _before(step: PlanStep, from_scene: set[int], parents: Mapping[int, tuple[int, ...]]) -> tuple[int, ...]:
    if step.sources is not None:
        return step.sources
    return () if step.number in from_scene else parents[step.number]


def _confidences(entries: Sequence[Entry]) -> dict[int, float]:
    """Return the critic's confidence in the image shown by each step."""
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
    """Return whether the critic is more confident in the rejected step than before the decision."""
    place = next(at for at, entry in enumerate(entries) if entry is decision)
    before = _confidences(entries[:place]).get(now.step, UNKNOWN)
    return _confidences(entries).get(now.step, UNKNOWN) > before


AUDIT: Cause = "audit"


def audits_made(entries: Sequence[Entry]) -> list[Audited]:
    return [entry for entry in entries if isinstance(entry, Audited)]


def pending_findings(entries: Sequence[Entry]) -> tuple[Finding, ...]:
    """Return the findings of the last audit without a decision: the run was stopped in between."""
    places = [place for place, entry in enumerate(entries) if isinstance(entry, Audited)]
    if not places:
        return ()
    audited = entries[places[-1]]
    decided = {
        entry.step
        for entry in entries[places[-1] :]
        if isinstance(entry, RedrawDecided) and entry.cause == AUDIT
    }
    findings = audited.findings if isinstance(audited, Audited) else ()
    return tuple(each for each in findings if each.step not in decided)


def document_of(record: RunRecord, store: ImageStore, round_: int) -> Document:
    """Return all finished images of a run, for an audit."""
    steps = tuple(
        FinishedStep(step.plan, store.get(step.attempt.image), step.attempt.prompt)
        for step in record.steps
        if step.attempt is not None and step.finished
    )
    return Document(steps, record.plan.assets if record.plan else (), round_)


def redo_line(finding: Finding, round_: int, record: RunRecord, steering: Steering) -> RedrawDecided:
    """Return the decision to redo one step; later steps keep their images unless they are redone too."""
    shown = {step.plan.number: step.shown for step in record.steps}
    keep = {
        number: attempt
        for number in sorted(steering.followers_of(finding.step))
        if (attempt := shown[number]) is not None
    }
    return RedrawDecided(
        step=finding.step,
        prompt=finding.prompt,
        seed=derived_seed(record.config.seed, finding.step, f"audit {round_}"),
        keep=keep,
        cause=AUDIT,
        anew=True if finding.prompt is None and finding.step in steering.from_scene else None,
    )

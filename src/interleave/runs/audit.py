"""The last look at the whole: the document as it stands, and the steps to redo, each as a decision."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from interleave.agents.auditor import Document, FinishedStep
from interleave.runs.journal import Audited, Cause, Entry, RedrawDecided
from interleave.runs.record import RunRecord
from interleave.runs.steering import Steering
from interleave.runs.store import PictureStore
from interleave.types import Finding

CAUSE: Cause = "audit"


def audits_made(entries: Sequence[Entry]) -> list[Audited]:
    return [entry for entry in entries if isinstance(entry, Audited)]


def pending_findings(entries: Sequence[Entry]) -> tuple[Finding, ...]:
    """Findings of the last audit that nothing was decided about: the run was stopped between the two."""
    places = [place for place, entry in enumerate(entries) if isinstance(entry, Audited)]
    if not places:
        return ()
    audited = entries[places[-1]]
    decided = {
        entry.step
        for entry in entries[places[-1] :]
        if isinstance(entry, RedrawDecided) and entry.cause == CAUSE
    }
    findings = audited.findings if isinstance(audited, Audited) else ()
    return tuple(each for each in findings if each.step not in decided)


def document_of(record: RunRecord, store: PictureStore, round_: int) -> Document:
    """All finished pictures of a run."""
    steps = tuple(
        FinishedStep(step.plan, store.get(step.attempt.image), step.attempt.prompt)
        for step in record.steps
        if step.attempt is not None and step.finished
    )
    return Document(steps, record.plan.assets if record.plan else (), round_)


def redo_line(finding: Finding, round_: int, record: RunRecord, steering: Steering) -> RedrawDecided:
    """The decision to redo one step; later steps keep their pictures, unless they are redone themselves."""
    shown = {step.plan.number: step.shown for step in record.steps}
    keep = {
        number: attempt
        for number in sorted(steering.followers_of(finding.step))
        if (attempt := shown[number]) is not None
    }
    seed = hashlib.sha256(f"{record.config.seed}/{finding.step}/audit {round_}".encode()).digest()
    return RedrawDecided(
        step=finding.step,
        prompt=finding.prompt,
        seed=int.from_bytes(seed[:4], "big") >> 1,
        keep=keep,
        cause=CAUSE,
        anew=True if finding.prompt is None and finding.step in steering.anew else None,
    )

"""The summary of a run for other programs: what `--json` prints, and the last of its event lines."""

from __future__ import annotations

from pathlib import Path

from interleave.errors import ConfigurationError
from interleave.runs.folder import DOCUMENT_NAME
from interleave.runs.journal import Status
from interleave.runs.permissions import resume_command
from interleave.runs.record import PLAN_NAME, ByHand, CallCounts, RunRecord, StepRecord
from interleave.runs.store import IMAGES_FOLDER as IMAGES
from interleave.types import Value


class StepSummary(Value):
    """One step of a document."""

    number: int
    text: str
    image: str | None
    """Its picture, relative to the run folder; None where it has none, such as a step of text only."""
    attempts: int
    accepted: bool
    forced: bool
    """Whether it is shown although no attempt was accepted."""
    by_hand: ByHand | None = None
    """What a person decided about it: `redrawn`, `chosen` or `kept`."""


class BranchSummary(Value):
    """Where a run branched off from another."""

    run: str
    """The name of the other run's folder."""
    step: int


class RunSummary(Value):
    """How a run stands, or how it ended."""

    run: str
    """The run folder."""
    status: Status
    reason: str | None
    """Why it ended, unless it is done."""
    document: str | None
    """The page to look at, if it has been written."""
    steps: tuple[StepSummary, ...]
    calls: CallCounts
    cost: float | None
    """US dollars; None where no backend knows its price."""
    seconds: float
    resume: str | None
    """The command that continues it, unless it is done or running."""
    plan: str | None = None
    """The file with the plan that waits for approval, relative to the run folder, where it is held."""
    branched_from: BranchSummary | None = None


def summarize(record: RunRecord, folder: Path) -> RunSummary:
    document, parent = folder / DOCUMENT_NAME, record.parent
    return RunSummary(
        run=str(folder),
        status=record.status,
        reason=record.reason or None,
        document=str(document) if document.exists() else None,
        steps=tuple(map(_summarize_step, record.steps)),
        calls=record.calls,
        cost=record.cost,
        seconds=record.seconds,
        resume=None if record.status in ("done", "running") else _way_on(record, folder),
        plan=PLAN_NAME if record.status == "held" else None,
        branched_from=BranchSummary(run=parent.parent or "", step=parent.step or 0) if parent else None,
    )


def _way_on(record: RunRecord, folder: Path) -> str | None:
    try:
        return resume_command(folder, record.config, record.step_generators)
    except ConfigurationError:  # a folder from elsewhere may name models that cannot be used
        return None


def _summarize_step(step: StepRecord) -> StepSummary:
    return StepSummary(
        number=step.plan.number,
        text=step.plan.text,
        image=image_path(step.attempt.image) if step.attempt else None,
        attempts=len(step.attempts),
        accepted=step.plan.prompt is None or step.accepted,
        forced=step.forced,
        by_hand=step.by_hand,
    )


def image_path(name: str) -> str:
    """The place of a picture, relative to the run folder."""
    return f"{IMAGES}/{name}"

"""What the record of a run says about each decision of a person."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from interleave.config.run_config import RoleConfig
from interleave.runs.journal import (
    AttemptChosen,
    Branched,
    Cause,
    DecisionLine,
    GeneratorChanged,
    PlanReleased,
    RedrawDecided,
)
from interleave.types import Value

UNDOABLE = ("redraw", "choice", "generator")
"""The kinds of decisions that an undo takes back."""


class DecisionRecord(Value):
    """One thing that a person decided."""

    kind: Literal["plan", "redraw", "choice", "generator", "branch"]
    step: int | None = None
    attempt: int | None = None
    """The attempt that was chosen."""
    prompt: str | None = None
    seed: int | None = None
    generator: RoleConfig | None = None
    kept: dict[int, int] = Field(default_factory=dict)
    """The later steps that kept their picture."""
    parent: str | None = None
    """The run that was branched off from."""
    by: str = ""
    time: float = 0.0
    undone: bool = False
    cause: Cause | None = None
    """Why the run decided it itself; None for a person's decision."""


def records_of(line: DecisionLine) -> list[DecisionRecord]:
    """What the record says about a decision: nothing of its own about an undo, which marks another one."""
    said: dict[str, Any] = {"by": line.by, "time": line.time, "cause": line.cause}
    match line:
        case PlanReleased():
            return [DecisionRecord(kind="plan", **said)]
        case RedrawDecided():
            said |= {"prompt": line.prompt, "seed": line.seed, "generator": line.generator}
            return [DecisionRecord(kind="redraw", step=line.step, kept=line.keep, **said)]
        case AttemptChosen():
            said |= {"attempt": line.attempt}
            return [DecisionRecord(kind="choice", step=line.step, kept=line.keep, **said)]
        case GeneratorChanged():
            return [DecisionRecord(kind="generator", step=line.step, generator=line.generator, **said)]
        case Branched():
            return [DecisionRecord(kind="branch", step=line.step, parent=line.parent, **said)]
    return []

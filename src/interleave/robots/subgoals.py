"""A run as subgoals for a policy: what to do next, and an image of how it looks when it is done.

`subgoals.json` lies in the run folder and names images in it; a controller needs nothing else.
"""

from __future__ import annotations

from pathlib import Path

from pydantic import Field, ValidationError

from interleave import InputError, RunRecord, read_record
from interleave.plugin import Value, first_problem, read_text, write_atomic

SUBGOALS_NAME = "subgoals.json"
MAX_BYTES = 16_000_000
IMAGES = "images"
"""The folder of a run's images."""


class Subgoal(Value):
    """One sub-task, and the state that it leads to."""

    number: int
    instruction: str
    """What the robot is told."""
    text: str
    """The same for a person."""
    image: str | None
    """The goal image, relative to the run folder."""
    accepted: bool
    """Whether the critic has accepted the goal image."""


class Subgoals(Value):
    """All sub-tasks to a goal, in order."""

    goal: str
    start: str | None = None
    """The image that the plan began with, relative to the run folder."""
    subgoals: tuple[Subgoal, ...] = Field(min_length=1)


def subgoals_of(record: RunRecord) -> Subgoals:
    """The subgoals of a run; raises `InputError` where it has no plan."""
    if record.plan is None:
        raise InputError("the run has no plan, and so no sub-tasks")
    images = [part.image for part in record.request if part.image is not None]
    return Subgoals(
        goal="\n".join(part.text for part in record.request if part.text is not None),
        start=f"{IMAGES}/{images[-1]}" if images else None,
        subgoals=tuple(
            Subgoal(
                number=step.plan.number,
                instruction=step.plan.prompt or step.plan.instruction or step.plan.text,
                text=step.plan.text,
                image=f"{IMAGES}/{step.attempt.image}" if step.attempt else None,
                accepted=step.finished and not step.forced,
            )
            for step in record.steps
        ),
    )


def write_subgoals(run: Path) -> Path:
    """Write the subgoals of a run into its folder; returns their path."""
    path = run / SUBGOALS_NAME
    made = subgoals_of(read_record(run))
    write_atomic(path, f"{made.model_dump_json(indent=2)}\n".encode())
    return path


def read_subgoals(run: Path) -> Subgoals:
    """The subgoals of a run folder: those that were written, else those of its record."""
    path = run / SUBGOALS_NAME
    if not path.is_file():
        return subgoals_of(read_record(run))
    try:
        return Subgoals.model_validate_json(read_text(path, most_bytes=MAX_BYTES))
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        problem = first_problem(error) if isinstance(error, ValidationError) else str(error)
        raise InputError(f"{path}: {problem}") from None

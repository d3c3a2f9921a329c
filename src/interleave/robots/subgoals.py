"""A run as subgoals for a policy: instructions, each with a goal image.

`subgoals.json` in the run folder names images in it; a controller needs nothing else.
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
    """One sub-task and its goal state."""

    number: int
    instruction: str
    """The robot's instruction."""
    text: str
    """The instruction for a person."""
    image: str | None
    """The goal image, relative to the run folder."""
    accepted: bool
    """Whether the critic has accepted the goal image."""


class Subgoals(Value):
    """All sub-tasks to a goal, in order."""

    goal: str
    start: str | None = None
    """The start image of the plan, relative to the run folder."""
    subgoals: tuple[Subgoal, ...] = Field(min_length=1)


def subgoals_of(record: RunRecord) -> Subgoals:
    """Return the subgoals of a run; raise `InputError` if it has no plan."""
    if record.plan is None:
        raise InputError("the run has no plan, so it has no sub-tasks")
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
    """Write the subgoals of a run into its folder; return their path."""
    path = run / SUBGOALS_NAME
    made = subgoals_of(read_record(run))
    write_atomic(path, f"{made.model_dump_json(indent=2)}\n".encode())
    return path


def read_subgoals(run: Path) -> Subgoals:
    """Return the subgoals of a run folder, from `subgoals.json` or else from its record."""
    path = run / SUBGOALS_NAME
    if not path.is_file():
        return subgoals_of(read_record(run))
    try:
        return Subgoals.model_validate_json(read_text(path, most_bytes=MAX_BYTES))
    except (OSError, UnicodeDecodeError, ValidationError) as error:
        problem = first_problem(error) if isinstance(error, ValidationError) else str(error)
        raise InputError(f"{path}: {problem}") from None

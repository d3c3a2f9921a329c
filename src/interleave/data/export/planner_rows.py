"""The planner's rows, from every trajectory, whether or not its pictures were accepted.

At most three rows each: the whole plan for the original request; the first steps with their pictures, cut at
a random step, with the rest of the plan as the answer; and the pictures alone with the texts of their steps
as the answer (sub-task annotation).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from pydantic import ValidationError

from interleave.agents.planner import planner_messages
from interleave.agents.prompts import PromptPack
from interleave.agents.replies import render_plan
from interleave.data.export.images import ImageFiles
from interleave.data.export.rows import PLANNER_SFT, TrainingRow
from interleave.data.trajectories import Trajectory
from interleave.errors import InputError
from interleave.step_counts import named_step_count
from interleave.types import MAX_REQUEST_PICTURES, Part, Picture, Plan, PlanStep, Request, Text

NAMES_ITS_STEPS = "not cut: the request names its number of steps"
TOO_SHORT = "not cut: no step with a picture has a step after it"
NAMES_SOURCES = "not cut: a later step starts from a picture that is the user's after the cut"
TOO_LONG = "not cut: with its steps the request is longer than one may be"
HAS_PICTURES = "not cut: the request has pictures itself"
NOT_ACCEPTED = "not annotated: a picture was not accepted"
TOO_FEW = "not annotated: fewer than two pictures with text"
TOO_MANY = f"not annotated: more than {MAX_REQUEST_PICTURES} pictures"
CONTINUE = (
    "Please continue from here.",
    "Go on with the remaining steps.",
    "This is how it begins. Draw the rest.",
    "What comes next? Finish it.",
    "Draw what happens next, until the end.",
    "Show the steps that are still missing.",
    "Now carry on until it is finished.",
    "Tell the rest of it, step by step.",
)
DESCRIBE = (
    "Describe each picture in one sentence.",
    "Write a caption for every picture.",
    "Tell in words what happens from picture to picture.",
    "Label each step of this sequence.",
    "What happens in these pictures? One sentence for each.",
    "Say in words what each picture shows.",
    "Describe what changes from one picture to the next.",
)


@dataclass(frozen=True)
class ShownStep:
    """A step as shown to the reader: its plan and its picture."""

    plan: PlanStep
    picture: Picture | None
    accepted: bool


def planner_rows(
    prefix: str, trajectory: Trajectory, pack: PromptPack, skipped: Counter[str], *, annotation: bool = True
) -> Iterator[TrainingRow]:
    """The planner's rows of a trajectory; rows that cannot be made are counted by reason."""
    plan = trajectory.record.plan
    if plan is None:
        return
    request, steps, files = trajectory.request, shown_steps(trajectory), ImageFiles()
    yield plan_row(f"{prefix}/plan", request, plan, pack, files)
    if request.pictures:
        skipped[HAS_PICTURES] += 1
    else:
        yield from continuation_rows(prefix, request.parts, steps, pack, skipped, files)
    if annotation:
        yield from annotation_rows(prefix, steps, pack, skipped, files)


def shown_steps(trajectory: Trajectory) -> list[ShownStep]:
    """The steps of a trajectory with their pictures."""
    return [
        ShownStep(
            step.plan,
            Picture(trajectory.picture(step.attempt.image)) if step.attempt else None,
            step.accepted,
        )
        for step in trajectory.record.steps
    ]


def plan_row(name: str, request: Request, plan: Plan, pack: PromptPack, files: ImageFiles) -> TrainingRow:
    """A request with its plan; the messages are built as for a planner in use."""
    messages = planner_messages(request, pack)
    return TrainingRow(name, PLANNER_SFT, messages, files.refs(messages), completion=render_plan(plan))


def continuation_rows(
    prefix: str,
    opening: Sequence[Part],
    steps: Sequence[ShownStep],
    pack: PromptPack,
    skipped: Counter[str],
    files: ImageFiles,
) -> Iterator[TrainingRow]:
    """A row with the beginning of a document as the request and the rest of its plan as the answer."""
    text = "\n".join(part.text for part in opening if isinstance(part, Text))
    if named_step_count(text) is not None:  # in use, a plan with another number of steps is refused
        skipped[NAMES_ITS_STEPS] += 1
        return
    cuts = _cuts(steps)
    if not cuts:
        skipped[TOO_SHORT] += 1
        return
    random = Random(f"{prefix}/continued")
    cut = random.choice(cuts)
    try:
        request = Request((*opening, *_shown_parts(steps[:cut]), Text(random.choice(CONTINUE))))
        rest = Plan(steps=tuple(step.plan for step in steps[cut:]))
    except InputError:
        skipped[TOO_LONG] += 1
        return
    except ValidationError:
        skipped[NAMES_SOURCES] += 1
        return
    yield plan_row(f"{prefix}/continued-after-{steps[cut - 1].plan.number}", request, rest, pack, files)


def annotation_rows(
    prefix: str, steps: Sequence[ShownStep], pack: PromptPack, skipped: Counter[str], files: ImageFiles
) -> Iterator[TrainingRow]:
    """A row with the pictures of a document as the request and the texts of its steps as the answer."""
    pictured = [step for step in steps if step.picture is not None]
    if len(pictured) < 2 or not all(step.plan.text for step in pictured):
        skipped[TOO_FEW] += 1
    elif len(pictured) > MAX_REQUEST_PICTURES:
        skipped[TOO_MANY] += 1
    elif not all(step.accepted for step in pictured):  # the text would not match the picture
        skipped[NOT_ACCEPTED] += 1
    else:
        random = Random(f"{prefix}/annotated")
        pictures = (step.picture for step in pictured if step.picture is not None)
        request = Request((*pictures, Text(random.choice(DESCRIBE))))
        texts = (
            PlanStep(number=number, name=step.plan.name, caption=step.plan.text)
            for number, step in enumerate(pictured, start=1)
        )
        yield plan_row(f"{prefix}/annotated", request, Plan(steps=tuple(texts)), pack, files)


def _cuts(steps: Sequence[ShownStep]) -> list[int]:
    """The step counts to cut after: at least one picture before, a step after, and not too many pictures."""
    cuts, pictures = [], 0
    for position, step in enumerate(steps[:-1], start=1):
        if step.plan.prompt is not None and step.picture is None:
            break  # the run ended here
        pictures += step.picture is not None
        if 0 < pictures <= MAX_REQUEST_PICTURES:
            cuts.append(position)
    return cuts


def _shown_parts(steps: Sequence[ShownStep]) -> Iterator[Part]:
    for step in steps:
        yield Text(f"Step {step.plan.number}: {step.plan.text}")
        if step.picture is not None:
            yield step.picture

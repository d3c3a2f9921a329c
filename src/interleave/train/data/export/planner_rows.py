"""Builds the planner's rows from every trajectory, whether or not its images were accepted.

A trajectory gives at most four rows:

- the original request, answered by the whole plan;
- the first steps with their images, cut at a random step, answered by the rest of the plan;
- the images alone, answered by the texts of their steps (sub-task annotation);
- a question about the images, answered in words.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random

from pydantic import ValidationError

from interleave import Asset, GivenAsset, ImagePart, InputError, Plan, PlanStep, Request, Text
from interleave.plugin import Part, PromptPack, agents, count, types
from interleave.train.data.export.images import ImageFiles
from interleave.train.data.export.rows import PLANNER_SFT, TrainingRow
from interleave.train.data.export.wordings import Wordings, wordings_of
from interleave.train.data.trajectories import Trajectory

NAMES_ITS_STEPS = "not cut: the request names its number of steps, and the pack has no wording for the rest"
HAS_IMAGES = "not cut: the request has images itself, and the pack does not go on from those"
HAS_SHEETS = "neither cut nor annotated: its first images are sheets of assets, which no planner wrote"
TOO_SHORT = "not cut: no step with an image has a step after it"
NAMES_SOURCES = "not cut: a later step starts from an image that is the user's after the cut"
TOO_LONG = "not cut: with its steps the request is longer than one may be"
NOT_ACCEPTED = "not annotated: an image was not accepted"
TOO_FEW = "not annotated: fewer than two images with text"
TOO_MANY = f"not annotated: more than {types.MAX_REQUEST_IMAGES} images"


@dataclass(frozen=True)
class ShownStep:
    """A step as the reader sees it: its plan and its image."""

    plan: PlanStep
    image: ImagePart | None
    accepted: bool


def planner_rows(
    prefix: str, trajectory: Trajectory, pack: PromptPack, skipped: Counter[str], *, annotation: bool = True
) -> Iterator[TrainingRow]:
    """Yield the planner's rows of a trajectory; rows that cannot be built are counted by reason."""
    plan = trajectory.record.plan
    if plan is None:
        return
    request, steps, files = trajectory.request, shown_steps(trajectory), ImageFiles()
    yield plan_row(f"{prefix}/plan", request, agents.without_reference_sheets(plan), pack, files)
    if agents.reference_sheets_of(plan):
        skipped[HAS_SHEETS] += 1
        return
    yield from continuation_rows(
        prefix, request.parts, steps, pack, skipped, files, assets=(request.assets, plan.assets)
    )
    if annotation:
        yield from annotation_rows(prefix, steps, pack, skipped, files)


def shown_steps(trajectory: Trajectory) -> list[ShownStep]:
    """Return the steps of a trajectory with their images."""
    return [
        ShownStep(
            step.plan,
            ImagePart(trajectory.image(step.attempt.image)) if step.attempt else None,
            step.accepted,
        )
        for step in trajectory.record.steps
    ]


def plan_row(name: str, request: Request, plan: Plan, pack: PromptPack, files: ImageFiles) -> TrainingRow:
    """Build the row of a request with its plan; the messages are those of a planner in a run.

    A plan with assets and scenes, or lettering, answers the pack's question for them, if the pack has one.
    """
    asks = bool(pack.description.assets)
    whole = bool(plan.assets) or any(step.scene or step.assets for step in plan.steps)
    lettered = any(step.lettering for step in plan.steps)
    messages = agents.planner_messages(
        request, pack, with_assets=whole and asks, with_lettering=lettered and asks
    )
    return TrainingRow(name, PLANNER_SFT, messages, files.refs(messages), completion=agents.render_plan(plan))


def continuation_rows(
    prefix: str,
    opening: Sequence[Part],
    steps: Sequence[ShownStep],
    pack: PromptPack,
    skipped: Counter[str],
    files: ImageFiles,
    *,
    assets: tuple[tuple[GivenAsset, ...], tuple[Asset, ...]] = ((), ()),
) -> Iterator[TrainingRow]:
    """Yield a row with the beginning of a document as the request and the rest of its plan as the answer."""
    wordings, random = wordings_of(pack.name), Random(f"{prefix}/continued")
    given = sum(isinstance(part, ImagePart) for part in opening)
    if given and not wordings.cut_with_pictures:
        skipped[HAS_IMAGES] += 1
        return
    cuts = _cuts(steps, given)
    if not cuts:
        skipped[TOO_SHORT] += 1
        return
    cut = random.choice(cuts)
    text = "\n".join(part.text for part in opening if isinstance(part, Text))
    if agents.named_step_count(text) is None:
        wish = random.choice(wordings.go_on)
    elif wordings.go_on_for:  # the wish names the number of remaining steps
        wish = random.choice(wordings.go_on_for).format(steps=count(len(steps) - cut, "step"))
    else:
        skipped[NAMES_ITS_STEPS] += 1
        return
    parts = (*opening, *_shown_parts(steps[:cut]), Text(wish))
    try:
        given_assets, planned_assets = assets
        request = Request(joined_parts(parts, wordings.separator), given_assets)
        later = tuple(step.plan for step in steps[cut:])
        rest = Plan(steps=later, assets=_assets_of(planned_assets, later[0].number))
    except InputError:
        skipped[TOO_LONG] += 1
        return
    except ValidationError:
        skipped[NAMES_SOURCES] += 1
        return
    yield plan_row(f"{prefix}/continued-after-{steps[cut - 1].plan.number}", request, rest, pack, files)


def _assets_of(assets: Sequence[Asset], first: int) -> tuple[Asset, ...]:
    """Return the assets of the rest of a plan; one from an earlier step keeps only its description."""
    return tuple(
        each.model_copy(update={"step": None}) if each.step is not None and each.step < first else each
        for each in assets
    )


def annotation_rows(
    prefix: str, steps: Sequence[ShownStep], pack: PromptPack, skipped: Counter[str], files: ImageFiles
) -> Iterator[TrainingRow]:
    """Yield rows with a document's images as the request and their texts, or an answer to a question."""
    pictured = [step for step in steps if step.image is not None]
    if len(pictured) < 2 or not all(step.plan.text for step in pictured):
        skipped[TOO_FEW] += 1
    elif len(pictured) > types.MAX_REQUEST_IMAGES:
        skipped[TOO_MANY] += 1
    elif not all(step.accepted for step in pictured):  # the text would not match the image
        skipped[NOT_ACCEPTED] += 1
    else:
        wordings = wordings_of(pack.name)
        wish = Random(f"{prefix}/annotated").choice(wordings.describe)
        texts = [(step.plan.name, step.plan.text) for step in pictured]
        yield _row_in_words(f"{prefix}/annotated", pictured, wish, texts, pack, files)
        if asked := _question(pictured, wordings, Random(f"{prefix}/asked")):
            question, answer = asked
            yield _row_in_words(f"{prefix}/asked", pictured, question, [(None, answer)], pack, files)


def _row_in_words(
    name: str,
    pictured: Sequence[ShownStep],
    wish: str,
    texts: Sequence[tuple[str | None, str]],
    pack: PromptPack,
    files: ImageFiles,
) -> TrainingRow:
    """Build a row that shows the images of a document and is answered by text-only steps."""
    images = (step.image for step in pictured if step.image is not None)
    request = Request(joined_parts((*images, Text(wish)), wordings_of(pack.name).separator))
    answer = (
        PlanStep(number=number, name=title, caption=text)
        for number, (title, text) in enumerate(texts, start=1)
    )
    return plan_row(name, request, Plan(steps=tuple(answer)), pack, files)


def _question(pictured: Sequence[ShownStep], wordings: Wordings, random: Random) -> tuple[str, str] | None:
    """Return a question about a document and its answer, taken from the plan."""
    texts = [step.plan.text for step in pictured]
    place = random.randrange(len(texts))
    asked: list[tuple[str, str]] = [
        (wording.format(number=place + 1), texts[place]) for wording in wordings.ask_step
    ]
    if texts.count(texts[place]) == 1:
        asked += [
            (wording.format(text=texts[place]), f"Picture {place + 1}.") for wording in wordings.ask_place
        ]
    if place + 1 < len(texts):
        asked += [(wording.format(number=place + 1), texts[place + 1]) for wording in wordings.ask_next]
    return random.choice(asked) if asked else None


def joined_parts(parts: Sequence[Part], separator: str) -> tuple[Part, ...]:
    """Merge neighbouring texts, with a separator between parts that meet without a space."""
    joined: list[Part] = []
    for part in parts:
        before = joined[-1] if joined else None
        if isinstance(part, Text) and isinstance(before, Text) and separator:
            joined[-1] = Text(f"{_apart(before.text, separator)}{part.text}")
        elif isinstance(part, Text):
            joined.append(Text(f"{separator}{part.text}") if isinstance(before, ImagePart) else part)
        else:
            if isinstance(before, Text):
                joined[-1] = Text(_apart(before.text, separator))
            joined.append(part)
    return tuple(joined)


def _apart(text: str, separator: str) -> str:
    return text if text[-1:].isspace() else f"{text}{separator}"


def _cuts(steps: Sequence[ShownStep], given: int) -> list[int]:
    """Return the step counts to cut after: at least one image before, one step after, not too many images.

    `given` is the number of images in the request itself.
    """
    cuts, images = [], 0
    for position, step in enumerate(steps[:-1], start=1):
        if step.plan.prompt is not None and step.image is None:
            break  # the run ended here
        images += step.image is not None
        if 0 < images <= types.MAX_REQUEST_IMAGES - given:
            cuts.append(position)
    return cuts


def _shown_parts(steps: Sequence[ShownStep]) -> Iterator[Part]:
    for step in steps:
        yield Text(f"Step {step.plan.number}: {step.plan.text}")
        if step.image is not None:
            yield step.image

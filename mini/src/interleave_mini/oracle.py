"""The oracle: a planner, critic and scorer that compute their answers instead of learning them.

It parses requests with the miniature's language and looks at images with its reader. It is the teacher of
the learned agents, the judge of their work and their upper bound in benchmarks; every output it takes part in
says so.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import TYPE_CHECKING, Literal

from pydantic import Field

from interleave import (
    ConfigurationError,
    CriticInput,
    Finding,
    InputError,
    Outcome,
    Plan,
    ReplyError,
    Request,
    Scores,
    Text,
    Verdict,
)
from interleave.plugin import BackendOptions, Spec, agents, images
from interleave.plugin import entry_points as plugins
from interleave.robots.replies import SheetSegment
from interleave.robots.sub_task_check import SubTaskInput
from interleave_mini.bench.harder import parse_harder
from interleave_mini.bench.task_file import find_task
from interleave_mini.bench.tasks import Task
from interleave_mini.language.patterns import NotUnderstood
from interleave_mini.language.prompts import edit_prompt, parse_prompt, scene_prompt
from interleave_mini.reader import Reading, shared_batched_reader
from interleave_mini.reader.scores import ACCEPTED, describe_faults, faults_in, score, shows
from interleave_mini.requests import SHOWN, check_words, nearest_requests, quoted
from interleave_mini.robots.oracle import check_sub_task, find_boundary, find_segments
from interleave_mini.world.mistakes import with_mistake
from interleave_mini.world.operations import Impossible, changes
from interleave_mini.world.scene import Scene

if TYPE_CHECKING:
    from PIL.Image import Image

EXACT_SHARE = 0.35
"""Share of exact refined prompts if their wording is varied."""
_LOOKED_AT = 24
"""Requests near one without a rule, of which those with a rule are offered."""
Readings = tuple[Reading | None, Reading]
"""Scenes of the images before (`None` without one) and after."""


class Oracle:
    """Plans, judges and scores by parsing the miniature's language and reading its images."""

    class Options(BackendOptions):
        refine: Literal["exact", "varied"] = "exact"
        """Wording of refined prompts: always exact, or varied as a weaker critic's."""
        errs: float = Field(default=0.0, ge=0, le=1)
        """Share of verdicts that are inverted, as teachers err."""
        scenes: bool = False
        """Whether plans describe the whole scene of every step, for anchors and audits."""

    def __init__(self, *, spec: Spec, options: Options) -> None:
        if spec.model or spec.base_url:
            raise ConfigurationError(f"{str(spec)!r}: 'oracle' takes no model and no address")
        self.options = options

    async def plan(self, request: Request) -> Plan:
        """Return the true plan; raise `InputError` for a request outside the miniature's language."""
        check_words(request)
        task = await asyncio.to_thread(parse_request, request)
        return with_scenes(task) if self.options.scenes else task.plan()

    async def judge(self, seen: CriticInput) -> Verdict:
        """Judge whether the image shows what the plan asks for; a rejection has a refined prompt."""
        readings = await _read_async(seen)
        verdict = judge_attempt(seen, readings, refine=self.options.refine)
        return _opposite(verdict, seen, readings) if _errs(seen, self.options.errs) else verdict

    async def check(self, seen: SubTaskInput) -> Verdict:
        """Judge whether the gripper has done a sub-task; if not, say what remains to be done."""
        return await asyncio.to_thread(check_sub_task, seen)

    async def segments(self, task: str, frames: Sequence[Image]) -> tuple[SheetSegment, ...]:
        """Return the sub-tasks of the gripper that end in these frames."""
        return await asyncio.to_thread(find_segments, frames)

    async def boundary(self, earlier: str, later: str, frames: Sequence[Image]) -> int:
        """Return the frame in which a sub-task of the gripper is done."""
        return await asyncio.to_thread(find_boundary, earlier, frames)

    async def score(self, seen: CriticInput) -> Scores:
        """Return scores from 0 to 10; raise `ReplyError` for a prompt outside the language."""
        return score_attempt(seen, await _read_async(seen))

    async def audit(self, document: agents.Document) -> tuple[Finding, ...]:
        """Return the images that do not show what the whole plan asks for."""
        readings = await shared_batched_reader().read_all([each.image for each in document.steps])
        findings = []
        for each, reading in zip(document.steps, readings, strict=True):
            with suppress(NotUnderstood, Impossible):
                wanted = parse_prompt(each.step.scene or "", None)
                if not shows(reading, wanted):
                    findings.append(Finding(step=each.step.number, reasoning=faults_in(reading, wanted)))
        return tuple(findings)


def with_scenes(task: Task) -> Plan:
    """Return the true plan with the whole scene of every step in words."""
    plan = task.plan()
    scenes = [scene_prompt(step.scene, exact=True) for step in task.steps]
    steps = (
        step.model_copy(update={"scene": scene}) if step.prompt is not None else step
        for step, scene in zip(plan.steps, scenes, strict=True)
    )
    return plan.model_copy(update={"steps": tuple(steps)})


def parse_request(request: Request) -> Task:
    """Return the task of a request, its images read; raise `InputError` if it is unknown.

    The benchmark's own requests are looked up or read back. Others are parsed by the grammar, where it is
    installed.
    """
    parts = [
        part.text if isinstance(part, Text) else shared_batched_reader().read(part.image).scene
        for part in request.parts
    ]
    if task := find_task(parts):
        return task
    if not request.images:
        with suppress(NotUnderstood, Impossible):
            return parse_harder(request.text)
    grammar = plugins.installed("mini.grammar").get("tasks")
    why = "plans the requests of the benchmark, and this is none of them"
    offers = nearest_requests(request.text)
    if grammar is not None:
        parse: Callable[[Sequence[str | Scene]], Task] = plugins.load(grammar, "the grammar")
        try:
            return parse(parts)
        except (NotUnderstood, Impossible) as error:
            why = f"understands only wordings that it has a rule for, and this is none ({error})"
        offers = _with_a_rule(nearest_requests(request.text, _LOOKED_AT), parse)
    raise InputError(
        f"the oracle {why}. It can do {quoted(offers)}. The learned planner is freer: --planner mini"
    )


def _with_a_rule(texts: Sequence[str], parse: Callable[[Sequence[str | Scene]], Task]) -> list[str]:
    """Return the first of these requests that the grammar parses; its world is smaller than the planner's."""
    found = []
    for text in texts:
        with suppress(NotUnderstood, Impossible):
            parse([text])
            found.append(text)
        if len(found) == SHOWN:
            break
    return found


async def _read_async(seen: CriticInput) -> Readings:
    """Read the images before and after in one batch with those of concurrent calls."""
    *before, after = await shared_batched_reader().read_all(_images(seen))
    return (before[0] if before else None), after


def _read(seen: CriticInput) -> Readings:
    *before, after = map(shared_batched_reader().read, _images(seen))
    return (before[0] if before else None), after


def _images(seen: CriticInput) -> list[Image]:
    return [seen.after] if _is_blank(seen.before) else [seen.before, seen.after]


def judge_attempt(seen: CriticInput, readings: Readings | None = None, *, refine: str = "exact") -> Verdict:
    """Return the verdict on an image; a rejection rewords the planned prompt, exactly or varied."""
    reading_before, reading = readings or _read(seen)
    try:
        before, target = _scenes(seen, reading_before)
    except (NotUnderstood, Impossible) as error:
        return Verdict(outcome=Outcome.UNREADABLE, reasoning=f"the oracle cannot tell what is asked: {error}")
    if shows(reading, target):
        return Verdict(outcome=Outcome.ACCEPTED, reasoning=ACCEPTED, confidence=1.0)
    return Verdict(
        outcome=Outcome.REJECTED,
        reasoning=faults_in(reading, target),
        refined_prompt=refine_prompt(target, before, None if refine == "exact" else _rng_for(seen)),
        confidence=score(reading, target, before).overall / 20,
    )


def _errs(seen: CriticInput, share: float) -> bool:
    """Return whether an erring teacher errs here; the same for the same attempt."""
    return Random(f"errs/{seen.prompt}/{images.pixel_digest(seen.after)}").random() < share


def _opposite(verdict: Verdict, seen: CriticInput, readings: Readings) -> Verdict:
    """Return a wrong verdict: a right image rejected for an invented fault, or a wrong one accepted."""
    if verdict.outcome is Outcome.REJECTED:
        return Verdict(outcome=Outcome.ACCEPTED, reasoning=ACCEPTED, confidence=1.0)
    if verdict.outcome is Outcome.UNREADABLE:
        return verdict
    before, target = _scenes(seen, readings[0])
    rng = _rng_for(seen)
    return Verdict(
        outcome=Outcome.REJECTED,
        reasoning=describe_faults(with_mistake(target, rng, before), target),
        refined_prompt=refine_prompt(target, before, rng),
        confidence=0.0,
    )


def score_attempt(seen: CriticInput, readings: Readings | None = None) -> Scores:
    """Return the scores of an image; raise `ReplyError` for a prompt outside the language."""
    reading_before, reading = readings or _read(seen)
    try:
        before, target = _scenes(seen, reading_before)
    except (NotUnderstood, Impossible) as error:
        raise ReplyError(f"the oracle cannot tell what is asked: {error}", reply="") from None
    return score(reading, target, before)


def _scenes(seen: CriticInput, reading_before: Reading | None) -> tuple[Scene | None, Scene]:
    """Return the scene before, and the scene the plan asks for."""
    before = reading_before.scene if reading_before else None
    return before, parse_prompt(seen.planned_prompt, before)


def _is_blank(image: Image) -> bool:
    """Return whether an image is the white canvas shown to critics without an image before."""
    if image.mode == "RGB" and image.getpixel((0, 0)) != (255, 255, 255):
        return False
    return all(low == high == 255 for low, high in image.convert("RGB").getextrema())  # type: ignore[misc]


def refine_prompt(target: Scene, before: Scene | None, rng: Random | None = None) -> str:
    """Return a better prompt for the same target: exact, or with `rng` sometimes only reworded."""
    exact = rng is None or rng.random() < EXACT_SHARE
    wording = None if exact else rng
    if before is None:
        return scene_prompt(target, exact=exact, rng=wording)
    try:
        return edit_prompt(changes(before, target), before, exact=exact, rng=wording)
    except InputError:
        return scene_prompt(target, exact=exact, rng=wording)


def _rng_for(seen: CriticInput) -> Random:
    """Return a generator seeded by prompt and image, so that an attempt always gets the same verdict."""
    return Random(f"{seen.prompt}/{images.pixel_digest(seen.after)}")

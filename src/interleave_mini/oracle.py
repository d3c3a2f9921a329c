"""The oracle: planner, critic and scorer that compute instead of learning.

They know the truth of the miniature's language and look at pictures with its reader. They teach the learned
agents, mark their work, and are the upper bound in benchmarks; every output they take part in names them.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from random import Random
from typing import TYPE_CHECKING, Literal

from interleave.agents.critic import CriticInput
from interleave.agents.planner import named_steps
from interleave.config.specs import BackendOptions, Spec
from interleave.errors import ConfigurationError, InputError, ReplyError
from interleave.pictures import pixel_digest
from interleave.text import count
from interleave.types import Outcome, Plan, Request, Scores, Text, Verdict
from interleave_mini.language.checker import REAL_MODELS, refuse_foreign_words
from interleave_mini.language.patterns import NotUnderstood
from interleave_mini.language.prompts import edit_prompt, scene_prompt, understand
from interleave_mini.language.tasks import Task, read_task, sample_task
from interleave_mini.language.words import POSITIONS, a
from interleave_mini.normalize_request import as_begun, calmly
from interleave_mini.reader import Reading, shared_room
from interleave_mini.reader.scores import is_clear, score, shows
from interleave_mini.vocabulary_check import refuse_foreign
from interleave_mini.world.changes import changes
from interleave_mini.world.operations import Impossible
from interleave_mini.world.scene import CELLS, Scene

if TYPE_CHECKING:
    from PIL.Image import Image

ACCEPTED = "Everything is as asked."
EXACT_SHARE = 0.35
"""How many of the better prompts in varied words are exact."""
Looked = tuple[Reading | None, Reading]
"""What is seen in the picture before, None where there is none, and in the one after."""


class Oracle:
    """Plans, judges and scores by knowing the miniature's language and reading its pictures."""

    class Options(BackendOptions):
        refine: Literal["exact", "varied"] = "exact"
        """How better prompts are worded: as exactly as can be, or now exactly and now plainly."""

    def __init__(self, *, spec: Spec, options: Options) -> None:
        if spec.model or spec.base_url:
            raise ConfigurationError(f"{str(spec)!r}: 'oracle' takes no model and no address")
        self.options = options

    async def plan(self, request: Request) -> Plan:
        """The true plan; raises `InputError` for a request that is not of the miniature's language."""
        refuse_foreign_words(request)
        return (await asyncio.to_thread(true_task, request)).plan()

    async def judge(self, seen: CriticInput) -> Verdict:
        """Right or wrong by the picture alone; where wrong, the same wish said as exactly as can be."""
        return judged(seen, await _looked_at(seen), refine=self.options.refine)

    async def score(self, seen: CriticInput) -> Scores:
        """Marks from 0 to 10; raises `ReplyError` for a prompt that is not of the language."""
        return _scored(seen, await _looked_at(seen))


def suited(request: Request, options: Mapping[str, str]) -> Request:
    """The request as the miniature's planners know it; raises `InputError` for one that is not of its world.

    With the option `guess` a planner tries whatever has known words and pictures.
    """
    told = as_begun(calmly(request))
    refuse_foreign(told)
    if options.get("guess", "false").lower() in ("true", "1", "yes", "on"):
        return told
    steps = len(true_task(told).beats)
    if (wanted := named_steps(request)) not in (None, steps):
        raise InputError(f"this takes {count(steps, 'step')}, not {wanted}: name that number, or none")
    return told


def true_task(request: Request) -> Task:
    """What a request comes to, its pictures read."""
    parts = [
        part.text if isinstance(part, Text) else shared_room().read(part.image).scene
        for part in request.parts
    ]
    try:
        return read_task(parts)
    except (NotUnderstood, Impossible) as error:
        nearest = " or ".join(f"“{text}”" for text in _nearest_requests(request.text))
        raise InputError(
            f"the miniature knows all these words, but no such request ({error}). "
            f"Requests it knows read like {nearest}. {REAL_MODELS}"
        ) from None


def _nearest_requests(text: str, count: int = 2) -> list[str]:
    """Requests of different topics that share the most words with this one."""
    rng, asked = Random(0), _words(text)
    nearest: dict[str, tuple[float, str]] = {}
    for _ in range(600):
        task = sample_task("story", rng)
        words = _words(task.text)
        shared = len(words & asked) / len(words | asked)
        nearest[task.topic] = max(nearest.get(task.topic, (0.0, "")), (shared, task.text))
    return [text for _, text in sorted(nearest.values(), reverse=True)[:count]]


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower()))


async def _looked_at(seen: CriticInput) -> Looked:
    """What is seen before and after, read together with what others look at now."""
    *before, after = await shared_room().read_all(_pictures(seen))
    return (before[0] if before else None), after


def _look(seen: CriticInput) -> Looked:
    *before, after = map(shared_room().read, _pictures(seen))
    return (before[0] if before else None), after


def _pictures(seen: CriticInput) -> list[Image]:
    return [seen.after] if _is_blank(seen.before) else [seen.before, seen.after]


def judged(seen: CriticInput, looked: Looked | None = None, *, refine: str = "exact") -> Verdict:
    """The verdict on a picture; a refusal says the wish again, exactly or in varied words."""
    seen_before, reading = looked or _look(seen)
    try:
        before, target = _wanted(seen, seen_before)
    except (NotUnderstood, Impossible) as error:
        return Verdict(outcome=Outcome.UNREADABLE, reasoning=f"the oracle cannot tell what is asked: {error}")
    if shows(reading, target):
        return Verdict(outcome=Outcome.ACCEPTED, reasoning=ACCEPTED, confidence=1.0)
    return Verdict(
        outcome=Outcome.REJECTED,
        reasoning=_faults(reading, target),
        refined_prompt=refined(target, before, None if refine == "exact" else _lot(seen)),
        confidence=score(reading, target, before).overall / 20,
    )


def _scored(seen: CriticInput, looked: Looked | None = None) -> Scores:
    seen_before, reading = looked or _look(seen)
    try:
        before, target = _wanted(seen, seen_before)
    except (NotUnderstood, Impossible) as error:
        raise ReplyError(f"the oracle cannot tell what is asked: {error}", reply="") from None
    return score(reading, target, before)


def _wanted(seen: CriticInput, seen_before: Reading | None) -> tuple[Scene | None, Scene]:
    """The scene before, and the scene the plan asks for."""
    before = seen_before.scene if seen_before else None
    return before, understand(seen.planned_prompt, before)


def _is_blank(picture: Image) -> bool:
    """Whether it is the white canvas that stands for no picture at all."""
    if picture.mode == "RGB" and picture.getpixel((0, 0)) != (255, 255, 255):
        return False
    return all(low == high == 255 for low, high in picture.convert("RGB").getextrema())  # type: ignore[misc]


def refined(target: Scene, before: Scene | None, lot: Random | None = None) -> str:
    """The wish in better words: exact ones, or by lot a plain rewording, which helps less."""
    exact = lot is None or lot.random() < EXACT_SHARE
    rng = None if exact else lot
    if before is None:
        return scene_prompt(target, exact=exact, rng=rng)
    try:
        return edit_prompt(changes(before, target), before, exact=exact, rng=rng)
    except InputError:
        return scene_prompt(target, exact=exact, rng=rng)


def _lot(seen: CriticInput) -> Random:
    """The same for the same picture, whoever asks."""
    return Random(f"{seen.prompt}/{pixel_digest(seen.after)}")


def _faults(reading: Reading, target: Scene) -> str:
    """The first few things that are wrong, in words.

    Every refusal begins alike: who learns to speak so decides with the first word between right and wrong,
    not between right and a dozen places where something may be wrong.
    """
    faults = ["Wrong."]
    if reading.scene.background != target.background:
        faults.append(f"The background is the {reading.scene.background}, not the {target.background}.")
    for cell in range(CELLS):
        fault = _fault_at(cell, reading, target)
        if fault:
            faults.append(f"{POSITIONS[cell][1].capitalize()}, {fault}.")
    if reading.scene.gripper != target.gripper:
        faults.append("The gripper is not as it should be.")
    return " ".join(faults[:4])


def faults_of(seen: Scene, wanted: Scene) -> str:
    """The same for a picture of which it is known what it shows."""
    return _faults(Reading(seen, (1.0,) * CELLS, (0.0,) * CELLS, 0.0), wanted)


def _fault_at(cell: int, reading: Reading, target: Scene) -> str | None:
    seen, wanted = reading.scene.cells[cell], target.cells[cell]
    if seen == wanted:
        return None if is_clear(reading, cell) else f"{a(wanted) if wanted else 'the place'} is not clear"
    if wanted is None and seen is not None:
        return f"{a(seen)} is too much"
    if wanted is not None and seen is None:
        return f"{a(wanted)} is missing"
    return f"there is {a(seen)} instead of {a(wanted)}" if seen and wanted else None

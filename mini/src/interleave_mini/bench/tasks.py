"""The tasks of the benchmark: requests with their right answers.

Six suites: `story` (text in), `continue` (text and images in), `know` (riddles), `edit` (an image and a
sentence to think about), `plain` (an image and sentences that say what to change), `annotate` (images in,
text out). `task_file` has those of the test split; `harder` makes those of four more suites.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from interleave import ImagePart, Plan, PlanStep, Request, Text
from interleave.plugin import Part
from interleave_mini.bench.splits import split_of
from interleave_mini.language.descriptions import describe
from interleave_mini.language.references import Style
from interleave_mini.language.sentences import say_all
from interleave_mini.language.words import plural, sentence
from interleave_mini.world.operations import ChangeBackground, Operation, Recolour
from interleave_mini.world.scene import Scene, Thing
from interleave_mini.world.wider import ALL_KINDS

SUITES = ("story", "continue", "know", "edit", "plain", "annotate")
ROBOT = "robot"
_OTHER_WORDS = {
    "night": ("night",),
    "snow": ("snow", "snowy"),
    "room": ("room", "indoors"),
    "forest": ("forest", "woods"),
    "city": ("city", "town"),
}


@dataclass(frozen=True)
class Fact:
    """A fact a caption has to state, by any one of these words."""

    words: tuple[str, ...]

    def is_said_in(self, caption: str) -> bool:
        return any(re.search(rf"\b{re.escape(word)}\b", caption, re.IGNORECASE) for word in self.words)


@dataclass(frozen=True)
class Step:
    """One step of an answer: its scene, the operations that led to it, its name and its caption."""

    name: str
    caption: str
    scene: Scene
    operations: tuple[Operation, ...] = ()
    before: Scene | None = None
    """The scene before it; None for an image drawn from text alone."""

    @property
    def prompt(self) -> str:
        """The short prompt a planner writes for this step."""
        if self.before is None:
            return describe(self.scene)
        return say_all(self.operations, self.before)

    @property
    def instruction(self) -> str:
        """The same step as an instruction to a person."""
        if self.before is None:
            drawn = describe(self.scene)
            return sentence(f"draw {drawn[:1].lower()}{drawn[1:]}")
        return say_all(self.operations, self.before, Style(way=1))

    @property
    def facts(self) -> tuple[Fact, ...]:
        """What the caption must state: new or changed things, and a new background."""
        return facts_of(self)


def facts_of(step: Step) -> tuple[Fact, ...]:
    scene, before = step.scene, step.before
    facts: dict[Fact, None] = {}
    for cell in range(len(scene.cells)):
        old = before.cells[cell] if before else None
        new = scene.cells[cell]
        if old != new:
            facts |= dict.fromkeys(_thing_facts(new or old, coloured=new is not None))
    is_empty_place = before is None and not scene.things
    if is_empty_place or any(isinstance(each, ChangeBackground) for each in step.operations):
        facts[Fact(_OTHER_WORDS.get(scene.background, (scene.background,)))] = None
    for each in step.operations:
        if isinstance(each, Recolour):
            facts[Fact((each.colour,))] = None
    return tuple(facts)


def _thing_facts(thing: Thing | None, *, coloured: bool) -> list[Fact]:
    if thing is None:
        return []
    facts = [Fact((thing.noun, plural(thing.noun)))]
    if coloured and thing.colour != ALL_KINDS[thing.kind].colour:
        facts.append(Fact((thing.colour,)))
    return facts


@dataclass(frozen=True)
class Task:
    """A request and its right answer."""

    suite: str
    domain: str
    topic: str
    template: str
    parts: tuple[str | Scene, ...]
    """The request: texts, and scenes as images."""
    steps: tuple[Step, ...]
    """The steps of the answer."""
    first_number: int = 1
    unseen: tuple[str, ...] = ()
    """What in this request is held out from training."""

    @property
    def text(self) -> str:
        return "\n".join(part for part in self.parts if isinstance(part, str))

    @property
    def id(self) -> str:
        return f"{self.suite}-{hashlib.sha256(self._written.encode()).hexdigest()[:12]}"

    @property
    def split(self) -> str:
        return split_of(self._written, self.unseen)

    @property
    def _written(self) -> str:
        """The parts as text, for ids and splits: what carries nothing as before things could carry."""
        return repr(self.parts).replace(", load=None", "")

    @property
    def text_only(self) -> bool:
        return self.suite == "annotate"

    def request(self) -> Request:
        """The request as a user would send it, with its images drawn."""
        return Request(tuple(map(_as_part, self.parts)))

    def plan(self) -> Plan:
        """The true plan, with short prompts."""
        steps = tuple(
            PlanStep(
                number=number,
                name=step.name,
                instruction=step.instruction,
                prompt=None if self.text_only else step.prompt,
                caption=step.caption,
            )
            for number, step in enumerate(self.steps, start=self.first_number)
        )
        return Plan(steps=steps, reasoning=f"{self.topic.capitalize()}: {len(steps)} to do.")


def _as_part(part: str | Scene) -> Part:
    from interleave_mini.world.drawing import draw

    return Text(part) if isinstance(part, str) else ImagePart(draw(part))

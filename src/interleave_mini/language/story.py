"""A tale: the true sequence of scenes behind a request, with the words that belong to each step."""

from __future__ import annotations

import re
from dataclasses import dataclass

from interleave_mini.language.descriptions import describe
from interleave_mini.language.references import Manner
from interleave_mini.language.sentences import say_all
from interleave_mini.language.words import plural, sentence
from interleave_mini.world.kinds import KINDS
from interleave_mini.world.operations import ChangeBackground, Operation, Recolour, apply_all
from interleave_mini.world.scene import Gripper, Scene, Thing

_OTHER_WORDS = {
    "night": ("night",),
    "snow": ("snow", "snowy"),
    "room": ("room", "indoors"),
    "forest": ("forest", "woods"),
    "city": ("city", "town"),
}


@dataclass(frozen=True)
class Fact:
    """Something a caption has to say, in one of these words."""

    words: tuple[str, ...]

    def is_said_in(self, caption: str) -> bool:
        return any(re.search(rf"\b{re.escape(word)}\b", caption, re.IGNORECASE) for word in self.words)


@dataclass(frozen=True)
class Beat:
    """One step of a tale: what has happened, how it looks, and what is said about it."""

    name: str
    caption: str
    scene: Scene
    operations: tuple[Operation, ...] = ()
    before: Scene | None = None
    """None where the picture is drawn from nothing."""

    @property
    def prompt(self) -> str:
        """The short prompt a planner writes for this step."""
        if self.before is None:
            return describe(self.scene)
        return say_all(self.operations, self.before)

    @property
    def instruction(self) -> str:
        """The same for a person."""
        if self.before is None:
            return sentence(f"draw {_lowered(describe(self.scene))}")
        return say_all(self.operations, self.before, Manner(way=1))

    @property
    def facts(self) -> tuple[Fact, ...]:
        """What the caption must say: the things that are new or changed, and a new place."""
        return facts_of(self)


class Tale:
    """Builds a true sequence: a first scene, and what happens then."""

    def __init__(
        self,
        background: str,
        things: dict[int, Thing],
        *,
        name: str,
        caption: str,
        gripper: Gripper | None = None,
    ) -> None:
        scene = Scene.of(background, things, gripper)
        self.beats = [Beat(name, sentence(caption), scene)]

    @property
    def scene(self) -> Scene:
        """How things stand now."""
        return self.beats[-1].scene

    def then(self, *operations: Operation, name: str, caption: str) -> Tale:
        """What happens next; raises `Impossible` when it cannot."""
        before = self.scene
        after = apply_all(operations, before)
        self.beats.append(Beat(name, sentence(caption), after, operations, before))
        return self


def facts_of(beat: Beat) -> tuple[Fact, ...]:
    scene, before = beat.scene, beat.before
    facts: dict[Fact, None] = {}
    for cell in range(len(scene.cells)):
        old = before.cells[cell] if before else None
        new = scene.cells[cell]
        if old != new:
            facts |= dict.fromkeys(_thing_facts(new or old, coloured=new is not None))
    if any(isinstance(each, ChangeBackground) for each in beat.operations):
        facts[Fact(_OTHER_WORDS.get(scene.background, (scene.background,)))] = None
    for each in beat.operations:
        if isinstance(each, Recolour):
            facts[Fact((each.colour,))] = None
    return tuple(facts)


def _thing_facts(thing: Thing | None, *, coloured: bool) -> list[Fact]:
    if thing is None:
        return []
    facts = [Fact((thing.noun, plural(thing.noun)))]
    if coloured and thing.colour != KINDS[thing.kind].colour:
        facts.append(Fact((thing.colour,)))
    return facts


def _lowered(words: str) -> str:
    return words[:1].lower() + words[1:]

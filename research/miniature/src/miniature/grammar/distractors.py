"""Distractors: things that stay in every image of a story, and the sentence that asks for them.

Half of them look like something in the story (its kind in another colour or size, or its colour in another
kind), because generators find it hard to tell such things apart.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from interleave_mini.bench.splits import is_held_out_pair
from interleave_mini.bench.tasks import Step
from interleave_mini.language.patterns import Pattern, normalised
from interleave_mini.language.references import THING, thing_described
from interleave_mini.language.words import CELL_OF, POSITIONS, a, listed, one_of, sentence
from interleave_mini.world.kinds import COLOURS, KINDS
from interleave_mini.world.operations import Add, Impossible, apply_all
from interleave_mini.world.scene import CELLS, GRID, Scene, Size, Thing
from miniature.grammar.gaps import kinds_of, usual

MAX_THINGS, MAX_DISTRACTORS, MAX_WITH_GRIPPER = 6, 4, 4
LOOK_ALIKES = 0.5
_TRIES = 60

_OUTDOORS = kinds_of("animal", "plant", "vehicle", "building", "toy")
_INDOORS = kinds_of("household", "toy", "food", "tool")
_USUAL_AT = {
    **dict.fromkeys(("kitchen", "room", "workbench"), _INDOORS),
    "paper": kinds_of("animal", "plant", "vehicle", "building", "toy", "shape"),
    "sea": kinds_of("animal", "vehicle"),
}
"""Usual kinds by background; all other backgrounds are outdoors."""
_UNIQUE = ("sun", "moon")

AT_THE_START = (
    "There {is} {things} in every picture.",
    "Imagine a scene with {things}.",
    "{things} {stays} there from the first picture to the last.",
)
AT_THE_END = (
    "All the while there {is} {things}.",
    "Around it one can see {things}.",
    "In every picture there {is} also {things}.",
    "The scene also has {things}.",
    "Do not forget {things}.",
    "{things} can be seen there too, in every picture.",
    "Besides, there {is} {things} from beginning to end.",
    "All the time one can see {things} there too.",
)
WORDINGS = (*AT_THE_START, *AT_THE_END)

_ONE = rf"{THING} {one_of(CELL_OF)}"
_GAPS = {"things": rf"{_ONE}(?:, {_ONE})*(?: and {_ONE})?", "is": "is|are", "stays": "stays?"}
_PATTERNS = {text: Pattern(text.rstrip("."), _GAPS) for text in WORDINGS}
_PLACED = re.compile(rf"(?P<thing>{THING}) (?P<where>{one_of(CELL_OF)})", re.IGNORECASE)
_SENTENCES = re.compile(r"(?<=[.!?]) +")


@dataclass(frozen=True)
class Distractors:
    """Distractors by cell, and the sentence of a request that asks for them."""

    things: dict[int, Thing]
    wording: str = ""
    said: str = ""

    def added_to(self, request: str) -> str:
        """Return the request with the sentence that asks for distractors, before or after it."""
        if self.said and request[-1:] not in ".!?…":
            request = f"{request}."
        parts = (self.said, request) if self.wording in AT_THE_START else (request, self.said)
        return " ".join(filter(None, parts))


NO_DISTRACTORS = Distractors({})


def add_distractors(steps: Sequence[Step], distractors: Distractors) -> tuple[Step, ...]:
    """Return the same story with distractors; raise `Impossible` if one of them is in the way."""
    if not distractors.things:
        return tuple(steps)
    first, *others = steps
    scene = apply_all((Add(thing, cell) for cell, thing in distractors.things.items()), first.scene)
    together = [replace(first, scene=scene, caption=f"{first.caption} {_also(distractors)}")]
    for step in others:
        before = together[-1].scene
        together.append(replace(step, before=before, scene=apply_all(step.operations, before)))
    return tuple(together)


def _also(distractors: Distractors) -> str:
    things = [f"{a(thing)} {POSITIONS[cell][0]}" for cell, thing in distractors.things.items()]
    return sentence(f"there {_verb(things, 'is', 'are')} also {listed(things)}")


def _verb(things: Sequence[object], one: str, many: str) -> str:
    return one if len(things) == 1 else many


# Sampling


def sample_distractors(steps: Sequence[Step], rng: Random) -> Distractors:
    """Return random distractors in cells that every step leaves free; none if no cell is left."""
    cells = _free_cells(steps)
    most = MAX_WITH_GRIPPER if _has_gripper(steps) else MAX_THINGS
    room = min(most - max(len(step.scene.things) for step in steps), MAX_DISTRACTORS, len(cells))
    if room < 1:
        return NO_DISTRACTORS
    in_story = _things_of(steps)
    things: dict[int, Thing] = {}
    for cell in sorted(rng.sample(cells, rng.randint(1, room))):
        things[cell] = _distractor(steps[0].scene, in_story, list(things.values()), rng)
    return _worded(things, rng)


def _free_cells(steps: Sequence[Step]) -> list[int]:
    """Return the cells that no step uses; a gripper needs the whole top row."""
    first = GRID if _has_gripper(steps) else 0
    return [cell for cell in range(first, CELLS) if all(step.scene.is_free(cell) for step in steps)]


def _has_gripper(steps: Sequence[Step]) -> bool:
    return any(step.scene.gripper is not None for step in steps)


def _things_of(steps: Sequence[Step]) -> Counter[Thing]:
    """Return the things of a story, with the highest count of each in one image."""
    things: Counter[Thing] = Counter()
    for step in steps:
        things |= Counter(step.scene.things.values())
    return things


def _distractor(scene: Scene, in_story: Counter[Thing], others: Sequence[Thing], rng: Random) -> Thing:
    """Return a thing that is not in the story, though it may look like one that is."""
    for _ in range(_TRIES):
        thing = _candidate(scene, in_story, rng)
        if thing not in in_story and thing not in others and not is_held_out_pair(thing):
            return thing
    raise Impossible("no distractor is left for this story")


def _candidate(scene: Scene, in_story: Counter[Thing], rng: Random) -> Thing:
    """Return a thing that is usual on this background, or a look-alike of one in the story."""
    colour = rng.choice(list(COLOURS))
    if scene.gripper is not None:  # a bench with a gripper has only blocks
        return Thing("block", colour, Size.SMALL)
    other = usual(rng.choice(_USUAL_AT.get(scene.background, _OUTDOORS)), colour)
    if rng.random() < 0.3:
        other = replace(other, size=Size.SMALL)
    models = [thing for thing in in_story if thing.kind not in _UNIQUE]
    if rng.random() >= LOOK_ALIKES or not models:
        return other
    like = rng.choice(models)
    if rng.random() < 0.3:
        return replace(other, colour=like.colour, size=like.size)
    if rng.random() < 0.3 and in_story[like] == 1:  # if equal things are counted, it would be counted too
        return replace(like, size=Size.SMALL if like.size is Size.LARGE else Size.LARGE)
    return replace(like, colour=colour)


def _worded(things: dict[int, Thing], rng: Random) -> Distractors:
    wording = rng.choice(WORDINGS)
    items = [f"{_called(thing, rng)} {_position(cell, rng)}" for cell, thing in things.items()]
    words = {
        "things": listed(items),
        "is": _verb(items, "is", "are"),
        "stays": _verb(items, "stays", "stay"),
    }
    return Distractors(things, wording, sentence(_PATTERNS[wording].write(words)))


def _called(thing: Thing, rng: Random) -> str:
    leave_out_colour = thing.colour == KINDS[thing.kind].colour and rng.random() < 0.3
    return a(thing, colour=not leave_out_colour)


def _position(cell: int, rng: Random) -> str:
    short, *others = POSITIONS[cell]
    return rng.choice((short, short, short, *others))


# Reading


def split_distractors(request: str) -> tuple[str, Distractors]:
    """Split a request into the request without distractors, and the distractors."""
    first, *rest = sentences = _SENTENCES.split(request.strip())
    for said, others in ((sentences[-1], sentences[:-1]), (first, rest)):
        if others and (distractors := _read(said)):
            return " ".join(others), distractors
    return request, NO_DISTRACTORS


def _read(said: str) -> Distractors | None:
    for wording, pattern in _PATTERNS.items():
        if words := pattern.read(normalised(said)):
            return Distractors(_placed(words["things"]), wording, said)
    return None


def _placed(words: str) -> dict[int, Thing]:
    things: dict[int, Thing] = {}
    for cell, thing in _each_placed(words):
        if cell in things:
            raise Impossible("two things cannot stand in one place")
        things[cell] = thing
    return things


def _each_placed(words: str) -> Iterator[tuple[int, Thing]]:
    for found in _PLACED.finditer(words):
        yield CELL_OF[found["where"].lower()], thing_described(found["thing"]).thing()

"""Company: things that stand by while a tale is told, and the sentence of a request that asks for them.

Half of them look like something of the tale (its kind in another colour or size, or its colour in another
kind), because telling two such things apart is what generators find hard.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from random import Random

from interleave_mini.language.gaps import kinds_of, usual
from interleave_mini.language.patterns import Pattern, normalised
from interleave_mini.language.references import THING, thing_described
from interleave_mini.language.splits import held_out_template, is_held_out_pair
from interleave_mini.language.story import Beat
from interleave_mini.language.words import CELL_OF, POSITIONS, a, listed, one_of, sentence
from interleave_mini.world.kinds import COLOURS, KINDS
from interleave_mini.world.operations import Add, Impossible, apply_all
from interleave_mini.world.scene import CELLS, GRID, Scene, Size, Thing

MOST_THINGS, MOST_COMPANY, MOST_ON_THE_BENCH = 6, 4, 4
LOOK_ALIKES = 0.5
_TRIES = 60

_OUTDOORS = kinds_of("animal", "plant", "vehicle", "building", "toy")
_INDOORS = kinds_of("household", "toy", "food", "tool")
_AT = {
    **dict.fromkeys(("kitchen", "room", "workbench"), _INDOORS),
    "paper": kinds_of("animal", "plant", "vehicle", "building", "toy", "shape"),
    "sea": kinds_of("animal", "vehicle"),
}
"""What stands about where; all other places are out of doors."""
_ONE_AND_ONLY = ("sun", "moon")

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
UNSEEN_WORDING = held_out_template("company", WORDINGS)

_ONE = rf"{THING} {one_of(CELL_OF)}"
_GAPS = {"things": rf"{_ONE}(?:, {_ONE})*(?: and {_ONE})?", "is": "is|are", "stays": "stays?"}
_PATTERNS = {text: Pattern(text.rstrip("."), _GAPS) for text in WORDINGS}
_PLACED = re.compile(rf"(?P<thing>{THING}) (?P<where>{one_of(CELL_OF)})", re.IGNORECASE)
_SENTENCES = re.compile(r"(?<=[.!?]) +")


@dataclass(frozen=True)
class Company:
    """What stands where throughout a tale, and how a request says so."""

    things: dict[int, Thing]
    wording: str = ""
    said: str = ""

    def asked_for_in(self, request: str) -> str:
        """The request with the sentence that asks for company, before or after it."""
        parts = (self.said, request) if self.wording in AT_THE_START else (request, self.said)
        return " ".join(filter(None, parts))


NOBODY = Company({})


def join(beats: Sequence[Beat], company: Company) -> tuple[Beat, ...]:
    """The same tale with company; raises `Impossible` when it stands in the way of something."""
    if not company.things:
        return tuple(beats)
    first, *others = beats
    scene = apply_all((Add(thing, cell) for cell, thing in company.things.items()), first.scene)
    together = [replace(first, scene=scene, caption=f"{first.caption} {_also(company)}")]
    for beat in others:
        before = together[-1].scene
        together.append(replace(beat, before=before, scene=apply_all(beat.operations, before)))
    return tuple(together)


def _also(company: Company) -> str:
    things = [f"{a(thing)} {POSITIONS[cell][0]}" for cell, thing in company.things.items()]
    return sentence(f"there {_verb(things, 'is', 'are')} also {listed(things)}")


def _verb(things: Sequence[object], one: str, many: str) -> str:
    return one if len(things) == 1 else many


# Inviting


def invite(beats: Sequence[Beat], rng: Random) -> Company:
    """Company that fits a tale, in cells that stay free all the way; nobody where there is no room."""
    cells = _free_cells(beats)
    most = MOST_ON_THE_BENCH if _is_handled(beats) else MOST_THINGS
    room = min(most - max(len(beat.scene.things) for beat in beats), MOST_COMPANY, len(cells))
    if room < 1:
        return NOBODY
    told = _told(beats)
    things: dict[int, Thing] = {}
    for cell in sorted(rng.sample(cells, rng.randint(1, room))):
        things[cell] = _stranger(beats[0].scene, told, list(things.values()), rng)
    return _worded(things, rng)


def _free_cells(beats: Sequence[Beat]) -> list[int]:
    """Cells that no step uses; a gripper passes through all of the top row."""
    first = GRID if _is_handled(beats) else 0
    return [cell for cell in range(first, CELLS) if all(beat.scene.is_free(cell) for beat in beats)]


def _is_handled(beats: Sequence[Beat]) -> bool:
    return any(beat.scene.gripper is not None for beat in beats)


def _told(beats: Sequence[Beat]) -> Counter[Thing]:
    """What a tale tells of, and how many of each it shows at most in one picture."""
    told: Counter[Thing] = Counter()
    for beat in beats:
        told |= Counter(beat.scene.things.values())
    return told


def _stranger(scene: Scene, told: Counter[Thing], others: Sequence[Thing], rng: Random) -> Thing:
    """A thing that is nowhere in the tale, though it may look like one that is."""
    for _ in range(_TRIES):
        thing = _candidate(scene, told, rng)
        if thing not in told and thing not in others and not is_held_out_pair(thing):
            return thing
    raise AssertionError("nothing else is left to stand by")


def _candidate(scene: Scene, told: Counter[Thing], rng: Random) -> Thing:
    """Something that is usual in such a place, or a look-alike of what is told of."""
    colour = rng.choice(list(COLOURS))
    if scene.gripper is not None:  # beside a gripper there is nothing but blocks
        return Thing("block", colour, Size.SMALL)
    other = usual(rng.choice(_AT.get(scene.background, _OUTDOORS)), colour)
    if rng.random() < 0.3:
        other = replace(other, size=Size.SMALL)
    models = [thing for thing in told if thing.kind not in _ONE_AND_ONLY]
    if rng.random() >= LOOK_ALIKES or not models:
        return other
    like = rng.choice(models)
    if rng.random() < 0.3:
        return replace(other, colour=like.colour, size=like.size)
    if (
        rng.random() < 0.3 and told[like] == 1
    ):  # where equal things are counted, one more would be counted too
        return replace(like, size=Size.SMALL if like.size is Size.LARGE else Size.LARGE)
    return replace(like, colour=colour)


def _worded(things: dict[int, Thing], rng: Random) -> Company:
    wording = rng.choice(WORDINGS)
    items = [f"{_called(thing, rng)} {_somewhere(cell, rng)}" for cell, thing in things.items()]
    words = {
        "things": listed(items),
        "is": _verb(items, "is", "are"),
        "stays": _verb(items, "stays", "stay"),
    }
    return Company(things, wording, sentence(_PATTERNS[wording].write(words)))


def _called(thing: Thing, rng: Random) -> str:
    goes_without_saying = thing.colour == KINDS[thing.kind].colour and rng.random() < 0.3
    return a(thing, colour=not goes_without_saying)


def _somewhere(cell: int, rng: Random) -> str:
    short, *others = POSITIONS[cell]
    return rng.choice((short, short, short, *others))


# Reading


def part_company(request: str) -> tuple[str, Company]:
    """A request without the sentence that asks for company, and the company."""
    first, *rest = sentences = _SENTENCES.split(request.strip())
    for said, others in ((sentences[-1], sentences[:-1]), (first, rest)):
        if others and (company := _read(said)):
            return " ".join(others), company
    return request, NOBODY


def _read(said: str) -> Company | None:
    for wording, pattern in _PATTERNS.items():
        if words := pattern.read(normalised(said)):
            return Company(_placed(words["things"]), wording, said)
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

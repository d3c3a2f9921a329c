"""Words for things, backgrounds and positions, written and parsed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from interleave_mini.world.scene import GRID, Size, Thing
from interleave_mini.world.wider import ALL_COLOURS, ALL_KINDS, ALL_NOUNS, NIGHT, NIGHT_OF

NUMBERS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
SIZES = {
    "small": Size.SMALL,
    "little": Size.SMALL,
    "tiny": Size.SMALL,
    "large": Size.LARGE,
    "big": Size.LARGE,
}
UNCOUNTABLE = frozenset({"bread", "bitten bread", "rotten bread", "frog spawn"})
_PLURALS = {
    "fish": "fish",
    "mouse": "mice",
    "sheep": "sheep",
    "leaf": "leaves",
    "goose": "geese",
    "wolf": "wolves",
    "thief": "thieves",
    "calf": "calves",
    "child": "children",
    "ox": "oxen",
    "brush": "brushes",
    "dish": "dishes",
    "bus": "buses",
    "cactus": "cactuses",
    "slice of cake": "slices of cake",
    "chrysalis": "chrysalises",
    "teddy": "teddies",
}

POSITIONS: tuple[tuple[str, ...], ...] = (
    ("at the top left", "in the top left corner", "in the upper left"),
    ("at the top", "in the top middle", "at the top in the middle"),
    ("at the top right", "in the top right corner", "in the upper right"),
    ("on the left", "in the middle left", "on the left side"),
    ("in the middle", "in the centre", "in the very middle"),
    ("on the right", "in the middle right", "on the right side"),
    ("at the bottom left", "in the bottom left corner", "in the lower left"),
    ("at the bottom", "in the bottom middle", "at the bottom in the middle"),
    ("at the bottom right", "in the bottom right corner", "in the lower right"),
)
"""Where a cell is: the short way first, then the exact one, then others."""

ROWS = ("in the top row", "in the middle row", "in the bottom row")
DIRECTIONS = {"left": (0, -1), "right": (0, 1), "up": (-1, 0), "down": (1, 0)}
RELATIONS = {
    "left of": (0, -1),
    "to the left of": (0, -1),
    "right of": (0, 1),
    "to the right of": (0, 1),
    "above": (-1, 0),
    "below": (1, 0),
    "under": (1, 0),
}


@dataclass(frozen=True)
class Place:
    """The phrases for a background."""

    noun: str
    within: str
    others: tuple[str, ...] = ()


PLACES: dict[str, Place] = {
    "meadow": Place("a meadow", "in the meadow", ("in a meadow",)),
    "beach": Place("a beach", "on the beach", ("at the beach", "on a beach")),
    "night": Place("a night sky", "under the night sky", ("at night", "in the night")),
    "snow": Place("a snowy field", "in the snow", ("in a snowy field", "on a snowy field")),
    "sea": Place("the sea", "at sea", ("on the sea", "in the sea")),
    "desert": Place("a desert", "in the desert", ("in a desert",)),
    "kitchen": Place("a kitchen table", "on the kitchen table", ("on a kitchen table", "in the kitchen")),
    "room": Place("a room", "in the room", ("in a room", "indoors")),
    "forest": Place("a forest", "in the forest", ("in a forest", "in the woods")),
    "city": Place("a city", "in the city", ("in a city", "in town")),
    "paper": Place("a sheet of paper", "on paper", ("on a sheet of paper", "on white paper")),
    "workbench": Place("a workbench", "on the workbench", ("on a workbench",)),
}
"""Places that the planner has learned."""
_NEW_PLACES: dict[str, Place] = {
    "road": Place("a road", "on the road", ("on a road",)),
    "street": Place("a street", "on the street", ("on a street", "in the street")),
    "mountain": Place("a mountain", "on the mountain", ("on a mountain", "in the mountains")),
    "farm": Place("a farm", "on the farm", ("on a farm", "at the farm")),
    "garden": Place("a garden", "in the garden", ("in a garden",)),
    "park": Place("a park", "in the park", ("in a park",)),
    "lake": Place("a lake", "at the lake", ("at a lake", "on the lake")),
    "river": Place("a river", "at the river", ("at a river", "by the river")),
    "playground": Place("a playground", "at the playground", ("on the playground", "at a playground")),
    "classroom": Place("a classroom", "in the classroom", ("in a classroom",)),
    "bedroom": Place("a bedroom", "in the bedroom", ("in a bedroom",)),
    "sea floor": Place("a sea floor", "on the sea floor", ("under the sea", "on a sea floor")),
}
_BY_DAY = PLACES | _NEW_PLACES
ALL_PLACES: dict[str, Place] = _BY_DAY | {
    NIGHT_OF[name]: Place(
        place.noun + NIGHT, place.within + NIGHT, tuple(other + NIGHT for other in place.others)
    )
    for name, place in _BY_DAY.items()
    if name in NIGHT_OF
}


def plural(noun: str) -> str:
    """The plural of a noun: "buses", "wet mice"."""
    state, space, kind = noun.rpartition(" ")
    if noun in _PLURALS:
        return _PLURALS[noun]
    if kind in _PLURALS:
        return f"{state}{space}{_PLURALS[kind]}"
    if noun.endswith("man"):
        return noun[:-3] + "men"
    if noun.endswith("y") and noun[-2] not in "aeou":
        return noun[:-1] + "ies"
    return noun + ("es" if noun.endswith(("s", "x", "ch")) else "s")


_SINGULARS = {plural(noun): noun for noun in ALL_NOUNS if noun not in UNCOUNTABLE}


def with_article(words: str, noun: str = "") -> str:
    """ "a cat", "an egg", "some bread"."""
    if noun in UNCOUNTABLE:
        return f"some {words}"
    return f"{'an' if words[0] in 'aeiou' else 'a'} {words}"


def named(thing: Thing, *, size: bool | None = None, colour: bool = True) -> str:
    """ "red cat", "small red cat"; a large thing's size goes without saying unless it is asked for."""
    says_size = size if size is not None else thing.size is Size.SMALL
    return " ".join(
        filter(None, [thing.size.value if says_size else "", thing.colour if colour else "", thing.noun])
    )


def a(thing: Thing, *, size: bool | None = None, colour: bool = True) -> str:
    """ "a small red cat"."""
    return with_article(named(thing, size=size, colour=colour), thing.noun)


def loaded(thing: Thing) -> str:
    """ "a red cat", or "a red cat on a brown chair"."""
    load = thing.load
    return f"{a(load.thing, size=False)} {load.relation.value} {a(thing)}" if load else a(thing)


def the(thing: Thing, *, size: bool | None = False, colour: bool = True) -> str:
    """ "the red cat"."""
    return f"the {named(thing, size=size, colour=colour)}"


def counted(count: int, thing: Thing) -> str:
    """ "three small red apples"."""
    words = named(thing)
    return f"{NUMBERS[count]} {words.removesuffix(thing.noun)}{plural(thing.noun)}" if count > 1 else a(thing)


def listed(items: list[str]) -> str:
    """ "a, b and c"."""
    return " and ".join(filter(None, [", ".join(items[:-1]), items[-1]])) if items else ""


def capitalised(sentence: str) -> str:
    return sentence[:1].upper() + sentence[1:]


def sentence(words: str) -> str:
    """With a capital at its beginning and a full stop at its end."""
    return capitalised(words) + ("" if words.endswith((".", "!", "?")) else ".")


def neighbour(cell: int, step: tuple[int, int]) -> int | None:
    """The cell one row or column further, if there is one."""
    row, column = cell // GRID + step[0], cell % GRID + step[1]
    return row * GRID + column if 0 <= row < GRID and 0 <= column < GRID else None


_Tree: TypeAlias = "dict[str, _Tree]"
_END = ""
"""Key at which a word ends in the tree."""


def one_of(words: Iterable[str]) -> str:
    """A regular expression for any of these, the longest first, the same whatever the order of a set.

    Words share their beginnings, as in a prefix tree: `re` tries alternatives one after the other, and there
    are hundreds of nouns.
    """
    tree: _Tree = {}
    for word in words:
        node = tree
        for letter in word:
            node = node.setdefault(letter, {})
        node[_END] = {}
    return f"(?:{_either(tree)})"


def _either(tree: _Tree) -> str:
    branches = [re.escape(letter) + _either(rest) for letter, rest in sorted(tree.items()) if letter != _END]
    if _END in tree:
        return f"(?:{'|'.join(branches)})?" if branches else ""
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


_SIZE, _COLOUR, _NOUN = one_of(SIZES), one_of(ALL_COLOURS), one_of(ALL_NOUNS)
DESCRIBED = rf"(?:{_SIZE} )?(?:{_COLOUR} )?{_NOUN}"
_PARTS = re.compile(rf"(?:(?P<size>{_SIZE}) )?(?:(?P<colour>{_COLOUR}) )?(?P<noun>{_NOUN})", re.IGNORECASE)
_PLURAL_PARTS = re.compile(
    rf"(?:(?P<size>{_SIZE}) )?(?:(?P<colour>{_COLOUR}) )?(?P<noun>{one_of(_SINGULARS)})", re.IGNORECASE
)


@dataclass(frozen=True)
class Described:
    """A thing as far as it was described."""

    noun: str
    colour: str | None = None
    size: Size | None = None

    def thing(self, like: Thing | None = None) -> Thing:
        """The thing described; what is not stated is as in `like`, or as is usual for its kind."""
        kind, state = ALL_NOUNS[self.noun]
        usual = like.colour if like is not None and like.kind == kind else ALL_KINDS[kind].colour
        size = self.size or (like.size if like is not None else Size.LARGE)
        return Thing(kind, self.colour or usual, size, state)

    def fits(self, thing: Thing) -> bool:
        return (
            thing.noun == self.noun
            and self.colour in (None, thing.colour)
            and self.size in (None, thing.size)
        )


def described(words: str) -> Described:
    """Parse "small red cat"."""
    found = _PARTS.fullmatch(words)
    if found is None:
        raise ValueError(f"not a thing: {words!r}")
    size = SIZES[found["size"].lower()] if found["size"] else None
    return Described(found["noun"].lower(), found["colour"].lower() if found["colour"] else None, size)


def described_many(words: str) -> Described:
    """Parse "small red apples"."""
    found = _PLURAL_PARTS.fullmatch(words)
    if found is None:
        raise ValueError(f"not things: {words!r}")
    size = SIZES[found["size"].lower()] if found["size"] else None
    noun = _SINGULARS[found["noun"].lower()]
    return Described(noun, found["colour"].lower() if found["colour"] else None, size)


DESCRIBED_MANY = rf"(?:{_SIZE} )?(?:{_COLOUR} )?{one_of(_SINGULARS)}"
CELL_OF = {words: cell for cell, ways in enumerate(POSITIONS) for words in ways}
ALL_BACKGROUND_OF_NOUN = {
    form: background
    for background, place in ALL_PLACES.items()
    for form in (place.noun, re.sub("^an? ", "the ", place.noun))
}
ALL_BACKGROUND_OF_PHRASE = {
    form: background for background, place in ALL_PLACES.items() for form in (place.within, *place.others)
}
BACKGROUND_OF_NOUN, BACKGROUND_OF_PHRASE = (
    {form: background for form, background in forms.items() if background in PLACES}
    for forms in (ALL_BACKGROUND_OF_NOUN, ALL_BACKGROUND_OF_PHRASE)
)


def bare_noun(background: str) -> str:
    """ "meadow", "kitchen table"."""
    return ALL_PLACES[background].noun.split(" ", 1)[1]


def within(background: str) -> str:
    """ "in the meadow", "on the kitchen table"."""
    return ALL_PLACES[background].within


def to_position(words: str) -> str:
    """ "at the top left" → "to the top left"."""
    return re.sub(r"^(at|on|in) ", "to ", words)

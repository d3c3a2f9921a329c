"""The inventory of the world: kinds of things with their states, colours, backgrounds."""

from __future__ import annotations

from dataclasses import dataclass

COLOURS: dict[str, tuple[int, int, int]] = {
    "red": (217, 48, 48),
    "orange": (243, 138, 32),
    "yellow": (250, 212, 56),
    "green": (66, 166, 76),
    "blue": (52, 112, 214),
    "purple": (138, 78, 186),
    "pink": (246, 138, 182),
    "brown": (134, 86, 50),
}

BACKGROUNDS: tuple[str, ...] = (
    "meadow",
    "beach",
    "night",
    "snow",
    "sea",
    "desert",
    "kitchen",
    "room",
    "forest",
    "city",
    "paper",
    "workbench",
)


@dataclass(frozen=True)
class Kind:
    """One kind of thing."""

    name: str
    category: str
    colour: str
    """Its default colour."""
    states: tuple[str, ...]
    """Its noun in each of its states, in their natural order."""
    usual: int = 0
    """Its default state."""


def _plain(category: str, **colours: str) -> list[Kind]:
    return [Kind(name, category, colour, (name.replace("_", " "),)) for name, colour in colours.items()]


def _changing(name: str, category: str, colour: str, *states: str, usual: int = 0) -> Kind:
    return Kind(name, category, colour, states, usual % len(states))


_ALL: list[Kind] = [
    *_plain("animal", cat="orange", dog="brown", rabbit="pink", elephant="blue", turtle="green"),
    *_plain("animal", fish="orange", duck="yellow"),
    _changing("hen", "animal", "brown", "egg", "chick", "hen", usual=-1),
    _changing("frog", "animal", "green", "frog spawn", "tadpole", "froglet", "frog", usual=-1),
    _changing(
        "butterfly", "animal", "blue", "butterfly egg", "caterpillar", "chrysalis", "butterfly", usual=-1
    ),
    _changing("flower", "plant", "red", "flower seed", "flower sprout", "flower bud", "flower", usual=-1),
    _changing("tree", "plant", "green", "seedling", "sapling", "tree", usual=-1),
    *_plain("plant", cactus="green", mushroom="red"),
    _changing("apple", "food", "red", "apple", "bitten apple", "apple core"),
    _changing("cake", "food", "pink", "cake", "half-eaten cake", "slice of cake"),
    *_plain("food", banana="yellow", carrot="orange", strawberry="red", bread="brown", ice_cream="pink"),
    *_plain("vehicle", car="red", bus="yellow", train="green", boat="blue", plane="blue", rocket="red"),
    _changing("house", "building", "red", "house foundation", "unfinished house", "house", usual=-1),
    *_plain("building", castle="purple", lighthouse="red"),
    _changing("cup", "household", "blue", "cup", "half-full cup", "full cup"),
    _changing("lamp", "household", "yellow", "lamp", "glowing lamp"),
    _changing("candle", "household", "red", "candle", "half-burned candle", "candle stub"),
    _changing("gift", "household", "purple", "gift", "opened gift"),
    *_plain("household", chair="brown", clock="blue", book="red"),
    *_plain("toy", ball="red", kite="purple", teddy="brown", balloon="red"),
    *_plain("tool", hammer="brown", pencil="yellow", bucket="blue"),
    *_plain("weather", sun="yellow", cloud="blue"),
    _changing("moon", "weather", "yellow", "new moon", "crescent moon", "half moon", "moon", usual=-1),
    _changing("snowman", "weather", "blue", "snowman", "melting snowman", "melted snowman"),
    *_plain("shape", circle="blue", square="red", triangle="green", star="yellow", heart="pink"),
    *_plain("block", block="red"),
]

KINDS: dict[str, Kind] = {kind.name: kind for kind in _ALL}

NOUNS: dict[str, tuple[str, int]] = {
    noun: (kind.name, state) for kind in _ALL for state, noun in enumerate(kind.states)
}
"""Noun → kind and state."""

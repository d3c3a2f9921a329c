"""The whole world that can be drawn: more states, kinds, colours and places than `kinds` has.

`kinds` is the part of it that the shipped planner and critic have learned, and requests may name only what is
in that part. Drawings, prompts and the reader know everything here. It is a strict superset: whatever stands
in `kinds` has the same name, order of states and drawing here.
"""

from __future__ import annotations

from dataclasses import replace

from interleave_mini.world.kinds import BACKGROUNDS, COLOURS, KINDS, Kind

ALL_COLOURS: dict[str, tuple[int, int, int]] = {
    **COLOURS,
    "white": (250, 249, 245),
    "black": (62, 60, 70),
    "grey": (156, 158, 166),
}

NIGHT = " at night"
_NEW_PLACES = ("road", "street", "mountain", "farm", "garden", "park")
_MORE_PLACES = ("lake", "river", "playground", "classroom", "bedroom", "sea floor")
_BY_DAY = (*BACKGROUNDS, *_NEW_PLACES, *_MORE_PLACES)
NIGHT_OF: dict[str, str] = {place: place + NIGHT for place in _BY_DAY if place != "night"}
DAY_OF: dict[str, str] = {night: place for place, night in NIGHT_OF.items()} | {"night": "meadow"}
ALL_BACKGROUNDS: tuple[str, ...] = (*_BY_DAY, *NIGHT_OF.values())

_FEELINGS = ("sleeping", "happy", "sad", "wet")
_WORN = ("broken", "dirty")
_EATEN = ("bitten", "rotten")

_NEW: dict[str, dict[str, str]] = {
    "animal": {
        **{"horse": "brown", "cow": "white", "pig": "pink", "sheep": "white", "bird": "blue", "owl": "brown"},
        **{"penguin": "black", "mouse": "grey", "bear": "brown", "lion": "yellow", "fox": "orange"},
        **{"monkey": "brown", "snake": "green", "snail": "brown", "bee": "yellow", "whale": "blue"},
        **{"dinosaur": "green", "dragon": "red"},
    },
    "person": {
        **{"boy": "blue", "girl": "red", "man": "green", "woman": "purple", "baby": "yellow"},
        **{"robot": "grey", "ghost": "white"},
    },
    "plant": {"leaf": "green", "pumpkin": "orange"},
    "food": {"pizza": "yellow", "cookie": "brown", "cheese": "yellow", "pear": "green", "bone": "white"},
    "vehicle": {"truck": "blue", "bicycle": "red", "tractor": "green", "helicopter": "orange"},
    "building": {"tent": "orange", "bridge": "grey", "door": "brown", "fence": "brown"},
    "household": {
        **{"table": "brown", "bed": "blue", "sofa": "red", "box": "brown", "basket": "brown", "bag": "green"},
        **{"bottle": "green", "bowl": "white", "vase": "purple", "umbrella": "red", "bathtub": "white"},
        **{"phone": "black", "computer": "grey", "key": "yellow", "hat": "black", "shoe": "brown"},
    },
    "toy": {"drum": "red", "guitar": "orange", "skateboard": "blue"},
    "tool": {"ladder": "brown", "shovel": "grey"},
    "weather": {"rainbow": "red"},
    "land": {"volcano": "brown", "fire": "orange", "rock": "grey"},
    "shape": {"rectangle": "purple", "diamond": "blue"},
}
_OWN_STATES: dict[str, tuple[str, ...]] = {
    "flower": ("wilted flower",),
    "tree": ("bare tree",),
    "ice_cream": ("melting ice cream",),
    "lighthouse": ("glowing lighthouse",),
    "door": ("open door",),
    "candle": ("unlit candle",),
    "book": ("open book",),
    "box": ("open box",),
    "bag": ("open bag",),
    "bowl": ("full bowl",),
    "umbrella": ("closed umbrella",),
    "bathtub": ("full bathtub",),
    "balloon": ("popped balloon",),
    "bucket": ("full bucket",),
    "cloud": ("rain cloud", "storm cloud"),
    "volcano": ("erupting volcano",),
    "fire": ("smoking fire",),
}
_IN_CONDITION: dict[tuple[str, ...], tuple[str, ...]] = {
    _FEELINGS: (
        *("cat", "dog", "rabbit", "elephant", "turtle", "fish", "duck", "hen", "frog"),
        *_NEW["animal"],
        *_NEW["person"],
    ),
    _WORN: ("car", "bus", "train", "boat", "plane", "rocket", *_NEW["vehicle"]),
    _EATEN: ("banana", "carrot", "strawberry", "bread", "cheese", "pear"),
    ("bitten",): ("pizza", "cookie"),
    ("rotten",): ("apple",),
    ("broken",): (
        *("house", "castle", "bridge", "fence", "cup", "lamp", "chair", "clock", "table", "bottle", "bowl"),
        *("vase", "phone", "computer", "kite", "pencil", "ladder"),
    ),
    ("wet", "dirty"): ("shoe", "ball", "teddy"),
    ("wet",): ("hat",),
}
"""Conditions of the usual state: the nouns are "wet cat", "sad hen"."""


def _widened(kind: Kind) -> Kind:
    usual = kind.states[kind.usual]
    conditions = (each for some, kinds in _IN_CONDITION.items() if kind.name in kinds for each in some)
    more = (*_OWN_STATES.get(kind.name, ()), *(f"{each} {usual}" for each in conditions))
    return replace(kind, states=(*kind.states, *more))


_KINDS = (
    *KINDS.values(),
    *(
        Kind(name, category, colour, (name,))
        for category, some in _NEW.items()
        for name, colour in some.items()
    ),
)
ALL_KINDS: dict[str, Kind] = {kind.name: _widened(kind) for kind in _KINDS}
ALL_NOUNS: dict[str, tuple[str, int]] = {
    noun: (kind.name, state) for kind in ALL_KINDS.values() for state, noun in enumerate(kind.states)
}
"""Noun → kind and state."""


def _adjective(noun: str, usual: str) -> str:
    return noun.removesuffix(usual).rstrip() if noun.endswith(f" {usual}") else ""


ADJECTIVES: dict[str, tuple[str, ...]] = {
    kind.name: tuple(_adjective(noun, kind.states[kind.usual]) for noun in kind.states)
    for kind in ALL_KINDS.values()
}
"""By kind, the word for each state before its usual noun: "wet", "half-full"; empty for other nouns."""


# What can carry what, as tables of the carrier's noun

_UNABLE = frozenset(("egg", "chick", "frog spawn", "tadpole", "froglet", "butterfly egg", "caterpillar"))
HOLDERS = frozenset(
    noun
    for noun, (kind, _) in ALL_NOUNS.items()
    if ALL_KINDS[kind].category in {"animal", "person"} and noun not in {*_UNABLE, "chrysalis"}
)
CONTAINERS: dict[str, float] = {
    **dict.fromkeys(("bucket", "full bucket"), 0.3),
    **dict.fromkeys(("open box", "basket", "open bag"), 0.45),
    **dict.fromkeys(("bowl", "full bowl"), 0.55),
    **dict.fromkeys(("cup", "half-full cup", "full cup"), 0.24),
    **dict.fromkeys(("bathtub", "full bathtub"), 0.55),
    **{"vase": 0.32, "opened gift": 0.6, "boat": 0.68, "car": 0.5, "truck": 0.55, "bed": 0.6, "tent": 0.95},
    "hat": 0.45,
}
"""What something can be in, and how far down its rim is: what is inside is hidden below it."""
SHELTERS: dict[str, bool] = {
    **dict.fromkeys(("table", "broken table", "bridge", "broken bridge"), True),
    **dict.fromkeys(("chair", "broken chair", "bed", "umbrella", "tree", "bare tree", "mushroom"), False),
}
"""What something can be under, and whether it then hides the upper part of it."""
SEATS: dict[str, float] = {
    **{"chair": 0.6, "table": 0.5, "bed": 0.65, "sofa": 0.7, "boat": 0.72, "truck": 0.6, "skateboard": 0.8},
    **{"turtle": 0.5, "bridge": 0.5, "bowl": 0.6, "box": 0.5, "bathtub": 0.6, "cake": 0.5},
    **dict.fromkeys(("horse", "cow", "elephant", "dinosaur"), 0.55),
}
"""Low kinds that stay large while something is on them, and how far down its feet are."""
NOT_STOOD_ON = frozenset(
    noun for noun, (kind, _) in ALL_NOUNS.items() if kind in {"sun", "cloud", "moon", "rainbow"}
)

"""The splits: what training may see, and what is held out.

A hash of its text and images puts a request into a split. Besides, some templates and some pairs of kind
and colour are held out entirely: a request with one of them is always a test request, and results on them are
reported separately. Everything that makes training data must use these functions.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from interleave_mini.world.kinds import COLOURS, KINDS
from interleave_mini.world.scene import Scene, Thing

SPLITS = ("train", "validation", "test")
UNSEEN_TEMPLATE, UNSEEN_VOICE, UNSEEN_PAIR = "template", "voice", "pair"


def hashed_split(request: str) -> str:
    """The split of a request by its hash: 90 % train, 5 % validation, 5 % test."""
    share = _hash(request) % 100
    return "train" if share < 90 else "validation" if share < 95 else "test"


def is_held_out_pair(thing: Thing) -> bool:
    """Whether training never sees this kind in this colour."""
    return (thing.kind, thing.colour) in HELD_OUT_PAIRS


def has_held_out_pair(scene: Scene) -> bool:
    """Whether a thing of this scene is of a kind and colour that training never sees."""
    return any(is_held_out_pair(thing) for thing in scene.everything.values())


def held_out_template(topic: str, templates: Sequence[str]) -> str | None:
    """The wording of a topic that training never sees: one, where the topic has others to learn from."""
    holds_out = len(templates) > 3 or (len(templates) > 1 and _hash(topic) % 2 == 0)
    return templates[-1] if holds_out else None


def seen_templates(topic: str, templates: Sequence[str]) -> tuple[str, ...]:
    """The wordings of a topic that training may see."""
    held_out = held_out_template(topic, templates)
    return tuple(template for template in templates if template != held_out)


def unseen_in(
    topic: str, template: str, templates: Sequence[str], scenes: Iterable[Scene]
) -> tuple[str, ...]:
    """What in a request is held out from training."""
    unseen = [UNSEEN_TEMPLATE] if template == held_out_template(topic, templates) else []
    if any(map(has_held_out_pair, scenes)):
        unseen.append(UNSEEN_PAIR)
    return tuple(unseen)


def split_of(request: str, unseen: Sequence[str]) -> str:
    return "test" if unseen else hashed_split(request)


def _hash(text: str) -> int:
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")


HELD_OUT_PAIRS: frozenset[tuple[str, str]] = frozenset(
    (kind.name, colour)
    for kind in KINDS.values()
    for colour in COLOURS
    if colour != kind.colour and kind.name != "block" and _hash(f"{kind.name} {colour}") % 12 == 0
)
"""Kinds in colours that training never sees; every kind is seen in its usual colour, and blocks in all."""

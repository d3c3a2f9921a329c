"""Prompts for a generator: written from scenes and operations, and parsed back into scenes.

A short prompt says what to do. An exact one also says where precisely, which size, and what must stay.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from random import Random

from interleave_mini.language.descriptions import describe, parse_description
from interleave_mini.language.patterns import NotUnderstood, normalised
from interleave_mini.language.references import Style
from interleave_mini.language.sentences import parse_sentence, say_all
from interleave_mini.language.words import (
    ALL_BACKGROUND_OF_NOUN,
    ALL_BACKGROUND_OF_PHRASE,
    DESCRIBED,
    bare_noun,
    described,
    listed,
)
from interleave_mini.world.kinds import BACKGROUNDS
from interleave_mini.world.operations import ChangeBackground, Operation, apply_all
from interleave_mini.world.scene import Scene

_SENTENCE = re.compile(r"(?<=[.!;])\s+")
_KEEPING = re.compile(
    r"(keep|leave|everything else|nothing else|there is nothing else|do not)\b", re.IGNORECASE
)
_MENTIONED = re.compile(rf"\b{DESCRIBED}\b", re.IGNORECASE)
_LITERAL_ORDER = (4, 3, 5, 7, 1, 6, 8, 0, 2)
_PLACE_WORDS = {
    re.sub(r"^(an?|the) ", "", words): background
    for words, background in (ALL_BACKGROUND_OF_NOUN | ALL_BACKGROUND_OF_PHRASE).items()
}


def scene_prompt(scene: Scene, *, exact: bool = False, rng: Random | None = None) -> str:
    """A prompt that draws a scene without a source image."""
    return describe(scene, Style(exact, rng))


def edit_prompt(
    operations: Sequence[Operation], scene: Scene, *, exact: bool = False, rng: Random | None = None
) -> str:
    """A prompt that turns one scene into the next."""
    said = say_all(operations, scene, Style(exact, rng))
    return f"{said} {_keeping(operations, scene)}" if exact else said


def _keeping(operations: Sequence[Operation], scene: Scene) -> str:
    """What must stay as it is."""
    after = apply_all(operations, scene)
    exact = Style(exact=True)
    kept = [
        exact.refer(scene, spot)
        for spot, thing in scene.everything.items()
        if (now := after.at(spot)) and now.alone == thing.alone
    ]
    if not any(isinstance(each, ChangeBackground) for each in operations):
        kept.append(f"the {bare_noun(scene.background)}")
    return f"Keep {listed(kept)} unchanged." if kept else "Everything else is unchanged."


def keep_prompt(scene: Scene) -> str:
    """A prompt that asks for nothing but what is there."""
    return _keeping((), scene)


def parse_prompt(prompt: str, before: Scene | None) -> Scene:
    """The scene a prompt asks for, given the scene before it; raises `NotUnderstood` if it does not parse."""
    try:
        return parse_description(prompt)
    except NotUnderstood:
        if before is None:
            raise
    return apply_all(operations_of(prompt, before), before)


def operations_of(prompt: str, before: Scene) -> list[Operation]:
    """The operations a prompt asks for in a scene; raises `NotUnderstood` if there are none."""
    after, found = before, list[Operation]()
    for part in _SENTENCE.split(prompt.strip()):
        if not normalised(part) or _KEEPING.match(part):
            continue
        operations = parse_sentence(part, after)
        after = apply_all(operations, after)
        found += operations
    if not found:
        raise NotUnderstood(f"this asks for nothing: {prompt!r}")
    return found


def is_exact(prompt: str) -> bool:
    """Whether a prompt also states what must stay, or that nothing else is in the image."""
    return any(_KEEPING.match(part) for part in _SENTENCE.split(prompt.strip()))


def literal_scene(prompt: str, before: Scene | None) -> Scene:
    """A scene for a prompt that does not parse: the things it mentions, in the free cells."""
    words = normalised(prompt).lower()
    # Without a known background a hash of the text chooses one: the same text always gives the same one.
    anywhere = BACKGROUNDS[zlib.crc32(words.encode("utf-8", "replace")) % len(BACKGROUNDS)]
    background = before.background if before else anywhere
    for phrase, name in _PLACE_WORDS.items():
        if re.search(rf"\b{re.escape(phrase)}\b", words):
            background = name
    mentioned = dict.fromkeys(described(found[0]).thing() for found in _MENTIONED.finditer(words))
    return Scene.of(background, dict(zip(_LITERAL_ORDER, mentioned, strict=False)))

"""What a plan shows happening, as short names: states, things that touch, and operations.

`language.json` says by word which of them show it ("sleeps": sleeping, or a night), counted in the worked
examples. A plan with none of them leaves the word out.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from interleave_mini.language.descriptions import parse_description
from interleave_mini.language.patterns import NotUnderstood
from interleave_mini.language.prompts import operations_of
from interleave_mini.language.vocabulary import WORD, forms_of, language
from interleave_mini.world.operations import ChangeBackground, ChangeState, Move, Operation, Resize
from interleave_mini.world.scene import CELLS, GRID, Scene, Size, Thing
from interleave_mini.world.wider import ADJECTIVES, ALL_KINDS, NIGHT

_DONE = {
    "Add": "added",
    "Remove": "removed",
    "Recolour": "painted",
    "Replace": "replaced",
    "Swap": "swapped",
    "Put": "put",
    "PutNew": "put",
    "Pick": "picked up",
    "Place": "put down",
}
MOTION = frozenset(("moved", "elsewhere", "raised", "lowered"))
CLOSED = "closed from the start"
_AFTER = re.compile(r"\s+([^\W\d_]+)")
_NEGATED = re.compile(
    r"\b(?:not?|never|nobody|nothing|without|cannot|\w+n[’']t|instead of)(?: [\w’']+){0,3}", re.IGNORECASE
)


def shown_by(prompts: Sequence[str], scene: Scene | None = None) -> frozenset[str]:
    """Return all that these prompts show, from nothing or from a scene on; raises if one is impossible."""
    shown = set[str]()
    for prompt in prompts:
        try:
            scene = parse_description(prompt)
        except NotUnderstood:
            if scene is None:
                raise
            for operation in operations_of(prompt, scene):
                shown.update(_effects(operation, scene))
                scene = operation.apply(scene)
        shown.update(_seen(scene))
    return frozenset(shown)


def not_shown(text: str, shown: frozenset[str]) -> list[str]:
    """Return the words of a text for what is none of the things shown, in order, each once."""
    effects, kinds = language().effects, language().kinds_in(text)
    text = _NEGATED.sub(lambda found: " " * len(found[0]), text)
    missing = []
    for found in WORD.finditer(text):
        known = next((effects[form] for form in forms_of(found[0]) if form in effects), None)
        if known is None or not known.shown.isdisjoint(shown) or is_said_otherwise(found):
            continue
        if not known.of or not known.of.isdisjoint(kinds):
            missing.append(found[0].lower())
    return list(dict.fromkeys(missing))


def is_said_otherwise(found: re.Match[str]) -> bool:
    """Return whether a word with the one after it means something else: "the storm broke out"."""
    return not language().otherwise.isdisjoint(phrases_of(found))


def phrases_of(found: re.Match[str]) -> tuple[str, ...]:
    """Return a word, in each form that it may be of, with the word after it; none before a mark."""
    after = _AFTER.match(found.string, found.end())
    return tuple(f"{form} {after[1].lower()}" for form in forms_of(found[0])) if after else ()


def _seen(scene: Scene) -> Iterator[str]:
    for thing in scene.everything.values():
        yield f"a {thing.kind}"
        if not _is_usual(thing.kind, thing.state):
            yield _state(thing.kind, thing.state)
        elif "open" in ADJECTIVES[thing.kind]:
            yield CLOSED
        if thing.load:
            yield thing.load.relation.value
    if scene.background == "night" or scene.background.endswith(NIGHT):
        yield "night"
    if scene.gripper and scene.gripper.holds:
        yield "held by"


def _effects(operation: Operation, scene: Scene) -> Iterator[str]:
    match operation:
        case Resize():
            yield "grown" if operation.size is Size.LARGE else "shrunk"
        case ChangeBackground():
            is_same = operation.background.removesuffix(NIGHT) == scene.background.removesuffix(NIGHT)
            dark = operation.background.endswith(NIGHT) or operation.background == "night"
            yield ("nightfall" if dark else "daybreak") if is_same or dark else "elsewhere"
        case Move():
            yield "moved"
            lines = operation.to // GRID - operation.cell % CELLS // GRID
            yield from ["lowered"] * (lines > 0) + ["raised"] * (lines < 0)
            thing = scene.at(operation.cell)
            if lines < 0 and thing is not None and thing.kind == "sun":
                yield "daybreak"
        case ChangeState():
            yield from _no_longer(scene.at(operation.cell))
        case _:
            yield _DONE[type(operation).__name__]


def _no_longer(thing: Thing | None) -> Iterator[str]:
    if thing is not None and not _is_usual(thing.kind, thing.state):
        yield f"no longer {_state(thing.kind, thing.state)}"


def _is_usual(kind: str, state: int) -> bool:
    return state == ALL_KINDS[kind].usual % len(ALL_KINDS[kind].states)


def _state(kind: str, state: int) -> str:
    return ADJECTIVES[kind][state] or ALL_KINDS[kind].states[state]

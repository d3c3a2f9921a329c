"""What edits of several kinds come to: another stage, another place."""

from __future__ import annotations

from collections.abc import Callable

from interleave_mini.language.edits.edit import Given
from interleave_mini.language.words import the
from interleave_mini.world.kinds import KINDS
from interleave_mini.world.operations import ChangeBackground, ChangeState, Impossible, Operation, thing_at
from interleave_mini.world.scene import Scene, Thing

Consequence = Callable[[Scene, Given], tuple[Operation, ...]]
_OUTDOORS = ("meadow", "beach", "snow", "desert", "forest", "city", "sea")


def one_stage(kinds: tuple[str, ...], step: int) -> Consequence:
    def happens(scene: Scene, given: Given) -> tuple[Operation, ...]:
        thing = of_kind(scene, given.ref, kinds)
        return (ChangeState(given.ref, thing.state + step),)

    return happens


def at_stage(kinds: tuple[str, ...], state: int) -> Consequence:
    def happens(scene: Scene, given: Given) -> tuple[Operation, ...]:
        thing = of_kind(scene, given.ref, kinds)
        return (ChangeState(given.ref, state % len(KINDS[thing.kind].states)),)

    return happens


def place_becomes(background: str) -> Consequence:
    def happens(scene: Scene, given: Given) -> tuple[Operation, ...]:
        if scene.background not in _OUTDOORS:
            raise Impossible("this happens out of doors")
        return (ChangeBackground(background),)

    return happens


def of_kind(scene: Scene, cell: int, kinds: tuple[str, ...]) -> Thing:
    thing = thing_at(scene, cell)
    if thing.kind not in kinds:
        raise Impossible(f"this does not happen to {the(thing)}")
    return thing

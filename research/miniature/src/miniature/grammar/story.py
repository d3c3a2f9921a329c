"""Stories: the true sequence of scenes of a request, with more or fewer images."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

from interleave_mini.bench.tasks import Step
from interleave_mini.language.words import PLACES, sentence
from interleave_mini.world.kinds import KINDS
from interleave_mini.world.operations import Add, ChangeBackground, Operation, apply_all, changes
from interleave_mini.world.scene import Gripper, Scene, Thing


class Story:
    """Builds a sequence of steps: a first scene, then the operations that change it."""

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
        self.steps = [Step(name, sentence(caption), scene)]

    @property
    def scene(self) -> Scene:
        """The scene after the last step."""
        return self.steps[-1].scene

    def then(self, *operations: Operation, name: str, caption: str) -> Story:
        """Append a step; raise `Impossible` if an operation cannot be applied."""
        before = self.scene
        after = apply_all(operations, before)
        self.steps.append(Step(name, sentence(caption), after, operations, before))
        return self


def in_images(steps: tuple[Step, ...], count: int) -> tuple[Step, ...]:
    """Return the same story with this number of images, as far as possible."""
    return shortened(steps, count) if count < len(steps) else lengthened(steps, count)


def shortened(steps: tuple[Step, ...], count: int) -> tuple[Step, ...]:
    """Return the same story in fewer images: the first, the last, and some evenly in between."""
    if not 2 <= count < len(steps):
        return steps
    kept = [round(place * (len(steps) - 1) / (count - 1)) for place in range(count)]
    short = [steps[0]]
    for before, last in pairwise(kept):
        scene = short[-1].scene
        told = " ".join(step.caption for step in steps[before + 1 : last + 1])
        operations = changes(scene, steps[last].scene) if last > before + 1 else steps[last].operations
        short.append(replace(steps[last], caption=told, operations=operations, before=scene))
    return tuple(short)


def lengthened(steps: tuple[Step, ...], count: int) -> tuple[Step, ...]:
    """Return the same story with up to three more images: it opens on the empty place and ends at night."""
    told = list(steps)
    if len(told) < count:
        told = [*_opening(told[0]), *told[1:]]
    for ending in (_nightfall, _moonrise):
        if len(told) < count and (more := ending(told[-1].scene)):
            told.append(more)
    return tuple(told) if len(told) == count else steps


def _opening(first: Step) -> list[Step]:
    """Return the first image as two: the empty place, then with everything."""
    scene = first.scene
    empty = Scene.of(scene.background, {}, scene.gripper)
    place = Step("The place", sentence(f"this is where it happens: {PLACES[scene.background].within}"), empty)
    adds = tuple(Add(thing, cell) for cell, thing in scene.things.items())
    return [place, replace(first, operations=adds, before=empty)]


def _nightfall(scene: Scene) -> Step | None:
    if scene.background == "night":
        return None
    night = ChangeBackground("night")
    return Step("Night", "Then night falls, and the story ends.", night.apply(scene), (night,), scene)


def _moonrise(scene: Scene) -> Step | None:
    if not scene.is_free(2) or any(thing.kind == "moon" for thing in scene.things.values()):
        return None
    moon = Add(Thing("moon", "yellow", state=len(KINDS["moon"].states) - 1), 2)
    return Step("The moon", "The moon comes out over it all.", moon.apply(scene), (moon,), scene)

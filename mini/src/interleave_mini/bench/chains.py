"""Chains of edits in the miniature's world for `interleave bench drift`, with their exact truth."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Any

from PIL.Image import Image

from interleave import InputError
from interleave.bench.drift.chains import Chain, Link, Protocol_
from interleave_mini.bench.random_scenes import MAX_THINGS, random_operations, random_scene
from interleave_mini.language.prompts import edit_prompt, keep_prompt, scene_prompt
from interleave_mini.language.references import Style
from interleave_mini.language.sentences import say_all
from interleave_mini.language.words import POSITIONS, the
from interleave_mini.reader import shared_batched_reader
from interleave_mini.reader.scores import shows
from interleave_mini.world.drawing import draw
from interleave_mini.world.operations import Move, Operation, apply_all, changes
from interleave_mini.world.scene import CELLS, Scene, Size, Thing

FIRST_THINGS = 2


class MiniChains:
    """Random scenes, edited in exact words; the reader says whether an image shows the true scene."""

    def chains(self, protocol: Protocol_, count: int, steps: int, seed: int) -> list[Chain]:
        made = {"noop": _unchanged, "cycle": _there_and_back, "chain": _edits, "twins": _moves}[protocol]
        chains = []
        for number in range(count):
            rng = Random(f"drift/{protocol}/{seed}/{number}")
            start = _twins(rng) if protocol == "twins" else random_scene(rng, FIRST_THINGS)
            links = tuple(made(start, steps, rng))
            chains.append(Chain(f"{protocol}-{number}", draw(start), links, whole_starts_from_first=False))
        return chains

    def right(self, images: Sequence[Image], truths: Sequence[Any]) -> list[bool] | None:
        reader = shared_batched_reader()
        return [shows(reader.read(image), truth) for image, truth in zip(images, truths, strict=True)]

    def mixed_up(self, image: Image, truth: Any) -> bool:
        """Whether, of two things alike but for their size, one stands where the other should."""
        if not any(_has_twin(thing, truth) for thing in truth.things.values()):
            return False
        seen = shared_batched_reader().read(image).scene
        for cell, thing in truth.things.items():
            found = seen.cells[cell]
            twin = replace(thing, size=_other_size(thing.size))
            if found == twin and twin in truth.things.values():
                return True
        return False


def _link(prompt: str, scene: Scene, start: Scene) -> Link:
    return Link(prompt, scene_prompt(scene, exact=True), scene, equals_start=scene == start)


def _unchanged(start: Scene, steps: int, rng: Random) -> list[Link]:
    return [_link(keep_prompt(start), start, start)] * steps


def _there_and_back(start: Scene, steps: int, rng: Random) -> list[Link]:
    links: list[Link] = []
    while len(links) < steps:
        operations = _some_operations(start, rng)
        there = apply_all(operations, start)
        try:
            back = edit_prompt(changes(there, start), there, exact=True)
        except InputError:  # there are no words for the way back
            continue
        links.append(_link(edit_prompt(operations, start, exact=True), there, start))
        links.append(_link(back, start, start))
    return links[:steps]


def _edits(start: Scene, steps: int, rng: Random) -> list[Link]:
    links, scene = [], start
    for _ in range(steps):
        operations = _some_operations(scene, rng)
        prompt = edit_prompt(operations, scene, exact=True)
        scene = apply_all(operations, scene)
        links.append(_link(prompt, scene, start))
    return links


def _twins(rng: Random) -> Scene:
    """Two things that differ only in size, and a third."""
    while True:
        scene = random_scene(rng, 3)
        first, second, *_ = scene.things
        thing = scene.things[first]
        twin = replace(thing, size=_other_size(thing.size))
        others = [each for cell, each in scene.things.items() if cell not in (first, second)]
        if scene.gripper is None and thing not in others and twin not in others:
            return scene.with_cell(second, twin)


def _moves(start: Scene, steps: int, rng: Random) -> list[Link]:
    """One of the twins moves, now this one and now that, in a planner's short words."""
    links, scene = [], start
    for _ in range(steps):
        twins = [cell for cell, thing in scene.things.items() if _has_twin(thing, scene)]
        cell = rng.choice(twins)
        [other] = [each for each in twins if each != cell]
        move = Move(cell, rng.choice([each for each in range(CELLS) if scene.is_free(each)]))
        keeps = f"Keep {the(scene.things[other], size=True)} {POSITIONS[other][1]} unchanged."
        described = f"{say_all((move,), scene, Style(exact=True))} {keeps}"
        short = edit_prompt((move,), scene)
        scene = move.apply(scene)
        links.append(replace(_link(short, scene, start), with_assets=described))
    return links


def _has_twin(thing: Thing, scene: Scene) -> bool:
    return replace(thing, size=_other_size(thing.size)) in scene.things.values()


def _other_size(size: Size) -> Size:
    return Size.SMALL if size is Size.LARGE else Size.LARGE


def _some_operations(scene: Scene, rng: Random) -> tuple[Operation, ...]:
    """An edit that changes something and leaves a scene which exact prompts can describe."""
    while True:
        operations = random_operations(scene, rng)
        if operations:
            after = apply_all(operations, scene)
            if after != scene and len(after.things) < MAX_THINGS:
                return operations

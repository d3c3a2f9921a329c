"""Chains of edits in the miniature's world for `interleave bench drift`, with their exact truth."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Any

from PIL.Image import Image

from interleave.benchmarks.drift.chains import Chain, Link, Protocol_
from interleave.errors import InputError
from interleave_mini.language.prompts import edit_prompt, keep_prompt, scene_prompt
from interleave_mini.reader import shared_batched_reader
from interleave_mini.reader.scores import shows
from interleave_mini.train.examples import MAX_THINGS, random_operations, random_scene
from interleave_mini.world import draw
from interleave_mini.world.operations import Operation, apply_all, changes
from interleave_mini.world.scene import Scene

FIRST_THINGS = 2


class MiniChains:
    """Random scenes, edited in exact words; the reader says whether a picture shows the true scene."""

    def chains(self, protocol: Protocol_, count: int, steps: int, seed: int) -> list[Chain]:
        made = {"noop": _unchanged, "cycle": _there_and_back, "chain": _edits}[protocol]
        chains = []
        for number in range(count):
            rng = Random(f"drift/{protocol}/{seed}/{number}")
            start = random_scene(rng, FIRST_THINGS)
            links = tuple(made(start, steps, rng))
            chains.append(Chain(f"{protocol}-{number}", draw(start), links, whole_starts_from_first=False))
        return chains

    def right(self, pictures: Sequence[Image], truths: Sequence[Any]) -> list[bool] | None:
        reader = shared_batched_reader()
        return [shows(reader.read(picture), truth) for picture, truth in zip(pictures, truths, strict=True)]


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


def _some_operations(scene: Scene, rng: Random) -> tuple[Operation, ...]:
    """An edit that changes something and leaves a scene which exact prompts can describe."""
    while True:
        operations = random_operations(scene, rng)
        if operations:
            after = apply_all(operations, scene)
            if after != scene and len(after.things) < MAX_THINGS:
                return operations

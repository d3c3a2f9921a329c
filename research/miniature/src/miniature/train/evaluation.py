"""Evaluation of the generator by the reader: from text, by operation, unseen pairs, edit chains.

`evaluate` runs after training, `QuickEval` every few minutes during it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import count as counter
from pathlib import Path
from random import Random
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

from interleave_mini.bench.random_scenes import MAX_THINGS, random_operations, random_scene
from interleave_mini.bench.splits import HELD_OUT_PAIRS
from interleave_mini.bench.wider_scenes import wider_operations, wider_scene
from interleave_mini.intervals import Estimate, estimate
from interleave_mini.language.prompts import edit_prompt, scene_prompt
from interleave_mini.reader import Reader, Reading
from interleave_mini.reader.scores import shows
from interleave_mini.world.drawing import draw_many
from interleave_mini.world.kinds import BACKGROUNDS, KINDS
from interleave_mini.world.operations import Operation, apply_all
from interleave_mini.world.scene import MIDDLE, Scene, Thing
from miniature.train.examples import OperationMaker, SceneMaker
from miniature.train.flow import Flow, encode_prompts

CHAIN = 10
SAMPLES_SHOWN = 8


class DrawFunction(Protocol):
    def __call__(
        self, prompts: Sequence[str], sources: Sequence[NDArray[np.uint8]], seed: int
    ) -> NDArray[np.uint8]: ...


def draw_function(flow: Flow, tokenizer: Any, *, batch: int = 128) -> DrawFunction:
    """Return a function from prompts and source images to images; `sources` are oldest first."""

    def draw(prompts: Sequence[str], sources: Sequence[NDArray[np.uint8]], seed: int) -> NDArray[np.uint8]:
        drawn = []
        for start in range(0, len(prompts), batch):
            part = list(prompts[start : start + batch])
            tokens = torch.as_tensor(encode_prompts(tokenizer, part, flow.shape)).to(flow.device)
            given = [torch.as_tensor(images[start : start + batch]) for images in sources]
            # Groups differ in size, and each size would be recompiled.
            with torch.compiler.set_stance("force_eager"):
                drawn.append(flow.draw(tokens, given, seed + start).cpu().numpy())
        return np.concatenate(drawn)

    return draw


def evaluate(draw: DrawFunction, reader: Reader, *, count: int, seed: int = 0) -> dict[str, Estimate]:
    """Return the shares of strictly correct images, over `count` images per category."""
    rng = Random(f"evaluation/{seed}")
    results: dict[str, list[bool]] = {}
    for things in range(1, MAX_THINGS + 1):
        scenes = [random_scene(rng, things) for _ in range(count)]
        prompts = [scene_prompt(scene) for scene in scenes]
        results[f"text, {things} things"] = right(draw, reader, prompts, (), scenes, seed)
    results["text, unseen pair"] = _unseen(draw, reader, rng, count, seed)
    results |= _edits(draw, reader, rng, count, seed, random_scene, random_operations)
    wider = _edits(draw, reader, rng, count, seed, wider_scene, wider_operations)
    results |= {f"wider world, {name}": found for name, found in wider.items()}
    for things in (1, 3, 5):
        scenes = [wider_scene(rng, things) for _ in range(count)]
        prompts = [scene_prompt(scene) for scene in scenes]
        results[f"wider world, text, {things} things"] = right(draw, reader, prompts, (), scenes, seed)
    results["edit, two pictures"] = _with_earlier(draw, reader, rng, count, seed)
    results |= _chains(draw, reader, rng, max(1, count // 2), seed)
    return {name: estimate([float(one) for one in ones]) for name, ones in results.items()}


def _unseen(draw: DrawFunction, reader: Reader, rng: Random, count: int, seed: int) -> list[bool]:
    pairs = sorted(HELD_OUT_PAIRS)
    scenes = []
    for _ in range(count):
        kind, colour = rng.choice(pairs)
        state = rng.randrange(len(KINDS[kind].states))
        scenes.append(Scene.of(rng.choice(BACKGROUNDS), {MIDDLE: Thing(kind, colour, state=state)}))
    return right(draw, reader, [scene_prompt(scene) for scene in scenes], (), scenes, seed)


def _edits(
    draw: DrawFunction,
    reader: Reader,
    rng: Random,
    count: int,
    seed: int,
    scene_of: SceneMaker,
    operations_in: OperationMaker,
) -> dict[str, list[bool]]:
    groups: dict[str, list[tuple[Scene, tuple[Operation, ...]]]] = {}
    wanted = 12
    for _ in range(count * 400):
        scene = scene_of(rng)
        operations = operations_in(scene, rng)
        if operations and len(operations) == 1:
            group = groups.setdefault(type(operations[0]).__name__.lower(), [])
            if len(group) < count:
                group.append((scene, operations))
        if sum(len(group) == count for group in groups.values()) >= wanted - 1:
            break
    results: dict[str, list[bool]] = {"edit, all, short": [], "edit, all, exact": []}
    for name, group in sorted(groups.items()):
        sources = draw_many([scene for scene, _ in group])
        targets = [apply_all(operations, scene) for scene, operations in group]
        for style in ("short", "exact"):
            prompts = [edit_prompt(operations, scene, exact=style == "exact") for scene, operations in group]
            found = right(draw, reader, prompts, (sources,), targets, seed)
            results[f"edit, {name}, {style}"] = found
            results[f"edit, all, {style}"] += found
    return results


def _with_earlier(draw: DrawFunction, reader: Reader, rng: Random, count: int, seed: int) -> list[bool]:
    """Evaluate edits with an additional earlier source image, which must not distract."""
    earlier = [random_scene(rng, 3) for _ in range(count)]
    before = [apply_all(_some_operations(scene, rng), scene) for scene in earlier]
    steps = [_some_operations(scene, rng) for scene in before]
    prompts = [edit_prompt(done, scene) for done, scene in zip(steps, before, strict=True)]
    targets = [apply_all(done, scene) for done, scene in zip(steps, before, strict=True)]
    return right(draw, reader, prompts, (draw_many(earlier), draw_many(before)), targets, seed)


def _chains(draw: DrawFunction, reader: Reader, rng: Random, count: int, seed: int) -> dict[str, list[bool]]:
    """Evaluate chains of edits, each from the model's last image; a chain is right while every link is."""
    scenes = [random_scene(rng, 2) for _ in range(count)]
    images = draw_many(scenes)
    still_right = np.ones(count, bool)
    results = {}
    for link in range(1, CHAIN + 1):
        steps = [_some_operations(scene, rng) for scene in scenes]
        prompts = [edit_prompt(done, scene, exact=True) for done, scene in zip(steps, scenes, strict=True)]
        scenes = [apply_all(done, scene) for done, scene in zip(steps, scenes, strict=True)]
        images = draw(prompts, (images,), seed + link)
        still_right &= np.array(_right(reader.read_many(images), scenes))
        if link in (1, 3, 5, CHAIN):
            results[f"chain of {link}, all right"] = still_right.tolist()
    return results


def _some_operations(scene: Scene, rng: Random) -> tuple[Operation, ...]:
    while True:
        operations = random_operations(scene, rng)
        if operations and len(apply_all(operations, scene).things) <= MAX_THINGS - 1:
            return operations


def right(
    draw: DrawFunction,
    reader: Reader,
    prompts: Sequence[str],
    sources: Sequence[NDArray[np.uint8]],
    targets: Sequence[Scene],
    seed: int,
) -> list[bool]:
    """Return which of these prompts are drawn strictly correctly."""
    return _right(reader.read_many(draw(prompts, sources, seed)), targets)


def _right(readings: Sequence[Reading], targets: Sequence[Scene]) -> list[bool]:
    return [shows(reading, target) for reading, target in zip(readings, targets, strict=True)]


@dataclass
class QuickEval:
    """A quick evaluation during training, on fixed prompts so that results are comparable."""

    draw: DrawFunction
    reader: Reader
    folder: Path
    images: int = 48
    numbers: counter[int] = field(default_factory=counter)

    def __call__(self) -> dict[str, float]:
        """Return the shares of strictly correct images: from text, by short edits, by exact edits."""
        rng = Random("glance")
        scenes = [wider_scene(rng, 3) for _ in range(self.images)]
        steps = [wider_operations(scene, rng) or () for scene in scenes]
        after = [apply_all(done, scene) for done, scene in zip(steps, scenes, strict=True)]
        before = draw_many(scenes)
        short, exact = (
            [edit_prompt(done, scene, exact=exact) for done, scene in zip(steps, scenes, strict=True)]
            for exact in (False, True)
        )
        drawn = {
            "text": self.draw([scene_prompt(scene) for scene in scenes], (), seed=0),
            "short": self.draw(short, (before,), seed=0),
            "exact": self.draw(exact, (before,), seed=0),
        }
        self._save_samples([before, *drawn.values()])
        return {
            name: sum(map(shows, self.reader.read_many(images), scenes if name == "text" else after))
            / self.images
            for name, images in drawn.items()
        }

    def _save_samples(self, rows: list[NDArray[np.uint8]]) -> None:
        """Save rows of images: the previous ones, then from text, by short edits and by exact edits."""
        self.folder.mkdir(parents=True, exist_ok=True)
        sheet = np.concatenate([np.concatenate(list(row[:SAMPLES_SHOWN]), axis=1) for row in rows])
        Image.fromarray(sheet).save(self.folder / f"{next(self.numbers):03}.png")

"""Images drawn by the generator as exercises for a critic: its failures differ from invented ones.

Plan steps of the training split and random edits are drawn from planner prompts and from exact prompts, some
with fewer denoising steps than usual, for more failures. The reader determines what each image shows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch

from interleave_mini.oracle import refine_prompt
from interleave_mini.reader import Reader
from interleave_mini.reader.scores import ACCEPTED, faults_in, shows
from interleave_mini.world.backgrounds import SIDE
from interleave_mini.world.drawing import TorchPainter, scene_codes
from interleave_mini.world.scene import Scene
from miniature.train.autoencoder import LatentSpace
from miniature.train.examples import Example
from miniature.train.flow import Flow, encode_prompts
from miniature.train.generator_model import SHAPES, load_parts
from miniature.train.vision_examples import Exercise, Shown, sample_step, verdict_on, verdict_question

DRAWN = "drawn"
"""Name of the exercises."""
STEPS = (4, 2, 1, 1)
"""Possible numbers of denoising steps."""
EXACT_SHARE = 0.15
RIGHT_FOR_WRONG = 1.5
"""Correct images kept per wrong one; all wrong ones are kept."""
CHUNK, TOGETHER = 64, 256
"""Examples per worker chunk, and images per batch."""
WHITE_CANVAS = 0
"""Index of the white canvas, used if there is no previous image."""


@dataclass(frozen=True)
class DrawnImages:
    """Exercises and their images, n×256×256×3 on the device."""

    images: Any
    exercises: list[Exercise]
    counts: dict[str, int]
    """Counts of drawn, wrong and right images."""


@dataclass(frozen=True)
class _Asked:
    step: Example
    drawn_with: str
    steps: int


class _Steps(torch.utils.data.IterableDataset):  # type: ignore[misc]
    """Endless stream of examples to draw, in chunks, from worker processes."""

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __iter__(self) -> Iterator[list[_Asked]]:
        worker = torch.utils.data.get_worker_info()
        rng = Random(f"drawings/{self.seed}/{worker.id if worker else 0}")
        while True:
            yield [_sample(rng) for _ in range(CHUNK)]


def _sample(rng: Random) -> _Asked:
    step, _ = sample_step(rng)
    exact = rng.random() < EXACT_SHARE
    return _Asked(step, refine_prompt(step.after, step.before) if exact else step.prompt, rng.choice(STEPS))


def make_drawn_images(
    pipeline: Path, count: int, device: str, *, seed: int = 0, workers: int = 0
) -> DrawnImages:
    """Draw at least `count` images; return exercises about all wrong ones and some right ones."""
    vae, text_encoder, tokenizer, transformer = load_parts(pipeline, device)
    vae.requires_grad_(False)
    shape = next(each for each in SHAPES.values() if each.latent_channels == vae.config.latent_channels)
    flow = Flow(shape, LatentSpace(vae), text_encoder, transformer, tokenizer.pad_token_id)
    painter, reader = TorchPainter(device), Reader(device)
    stream = iter(torch.utils.data.DataLoader(_Steps(seed), batch_size=None, num_workers=workers))
    kept = _Kept(Random(seed), device)
    with torch.no_grad(), torch.compiler.set_stance("force_eager"):
        for group in _alike(stream):
            befores, afters = _draw(flow, tokenizer, painter, group, seed=kept.drawn + seed)
            kept.add(group, befores, afters, reader)
            if kept.drawn >= count:
                break
    return kept.result()


def _alike(stream: Iterator[list[_Asked]]) -> Iterator[list[_Asked]]:
    """Yield groups with equal numbers of sources and steps, all of one size, to which cuDNN is tuned."""
    waiting: dict[tuple[bool, int], list[_Asked]] = defaultdict(list)
    for chunk in stream:
        for each in chunk:
            group = waiting[each.step.before is None, each.steps]
            group.append(each)
            if len(group) == TOGETHER:
                yield list(group)
                group.clear()


def _draw(
    flow: Flow, tokenizer: Any, painter: TorchPainter, group: Sequence[_Asked], seed: int
) -> tuple[Any, Any]:
    """Return the previous images, or `None`, and the images drawn from them.

    Half of the previous images pass through the autoencoder, as in use most come from the generator.
    """
    tokens = torch.as_tensor(encode_prompts(tokenizer, [each.drawn_with for each in group], flow.shape))
    scenes = [each.step.before for each in group if each.step.before is not None]
    befores = None
    if scenes:
        befores = painter.paint(torch.as_tensor(scene_codes(scenes)))
        half = len(scenes) // 2
        if half:
            befores[:half] = flow.space.pixels(flow.space.tokens(befores[:half]))
    sources = () if befores is None else (befores,)
    return befores, flow.draw(tokens.to(flow.device), sources, seed, group[0].steps)


def _expected(step: Example) -> tuple[Scene, ...]:
    """Return what an image probably shows."""
    return (step.after, step.before) if step.before else (step.after,)


class _Kept:
    """Images kept as exercises."""

    def __init__(self, rng: Random, device: str) -> None:
        self.rng = rng
        self.drawn = self.wrong = self.right = 0
        white = torch.full((1, SIDE, SIDE, 3), 255, dtype=torch.uint8, device=device)
        self.images, self.count = [white], 1
        self.exercises: list[Exercise] = []

    def add(self, group: Sequence[_Asked], befores: Any, afters: Any, reader: Reader) -> None:
        readings = reader.read_many(afters, [_expected(each.step) for each in group])
        is_right = [shows(found, each.step.after) for found, each in zip(readings, group, strict=True)]
        self.drawn += len(group)
        for place, (each, found) in enumerate(zip(group, readings, strict=True)):
            if is_right[place] and self.right >= RIGHT_FOR_WRONG * (self.wrong + 1):
                continue
            self.right, self.wrong = self.right + is_right[place], self.wrong + (not is_right[place])
            before = WHITE_CANVAS if befores is None else self._keep(befores[place])
            reasoning = ACCEPTED if is_right[place] else faults_in(found, each.step.after)
            self.exercises.append(
                Exercise(
                    DRAWN,
                    (
                        verdict_question(each.step.prompt, each.drawn_with),
                        Shown(before),
                        Shown(self._keep(afters[place])),
                    ),
                    verdict_on(reasoning, each.step),
                )
            )

    def _keep(self, image: Any) -> int:
        self.images.append(image[None].clone())
        self.count += 1
        return self.count - 1

    def result(self) -> DrawnImages:
        self.rng.shuffle(self.exercises)
        counts = {"drawn": self.drawn, "wrong": self.wrong, "right": self.right}
        return DrawnImages(torch.cat(self.images), self.exercises, counts)

"""Measures the effect of float8 on images of the miniature's generator, as judged by the reader.

    python perf/fp8_quality.py --images 1000 --results perf/results/fp8-quality.json

The tasks are edits of painted scenes with short prompts, which the generator fails most often, and images
from text, with the same scenes, prompts and seeds each time. An image is right if it shows exactly what was
requested. Differences are paired by image.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

import numpy as np
from PIL import Image

import interleave_mini
from interleave.backends.protocols import ImageGenerator, ImageRequest
from interleave.backends.registry import load_generator
from interleave_mini.bench.random_scenes import random_operations, random_scene
from interleave_mini.intervals import estimate
from interleave_mini.language.prompts import edit_prompt, scene_prompt
from interleave_mini.reader import Reader
from interleave_mini.reader.scores import shows
from interleave_mini.world.drawing import draw_many
from interleave_mini.world.operations import apply_all
from interleave_mini.world.scene import Scene

WEIGHTS = Path(interleave_mini.__file__).parent / "weights" / "generator"
SORTS = ("edit", "text")
TOGETHER = 50


@dataclass(frozen=True)
class Task:
    request: ImageRequest
    wanted: Scene


def tasks_of(sort: str, count: int) -> list[Task]:
    rng = Random(f"float8/{sort}")
    tasks: list[Task] = []
    while len(tasks) < count:
        scene = random_scene(rng)
        seed = len(tasks)
        if sort == "text":
            tasks.append(Task(ImageRequest(scene_prompt(scene), seed), scene))
        elif operations := random_operations(scene, rng):
            source = Image.fromarray(draw_many([scene])[0])
            request = ImageRequest(edit_prompt(operations, scene), seed, (source,))
            tasks.append(Task(request, apply_all(operations, scene)))
    return tasks


async def drawn(generator: ImageGenerator, tasks: Sequence[Task]) -> list[Image.Image]:
    return list(await asyncio.gather(*(generator.generate(task.request) for task in tasks)))


def judged(spec: str, tasks: Sequence[Task], reader: Reader) -> tuple[list[bool], list[Image.Image]]:
    generator = load_generator(spec)
    right: list[bool] = []
    images: list[Image.Image] = []
    for start in range(0, len(tasks), TOGETHER):
        part = tasks[start : start + TOGETHER]
        made = asyncio.run(drawn(generator, part))
        readings = reader.read_many(np.stack([np.asarray(image) for image in made]))
        right += [shows(reading, task.wanted) for reading, task in zip(readings, part, strict=True)]
        images += made
        print(spec.rpartition("?")[2], len(right), sum(right), flush=True)
    return right, images


def compared(plain: Sequence[bool], rounded: Sequence[bool]) -> dict[str, float]:
    """Return the points gained by float8, with a 95 % interval from the pairs that differ."""
    gained = sum(b and not a for a, b in zip(plain, rounded, strict=True))
    lost = sum(a and not b for a, b in zip(plain, rounded, strict=True))
    count = len(plain)
    mean = (gained - lost) / count
    spread = 1.96 * math.sqrt(((gained + lost) / count - mean**2) / count)
    return {"gained": gained, "lost": lost, "difference": mean, "low": mean - spread, "high": mean + spread}


def levels_apart(ones: Sequence[Image.Image], others: Sequence[Image.Image]) -> float:
    """Return the mean difference between images, in levels of 255."""
    pairs = zip(ones, others, strict=True)
    return float(np.mean([np.abs(np.asarray(a, int) - np.asarray(b, int)).mean() for a, b in pairs]))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--images", type=int, default=1000, help="of each sort [1000]")
    parser.add_argument("--sorts", default=",".join(SORTS), help=f"[{','.join(SORTS)}]")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batch", type=int, default=10)
    parser.add_argument("--results", type=Path, metavar="FILE")
    options = parser.parse_args()
    reader, rows = Reader(None if options.device == "cpu" else options.device), []
    how = f"device={options.device}&batch={options.batch}&compile=false"
    for sort in options.sorts.split(","):
        tasks = tasks_of(sort, options.images)
        started = time.perf_counter()
        plain, images = judged(f"diffusers:{WEIGHTS}?{how}", tasks, reader)
        rounded, others = judged(f"diffusers:{WEIGHTS}?{how}&quantization=fp8", tasks, reader)
        row = {
            "sort": sort,
            "pictures": len(tasks),
            "device": options.device,
            "plain": vars(estimate([float(each) for each in plain])),
            "fp8": vars(estimate([float(each) for each in rounded])),
            **compared(plain, rounded),
            "levels_apart": levels_apart(images, others),
            "seconds": time.perf_counter() - started,
        }
        rows.append(row)
        print(json.dumps(row), flush=True)
        if options.results:
            options.results.write_text(json.dumps(rows, indent=1) + "\n")


if __name__ == "__main__":
    main()

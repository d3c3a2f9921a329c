"""The miniature on onnxruntime beside torch: the same calls, one after the other, compared and timed.

    python perf/onnx_parity.py --plans 250 --verdicts 200 --images 50 --results perf/results/onnx-parity.json

Plans and verdicts must be identical token for token, images within 2/255. Needs torch and both distributions.
Exits with 1 if anything differs.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Awaitable, Callable, Iterator
from datetime import date
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from interleave import ImageRequest, Sampling, load_generator, load_vlm
from interleave.agents.critic import critic_sampling
from interleave.agents.planner import planner_messages
from interleave.plugin import critic_input, critic_messages, load_pack
from interleave_mini.bench.task_file import shipped_tasks
from interleave_mini.bench.tasks import SUITES, Task
from interleave_mini.language.prompts import scene_prompt
from interleave_mini.world.drawing import draw
from interleave_mini.world.mistakes import with_mistake

PIXEL_TOLERANCE = 2
RUNTIMES = ("onnx", "torch")
SHAPES = ((256, 256), (256, 256), (320, 200), (180, 300), (640, 640))
"""Sizes of the images that critics and generators are shown: most as drawn, some not square."""


def tasks() -> Iterator[Task]:
    """Yield tasks of all suites in turn."""
    for several in zip(*(shipped_tasks(suite) for suite in SUITES), strict=False):
        yield from several


class Comparison:
    """Calls of one kind: how many differ, and how long each runtime took."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.seconds: dict[str, list[float]] = {runtime: [] for runtime in RUNTIMES}
        self.differences: list[str] = []
        self.largest = 0.0

    async def compare(
        self, label: str, call: Callable[[str], Awaitable[Any]], differ: Callable[[Any, Any], float]
    ) -> None:
        """Make one call in both runtimes, in changing order."""
        order = RUNTIMES if len(self.seconds["onnx"]) % 2 else RUNTIMES[::-1]
        answers = {}
        for runtime in order:
            started = time.perf_counter()
            answers[runtime] = await call(runtime)
            self.seconds[runtime].append(time.perf_counter() - started)
        difference = differ(answers["onnx"], answers["torch"])
        self.largest = max(self.largest, difference)
        if difference > (PIXEL_TOLERANCE if self.name == "images" else 0):
            self.differences.append(label)
        done = len(self.seconds["onnx"])
        if done % 10 == 0:
            print(f"{self.name} {done}: {len(self.differences)} differ", flush=True)

    def row(self) -> dict[str, Any]:
        """Return what was measured."""
        medians = {runtime: statistics.median(taken[1:] or taken) for runtime, taken in self.seconds.items()}
        return {
            "what": self.name,
            "calls": len(self.seconds["onnx"]),
            "different": len(self.differences),
            "largest_difference": round(self.largest, 6),
            "examples": self.differences[:5],
            **{f"{runtime}_seconds": round(median, 4) for runtime, median in medians.items()},
            "times_faster": round(medians["torch"] / medians["onnx"], 2),
        }


def text_differs(one: Any, two: Any) -> float:
    """Return 0 for replies with equal tokens."""
    same = (one.text, one.finish_reason, one.usage) == (two.text, two.finish_reason, two.usage)
    return 0.0 if same else 1.0


def pixels_differ(one: Any, two: Any) -> float:
    """Return the largest difference of two images, in levels of 255."""
    if one.size != two.size:
        return 255.0
    return float(np.abs(np.asarray(one, np.int16) - np.asarray(two, np.int16)).max())


async def plans(count: int) -> Comparison:
    """Compare plans of requests of all suites."""
    pack, found = load_pack("mini"), Comparison("plans")
    models = {each: load_vlm(f"mini?runtime={each}&batch=1", "planner") for each in RUNTIMES}
    for task in islice(tasks(), count):
        messages = planner_messages(task.request(), pack, with_assets=False)
        await found.compare(
            task.text,
            lambda runtime, asked=messages: models[runtime].complete(asked, Sampling()),
            text_differs,
        )
    return found


async def verdicts(count: int) -> Comparison:
    """Compare verdicts on right and wrong images of the world."""
    pack, found, random = load_pack("mini"), Comparison("verdicts"), Random("verdicts")
    models = {each: load_vlm(f"mini?runtime={each}&batch=1", "critic") for each in RUNTIMES}
    drawn = (step for task in tasks() for step in task.steps if step.scene is not None)
    for step in islice(drawn, count):
        scene = with_mistake(step.scene, random) if random.random() < 0.5 else step.scene
        size = random.choice(SHAPES)
        before = (draw(step.before).resize(size),) if step.before else ()
        seen = critic_input(step.prompt, step.prompt, before, draw(scene).resize(size))
        messages = critic_messages(seen, pack)
        await found.compare(
            step.prompt,
            lambda runtime, asked=messages: models[runtime].complete(asked, critic_sampling()),
            text_differs,
        )
    return found


async def images(count: int) -> Comparison:
    """Compare images: from text, edits, and edits of sources that are not square."""
    found, random = Comparison("images"), Random("images")
    models = {each: load_generator(f"mini?runtime={each}") for each in RUNTIMES}
    drawn = (step for task in tasks() for step in task.steps if step.scene is not None)
    for number, step in enumerate(islice(drawn, count)):
        edit = step.before is not None and number % 3 > 0
        sources = (draw(step.before).resize(random.choice(SHAPES)),) if edit and step.before else ()
        prompt = step.prompt if edit else scene_prompt(step.scene)
        request = ImageRequest(prompt, seed=random.randrange(2**31), sources=sources)
        await found.compare(
            prompt, lambda runtime, asked=request: models[runtime].generate(asked), pixels_differ
        )
    return found


async def measure(arguments: argparse.Namespace) -> list[Comparison]:
    """Make all comparisons that are asked for."""
    wanted = ((plans, arguments.plans), (verdicts, arguments.verdicts), (images, arguments.images))
    return [await compare(count) for compare, count in wanted if count]


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--plans", type=int, default=20)
    parser.add_argument("--verdicts", type=int, default=20)
    parser.add_argument("--images", type=int, default=10)
    parser.add_argument("--results", type=Path, metavar="FILE", help="Write the figures to this file.")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    import onnxruntime
    import torch

    rows = [comparison.row() for comparison in asyncio.run(measure(arguments))]
    for row in rows:
        print(json.dumps(row))
    if arguments.results:
        machine = {
            "what": "machine",
            "architecture": platform.machine(),
            "onnxruntime": onnxruntime.__version__,
            "torch": torch.__version__,
            "date": str(date.today()),
        }
        arguments.results.write_text(json.dumps([*rows, machine], indent=1) + "\n")
    return 1 if any(row["different"] for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())

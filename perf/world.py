"""Measures drawing and reading the miniature: on one core with numpy, and with torch if it is installed.

Run with: make bench
Rates are for one core: one thread, per second of processor time, so that other work on the machine does not
count. The rate by wall time is printed too.
"""

# ruff: noqa: E402
from __future__ import annotations

import os

for _threads in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"):
    os.environ[_threads] = "1"  # read when numpy is imported

import statistics
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from random import Random
from typing import Any

import numpy as np

from interleave_mini.reader import Reader
from interleave_mini.world.drawing import THINGS, TorchPainter, atlas, draw_many, draw_pixels, scene_codes
from interleave_mini.world.kinds import BACKGROUNDS, COLOURS
from interleave_mini.world.scene import GRID, Gripper, Scene

ROUNDS = 5
SCENES = 640
GPU_SCENES = 8192
GOAL_DRAWN, GOAL_READ = 500, 200
WITH_GRIPPER = 0.15


def random_scenes(count: int, rng: Random, *, most: int = 9, gripper: float = WITH_GRIPPER) -> list[Scene]:
    """Return scenes with anything anywhere, far more crowded than those of the language."""
    return [_random_scene(rng, most, rng.random() < gripper) for _ in range(count)]


def _random_scene(rng: Random, most: int, with_gripper: bool) -> Scene:
    hand = Gripper(rng.randrange(GRID), rng.choice([None, *COLOURS])) if with_gripper else None
    free = [cell for cell in range(GRID * GRID) if hand is None or cell != hand.column]
    cells = rng.sample(free, rng.randint(0, min(most, len(free))))
    return Scene.of(rng.choice(BACKGROUNDS), {cell: rng.choice(THINGS) for cell in cells}, hand)


def rates(work: Callable[[], object], count: int) -> tuple[float, float]:
    """Return the rate per second of one core's time and per second of wall time: medians of a few rounds."""
    taken = []
    for _ in range(ROUNDS):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        taken.append((count / (time.process_time() - cpu), count / (time.perf_counter() - wall)))
    of_core, on_wall = zip(*taken, strict=True)
    return statistics.median(of_core), statistics.median(on_wall)


def report(what: str, of_core: float, on_wall: float, goal: int) -> bool:
    met = of_core >= goal
    verdict = "met" if met else "MISSED"
    print(f"  {what:<42} {of_core:>9,.0f}/s {on_wall:>9,.0f}/s   goal ≥ {goal}/s  {verdict}", flush=True)
    return met


def cold_start(scenes: list[Scene]) -> None:
    """Time a cold start: the first scene, then all sprites."""
    started = time.perf_counter()
    draw_pixels(scenes[0])
    first = time.perf_counter()
    rows = len(atlas())
    print(
        f"  cold: the first scene {1000 * (first - started):.0f} ms, "
        f"all {rows:,} sprites {time.perf_counter() - first:.1f} s"
    )
    started = time.perf_counter()
    Reader()
    print(f"  cold: a reader, the sprites painted {time.perf_counter() - started:.1f} s")


def with_torch(scenes: list[Scene]) -> bool:
    """Check that torch gives the same pixels and readings, and time it."""
    if find_spec("torch") is None:
        print("  torch is not installed: skipped")
        return True
    import torch

    torch.set_num_threads(1)
    same = on_device("cpu", scenes, len(scenes))
    if torch.cuda.is_available():
        print(f"  GPU: {torch.cuda.get_device_name()}")
        same &= on_device("cuda", scenes, GPU_SCENES)
    else:
        print("  no GPU: skipped")
    return same


def on_device(device: str, scenes: list[Scene], count: int) -> bool:
    import torch

    painter, reader = TorchPainter(device), Reader(device)
    codes = torch.from_numpy(scene_codes(scenes))
    drawn, painted = draw_many(scenes), painter.paint(codes)
    same_pixels = bool(np.array_equal(drawn, painted.cpu().numpy()))
    same_scenes = [each.scene for each in reader.read_many(painted)] == scenes
    many = codes.repeat(-(-count // len(codes)), 1)[:count]
    images = painter.paint(many)
    for what, work in (
        ("scenes drawn", lambda: settled(painter.paint(many), device)),
        ("images read", lambda: reader.read_many(images)),
    ):
        of_core, on_wall = rates(work, count)
        print(f"  torch {device}: {what:<30} {of_core:>9,.0f}/s {on_wall:>9,.0f}/s", flush=True)
    print(f"  torch {device}: pixels equal: {same_pixels}; every scene read right: {same_scenes}")
    return same_pixels and same_scenes


def settled(pixels: Any, device: str) -> None:
    """Synchronize a GPU, which works asynchronously."""
    if device == "cuda":
        import torch

        torch.cuda.synchronize()


def main() -> int:
    scenes = random_scenes(SCENES, Random(0))
    cold_start(scenes)
    print(f"  {'warm, numpy':<42} {'one core':>11} {'on the wall':>11}")
    images = draw_many(scenes)
    reader = Reader()
    met = report("scenes drawn", *rates(lambda: draw_many(scenes), SCENES), GOAL_DRAWN)
    met &= report("images read", *rates(lambda: reader.read_many(images), SCENES), GOAL_READ)
    wrong = sum(read.scene != scene for read, scene in zip(reader.read_many(images), scenes, strict=True))
    print(f"  {wrong} of {SCENES} drawn scenes read wrong")
    return 0 if with_torch(scenes) and met and not wrong else 1


if __name__ == "__main__":
    sys.exit(main())

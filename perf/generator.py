"""Measures the miniature's generator: seconds per image on this machine, alone and in batches.

Run with: python perf/generator.py
"""

from __future__ import annotations

import asyncio
import statistics
import sys
import time
from typing import Any

from interleave.backends.protocols import ImageRequest
from interleave.backends.registry import load_generator
from interleave_mini.world.drawing import draw
from interleave_mini.world.scene import Scene, Thing

REPEATS = 5
TEXT, EDIT = "A meadow with a red cat in the middle.", "Paint the red cat blue."
SOURCE = draw(Scene.of("meadow", {4: Thing("cat", "red")}))
GOALS = {"from text": 1.0, "an edit": 1.5}


def seconds_per_image(generator: Any, prompt: str, sources: tuple[Any, ...], together: int) -> float:
    """Return the median over a few repeats, each of `together` concurrent images."""

    async def some() -> None:
        asked = (ImageRequest(prompt, seed, sources) for seed in range(together))
        await asyncio.gather(*(generator.generate(request) for request in asked))

    taken = []
    for _ in range(REPEATS + 1):
        started = time.perf_counter()
        asyncio.run(some())
        taken.append((time.perf_counter() - started) / together)
    return statistics.median(taken[1:])  # the first is a warm-up


def main() -> int:
    started = time.perf_counter()
    load_generator("mini")
    print(f"imports and loading: {time.perf_counter() - started:.1f} s")
    print(f"{'seconds per image':<20}{'goal':>8}{'alone':>8}{'by 4':>8}{'by 8':>8}")
    for name, prompt, sources in (("from text", TEXT, ()), ("an edit", EDIT, (SOURCE,))):
        figures = [
            seconds_per_image(load_generator(f"mini?batch={together}"), prompt, sources, together)
            for together in (1, 4, 8)
        ]
        print(f"{name:<20}{GOALS[name]:>8.2f}" + "".join(f"{figure:>8.2f}" for figure in figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())

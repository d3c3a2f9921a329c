"""Many requests: thousands of concurrent runs in a folder that can be resumed after any stop.

    python examples/many_requests.py [COUNT]

Each request gets its own run folder. The example stops on purpose after a quarter of them and calls again:
finished requests are not repeated.
"""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import aclosing

from PIL import Image

import interleave

OUT = "runs/many"


class Counting:
    """A fast generator that counts its images; replace it by any spec or your own model."""

    # With eight concurrent calls, sixteen requests in flight keep it busy while verdicts are pending.
    capabilities = interleave.GeneratorCapabilities(max_sources=1, concurrency=8)

    def __init__(self) -> None:
        self.drawn = 0

    async def generate(self, request: interleave.ImageRequest) -> Image.Image:
        self.drawn += 1
        return Image.new("RGB", (64, 64), (request.seed % 256, 128, 128))


def requests(count: int) -> Iterator[tuple[str, str]]:
    """Yield pairs of id and request; they are consumed lazily."""
    for number in range(1, count + 1):
        yield f"postcard-{number:05}", f"A postcard of house number {number} in 1 picture"


async def stop_after(enough: int, count: int, generator: Counting) -> None:
    """Run some of the requests, then stop as in a crash."""
    running = interleave.stream_many(
        requests(count), out=OUT, concurrency=16, generator=generator, profile="dry-run", max_attempts=1
    )
    async with aclosing(running) as all_ended:
        ended = 0
        async for _ in all_ended:
            ended += 1
            if ended == enough:
                return


def main(count: int) -> None:
    before = Counting()
    asyncio.run(stop_after(count // 4, count, before))
    print(f"stopped: {before.drawn} images drawn")

    after = Counting()
    summary = interleave.generate_many(
        requests(count), out=OUT, concurrency=16, generator=after, profile="dry-run", max_attempts=1
    )
    print(f"{summary.done} of {summary.total} done, {summary.failed} failed, {summary.calls} calls")
    print(f"continued: {after.drawn} images drawn")
    for failure in summary.failures:  # the first few, each with its cause
        print(f"{failure.id}: {failure.reason}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 2000)

"""Many requests: thousands at once, in a folder that can be continued after any stop.

    python examples/many_requests.py [COUNT]

Each request becomes a run folder of its own. The example stops on purpose after a quarter of them and calls
again: what has ended is not asked for a second time.
"""

import asyncio
import sys
from collections.abc import Iterator
from contextlib import aclosing

from PIL import Image

import interleave

OUT = "runs/many"


class Counting:
    """A quick generator that counts what it draws; name any spec instead, or your own model."""

    # With eight calls at once, sixteen requests in flight keep it busy while verdicts are awaited.
    capabilities = interleave.GeneratorCapabilities(max_sources=1, concurrency=8)

    def __init__(self) -> None:
        self.drawn = 0

    async def generate(self, request: interleave.ImageRequest) -> Image.Image:
        self.drawn += 1
        return Image.new("RGB", (64, 64), (request.seed % 256, 128, 128))


def requests(count: int) -> Iterator[tuple[str, str]]:
    """Pairs of an id and a request, made one by one: they are read only as there is room."""
    for number in range(1, count + 1):
        yield f"postcard-{number:05}", f"A postcard of house number {number} in 1 picture"


async def stop_after(enough: int, count: int, generator: Counting) -> None:
    """Answer some of the requests, and walk away as a crash would."""
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

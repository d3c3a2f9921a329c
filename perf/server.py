"""Measures the overhead of serving a generator: images through the server compared with direct calls.

Server, worker and clients share this machine, so the figures include the clients' work.

Run with: make bench, or python perf/server.py [alone|edits|together|flood]
"""

from __future__ import annotations

import asyncio
import base64
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager

import httpx
from PIL import Image, ImageFilter

from interleave.backends.protocols import ImageRequest
from interleave.backends.registry import load_generator
from interleave.service.generator.messages import OutputFormat

SECTIONS: dict[str, Callable[[], None]] = {}
ROUNDS = 150


def section(work: Callable[[], None]) -> Callable[[], None]:
    SECTIONS[work.__name__] = work
    return work


def report(what: str, measured: str, goal: str, met: bool) -> None:
    print(f"  {what:<58} {measured:>12}   goal {goal:<10} {'met' if met else 'MISSED'}", flush=True)


@contextmanager
def serving(*arguments: str) -> Iterator[str]:
    command = [sys.executable, "-m", "interleave", "serve", "generator", "--port", "0", *arguments]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert server.stdout is not None
    try:
        url = server.stdout.readline().strip()
        while httpx.get(f"{url}/health").status_code != 200:
            time.sleep(0.05)
        yield url
    finally:
        server.terminate()
        server.communicate(timeout=30)


async def in_turn(rounds: int, *works: Callable[[int], Awaitable[object]]) -> list[list[float]]:
    """Return the seconds of each call, alternating between `works`, so that machine load affects all equally.

    The first few calls are a warm-up and left out.
    """
    times: list[list[float]] = [[] for _ in works]
    for number in range(rounds + 5):
        for work, taken in zip(works, times, strict=True):
            started = time.perf_counter()
            await work(number)
            taken.append(time.perf_counter() - started)
    return [taken[5:] for taken in times]


def percentiles(times: list[float]) -> tuple[float, float]:
    return statistics.median(times) * 1000, sorted(times)[int(len(times) * 0.99)] * 1000


def compare(served: list[float], direct: list[float], goal: float) -> None:
    (p50, p99), (own50, own99) = percentiles(served), percentiles(direct)
    print(f"  direct p50 {own50:.1f} ms, p99 {own99:.1f} ms · served p50 {p50:.1f} ms, p99 {p99:.1f} ms")
    report(
        "overhead of serving per image, p50", f"{p50 - own50:.1f} ms", f"≤ {goal:g} ms", p50 - own50 <= goal
    )
    print(
        f"  relative to a draw of 1.5 s {(p50 - own50) / 15:.2f} %; relative to this fake ×{p50 / own50:.2f}"
    )


@section
def alone() -> None:
    """One client, sequential 512×512 images: the generator with PNG encoding, directly and by HTTP."""
    generator = load_generator("solid")

    async def direct(number: int) -> None:
        OutputFormat().encode(await generator.generate(ImageRequest(f"cat {number}", number)))

    async def measure() -> list[list[float]]:
        async with httpx.AsyncClient(base_url=url) as client:

            async def served(number: int) -> None:
                reply = await client.post("/generate", json={"prompt": f"cat {number}", "seed": number})
                base64.b64decode(reply.raise_for_status().json()["image"])

            return await in_turn(ROUNDS, served, direct)

    with serving("--generator", "solid") as url:
        compare(*asyncio.run(measure()), goal=15)


@section
def edits() -> None:
    """The same with a source and an image of 1024×1024, as incompressible as photographs."""
    generator = load_generator("solid?size=1024")
    source = Image.effect_noise((1024, 1024), 60).convert("RGB").filter(ImageFilter.GaussianBlur(1.5))
    coded = base64.b64encode(OutputFormat().encode(source)).decode()

    async def direct(number: int) -> None:
        OutputFormat().encode(await generator.generate(ImageRequest(f"cat {number}", number, (source,))))

    async def measure() -> list[list[float]]:
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:

            async def served(number: int) -> None:
                asked = {"prompt": f"cat {number}", "seed": number, "image": coded}
                base64.b64decode(
                    (await client.post("/edit", json=asked)).raise_for_status().json()["edited_image"]
                )

            return await in_turn(ROUNDS // 5, served, direct)

    with serving("--generator", "solid?size=1024") as url:
        compare(*asyncio.run(measure()), goal=150)


@section
def together() -> None:
    """16 clients, a generator with batches of 8 images in 0.25 s: how busy the server keeps it."""
    draw, batch, clients, each = 0.25, 8, 16, 12

    async def client_work(client: httpx.AsyncClient, name: int) -> list[float]:
        times = []
        for number in range(each):
            started = time.perf_counter()
            asked = {"prompt": f"client {name}", "seed": number}
            (await client.post("/generate", json=asked)).raise_for_status()
            times.append(time.perf_counter() - started)
        return times

    async def measure() -> tuple[float, list[float]]:
        async with httpx.AsyncClient(base_url=url, timeout=60) as client:
            started = time.perf_counter()
            times = await asyncio.gather(*(client_work(client, name) for name in range(clients)))
            return time.perf_counter() - started, [one for some in times for one in some]

    with serving("--generator", f"solid?size=64&delay={draw}", "--batch", str(batch)) as url:
        wall, times = asyncio.run(measure())
    busy = clients * each * draw / batch / wall
    p50, p99 = percentiles(times)
    report("generator busy, 16 clients on 8 places", f"{busy * 100:.1f} %", "≥ 90 %", busy >= 0.9)
    print(f"  {clients * each / wall:.1f} images/s of {batch / draw:.0f}; p50 {p50:.0f}, p99 {p99:.0f} ms")


@section
def flood() -> None:
    """600 concurrent requests on a queue of 20: speed of the refusals, and that the others are drawn."""

    async def one(number: int, port: int) -> tuple[int, float]:
        # by hand, because a client library is too slow for 600 concurrent connections
        started = time.perf_counter()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        body = b'{"prompt": "cat %d"}' % number
        head = b"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        writer.write(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        status = int((await reader.readline()).split()[1])
        writer.close()
        return status, time.perf_counter() - started

    async def measure(port: int) -> list[tuple[int, float]]:
        return await asyncio.gather(*(one(number, port) for number in range(600)))

    with serving("--generator", "solid?size=64&delay=0.2", "--queue", "20", "--batch", "4") as url:
        answers = asyncio.run(measure(int(url.rpartition(":")[2])))
    statuses = [status for status, _ in answers]
    refused = [taken for status, taken in answers if status == 429]
    drawn = statuses.count(200)
    assert drawn + len(refused) == len(answers)
    slowest = max(refused)
    report(
        f"600 concurrent: {drawn} drawn, {len(refused)} refused, slowest",
        f"{slowest:.2f} s",
        "≤ 2 s",
        slowest <= 2,
    )


def main() -> None:
    for name in sys.argv[1:] or SECTIONS:
        print(f"{name}: {SECTIONS[name].__doc__}", flush=True)
        SECTIONS[name]()


if __name__ == "__main__":
    main()

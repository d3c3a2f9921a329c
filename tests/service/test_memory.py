"""The server's memory has a bound: what a request will take is reserved before a pixel is decoded."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import random
import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import clockwork
import pytest
from PIL import Image
from serving import Server, StartServer, blank_png, coded, png

from interleave.images import MAX_PIXELS
from interleave.service.generator.messages import GenerationTask
from interleave.service.generator.request_handling import PIECE_BYTES, PiecewiseResponse, compose
from interleave.service.generator.worker_main import BAND_BYTES, read_command
from interleave.service.generator.worker_process import Ticket, Worker, WorkerState
from interleave.service.generator.worker_protocol import PIECE_BYTES as FRAME_BYTES
from interleave.service.generator.worker_protocol import send_frame
from interleave.service.http import decoding
from interleave.service.http.decoding import Decoder, EncodedImage, RawImage, decoding_bytes
from interleave.service.http.memory import MemoryBudget, MemoryLease
from interleave.service.http.refusals import Refusal
from interleave.service.http.request_bodies import parse_json

SIDE = 100
IMAGE = EncodedImage(png(size=(SIDE, SIDE)), "image")


class Hook:
    """Stands before the decoder and counts what is decoded, and what is held when it is."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, memory: MemoryBudget) -> None:
        self.memory = memory
        self.decoded = 0
        self.at_once = 0
        self.most_at_once = 0
        self.most_reserved = 0
        self._decode = decoding.images.decode_image
        monkeypatch.setattr(decoding.images, "decode_image", self)

    def __call__(self, data: bytes, *, name: str) -> Image.Image:
        self.decoded += 1
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        self.most_reserved = max(self.most_reserved, self.memory.work)
        image = self._decode(data, name=name)
        self.at_once -= 1
        return image


def test_no_more_pixels_are_in_memory_than_were_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty requests at once with four images each, where there is memory for about two of them."""
    memory = MemoryBudget(4 * decoding_bytes([IMAGE] * 4) // 2)
    hook = Hook(monkeypatch, memory)
    kept: list[RawImage] = []
    most_pixels = 0

    async def request(decoder: Decoder) -> None:
        nonlocal most_pixels
        lease = MemoryLease(memory)
        images = await decoder.decode([IMAGE] * 4, lease, asyncio.get_running_loop().time() + 600)
        kept.extend(images)
        most_pixels = max(most_pixels, sum(len(image.data) // 3 for image in kept))
        await asyncio.sleep(0)
        for image in images:
            kept.remove(image)
        lease.release()

    async def crowd() -> None:
        decoder = Decoder()
        await asyncio.gather(*(request(decoder) for _ in range(40)))

    asyncio.run(crowd())
    assert (hook.decoded, hook.most_at_once) == (160, 1)
    assert 3 * most_pixels <= hook.most_reserved <= memory.max_for_work
    assert most_pixels < 40 * SIDE * SIDE  # of 1,600,000 pixels less than a fourth were there at any time
    assert memory.held == 0


def test_a_request_that_can_never_fit_is_refused_undecoded(monkeypatch: pytest.MonkeyPatch) -> None:
    memory = MemoryBudget(1_000_000_000)
    hook = Hook(monkeypatch, memory)
    bomb = EncodedImage(blank_png(4000), "image")

    async def attack() -> Refusal:
        with pytest.raises(Refusal) as refusal:
            await Decoder().decode([bomb] * 16, MemoryLease(memory), clockwork.now() + 600)
        return refusal.value

    refusal = clockwork.run(attack())
    assert refusal.status == 413
    assert "needs 1,0" in str(refusal)
    assert "the maximum is 500 MB" in str(refusal)
    assert "--memory" in str(refusal)
    assert (hook.decoded, memory.held) == (0, 0)


def test_one_that_does_not_fit_now_waits_its_turn_and_not_for_ever() -> None:
    async def line() -> list[str]:
        memory, told = MemoryBudget(1000, lambda: 7.0), []

        async def reserve(name: str, size: int, seconds: float) -> None:
            try:
                await memory.reserve(size, clockwork.now() + seconds)
                told.append(f"{name} in at {clockwork.now() - 1000:g}")
            except Refusal as refusal:
                told.append(
                    f"{name} {refusal.status} after {refusal.retry_after} at {clockwork.now() - 1000:g}"
                )

        async with asyncio.TaskGroup() as tasks:
            for each in (("a", 500, 9), ("b", 400, 5), ("c", 500, 60), ("small", 10, 60)):
                tasks.create_task(reserve(*each))
                await asyncio.sleep(0)
            await asyncio.sleep(20)
            memory.release(500)
        assert (memory.work, memory.waiting) == (510, 0)
        return told

    assert clockwork.run(line()) == ["a in at 0", "b 503 after 7.0 at 5", "c in at 20", "small in at 20"]


def test_nothing_is_lost_however_requests_end() -> None:
    """A thousand requests that wait, are granted, shrink, fail and are cancelled in any order."""

    async def request(memory: MemoryBudget, chance: random.Random) -> None:
        lease = MemoryLease(memory)
        try:
            lease.hold_body(chance.randrange(20))
            await lease.reserve(chance.randrange(520), clockwork.now() + chance.random() * 9)
            await asyncio.sleep(chance.random())
            lease.keep(chance.randrange(50))
            await lease.reserve(chance.randrange(500), clockwork.now() + chance.random() * 9)
            await asyncio.sleep(chance.random())
        except Refusal:
            pass
        finally:
            lease.release()

    async def crowd(seed: int) -> None:
        memory, chance = MemoryBudget(1000), random.Random(seed)
        tasks = [asyncio.create_task(request(memory, chance)) for _ in range(100)]
        while not all(task.done() for task in tasks):
            await asyncio.sleep(chance.random() / 5)
            assert 0 <= memory.work <= memory.max_for_work
            assert 0 <= memory.bodies <= memory.max_for_bodies
            chance.choice(tasks).cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert (memory.work, memory.bodies, memory.waiting) == (0, 0, 0)

    for seed in range(10):
        clockwork.run(crowd(seed))


def test_room_that_is_granted_to_who_has_just_left_is_given_to_the_next() -> None:
    async def leave() -> tuple[int, int, bool]:
        memory = MemoryBudget(1000)
        await memory.reserve(500, 1e4)
        await memory.reserve(250, 1e4)
        gone, following = (asyncio.create_task(memory.reserve(size, 1e4)) for size in (500, 400))
        await asyncio.sleep(0)
        memory.release(500)  # grants it, and in the same moment its client hangs up
        gone.cancel()
        await asyncio.wait({gone, following})
        return memory.work, memory.waiting, gone.cancelled()

    assert clockwork.run(leave()) == (650, 0, True)


def test_images_are_decoded_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    begun, go_on = [], threading.Event()

    def slow(data: bytes, *, name: str) -> Image.Image:
        begun.append(name)
        assert go_on.wait(60)
        return Image.new("RGB", (SIDE, SIDE))

    monkeypatch.setattr(decoding.images, "decode_image", slow)

    async def crowd() -> int:
        decoder, memory = Decoder(), MemoryBudget(10**9)
        work = [decoder.decode([IMAGE], MemoryLease(memory), 1e12) for _ in range(3)]
        tasks = [asyncio.create_task(each) for each in work]
        for _ in range(5):  # threads take what was given to them first first
            await asyncio.to_thread(lambda: None)
        at_once = len(begun)
        go_on.set()
        await asyncio.gather(*tasks)
        return at_once

    assert asyncio.run(crowd()) == 1
    assert len(begun) == 3


def test_memory_is_held_until_the_thread_that_uses_it_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that hangs up again and again must not leave threads behind whose memory nobody counts."""
    begun, go_on = threading.Event(), threading.Event()

    def slow(data: bytes, *, name: str) -> Image.Image:
        begun.set()
        assert go_on.wait(60)
        return Image.new("RGB", (SIDE, SIDE))

    monkeypatch.setattr(decoding.images, "decode_image", slow)

    async def hang_up() -> tuple[int, int]:
        memory = MemoryBudget(10**9)
        lease = MemoryLease(memory)

        async def request() -> None:
            try:
                await Decoder().decode([IMAGE], lease, asyncio.get_running_loop().time() + 600)
            finally:
                lease.release()

        task = asyncio.create_task(request())
        await asyncio.to_thread(begun.wait, 60)
        task.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        while_it_decodes = memory.held
        go_on.set()
        await asyncio.wait({task})
        return while_it_decodes, memory.held

    assert asyncio.run(hang_up()) == (decoding_bytes([IMAGE]), 0)


def encoded(kind: str, size: tuple[int, int], mode: str = "RGB", **options: Any) -> EncodedImage:
    buffer = io.BytesIO()
    Image.new(mode, size).save(buffer, kind, **options)
    return EncodedImage(buffer.getvalue(), "image")


HEADERS: dict[str, EncodedImage] = {
    "PNG": encoded("PNG", (700, 30)),
    "JPEG": encoded("JPEG", (700, 30)),
    "progressive JPEG": encoded("JPEG", (700, 30), progressive=True),
    "JPEG with metadata": encoded("JPEG", (700, 30), comment=b"\xff\xc0" * 500, exif=Image.Exif()),
    "WebP": encoded("WEBP", (700, 30)),
    "lossless WebP": encoded("WEBP", (700, 30), lossless=True),
    "transparent WebP": encoded("WEBP", (700, 30), "RGBA", exact=True),
    "animated WebP": encoded(
        "WEBP", (700, 30), save_all=True, append_images=[Image.new("RGB", (700, 30), "red")]
    ),
}


@pytest.mark.parametrize("image", HEADERS.values(), ids=HEADERS)
def test_the_size_of_an_image_is_read_from_its_header(image: EncodedImage) -> None:
    assert image.pixels == 700 * 30
    assert image.working_bytes > 16 * 700 * 30


def test_of_two_sizes_in_a_header_the_larger_is_believed() -> None:
    small, large = HEADERS["JPEG"].data, encoded("JPEG", (3000, 3000)).data
    frame = large.index(b"\xff\xc0")
    two = small[:2] + large[frame : frame + 19] + small[2:]
    assert EncodedImage(two, "image").pixels == 9_000_000


def test_a_header_that_cannot_be_read_counts_as_the_largest_image() -> None:
    for image in HEADERS.values():
        assert EncodedImage(image.data[:14], "image").pixels == MAX_PIXELS
    assert EncodedImage(b"GIF89a", "image").working_bytes == 0  # refused by its first bytes
    assert EncodedImage(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" + b"\xff" * 20, "image").pixels == MAX_PIXELS


def test_no_header_leads_astray() -> None:
    chance = random.Random(3)
    for image in HEADERS.values():
        for _ in range(200):
            data = bytearray(image.data[: chance.randrange(len(image.data)) + 1])
            for _ in range(5):
                data[chance.randrange(len(data))] = chance.randrange(256)
            assert 0 <= EncodedImage(bytes(data), "image").pixels <= MAX_PIXELS


def test_a_worker_is_given_no_more_sources_than_it_may_hold() -> None:
    def ticket(number: int, side: int) -> Ticket:
        source = RawImage(side, side, b"")
        return Ticket(number, GenerationTask("x", 1, (source,)), asyncio.Future(), 1e9)

    async def fill() -> list[bool]:
        worker = Worker(0, None, "solid", None, batch=9, source_limit=4 * 3 * 100 * 100)  # type: ignore[arg-type]
        worker.state = WorkerState.READY
        taken = [worker.can_take(ticket(0, 500))]  # alone, anything
        for number in range(4):
            taken.append(worker.can_take(ticket(number, 100)))
            worker.send(ticket(number, 100))
        return taken

    assert asyncio.run(fill()) == [True, True, True, True, False]


def test_an_image_reaches_a_worker_in_pieces_and_whole() -> None:
    """Neither end ever holds a second copy of it."""
    image = Image.effect_noise((900, 700), 50).convert("RGB")

    class Pipe:
        """What one end has written and the other not yet read."""

        def __init__(self) -> None:
            self.reader = asyncio.StreamReader()
            self.undrained = self.most = self.read = 0

        def write(self, data: bytes) -> None:
            self.undrained += len(data)
            self.most = max(self.most, self.undrained)
            self.reader.feed_data(data)

        async def drain(self) -> None:
            self.undrained = 0
            await asyncio.sleep(0)

        async def readexactly(self, size: int) -> bytes:
            self.read = max(self.read, size)
            return await self.reader.readexactly(size)

    async def send() -> tuple[Any, Pipe]:
        pipe = Pipe()
        header = {"event": "draw", "pictures": [list(image.size)] * 2}
        sending = asyncio.create_task(send_frame(pipe, header, image.tobytes(), image.tobytes()))  # type: ignore[arg-type]
        order = await read_command(pipe)  # type: ignore[arg-type]
        await sending
        return order, pipe

    order, pipe = clockwork.run(send())
    assert [each.tobytes() for each in order.images] == [image.tobytes()] * 2
    assert pipe.most <= FRAME_BYTES + 1000
    assert pipe.read <= BAND_BYTES


def test_an_answer_is_the_same_json_and_no_text_can_pass_for_an_image() -> None:
    image, text = bytes(range(256)), '"}\\ \u2028 0123456789abcdef' * 3
    answer = {"a": image, "prompt": text, "b": [image, None, 1.5]}
    code = base64.b64encode(image).decode()
    assert json.loads(b"".join(compose(answer))) == {"a": code, "prompt": text, "b": [code, None, 1.5]}
    with pytest.raises(TypeError):
        compose({"a": object()})


def test_an_answer_is_sent_as_fast_as_it_is_read() -> None:
    async def answer() -> list[int]:
        sent: list[int] = []

        async def send(message: Any) -> None:
            sent.append(len(message.get("body", b"")))

        async def receive() -> Any:
            raise AssertionError("nothing is to be received")

        await PiecewiseResponse([b"{", bytes(3 * PIECE_BYTES + 5), b"}"], {})({}, receive, send)
        return sent

    assert clockwork.run(answer()) == [0, 1, PIECE_BYTES, PIECE_BYTES, PIECE_BYTES, 5, 1, 0]


def test_who_hardly_reads_an_answer_is_hung_up_on() -> None:
    hung_up = []

    class Connection:
        def abort(self) -> None:
            hung_up.append(clockwork.now())

    async def answer() -> None:
        async def send(message: Any) -> None:
            await asyncio.sleep(50)  # a little each time, so that no single piece is late

        async def receive() -> Any:
            raise AssertionError("nothing is to be received")

        response = PiecewiseResponse([bytes(4 * PIECE_BYTES)], {})
        await response({"interleave.connection": Connection()}, receive, send)

    clockwork.run(answer())
    assert len(hung_up) == 1


def test_counting_the_pieces_of_a_body_copies_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    class Body(bytearray):
        def translate(self, *arguments: Any) -> Any:
            raise AssertionError("a copy of the whole body")

    assert parse_json(Body(b'{"prompt": "x"}')) == {"prompt": "x"}


def test_sixteen_large_blank_images_are_refused_over_http(server: Server) -> None:
    image = coded(blank_png(4000))
    reply = server.client.post("/edit", json={"prompt": "x", "image": [image] * 16})
    assert reply.status_code == 413
    assert "--memory" in reply.json()["detail"]
    files = [("image[]", ("a.png", blank_png(4000), "image/png"))] * 16
    reply = server.client.post("/v1/images/edits", data={"prompt": "x"}, files=files)
    assert reply.status_code == 413
    assert "--memory" in reply.json()["error"]["message"]
    server.until(lambda: server.status()["queue"]["held_bytes"] == 0)


MEASURE = """
import resource, sys
from pathlib import Path
from interleave.service.http.decoding import EncodedImage, _decode
from interleave.service.http.memory import trim_freed_memory

trim_freed_memory()
small, large = (EncodedImage(Path(path).read_bytes(), "image") for path in sys.argv[1:])
_decode(small)
before = int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()
_decode(large)
# not ru_maxrss: after an exec that begins with the size of the parent process
peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
print(int(peak.split()[1]) * 1024 - before, large.working_bytes)
"""
"""What decoding really takes, in a process of its own."""


def turned() -> Image.Exif:
    exif = Image.Exif()
    exif[0x112] = 6
    return exif


COSTLY: dict[str, tuple[str, str, dict[str, Any]]] = {
    "PNG": ("PNG", "RGB", {}),
    "grey PNG": ("PNG", "LA", {}),
    "16-bit PNG": ("PNG", "I;16", {}),
    "transparent turned PNG": ("PNG", "RGBA", {"exif": turned()}),
    "turned progressive JPEG": ("JPEG", "CMYK", {"exif": turned(), "progressive": True}),
    "transparent turned WebP": ("WEBP", "RGBA", {"exif": turned(), "exact": True}),
    "lossless WebP": ("WEBP", "RGBA", {"lossless": True, "exact": True}),
}


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="does not apply: the system does not tell")
@pytest.mark.parametrize(("kind", "mode", "options"), COSTLY.values(), ids=COSTLY)
def test_decoding_takes_no_more_than_is_reserved(kind: str, mode: str, options: dict[str, Any]) -> None:
    for name, side in (("small", 16), ("large", 2000)):
        with Path(name).open("wb") as file:
            Image.new(mode, (side, side)).save(file, kind, **options)
    command = [sys.executable, "-c", MEASURE, "small", "large"]
    taken, reserved = map(int, subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout.split())
    assert 0.1 * reserved < taken < reserved + 8_000_000


def peak(pid: int) -> float:
    """The most a process has ever held, in megabytes."""
    found = re.search(r"VmHWM:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())
    assert found
    return int(found[1]) / 1000


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="does not apply: the system does not tell")
def test_a_server_and_its_worker_stay_within_their_memory(start: StartServer) -> None:
    """Requests as large as may be, four at once, and between them four that are far too large."""
    server = start("--generator", "solid?size=64", "--memory", "400", "--deadline", "600")
    server.client.timeout = 600  # type: ignore[assignment]
    pids = server.process.pid, server.status()["workers"][0]["pid"]
    assert server.draw("warm").status_code == 200
    own = [peak(pid) for pid in pids]
    fitting = [coded(blank_png(2000, transparent=True))] * 8
    bombs = [coded(blank_png(4000))] * 16

    def edit(images: list[str]) -> int:
        return server.client.post("/edit", json={"prompt": "x", "image": images}).status_code

    with ThreadPoolExecutor(8) as threads:
        statuses = list(threads.map(edit, [fitting, bombs] * 4))
    assert statuses == [200, 413] * 4
    taken = [peak(pid) - before for pid, before in zip(pids, own, strict=True)]
    assert 100 < taken[0] < 400
    assert 100 < taken[1] < 200 + 80  # the generator makes copies of its own

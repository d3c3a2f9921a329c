"""A worker process: it loads one generator and runs the server's tasks concurrently.

The server passes the file descriptor of a socket. When that socket closes, the server is gone and the worker
exits immediately, so no worker outlives its server.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
import time
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

from PIL import Image

from interleave import BackendError, ConfigurationError, ImageGenerator, ImageRequest, InterleaveError
from interleave.plugin import backends, images, redaction
from interleave.service.generator.messages import OutputFormat
from interleave.service.generator.parameters import settings_of
from interleave.service.generator.ray_replicas import load_served
from interleave.service.generator.worker_protocol import (
    BEAT_SECONDS,
    READ_AHEAD_BYTES,
    HeartbeatSender,
    read_header,
    send_frame,
)
from interleave.service.http.memory import trim_freed_memory

log = logging.getLogger(__name__)
BAND_BYTES = 1_000_000


@dataclass(frozen=True)
class WorkerCommand:
    """A command from the server, with its images."""

    header: dict[str, Any]
    images: tuple[Image.Image, ...] = ()

    def request(self) -> ImageRequest:
        """Return the image request. The mask, if any, is the last of the images."""
        header, sources, mask = self.header, self.images, None
        if header["has_mask"]:
            *rest, mask = sources
            sources = tuple(rest)
        named = header["settings"]
        size = tuple(named["size"]) if "size" in named else None
        settings = backends.ImageSettings(**named | {"size": size})
        return ImageRequest(header["prompt"], header["seed"], sources, mask=mask, settings=settings)


class WorkerLoop:
    """Worker side of the protocol: reads commands, draws, sends results."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.in_progress: dict[int, asyncio.Task[None]] = {}
        self._send_lock = asyncio.Lock()

    async def work(self) -> None:
        """Load the generator, then draw until the server is gone."""
        first = await read_command(self.reader)
        if first is None:
            return
        # While loading, this can only end with the connection.
        following = asyncio.ensure_future(read_command(self.reader))
        loading = asyncio.ensure_future(asyncio.to_thread(load_served, first.header["spec"]))
        await asyncio.wait({following, loading}, return_when=asyncio.FIRST_COMPLETED)
        if not loading.done():
            return
        try:
            generator = loading.result()
        except Exception as error:  # a model library may raise anything, and the server needs the reason
            await self._send({"event": "failed", **_described(error)})
            return
        await self._send({"event": "ready", **_info(generator)})
        while (command := await following) is not None:
            self._handle(command, generator)
            del command  # frees its images while the next command is awaited
            following = asyncio.ensure_future(read_command(self.reader))

    def _handle(self, command: WorkerCommand, generator: ImageGenerator) -> None:
        number = command.header["id"]
        if command.header["event"] == "cancel":
            if number in self.in_progress:
                self.in_progress[number].cancel()
            return
        task = asyncio.ensure_future(self._draw(number, command, generator))
        self.in_progress[number] = task
        task.add_done_callback(lambda _: self.in_progress.pop(number, None))

    async def _draw(self, number: int, command: WorkerCommand, generator: ImageGenerator) -> None:
        started = time.monotonic()
        try:
            output = OutputFormat(**command.header["output"])
            request = command.request()
            backends.check_extras(request, generator.capabilities)
            image = _image(await generator.generate(request))
            del command, request
            drawn = time.monotonic() - started
            # The generator is free for the next image while this one is encoded.
            await self._send({"event": "free", "id": number})
            data = await asyncio.to_thread(output.encode, image)
        except asyncio.CancelledError:
            await self._send({"event": "cancelled", "id": number})
        except Exception as error:  # a plugin's generator may raise anything; the worker survives
            if not isinstance(error, InterleaveError):
                log.exception("the generator failed on an image")
            await self._send({"event": "error", "id": number, **_described(error)})
        else:
            header = {"event": "drawn", "id": number, "size": list(image.size)}
            await self._send({**header, "seconds": drawn}, data)

    async def _send(self, header: dict[str, Any], *payload: bytes) -> None:
        async with self._send_lock:
            await send_frame(self.writer, header, *payload)


async def read_command(reader: asyncio.StreamReader) -> WorkerCommand | None:
    """Read the next command with its images; `None` if the server is gone."""
    found = await read_header(reader)
    if found is None:
        return None
    header, _ = found
    try:
        images = [await _read_image(reader, *size) for size in header.get("pictures", ())]
    except asyncio.IncompleteReadError:
        return None
    return WorkerCommand(header, tuple(images))


async def _read_image(reader: asyncio.StreamReader, width: int, height: int) -> Image.Image:
    """Read an image in bands; reading it whole would hold it in memory three times."""
    image = Image.new("RGB", (width, height))
    rows = max(1, BAND_BYTES // (3 * width))
    for top in range(0, height, rows):
        size = (width, min(rows, height - top))
        image.paste(Image.frombytes("RGB", size, await reader.readexactly(3 * size[0] * size[1])), (0, top))
    return image


def _image(drawn: object) -> Image.Image:
    if not isinstance(drawn, Image.Image):
        raise BackendError(f"the generator returned a {type(drawn).__name__}, not an image")
    if images.too_large(drawn.size):
        raise BackendError(f"the generator returned {drawn.width}×{drawn.height} pixels, which is too large")
    return drawn


def _info(generator: ImageGenerator) -> dict[str, Any]:
    return {"capabilities": asdict(generator.capabilities), "settings": settings_of(generator)}


def _described(error: Exception) -> dict[str, Any]:
    known = isinstance(error, InterleaveError)
    message = str(error) if known else f"{type(error).__name__}: {error}"
    return {
        "message": redaction.redacted(message, message=True),
        "configuration": isinstance(error, ConfigurationError),
        "transient": getattr(error, "transient", False) is True,
        "retry_after": getattr(error, "retry_after", None),
        "known": known,
    }


async def _serve(handle: int, heartbeats: HeartbeatSender) -> None:
    turning = asyncio.create_task(_report_loop_turns(heartbeats))
    reader, writer = await asyncio.open_connection(sock=socket.socket(fileno=handle), limit=READ_AHEAD_BYTES)
    with suppress(ConnectionError):  # the server is gone
        await WorkerLoop(reader, writer).work()
        writer.close()
        await writer.wait_closed()
    turning.cancel()
    sys.stderr.flush()
    os._exit(0)  # do not join a model library's threads, which may still be working


async def _report_loop_turns(heartbeats: HeartbeatSender) -> None:
    while True:
        heartbeats.loop_turned()
        await asyncio.sleep(BEAT_SECONDS)


def main() -> None:
    handle, beats, number = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    for each in (handle, beats):
        os.set_inheritable(each, False)
    trim_freed_memory()
    heartbeats = HeartbeatSender(beats)
    heartbeats.start()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server handles Ctrl-C and stops its workers
    redaction.keep_environment_secret()
    with redaction.redacted_logging(f"worker {number}: %(message)s"):
        asyncio.run(_serve(handle, heartbeats))


if __name__ == "__main__":
    main()

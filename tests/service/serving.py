"""Real servers, started as a user starts them, and what tests send them."""

from __future__ import annotations

import base64
import functools
import io
import os
import struct
import subprocess
import sys
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from PIL import Image

PLUGINS = Path(__file__).parent / "plugins"
CANARY = "canary-7f3a9c51d2e84b06"
"""A key that no log, answer or error may ever show."""


class Server:
    """`interleave serve generator` in a process of its own."""

    serves = "generator"

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "interleave", "serve", self.serves]

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        token: str | None = None,
        ready: bool = True,
        wrapper: tuple[str, ...] = (),
    ) -> None:
        """`wrapper` is a command that runs the one that follows it."""
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self.errors = folder / "stderr.txt"
        self.journal = folder / "journal.txt"
        environment = {
            **{key: value for key, value in os.environ.items() if not key.startswith("INTERLEAVE")},
            "PYTHONPATH": os.pathsep.join(filter(None, (str(PLUGINS), os.environ.get("PYTHONPATH")))),
            "AWKWARD_LOG": str(self.journal),
            "AWKWARD_API_KEY": CANARY,
            **({"INTERLEAVE_SERVER_TOKEN": token} if token else {}),
        }
        command = [*wrapper, *self.command, "--port", "0", *arguments]
        with self.errors.open("w") as errors:
            self.process = subprocess.Popen(
                command, stdout=subprocess.PIPE, stderr=errors, text=True, env=environment, cwd=folder
            )
        assert self.process.stdout is not None
        self.url = self.process.stdout.readline().strip()
        assert self.url, self.errors.read_text()
        self.port = int(self.url.rpartition(":")[2])
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        self.client = httpx.Client(base_url=self.url, timeout=120, headers=headers, trust_env=False)
        if ready:
            self.until(lambda: self.client.get("/health").status_code == 200)

    def until(self, fact: Callable[[], Any], seconds: float = 120) -> Any:
        ends_at = time.monotonic() + seconds
        while not (found := fact()):
            assert time.monotonic() < ends_at, (
                f"waited {seconds} s in vain. {self.errors.read_text()[-2000:]}"
            )
            time.sleep(0.02)
        return found

    def status(self) -> dict[str, Any]:
        return self.client.get("/status").json()  # type: ignore[no-any-return]

    def happened(self, line: str) -> int:
        """How often this line is in the generator's journal."""
        return self.journal.read_text().splitlines().count(line) if self.journal.exists() else 0

    def open_gate(self, name: str) -> None:
        """Let the images go on whose prompts are `gate NAME …`."""
        self.journal.with_name(f"gate-{name}").touch()

    def close_gate(self, name: str) -> None:
        self.journal.with_name(f"gate-{name}").unlink()

    def draw(self, prompt: str, **more: Any) -> httpx.Response:
        return self.client.post("/generate", json={"prompt": prompt, **more})

    def stop(self) -> int:
        """End it in order, unless it has ended already; returns its exit code."""
        self.client.close()
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate(timeout=120)
        return self.process.returncode


StartServer = Callable[..., Server]


@contextmanager
def meanwhile(threads: int, work: Callable[[threading.Event], None]) -> Iterator[None]:
    """Do this in many threads until the block ends."""
    enough = threading.Event()
    with ThreadPoolExecutor(threads) as pool:
        futures = [pool.submit(work, enough) for _ in range(threads)]
        try:
            yield
        finally:
            enough.set()
    for future in futures:
        future.result()


def png(colour: str = "navy", size: tuple[int, int] = (48, 40)) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", size, colour).save(buffer, "PNG")
    return buffer.getvalue()


@functools.cache
def blank_png(side: int, *, transparent: bool = False) -> bytes:
    """A large image in a small file."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    channels, colour = (4, 6) if transparent else (3, 2)
    pixels = zlib.compress(bytes((channels * side + 1) * side), 1)
    header = struct.pack(">IIBBBBB", side, side, 8, colour, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", pixels) + chunk(b"IEND", b"")


def coded(data: bytes) -> str:
    return base64.b64encode(data).decode()


def make_image(text: str) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(text, validate=True)))

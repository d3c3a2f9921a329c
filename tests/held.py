"""A command in a process of its own whose images wait for the test, however fast or busy the machine is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from work import HANGS_AFTER

_PROGRAM = """
import asyncio, sys
from pathlib import Path
from interleave.backends.fakes import SolidGenerator
from interleave.cli.main import main

draw, drawn, free = SolidGenerator.generate, 0, int(sys.argv.pop(1))

async def held(self, request):
    global drawn
    drawn += 1
    number = drawn
    while number > int(Path("free").read_text() if Path("free").exists() else free):
        Path("held").touch()
        await asyncio.sleep(0.01)
    return await draw(self, request)

SolidGenerator.generate = held
main()
"""


def held_after(images: int, *arguments: str) -> list[str]:
    """The command that runs `interleave` with these arguments, whose images after so many are held."""
    return [sys.executable, "-c", _PROGRAM, str(images), *arguments]


def release(images: int = 1_000_000) -> None:
    """Let so many images be drawn, of the process that was started in this folder."""
    Path("free.new").write_text(str(images))
    Path("free.new").replace("free")


def wait_until(true: Callable[[], object]) -> None:
    """Wait for what must come."""
    ends = time.monotonic() + HANGS_AFTER
    while not true():
        assert time.monotonic() < ends, "it never came true"
        time.sleep(0.02)


def wait_until_held() -> None:
    wait_until(Path("held").exists)

"""A generator that does what its prompt says, most of it bad; loaded through an entry point like anybody's.

It leaves a line in the file that `AWKWARD_LOG` names for everything that happens to it, so that tests in
another process can tell.
"""

from __future__ import annotations

import asyncio
import os
import signal
import time
from pathlib import Path
from typing import Literal

from PIL import Image, ImageStat

from interleave.backends.protocols import GeneratorCapabilities, ImageRequest
from interleave.config.specs import BackendOptions, Spec
from interleave.errors import BackendError, ConfigurationError

LOG = Path(os.environ.get("AWKWARD_LOG", os.devnull))


def note(line: str) -> None:
    with LOG.open("a") as file:
        file.write(f"{line}\n")


class AwkwardGenerator:
    class Options(BackendOptions):
        load: str = "well"
        steps: int | None = None
        guidance: float | None = None
        size: int | None = None
        seeds: bool = True
        max_sources: int = 2
        text_to_image: bool = True
        masks: Literal["never", "may", "must"] = "never"
        takes: str = ""
        """The settings that requests may name, separated by commas."""

    def __init__(self, *, spec: Spec, options: Options, role: str = "generator") -> None:
        note(f"loading {os.environ.get('CUDA_VISIBLE_DEVICES', '-')}")
        if options.load == "dies":
            os.kill(os.getpid(), signal.SIGKILL)
        if options.load == "fails":
            raise RuntimeError(f"no memory for {os.environ.get('AWKWARD_API_KEY', 'weights')}")
        if options.load == "misconfigured":
            raise ConfigurationError("there are no weights in './nowhere': name a folder that has some")
        if options.load == "gated" or (options.load == "gated-again" and not _first_time("loaded")):
            _wait_for_gate("load")
        self.options = options
        self.busy = 0
        self.capabilities = GeneratorCapabilities(
            max_sources=options.max_sources,
            seeds=options.seeds,
            text_to_image=options.text_to_image,
            masks=options.masks,
            request_settings=tuple(filter(None, options.takes.split(","))),
            concurrency=options.concurrency,
        )

    async def generate(self, request: ImageRequest) -> Image.Image:
        self.busy += 1
        note(f"begin {request.prompt} {self.busy}")
        try:
            return await self._do(request)
        except asyncio.CancelledError:
            note(f"cancelled {request.prompt}")
            raise
        finally:
            self.busy -= 1

    async def _do(self, request: ImageRequest) -> Image.Image:
        verb, _, rest = request.prompt.partition(" ")
        if verb == "die" or (verb == "die-once" and _first_time(rest)):
            os.kill(os.getpid(), signal.SIGKILL)
        if verb == "orphan" and _first_time("orphan") and os.fork() == 0:
            _wait_for_gate("orphan")  # a child that outlives its worker, its socket in hand
            os._exit(0)
        if verb == "orphan" and _first_time("orphaned"):
            os.kill(os.getpid(), signal.SIGKILL)
        if verb == "wait":
            await asyncio.sleep(float(rest.split()[0]))
        if verb == "gate":  # until the test opens it
            while not _gate(rest.split()[0]).exists():
                await asyncio.sleep(0.01)
        if verb == "block":
            time.sleep(float(rest))
        if verb == "hold":  # in C, without ever letting go of the interpreter
            sum(range(int(rest)))
        if verb == "raise":
            raise ZeroDivisionError(f"in /secret/path with {os.environ.get('AWKWARD_API_KEY')}")
        if verb == "refuse":
            raise BackendError("the model does not draw that")
        if verb == "overloaded":
            raise BackendError("the model is busy", transient=True, retry_after=7)
        if verb == "give-up":
            raise asyncio.CancelledError
        if verb == "text":
            return "not an image"  # type: ignore[return-value]
        side = 9000 if verb == "huge" else self.options.size or 32
        named = request.settings
        if verb == "told":  # red: its steps, green: its guidance, blue: how much of its mask is white
            note(f"negative {named.negative_prompt}")
            white = 0 if request.mask is None else round(ImageStat.Stat(request.mask).mean[0] - 0.5)
            colour = (named.steps or 0, int(named.guidance or 0), white)
            return Image.new("RGB", named.size or (side, side), colour)
        return Image.new("RGB", (side, side), (request.seed % 256, len(request.sources), 0))


def _gate(name: str) -> Path:
    return LOG.with_name(f"gate-{name}")


def _wait_for_gate(name: str) -> None:
    ends_at = time.monotonic() + 600
    while not _gate(name).exists() and time.monotonic() < ends_at:
        time.sleep(0.01)


def _first_time(name: str) -> bool:
    mark = LOG.with_name(name)
    if mark.exists():
        return False
    mark.touch()
    return True

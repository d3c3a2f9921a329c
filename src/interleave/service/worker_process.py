"""One worker as the server sees it: a process that is started, spoken to, and started again when it dies."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from typing import Any, Protocol

from interleave.backends.protocols import GeneratorCapabilities
from interleave.errors import ConfigurationError, InterleaveError
from interleave.service.auth import TOKEN_VARIABLE
from interleave.service.devices import visible_devices
from interleave.service.heartbeats import Pulse
from interleave.service.messages import Drawing, DrawnPicture, Refusal, ServiceFacts
from interleave.service.picture_memory import WORKER_BYTES
from interleave.service.redaction import without_secrets
from interleave.service.worker_protocol import READ_AHEAD_BYTES, Frame, read_frame, send_frame

log = logging.getLogger(__name__)

FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 60.0
STEADY_SECONDS = 60.0
"""How long a worker must have lived before its death counts as the first one again."""
HOPELESS_FAILURES = 3
"""After so many deaths in a row clients are told at once that nobody is there to draw."""
STOP_SECONDS = 2.0
DEFAULT_BATCH = 4
"""How many pictures a worker is given at once when its generator names no number of its own."""
KILLED_AFTER = 3
"""A hung worker is replaced after so many times the silence by which it is known to be hung."""


class WorkerState(StrEnum):
    LOADING = "loading"
    READY = "ready"
    HUNG = "hung"
    """Nothing has moved in its process for a while; if that goes on, it is replaced."""
    RESTARTING = "restarting"
    """Its process died; the next one starts in a moment."""
    FAILED = "failed"
    """Its generator could not be loaded; it is tried again after a while."""
    STOPPED = "stopped"


class WorkerLost(InterleaveError):
    """A worker's process is gone, with the reason."""


@dataclass(eq=False)
class Ticket:
    """A picture that a client waits for, from the queue through a worker to its answer."""

    number: int
    drawing: Drawing
    answer: asyncio.Future[DrawnPicture]
    ends_at: float
    """When the client has waited long enough, by the loop's clock."""
    deaths: int = 0
    """How many workers died while they had it."""
    worker: Worker | None = None
    sent_at: float = 0.0
    """When the worker was given it, by the loop's clock."""
    drawn: bool = False
    """Whether the generator is done with it, and only the file is missing."""

    @property
    def source_bytes(self) -> int:
        """What its source pictures take in a worker."""
        return sum(WORKER_BYTES * source.width * source.height for source in self.drawing.sources)


class Listener(Protocol):
    """Who is told what becomes of a worker."""

    def became_ready(self, worker: Worker) -> None: ...
    def has_room(self, worker: Worker) -> None: ...
    def gave_back(self, worker: Worker, ticket: Ticket) -> None: ...
    def died(self, worker: Worker, tickets: list[Ticket]) -> None: ...
    def is_hopeless(self, worker: Worker, error: ConfigurationError) -> bool: ...


@dataclass(eq=False)
class Worker:
    """A device's process and everything there is to know about it."""

    number: int
    device: str | None
    spec: str
    listener: Listener
    batch: int | None = None
    load_seconds: float = 1800.0
    silence_seconds: float = 10.0
    """How long nothing may move in its process before it is taken for hung."""
    source_limit: int | None = None
    """How many bytes of source pictures it may hold, unless a single drawing has more."""
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    state: WorkerState = WorkerState.LOADING
    restarts: int = 0
    drawn: int = 0
    last_error: str | None = None
    facts: ServiceFacts | None = None
    in_flight: dict[int, Ticket] = field(default_factory=dict)
    retry_at: float = 0.0
    """When its next process starts, by the monotonic clock."""
    _longest_draw: float = 0.0
    _hung_since: float = 0.0
    _failures: int = 0
    _could_not_load: bool = False
    _misconfigured: bool = False
    """Its generator can never be loaded: trying again would not help."""
    _verdict: str | None = None
    """Why we ended its process ourselves, if we did."""
    _process: asyncio.subprocess.Process | None = None
    _writer: asyncio.StreamWriter | None = None
    _outbox: asyncio.Queue[tuple[dict[str, Any], tuple[bytes, ...]]] | None = None
    _pulse: Pulse | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.returncode is None else None

    @property
    def capacity(self) -> int:
        """How many pictures it takes at once."""
        own = self.facts.capabilities.concurrency if self.facts else None
        return min(filter(None, (self.batch, own)), default=DEFAULT_BATCH)

    @property
    def hopeful(self) -> bool:
        """Whether it draws, or can be expected to soon."""
        if self.state in (WorkerState.READY, WorkerState.HUNG):
            return True
        return not self._could_not_load and self._failures < HOPELESS_FAILURES

    @property
    def drawing(self) -> int:
        """How many pictures its generator is busy with."""
        return sum(not ticket.drawn for ticket in self.in_flight.values())

    def can_take(self, ticket: Ticket) -> bool:
        """Whether there is a place for it, and memory for its sources.

        One whose worker died may have killed it: it is drawn alone, so that it takes no other with it.
        """
        if self.state is not WorkerState.READY or self.drawing >= self.capacity:
            return False
        others = self.in_flight.values()
        if not others:
            return True
        if ticket.deaths or any(other.deaths for other in others):
            return False
        held = sum(other.source_bytes for other in others)
        return self.source_limit is None or held + ticket.source_bytes <= self.source_limit

    def send(self, ticket: Ticket) -> None:
        drawing = ticket.drawing
        ticket.worker, ticket.drawn = self, False
        ticket.sent_at = asyncio.get_running_loop().time()
        self.in_flight[ticket.number] = ticket
        header = {
            "event": "draw",
            "id": ticket.number,
            "prompt": drawing.prompt,
            "seed": drawing.seed,
            "output": asdict(drawing.output),
            "sources": [[source.width, source.height] for source in drawing.sources],
        }
        self._post(header, *(source.data for source in drawing.sources))

    def cancel(self, ticket: Ticket) -> None:
        """Ask for a picture back that nobody waits for; its place is free when the worker says so."""
        if ticket.number in self.in_flight:
            self._post({"event": "cancel", "id": ticket.number})

    def kill(self, reason: str) -> None:
        """End its process at once; `keep_running` starts the next."""
        self._verdict = reason
        if self.pid is not None and self._process is not None:
            self._process.kill()

    def check(self, now: float) -> None:
        """Take it for hung when nothing moves in it, and end it when that goes on."""
        if self._pulse is None:
            return
        self._pulse.listen(now, self.pid)
        if self.state not in (WorkerState.READY, WorkerState.HUNG):
            return  # while it loads, anything may be
        if not self._is_hung(now):
            if self.state is WorkerState.HUNG:
                log.info("worker %d: moves again", self.number)
                self.state = WorkerState.READY
                self.listener.has_room(self)
        elif self.state is WorkerState.READY:
            log.warning("worker %d: nothing has moved for %g s", self.number, self.silence_seconds)
            self.state, self._hung_since = WorkerState.HUNG, now
            self.last_error = f"nothing has moved in its process for {self.silence_seconds:g} s"
        elif now - self._hung_since >= (KILLED_AFTER - 1) * self.silence_seconds:
            self.kill(f"nothing had moved in its process for {KILLED_AFTER * self.silence_seconds:g} s")

    def _is_hung(self, now: float) -> bool:
        """Silent, or deaf: a picture that nobody waits for any more is not given back."""
        if self._pulse is None or self._pulse.is_still(
            now, self.silence_seconds, drawing=bool(self.in_flight)
        ):
            return True
        # A generator that cannot be interrupted gives a picture back when it is drawn.
        patience = max(self.silence_seconds, self._longest_draw)
        return any(now - ticket.ends_at > patience for ticket in self.in_flight.values())

    async def keep_running(self) -> None:
        """Start the process, follow it, and start it again whenever it dies, until cancelled."""
        try:
            while True:
                await self._live_once()
                if self._misconfigured:
                    return
                delay = min(FIRST_DELAY_SECONDS * 2.0 ** max(self._failures - 1, 0), LONGEST_DELAY_SECONDS)
                self.retry_at = time.monotonic() + delay
                self.listener.died(self, self._emptied())
                log.warning("worker %d: %s; starting again in %.1f s", self.number, self.last_error, delay)
                await asyncio.sleep(delay)
                self.restarts += 1
        finally:
            self.state = WorkerState.STOPPED

    async def _live_once(self) -> None:
        self.state = WorkerState.LOADING
        ready_at: float | None = None
        delivering: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(self.load_seconds):
                reader = await self._start()
                delivering = asyncio.create_task(self._deliver())
                await self._await_ready(reader)
            ready_at = time.monotonic()
            self.listener.became_ready(self)
            await self._follow(reader)
            raise WorkerLost(await self._last_words())
        except TimeoutError:
            self.last_error = f"its generator was not loaded within {self.load_seconds:g} s"
        except Exception as error:  # whatever it was, the next process is started
            if not isinstance(error, WorkerLost | OSError):
                log.exception("worker %d failed", self.number)
            self.last_error = self._verdict or without_secrets(str(error))
        finally:
            self._verdict = None
            if delivering is not None:
                delivering.cancel()
            await self._end()
            self._could_not_load = ready_at is None
            steady = ready_at is not None and time.monotonic() - ready_at >= STEADY_SECONDS
            self._failures = 1 if steady else self._failures + 1
            self.state = WorkerState.FAILED if ready_at is None else WorkerState.RESTARTING

    async def _start(self) -> asyncio.StreamReader:
        ours, theirs = socket.socketpair()
        self._pulse = pulse = Pulse(asyncio.get_running_loop().time())
        self._outbox = asyncio.Queue()
        with theirs, pulse.theirs:
            reader, self._writer = await asyncio.open_connection(sock=ours, limit=READ_AHEAD_BYTES)
            environment = {**self.environment, **visible_devices(self.device, self.environment)}
            environment.pop(TOKEN_VARIABLE, None)  # what a model library does not have it cannot print
            handles = theirs.fileno(), pulse.theirs.fileno()
            self._process = await asyncio.create_subprocess_exec(
                *(
                    sys.executable,
                    "-m",
                    "interleave.service.worker_main",
                    *map(str, handles),
                    str(self.number),
                ),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=sys.stderr.fileno() if _has_handle(sys.stderr) else None,
                pass_fds=handles,
                env=environment,
            )
        self._post({"event": "load", "spec": self.spec})
        return reader

    async def _await_ready(self, reader: asyncio.StreamReader) -> None:
        frame = await self._next_frame(reader)
        if frame is None:
            raise WorkerLost(await self._last_words())
        if frame.header["event"] == "failed":
            if frame.header["configuration"]:
                error = ConfigurationError(frame.header["message"])
                self._misconfigured = self.listener.is_hopeless(self, error)
            raise WorkerLost(f"its generator could not be loaded: {frame.header['message']}")
        capabilities = GeneratorCapabilities(**frame.header["capabilities"])
        self.facts = ServiceFacts(capabilities, frame.header["settings"])
        self.state = WorkerState.READY
        self.last_error = None

    async def _follow(self, reader: asyncio.StreamReader) -> None:
        """Hand out what the worker sends, until its process or its socket ends."""
        while (frame := await self._next_frame(reader)) is not None:
            self._take(frame)

    async def _next_frame(self, reader: asyncio.StreamReader) -> Frame | None:
        """What the worker sends next; None when it has ended, even if a child of it holds the socket open."""
        reading = asyncio.ensure_future(read_frame(reader))
        ended = asyncio.ensure_future(self._wait_for_process())
        try:
            await asyncio.wait({reading, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await asyncio.wait({reading}, timeout=STOP_SECONDS)  # what it sent before its end
            return reading.result() if reading.done() else None
        finally:
            reading.cancel()
            ended.cancel()

    def _take(self, frame: Frame) -> None:
        number = frame.header["id"]
        if frame.header["event"] == "free":
            if number in self.in_flight:
                self.in_flight[number].drawn = True
            self.listener.has_room(self)
            return
        ticket = self.in_flight.pop(number, None)
        if ticket is None:
            return
        if not ticket.answer.done():
            _settle(ticket, frame, self)
        if frame.header["event"] == "drawn":
            self.drawn += 1
            self._longest_draw = max(self._longest_draw, frame.header["seconds"])
        self.listener.gave_back(self, ticket)

    async def _wait_for_process(self) -> None:
        if self._process is not None:
            await self._process.wait()

    async def _last_words(self) -> str:
        """Why a process ended, once it has."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wait_for_process(), STOP_SECONDS)
        code = self._process.returncode if self._process else None
        if code is None:
            return "its process stopped talking"
        return (
            f"its process was killed by signal {-code}" if code < 0 else f"its process ended with code {code}"
        )

    async def _end(self) -> None:
        """Leave nothing behind: no process, no socket."""
        self._outbox = None
        if self._pulse is not None:
            self._pulse.close()
            self._pulse = None
        if self._writer is not None:
            self._writer.transport.abort()  # closing would wait until a hung worker has read everything
            with suppress(ConnectionError):
                await self._writer.wait_closed()
            self._writer = None
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    def _emptied(self) -> list[Ticket]:
        tickets, self.in_flight = list(self.in_flight.values()), {}
        return tickets

    def _post(self, header: dict[str, Any], *payload: bytes) -> None:
        if self._outbox is not None:
            self._outbox.put_nowait((header, payload))

    async def _deliver(self) -> None:
        """Send what was posted, one message after another, as fast as the worker reads."""
        outbox, writer = self._outbox, self._writer
        with suppress(ConnectionError):  # its end is noticed where its answers are read
            while outbox is not None and writer is not None:
                header, payload = await outbox.get()
                await send_frame(writer, header, *payload)


def _settle(ticket: Ticket, frame: Frame, worker: Worker) -> None:
    header = frame.header
    if header["event"] == "drawn":
        width, height = header["size"]
        ticket.answer.set_result(
            DrawnPicture(
                data=frame.payload,
                width=width,
                height=height,
                seed=ticket.drawing.seed,
                worker=worker.number,
                device=worker.device,
                seconds=header["seconds"],
            )
        )
    elif header["event"] == "cancelled":  # by the generator itself: nobody had asked for it
        ticket.answer.set_exception(Refusal("the generator gave the picture up", status=500))
    elif header["transient"]:
        wait = header["retry_after"] or 1.0
        ticket.answer.set_exception(Refusal(header["message"], status=503, retry_after=wait))
    else:
        status = 422 if header["known"] else 500
        ticket.answer.set_exception(Refusal(header["message"], status=status))


def _has_handle(stream: object) -> bool:
    try:
        stream.fileno()  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return False
    return True

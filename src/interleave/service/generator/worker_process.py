"""A worker as the server manages it: its process is started, monitored and restarted."""

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

from interleave import ConfigurationError, GeneratorCapabilities, InterleaveError
from interleave.plugin import redaction
from interleave.service.generator.config import visible_devices
from interleave.service.generator.messages import GeneratedImage, GenerationTask, GeneratorInfo
from interleave.service.generator.worker_protocol import (
    READ_AHEAD_BYTES,
    Frame,
    HeartbeatMonitor,
    read_frame,
    send_frame,
)
from interleave.service.http.auth import TOKEN_VARIABLE
from interleave.service.http.decoding import WORKER_BYTES
from interleave.service.http.refusals import Refusal

log = logging.getLogger(__name__)

FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 60.0
STEADY_SECONDS = 60.0
"""A worker that lived this long resets the restart backoff."""
UNUSABLE_AFTER_FAILURES = 3
"""Consecutive deaths after which a worker no longer counts for admission."""
STOP_SECONDS = 2.0
DEFAULT_BATCH = 4
"""Capacity of a worker whose generator does not specify its concurrency."""
KILLED_AFTER = 3
"""Multiple of the hang threshold after which a hung worker is killed."""


class WorkerState(StrEnum):
    LOADING = "loading"
    READY = "ready"
    HUNG = "hung"
    """Its process makes no progress; it is replaced if that continues."""
    RESTARTING = "restarting"
    """Its process died; the next one starts after a delay."""
    FAILED = "failed"
    """Its generator failed to load; it is retried after a delay."""
    STOPPED = "stopped"


class WorkerLost(InterleaveError):
    """A worker's process is gone; the message is the reason."""


@dataclass(eq=False)
class Ticket:
    """A task on its way from the queue through a worker to its result."""

    number: int
    task: GenerationTask
    answer: asyncio.Future[GeneratedImage]
    ends_at: float
    """The deadline, by the loop's clock."""
    deaths: int = 0
    """Number of workers that died while drawing it."""
    worker: Worker | None = None
    sent_at: float = 0.0
    """When it was sent to the worker, by the loop's clock."""
    drawn: bool = False
    """Whether the generator is done with it and only encoding remains."""

    @property
    def source_bytes(self) -> int:
        """Memory of its source images in a worker."""
        return sum(WORKER_BYTES * source.width * source.height for source in self.task.images)


class WorkerListener(Protocol):
    """Receiver of worker events; implemented by the pool."""

    def worker_ready(self, worker: Worker) -> None: ...
    def capacity_freed(self, worker: Worker) -> None: ...
    def task_ended(self, worker: Worker, ticket: Ticket) -> None: ...
    def worker_died(self, worker: Worker, tickets: list[Ticket]) -> None: ...
    def load_failed_for_good(self, worker: Worker, error: ConfigurationError) -> bool: ...


@dataclass(eq=False)
class Worker:
    """The worker of one device: its process, its state and its tasks in flight."""

    number: int
    device: str | None
    spec: str
    listener: WorkerListener
    batch: int | None = None
    load_seconds: float = 1800.0
    silence_seconds: float = 10.0
    """Time without progress after which its process counts as hung."""
    source_limit: int | None = None
    """Maximum bytes of source images it holds, unless a single task has more."""
    environment: Mapping[str, str] = field(default_factory=lambda: os.environ)

    state: WorkerState = WorkerState.LOADING
    restarts: int = 0
    drawn: int = 0
    last_error: str | None = None
    info: GeneratorInfo | None = None
    in_flight: dict[int, Ticket] = field(default_factory=dict)
    retry_at: float = 0.0
    """Start time of its next process, by the monotonic clock."""
    _longest_draw: float = 0.0
    _hung_since: float = 0.0
    _failures: int = 0
    _could_not_load: bool = False
    _misconfigured: bool = False
    """Whether its generator can never be loaded, so retrying is useless."""
    _kill_reason: str | None = None
    """Why the server killed its process, if it did."""
    _process: asyncio.subprocess.Process | None = None
    _writer: asyncio.StreamWriter | None = None
    _outbox: asyncio.Queue[tuple[dict[str, Any], tuple[bytes, ...]]] | None = None
    _heartbeats: HeartbeatMonitor | None = None

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.returncode is None else None

    @property
    def capacity(self) -> int:
        """Maximum concurrent tasks."""
        own = self.info.capabilities.concurrency if self.info else None
        return min(filter(None, (self.batch, own)), default=DEFAULT_BATCH)

    @property
    def usable(self) -> bool:
        """Whether it is ready, or expected to be soon."""
        if self.state in (WorkerState.READY, WorkerState.HUNG):
            return True
        return not self._could_not_load and self._failures < UNUSABLE_AFTER_FAILURES

    @property
    def active_tasks(self) -> int:
        """Number of tasks its generator is working on."""
        return sum(not ticket.drawn for ticket in self.in_flight.values())

    def can_take(self, ticket: Ticket) -> bool:
        """Return whether it has capacity for this task and memory for its sources.

        A task whose worker died may have killed it, so it runs alone.
        """
        if self.state is not WorkerState.READY or self.active_tasks >= self.capacity:
            return False
        others = self.in_flight.values()
        if not others:
            return True
        if ticket.deaths or any(other.deaths for other in others):
            return False
        held = sum(other.source_bytes for other in others)
        return self.source_limit is None or held + ticket.source_bytes <= self.source_limit

    def send(self, ticket: Ticket) -> None:
        task = ticket.task
        ticket.worker, ticket.drawn = self, False
        ticket.sent_at = asyncio.get_running_loop().time()
        self.in_flight[ticket.number] = ticket
        header = {
            "event": "draw",
            "id": ticket.number,
            "prompt": task.prompt,
            "seed": task.seed,
            "output": asdict(task.output),
            "settings": task.settings.named,
            "pictures": [[image.width, image.height] for image in task.images],
            "has_mask": task.mask is not None,
        }
        self._post(header, *(image.data for image in task.images))

    def cancel(self, ticket: Ticket) -> None:
        """Cancel a task. Its capacity becomes free when the worker confirms."""
        if ticket.number in self.in_flight:
            self._post({"event": "cancel", "id": ticket.number})

    def kill(self, reason: str) -> None:
        """Kill its process immediately; `keep_running` starts the next one."""
        self._kill_reason = reason
        if self.pid is not None and self._process is not None:
            self._process.kill()

    def check(self, now: float) -> None:
        """Mark it as hung if it makes no progress, and kill it if that continues."""
        if self._heartbeats is None:
            return
        self._heartbeats.poll(now, self.pid)
        if self.state not in (WorkerState.READY, WorkerState.HUNG):
            return  # loading may block for any length of time
        if not self._is_hung(now):
            if self.state is WorkerState.HUNG:
                log.info("worker %d: makes progress again", self.number)
                self.state = WorkerState.READY
                self.listener.capacity_freed(self)
        elif self.state is WorkerState.READY:
            log.warning("worker %d: no progress for %g s", self.number, self.silence_seconds)
            self.state, self._hung_since = WorkerState.HUNG, now
            self.last_error = f"no progress for {self.silence_seconds:g} s"
        elif now - self._hung_since >= (KILLED_AFTER - 1) * self.silence_seconds:
            self.kill(f"killed after {KILLED_AFTER * self.silence_seconds:g} s without progress")

    def _is_hung(self, now: float) -> bool:
        """Return whether it stalled, or still holds a task long after its deadline."""
        if self._heartbeats is None or self._heartbeats.is_stalled(
            now, self.silence_seconds, busy=bool(self.in_flight)
        ):
            return True
        # A generator that cannot be interrupted returns a cancelled task only when it is done.
        patience = max(self.silence_seconds, self._longest_draw)
        return any(now - ticket.ends_at > patience for ticket in self.in_flight.values())

    async def keep_running(self) -> None:
        """Start the process and restart it whenever it dies, until cancelled."""
        try:
            while True:
                await self._run_process()
                if self._misconfigured:
                    return
                delay = min(FIRST_DELAY_SECONDS * 2.0 ** max(self._failures - 1, 0), LONGEST_DELAY_SECONDS)
                self.retry_at = time.monotonic() + delay
                self.listener.worker_died(self, self._take_in_flight())
                log.warning("worker %d: %s; restarting in %.1f s", self.number, self.last_error, delay)
                await asyncio.sleep(delay)
                self.restarts += 1
        finally:
            self.state = WorkerState.STOPPED

    async def _run_process(self) -> None:
        self.state = WorkerState.LOADING
        ready_at: float | None = None
        delivering: asyncio.Task[None] | None = None
        try:
            async with asyncio.timeout(self.load_seconds):
                reader = await self._start()
                delivering = asyncio.create_task(self._deliver())
                await self._await_ready(reader)
            ready_at = time.monotonic()
            self.listener.worker_ready(self)
            await self._read_frames(reader)
            raise WorkerLost(await self._exit_reason())
        except TimeoutError:
            self.last_error = f"its generator did not load within {self.load_seconds:g} s"
        except Exception as error:  # start the next process, whatever failed
            if not isinstance(error, WorkerLost | OSError):
                log.exception("worker %d failed", self.number)
            self.last_error = self._kill_reason or redaction.redacted(str(error), message=True)
        finally:
            self._kill_reason = None
            if delivering is not None:
                delivering.cancel()
            await self._end()
            self._could_not_load = ready_at is None
            steady = ready_at is not None and time.monotonic() - ready_at >= STEADY_SECONDS
            self._failures = 1 if steady else self._failures + 1
            self.state = WorkerState.FAILED if ready_at is None else WorkerState.RESTARTING

    async def _start(self) -> asyncio.StreamReader:
        ours, theirs = socket.socketpair()
        self._heartbeats = heartbeats = HeartbeatMonitor(asyncio.get_running_loop().time())
        self._outbox = asyncio.Queue()
        with theirs, heartbeats.theirs:
            reader, self._writer = await asyncio.open_connection(sock=ours, limit=READ_AHEAD_BYTES)
            environment = {**self.environment, **visible_devices(self.device, self.environment)}
            environment.pop(TOKEN_VARIABLE, None)  # keep the token out of reach of model libraries
            handles = theirs.fileno(), heartbeats.theirs.fileno()
            starting = asyncio.ensure_future(
                asyncio.create_subprocess_exec(
                    *(
                        sys.executable,
                        "-m",
                        "interleave.service.generator.worker_main",
                        *map(str, handles),
                        str(self.number),
                    ),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=sys.stderr.fileno() if _has_descriptor(sys.stderr) else None,
                    pass_fds=handles,
                    env=environment,
                )
            )
            try:
                self._process = await asyncio.shield(starting)
            except asyncio.CancelledError:  # a process that has started must still be stopped
                with suppress(OSError):
                    self._process = await starting
                raise
        self._post({"event": "load", "spec": self.spec})
        return reader

    async def _await_ready(self, reader: asyncio.StreamReader) -> None:
        frame = await self._next_frame(reader)
        if frame is None:
            raise WorkerLost(await self._exit_reason())
        if frame.header["event"] == "failed":
            if frame.header["configuration"]:
                error = ConfigurationError(frame.header["message"])
                self._misconfigured = self.listener.load_failed_for_good(self, error)
            raise WorkerLost(f"its generator failed to load: {frame.header['message']}")
        given = frame.header["capabilities"]
        capabilities = GeneratorCapabilities(**given | {"request_settings": tuple(given["request_settings"])})
        self.info = GeneratorInfo(capabilities, frame.header["settings"])
        self.state = WorkerState.READY
        self.last_error = None

    async def _read_frames(self, reader: asyncio.StreamReader) -> None:
        """Handle frames from the worker until its process or socket ends."""
        while (frame := await self._next_frame(reader)) is not None:
            self._handle_frame(frame)

    async def _next_frame(self, reader: asyncio.StreamReader) -> Frame | None:
        """Read a frame; `None` if the process has ended, even if its child keeps the socket open."""
        reading = asyncio.ensure_future(read_frame(reader))
        ended = asyncio.ensure_future(self._wait_for_process())
        try:
            await asyncio.wait({reading, ended}, return_when=asyncio.FIRST_COMPLETED)
            if not reading.done():
                await asyncio.wait({reading}, timeout=STOP_SECONDS)  # read what it sent before it ended
            return reading.result() if reading.done() else None
        finally:
            reading.cancel()
            ended.cancel()

    def _handle_frame(self, frame: Frame) -> None:
        number = frame.header["id"]
        if frame.header["event"] == "free":
            if number in self.in_flight:
                self.in_flight[number].drawn = True
            self.listener.capacity_freed(self)
            return
        ticket = self.in_flight.pop(number, None)
        if ticket is None:
            return
        if not ticket.answer.done():
            _resolve(ticket, frame, self)
        if frame.header["event"] == "drawn":
            self.drawn += 1
            self._longest_draw = max(self._longest_draw, frame.header["seconds"])
        self.listener.task_ended(self, ticket)

    async def _wait_for_process(self) -> None:
        if self._process is not None:
            await self._process.wait()

    async def _exit_reason(self) -> str:
        """Wait for the process to end and return the reason."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wait_for_process(), STOP_SECONDS)
        code = self._process.returncode if self._process else None
        if code is None:
            return "its process closed the connection"
        return (
            f"its process was killed by signal {-code}" if code < 0 else f"its process ended with code {code}"
        )

    async def _end(self) -> None:
        """Close the sockets and kill the process."""
        self._outbox = None
        if self._heartbeats is not None:
            self._heartbeats.close()
            self._heartbeats = None
        if self._writer is not None:
            self._writer.transport.abort()  # a close would wait for a hung worker to read everything
            with suppress(ConnectionError):
                await self._writer.wait_closed()
            self._writer = None
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()

    def _take_in_flight(self) -> list[Ticket]:
        tickets, self.in_flight = list(self.in_flight.values()), {}
        return tickets

    def _post(self, header: dict[str, Any], *payload: bytes) -> None:
        if self._outbox is not None:
            self._outbox.put_nowait((header, payload))

    async def _deliver(self) -> None:
        """Send queued frames in order, as fast as the worker reads."""
        outbox, writer = self._outbox, self._writer
        with suppress(ConnectionError):  # `_next_frame` notices the end of the process
            while outbox is not None and writer is not None:
                header, payload = await outbox.get()
                await send_frame(writer, header, *payload)


def _resolve(ticket: Ticket, frame: Frame, worker: Worker) -> None:
    header = frame.header
    if header["event"] == "drawn":
        width, height = header["size"]
        ticket.answer.set_result(
            GeneratedImage(
                data=frame.payload,
                width=width,
                height=height,
                seed=ticket.task.seed,
                worker=worker.number,
                device=worker.device,
                seconds=header["seconds"],
            )
        )
    elif header["event"] == "cancelled":  # by the generator, not at our request
        ticket.answer.set_exception(Refusal("the generator cancelled the image", status=500))
    elif header["transient"]:
        wait = header["retry_after"] or 1.0
        ticket.answer.set_exception(Refusal(header["message"], status=503, retry_after=wait))
    else:
        status = 422 if header["known"] else 500
        ticket.answer.set_exception(Refusal(header["message"], status=status))


def _has_descriptor(stream: object) -> bool:
    try:
        stream.fileno()  # type: ignore[attr-defined]
    except (AttributeError, OSError, ValueError):
        return False
    return True

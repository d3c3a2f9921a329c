"""The queue and the worker pool: dispatch, admission, and what happens when a worker dies.

Drawings wait in one bounded queue for the least busy worker; a worker is given several at once, and its
generator batches those it can. A drawing whose worker dies is drawn once more by another worker, alone: with
the same seed it comes out the same, and if it killed the first worker it takes no other drawing with it. When
its second worker dies too, the client gets a 503.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from typing import Protocol

from interleave import ConfigurationError
from interleave.service.generator.config import Limits
from interleave.service.generator.messages import Drawing, DrawnImage, ServiceFacts
from interleave.service.generator.worker_process import Ticket, Worker, WorkerState
from interleave.service.http.memory import MemoryBudget
from interleave.service.http.refusals import Refusal

log = logging.getLogger(__name__)
MAX_WORKER_DEATHS = 2
LONGEST_RETRY_AFTER_SECONDS = 60
WATCH_SECONDS = 1.0


class PoolObserver(Protocol):
    """Counts what the pool does, for metrics."""

    def image_drawn(self, worker: int, seconds: float) -> None: ...
    def worker_lost(self, worker: int) -> None: ...


class Pool:
    """All workers of a generator, and the queue of drawings for them."""

    def __init__(
        self,
        spec: str,
        devices: Sequence[str | None] = (None,),
        *,
        limits: Limits | None = None,
        observer: PoolObserver | None = None,
        ignored: frozenset[str] = frozenset(),
        fixed: bool = False,
    ) -> None:
        """`fixed`: requests may not set what their images are drawn with, whatever the generator takes."""
        self.limits = limits or Limits()
        self.memory = MemoryBudget(self.limits.memory_bytes, self.retry_after)
        self.observer = observer
        self.ignored = ignored
        self.fixed = fixed
        self.workers = [
            Worker(
                number,
                device,
                spec,
                self,
                batch=self.limits.batch,
                load_seconds=self.limits.load_seconds,
                silence_seconds=self.limits.silence_seconds,
                source_limit=self.memory.most_for_one,
            )
            for number, device in enumerate(devices)
        ]
        self.waiting: deque[Ticket] = deque()
        self.draining = False
        self.facts: ServiceFacts | None = None
        self.fatal: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails when the generator can never be loaded: the server has nothing to serve."""
        self._numbers = count()
        self._tasks: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()
        self._arriving = 0
        """Admitted requests whose bodies have been received, and which are not in the queue yet."""
        self._seconds_per_image = 1.0

    def start(self) -> None:
        self._tasks = [asyncio.create_task(worker.keep_running()) for worker in self.workers]
        self._tasks.append(asyncio.create_task(self._watch()))

    async def stop(self) -> None:
        """End every worker; clients that still wait get a 503."""
        self.draining = True
        self.fail_all(Refusal("the server is shutting down", status=503, retry_after=5))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if not self.fatal.cancel():
            self.fatal.exception()  # mark it as retrieved

    def fail_all(self, reason: Refusal) -> None:
        """Fail every drawing that waits or is in flight with this refusal."""
        for ticket in [*self.waiting, *(t for worker in self.workers for t in worker.in_flight.values())]:
            if not ticket.answer.done():
                ticket.answer.set_exception(reason)

    @property
    def in_flight(self) -> int:
        return sum(len(worker.in_flight) for worker in self.workers)

    @property
    def state(self) -> str:
        """`loading`, `ready`, `degraded`, `dead` or `draining`: the state at this moment."""
        ready = sum(worker.state is WorkerState.READY for worker in self.workers)
        if self.draining:
            return "draining"
        if ready == len(self.workers):
            return "ready"
        if ready:
            return "degraded"
        return "loading" if self.facts is None and any(worker.usable for worker in self.workers) else "dead"

    @property
    def busy(self) -> bool:
        """Whether images wait or are being drawn."""
        return bool(self.waiting) or self.in_flight > 0

    def deadline(self) -> float:
        """The deadline of a request that arrives now, by the loop's clock."""
        return asyncio.get_running_loop().time() + self.limits.deadline_seconds

    def check_admission(self) -> None:
        """Admission control: refuse a request before its body is read when the queue has no place for it."""
        free = sum(max(0, w.capacity - w.drawing) for w in self.workers if w.state is WorkerState.READY)
        self.check_capacity(self._arriving + 1 - free)

    @contextmanager
    def arriving(self) -> Iterator[None]:
        """Admit a request whose body has been received: it counts against the queue as if it waited there."""
        self.check_admission()
        self._arriving += 1
        try:
            yield
        finally:
            self._arriving -= 1

    def check_capacity(self, images: int) -> None:
        """Refuse at once what the queue and the workers cannot take."""
        if self.draining:
            raise Refusal("the server is shutting down: ask another one", status=503, retry_after=5)
        if not any(worker.usable for worker in self.workers):
            soonest = min(worker.retry_at for worker in self.workers) - time.monotonic()
            raise Refusal(
                "no worker is alive to draw; they are being started again",
                status=503,
                retry_after=max(1.0, soonest),
            )
        if len(self.waiting) + images > self.limits.queue:
            raise Refusal(
                f"the queue is full ({len(self.waiting) + self._arriving} images waiting, "
                f"{self.limits.queue} allowed): "
                "try again later",
                status=429,
                retry_after=self.retry_after(),
            )

    def retry_after(self) -> float:
        """Backpressure: seconds until half the queue is drawn, at the rate of the last drawings."""
        capacity = sum(worker.capacity for worker in self.workers if worker.state is WorkerState.READY) or 1
        wait = self._seconds_per_image * max(1, len(self.waiting) // 2) / capacity
        return float(min(max(1, math.ceil(wait)), LONGEST_RETRY_AFTER_SECONDS))

    async def loaded_facts(self, ends_at: float | None = None) -> ServiceFacts:
        """What the generator can do; waits while it is being loaded for the first time."""
        try:
            async with asyncio.timeout_at(self.deadline() if ends_at is None else ends_at):
                while self.facts is None:
                    self.check_capacity(0)
                    await self._changed.wait()
                return self.facts
        except TimeoutError:
            raise Refusal("the generator is still being loaded", status=503, retry_after=30) from None

    async def draw(self, drawings: Sequence[Drawing], ends_at: float | None = None) -> list[DrawnImage]:
        """Draw all of these or raise; a caller that stops waiting takes them out of the queue."""
        self.check_capacity(len(drawings))
        loop = asyncio.get_running_loop()
        ends_at = self.deadline() if ends_at is None else ends_at
        tickets = [
            Ticket(next(self._numbers), drawing, loop.create_future(), ends_at) for drawing in drawings
        ]
        self.waiting.extend(tickets)
        self._dispatch()
        try:
            async with asyncio.timeout_at(ends_at):
                return await asyncio.gather(*(ticket.answer for ticket in tickets))
        except TimeoutError:
            raise Refusal(
                f"the image was not drawn within {self.limits.deadline_seconds:g} s", status=504
            ) from None
        finally:
            for ticket in tickets:
                self._withdraw(ticket)

    def _withdraw(self, ticket: Ticket) -> None:
        if ticket.answer.done() and not ticket.answer.cancelled():
            ticket.answer.exception()  # mark it as retrieved: one failure fails the whole request
        else:
            ticket.answer.cancel()
        if ticket in self.waiting:
            self.waiting.remove(ticket)
        elif ticket.worker is not None:
            ticket.worker.cancel(ticket)
        self._dispatch()

    def _dispatch(self) -> None:
        """Send waiting drawings to workers with free capacity, the least busy first."""
        while self.waiting:
            ticket = self.waiting[0]
            if ticket.answer.done():
                self.waiting.popleft()
                continue
            able = [worker for worker in self.workers if worker.can_take(ticket)]
            if not able:
                return
            self.waiting.popleft()
            min(able, key=lambda worker: worker.drawing).send(ticket)

    def worker_ready(self, worker: Worker) -> None:
        if worker.facts is not None:
            capabilities = worker.facts.capabilities
            if self.fixed:
                capabilities = replace(capabilities, request_settings=())
            self.facts = replace(worker.facts, capabilities=capabilities, ignored=self.ignored)
        log.info("worker %d: ready", worker.number)
        self._notify()
        self._dispatch()

    def capacity_freed(self, worker: Worker) -> None:
        self._dispatch()

    def drawing_ended(self, worker: Worker, ticket: Ticket) -> None:
        if ticket.answer.done() and not ticket.answer.cancelled() and ticket.answer.exception() is None:
            seconds = ticket.answer.result().seconds
            self._seconds_per_image += 0.2 * (seconds - self._seconds_per_image)
            if self.observer:
                self.observer.image_drawn(worker.number, seconds)
        self._dispatch()

    def worker_died(self, worker: Worker, tickets: list[Ticket]) -> None:
        if self.observer:
            self.observer.worker_lost(worker.number)
        for ticket in reversed(tickets):
            ticket.deaths += 1
            ticket.worker = None
            if ticket.answer.done():
                continue
            if ticket.deaths < MAX_WORKER_DEATHS:
                self.waiting.appendleft(ticket)  # it has waited already
            else:
                ticket.answer.set_exception(
                    Refusal(
                        "two workers died while they drew this image: if it happens again, the image "
                        "is the cause",
                        status=503,
                        retry_after=30,
                    )
                )
        self._notify()
        if not any(each.usable for each in self.workers):
            soonest = max(1.0, min(each.retry_at for each in self.workers) - time.monotonic())
            self.fail_all(Refusal("the last worker died", status=503, retry_after=soonest))
        self._dispatch()

    def load_failed_for_good(self, worker: Worker, error: ConfigurationError) -> bool:
        """Whether to give up: a configuration that no worker has ever loaded is wrong."""
        if self.facts is None and not self.fatal.done():
            self.fatal.set_exception(error)
        return self.facts is None

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _watch(self) -> None:
        """Check every second whether workers are alive and drawings within their time limit."""
        while True:
            await asyncio.sleep(WATCH_SECONDS)
            now = asyncio.get_running_loop().time()
            for worker in self.workers:
                for ticket in worker.in_flight.values():
                    self._end_if_late(ticket, now)
                worker.check(now)

    def _end_if_late(self, ticket: Ticket, now: float) -> None:
        limit = self.limits.draw_seconds
        if limit is None or ticket.drawn or ticket.answer.done() or now - ticket.sent_at < limit:
            return
        ticket.ends_at = min(ticket.ends_at, now)
        ticket.answer.set_exception(
            Refusal(f"the generator did not draw the image within {limit:g} s", status=504)
        )

"""The worker pool and its queue: admission, dispatch and recovery from dead workers.

Tasks wait in one bounded queue for the least busy worker. A worker receives several tasks concurrently, and
its generator batches those it can. If a worker dies, each of its tasks is retried once, alone on a worker:
the same seed gives the same image, and a task that kills workers takes no other task with it. If the second
worker dies too, the client gets a 503.
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
from interleave.service.generator.messages import GeneratedImage, GenerationTask, GeneratorInfo
from interleave.service.generator.worker_process import Ticket, Worker, WorkerState
from interleave.service.http.memory import MemoryBudget
from interleave.service.http.refusals import Refusal

log = logging.getLogger(__name__)
MAX_WORKER_DEATHS = 2
LONGEST_RETRY_AFTER_SECONDS = 60
WATCH_SECONDS = 1.0


class PoolObserver(Protocol):
    """Receiver of pool events, for metrics."""

    def image_drawn(self, worker: int, seconds: float) -> None: ...
    def worker_lost(self, worker: int) -> None: ...


class Pool:
    """All workers of a generator, and their task queue."""

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
        """With `fixed`, requests may not change settings, even if the generator supports it."""
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
                source_limit=self.memory.max_for_one,
            )
            for number, device in enumerate(devices)
        ]
        self.waiting: deque[Ticket] = deque()
        self.draining = False
        self.info: GeneratorInfo | None = None
        self.fatal: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Fails if the generator can never be loaded, so there is nothing to serve."""
        self._numbers = count()
        self._tasks: list[asyncio.Task[None]] = []
        self._changed = asyncio.Event()
        self._arriving = 0
        """Number of admitted requests with complete bodies that are not in the queue yet."""
        self._seconds_per_image = 1.0

    def start(self) -> None:
        self._tasks = [asyncio.create_task(worker.keep_running()) for worker in self.workers]
        self._tasks.append(asyncio.create_task(self._watch()))

    async def stop(self) -> None:
        """Stop every worker. Waiting clients get a 503."""
        self.draining = True
        self.fail_all(Refusal("the server is shutting down", status=503, retry_after=5))
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if not self.fatal.cancel():
            self.fatal.exception()  # mark it as retrieved

    def fail_all(self, reason: Refusal) -> None:
        """Fail every waiting or in-flight task with this refusal."""
        for ticket in [*self.waiting, *(t for worker in self.workers for t in worker.in_flight.values())]:
            if not ticket.answer.done():
                ticket.answer.set_exception(reason)

    @property
    def in_flight(self) -> int:
        return sum(len(worker.in_flight) for worker in self.workers)

    @property
    def state(self) -> str:
        """Current state: `loading`, `ready`, `degraded`, `dead` or `draining`."""
        ready = sum(worker.state is WorkerState.READY for worker in self.workers)
        if self.draining:
            return "draining"
        if ready == len(self.workers):
            return "ready"
        if ready:
            return "degraded"
        return "loading" if self.info is None and any(worker.usable for worker in self.workers) else "dead"

    @property
    def busy(self) -> bool:
        """Whether any task waits or is in flight."""
        return bool(self.waiting) or self.in_flight > 0

    def deadline(self) -> float:
        """Return the deadline of a request that arrives now, by the loop's clock."""
        return asyncio.get_running_loop().time() + self.limits.deadline_seconds

    def check_admission(self) -> None:
        """Refuse a request before its body is read if the queue is full."""
        free = sum(max(0, w.capacity - w.active_tasks) for w in self.workers if w.state is WorkerState.READY)
        self.check_capacity(self._arriving + 1 - free)

    @contextmanager
    def arriving(self) -> Iterator[None]:
        """Admit a request with a complete body; it counts against the queue limit."""
        self.check_admission()
        self._arriving += 1
        try:
            yield
        finally:
            self._arriving -= 1

    def check_capacity(self, images: int) -> None:
        """Refuse `images` tasks if the queue or the workers cannot take them."""
        if self.draining:
            raise Refusal("the server is shutting down: use another server", status=503, retry_after=5)
        if not any(worker.usable for worker in self.workers):
            soonest = min(worker.retry_at for worker in self.workers) - time.monotonic()
            raise Refusal(
                "no worker is running; the server is restarting them",
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
        """Return the seconds until half the queue is done, at the recent rate."""
        capacity = sum(worker.capacity for worker in self.workers if worker.state is WorkerState.READY) or 1
        wait = self._seconds_per_image * max(1, len(self.waiting) // 2) / capacity
        return float(min(max(1, math.ceil(wait)), LONGEST_RETRY_AFTER_SECONDS))

    async def loaded_info(self, ends_at: float | None = None) -> GeneratorInfo:
        """Return the generator's info; wait for it during the first load."""
        try:
            async with asyncio.timeout_at(self.deadline() if ends_at is None else ends_at):
                while self.info is None:
                    self.check_capacity(0)
                    await self._changed.wait()
                return self.info
        except TimeoutError:
            raise Refusal("the generator is still loading", status=503, retry_after=30) from None

    async def draw(
        self, tasks: Sequence[GenerationTask], ends_at: float | None = None
    ) -> list[GeneratedImage]:
        """Draw all tasks or raise. If the caller is cancelled, its tasks leave the queue."""
        self.check_capacity(len(tasks))
        loop = asyncio.get_running_loop()
        ends_at = self.deadline() if ends_at is None else ends_at
        tickets = [Ticket(next(self._numbers), task, loop.create_future(), ends_at) for task in tasks]
        self.waiting.extend(tickets)
        self._dispatch()
        try:
            async with asyncio.timeout_at(ends_at):
                return await asyncio.gather(*(ticket.answer for ticket in tickets))
        except TimeoutError:
            raise Refusal(
                f"the image was not generated within {self.limits.deadline_seconds:g} s", status=504
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
        """Send waiting tasks to workers with free capacity, the least busy first."""
        while self.waiting:
            ticket = self.waiting[0]
            if ticket.answer.done():
                self.waiting.popleft()
                continue
            able = [worker for worker in self.workers if worker.can_take(ticket)]
            if not able:
                return
            self.waiting.popleft()
            min(able, key=lambda worker: worker.active_tasks).send(ticket)

    def worker_ready(self, worker: Worker) -> None:
        if worker.info is not None:
            capabilities = worker.info.capabilities
            if self.fixed:
                capabilities = replace(capabilities, request_settings=())
            self.info = replace(worker.info, capabilities=capabilities, ignored=self.ignored)
        log.info("worker %d: ready", worker.number)
        self._notify()
        self._dispatch()

    def capacity_freed(self, worker: Worker) -> None:
        self._dispatch()

    def task_ended(self, worker: Worker, ticket: Ticket) -> None:
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
                        "two workers died while generating this image: if it happens again, the request "
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
        """Return whether to give up: a configuration that no worker has ever loaded is wrong."""
        if self.info is None and not self.fatal.done():
            self.fatal.set_exception(error)
        return self.info is None

    def _notify(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _watch(self) -> None:
        """Check every second that workers are alive and tasks within their time limit."""
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
            Refusal(f"the generator did not finish the image within {limit:g} s", status=504)
        )

"""Calls of many trajectories, run as few batches by one thread.

A model in this process blocks, and a GPU does one thing at a time. So every device has one *lane*, a thread
that all models on it take turns in, and every model has a *queue*. When a queue's turn comes, the oldest call
is taken and with it those waiting behind it that can be computed together. A call that is cancelled while it
waits is never run; one that is cancelled while it runs is marked, so that the model can stop early.

Tokens of many answers are written in hardly more time than those of one, while pictures take their time each.
So a queue of questions can *yield*: it lets calls of others that wait go first, until its own batch is full
or its oldest call has waited long enough.

Batching decides how fast things are done, never which: where a batch fails, its calls are run one by one,
and only those that fail by themselves are failures. One that needs more memory than there is is halved, and
so are those after it, so that a batch that is right for a large device need not be changed for a small one.
"""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import Callable, Hashable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary, WeakSet

from interleave.backends.local.library_errors import forget_frames
from interleave.errors import OutOfMemory

log = logging.getLogger(__name__)

Job = TypeVar("Job")
Result = TypeVar("Result")

LINGER_SECONDS = 0.01
"""How long an unfilled batch waits for company: the callers answered last need so long to ask again."""
MOST_PATIENCE_SECONDS = 0.6
YIELD_SECONDS = 30.0
"""How long a call is kept back at most for others to go first."""

_QUEUES: WeakKeyDictionary[ThreadPoolExecutor, WeakSet[BatchQueue[Any, Any]]] = WeakKeyDictionary()
"""The queues of every lane."""
_QUEUES_LOCK = threading.Lock()


@dataclass(eq=False)
class Ticket(Generic[Job, Result]):
    """One call on its way through a queue."""

    job: Job
    future: Future[Result] = field(default_factory=Future)
    came: float = field(default_factory=lambda: time.monotonic())
    _abandoned: threading.Event = field(default_factory=threading.Event)

    @property
    def cancelled(self) -> bool:
        """Whether nobody waits for the answer any more."""
        return self._abandoned.is_set()

    def abandon(self) -> None:
        self._abandoned.set()


class BatchQueue(Generic[Job, Result]):
    """Calls that wait for one model."""

    def __init__(
        self,
        run: Callable[[Sequence[Ticket[Job, Result]]], Sequence[Result | Exception]],
        *,
        lane: ThreadPoolExecutor,
        most: int = 1,
        together: Callable[[Job], Hashable] = lambda job: None,
        recover: Callable[[], None] = lambda: None,
        yields: bool = False,
        patience: float = 0.0,
    ) -> None:
        """`run` computes a batch, in order; jobs with an equal `together` fit in one batch of at most `most`.

        `recover` is called in the lane after `run` has failed, to let go of what it held. A queue that
        `yields` lets those go first that do not, while its batch is not full. Where calls have come together
        before, they are waited for longer: `patience` is a share of what the last batch took. Those that
        were answered together are at it, saving a picture perhaps, and a batch more costs as much again.
        """
        self._run = run
        self._lane = lane
        self.most = most
        self._fit = sys.maxsize
        """So many have not been too many for the memory."""
        self._together = together
        self._recover = recover
        self._waiting: list[Ticket[Job, Result]] = []
        self._patience = patience
        self._wait = LINGER_SECONDS
        self._yields = yields
        self._postponed = False
        self._lock = threading.Lock()
        with _QUEUES_LOCK:
            _QUEUES.setdefault(lane, WeakSet()).add(self)

    @property
    def at_once(self) -> int:
        """How many calls are computed together at most."""
        return min(self.most, self._fit)

    async def do(self, job: Job) -> Result:
        """The result of a job; raises what the model raised for it."""
        ticket: Ticket[Job, Result] = Ticket(job)
        with self._lock:
            self._waiting.append(ticket)
        self._lane.submit(self._take_turn)
        try:
            return await asyncio.wrap_future(ticket.future)
        except asyncio.CancelledError:
            ticket.abandon()
            with self._lock:
                if ticket in self._waiting:
                    self._waiting.remove(ticket)
            raise

    def _take_turn(self) -> None:
        """Run one batch, if anything still waits: every call asks for a turn, many for nothing."""
        if not self._should_yield():
            self._wait_for_company()
        if self._should_yield():
            self._postpone()
            return
        batch = [ticket for ticket in self._take_batch() if ticket.future.set_running_or_notify_cancel()]
        if not batch:
            return
        started = time.monotonic()
        self._work(batch)
        in_company = len(batch) > 1 or bool(self._waiting)
        share = self._patience * (time.monotonic() - started) if in_company else 0.0
        self._wait = min(max(LINGER_SECONDS, share), MOST_PATIENCE_SECONDS)
        if self._waiting and self._yields:  # turns of theirs may have been given up for one
            self._postpone()

    def _wait_for_company(self) -> None:
        """Until a batch is full, nobody has come for a while, or others are to go first."""
        there, last = 0, time.monotonic()
        while self.at_once > 1 and 0 < len(self._waiting) < self.at_once and not self._should_yield():
            now = time.monotonic()
            if len(self._waiting) > there:
                there, last = len(self._waiting), now
            elif now - last >= self._wait:
                return
            time.sleep(LINGER_SECONDS)

    def _should_yield(self) -> bool:
        with self._lock:
            oldest = min((ticket.came for ticket in self._waiting), default=None)
            full = len(self._waiting) >= self.at_once
        if not self._yields or oldest is None or full or time.monotonic() - oldest > YIELD_SECONDS:
            return False
        return any(other._waiting for other in _queues_of(self._lane) if not other._yields)

    def _postpone(self) -> None:
        """Take one turn later, after those that have been asked for by now."""
        if not self._postponed:
            self._postponed = True
            self._lane.submit(self._take_postponed_turn)

    def _take_postponed_turn(self) -> None:
        self._postponed = False
        self._take_turn()

    def _take_batch(self) -> list[Ticket[Job, Result]]:
        with self._lock:
            if not self._waiting:
                return []
            kind = self._together(self._waiting[0].job)
            batch = [ticket for ticket in self._waiting if self._together(ticket.job) == kind][: self.at_once]
            self._waiting = [ticket for ticket in self._waiting if ticket not in batch]
            return batch

    def _work(self, batch: Sequence[Ticket[Job, Result]], *, freed: bool = False) -> None:
        """Run a batch, in parts where it fails as a whole; `freed`: others have let go of memory for it."""
        batch = [ticket for ticket in batch if not ticket.cancelled]
        error = self._try(batch) if batch else None
        if error is None:
            return
        short = isinstance(error, OutOfMemory)
        for queue in _queues_of(self._lane) if short else [self]:
            queue._let_go()
        if len(batch) == 1 and (freed or not short):
            batch[0].future.set_exception(error)
            return
        each = self._halved(len(batch)) if short else 1
        while batch:
            part, batch = batch[:each], batch[each:]
            self._work(part, freed=short)
            each = min(each, self.at_once)

    def _try(self, batch: Sequence[Ticket[Job, Result]]) -> BaseException | None:
        """Run a batch; returns what it failed with, with nothing that it held in memory."""
        try:
            self._settle(batch, self._run(batch))
        except BaseException as error:
            forget_frames(error)
            return error
        return None

    def _halved(self, calls: int) -> int:
        """How many calls are computed together after so many have been too many."""
        half = (calls + 1) // 2
        if calls > 1 and half < self.at_once:
            log.warning("%d calls at once need more memory than there is: from here on %d", calls, half)
            self._fit = half
        return min(half, self.at_once)

    def _let_go(self) -> None:
        """Of the memory that the model keeps only to be faster."""
        try:
            self._recover()
        except Exception as error:  # a device that has failed for good: the calls are told why, not this
            log.warning("memory could not be let go of: %s", str(error)[:300])

    @staticmethod
    def _settle(batch: Sequence[Ticket[Job, Result]], results: Sequence[Result | Exception]) -> None:
        if len(results) != len(batch):
            raise RuntimeError(f"a batch of {len(batch)} brought {len(results)} results")
        for ticket, result in zip(batch, results, strict=True):
            if isinstance(result, Exception):  # this one could not be done; the others could
                ticket.future.set_exception(result)
            else:
                ticket.future.set_result(result)


def _queues_of(lane: ThreadPoolExecutor) -> list[BatchQueue[Any, Any]]:
    with _QUEUES_LOCK:
        return list(_QUEUES.get(lane, ()))


@cache
def lane_of(device: str) -> ThreadPoolExecutor:
    """The one thread in which everything on this device is computed.

    One thread for all models of a device keeps them from fighting over it, and CUDA graphs, which belong to
    the thread that recorded them, stay usable.
    """
    return ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"interleave-{device}")

"""Whose job is next: keys take turns, so that one with a thousand jobs does not keep another waiting."""

from __future__ import annotations

import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

from pydantic import Field, ValidationError

from interleave.plugin import Value, write_atomic
from interleave.service.documents.keys import Caller
from interleave.service.documents.refusals import ApiRefusal

log = logging.getLogger(__name__)
FILE_NAME = "queue.json"
HOUR = 3600.0
BUSY_RETRY_SECONDS = 10.0


class Turns:
    """The jobs that wait and the number of those that run, by key. Time is monotonic: no clock is trusted."""

    shared = False
    """Whether other processes take jobs from the same queue."""

    def __init__(
        self,
        *,
        running: int,
        waiting: int,
        per_key: int | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.most_running = running
        self.most_waiting = waiting
        self.most_per_key = running if per_key is None else per_key
        self.running: Counter[str] = Counter()
        self.paused = False
        """Whether nothing is started; what runs goes on."""
        self._clock = clock
        self._waiting: OrderedDict[str, dict[str, float]] = OrderedDict()
        """By key, in order of turns: the ids in order of arrival, and when they arrived."""
        self._arriving: Counter[str] = Counter()
        self._rates: dict[str, tuple[float, float]] = {}
        """By key: submissions left in this hour's bucket, and when it was counted."""

    @property
    def depth(self) -> int:
        return sum(map(len, self._waiting.values()))

    @property
    def in_flight(self) -> int:
        return self.running.total()

    @property
    def oldest_seconds(self) -> float:
        """How long the oldest job has waited."""
        arrivals = [next(iter(ids.values())) for ids in self._waiting.values() if ids]
        return max(0.0, self._clock() - min(arrivals)) if arrivals else 0.0

    def open_jobs(self, key: str) -> int:
        """The jobs of a key that wait or run."""
        return len(self._waiting.get(key, ())) + self.running[key]

    @contextmanager
    def admitted(self, caller: Caller) -> Iterator[None]:
        """Hold a place for a job while it is being stored; refuse it when there is none."""
        open_ = self.open_jobs(caller.key) + self._arriving[caller.key]
        if caller.max_jobs is not None and open_ >= caller.max_jobs:
            raise ApiRefusal(
                f"this key has {open_} jobs that wait or run, as many as it may: wait until one has ended",
                status=429,
                code="rate_limit_exceeded",
                retry_after=BUSY_RETRY_SECONDS,
            )
        if self.depth + self._arriving.total() >= self.most_waiting:
            raise ApiRefusal(
                "the queue of the service is full: try again later",
                status=503,
                code="server_overloaded",
                retry_after=BUSY_RETRY_SECONDS,
            )
        self._spend(caller)
        self._arriving[caller.key] += 1
        try:
            yield
        finally:
            self._arriving[caller.key] -= 1

    def _spend(self, caller: Caller) -> None:
        """Take one submission of the hour's; what is unspent comes back evenly."""
        if caller.per_hour is None:
            return
        now = self._clock()
        left, counted = self._rates.get(caller.key, (float(caller.per_hour), now))
        left = min(caller.per_hour, left + (now - counted) * caller.per_hour / HOUR)
        if left < 1:
            raise ApiRefusal(
                f"this key may submit {caller.per_hour} jobs an hour",
                status=429,
                code="rate_limit_exceeded",
                retry_after=(1 - left) * HOUR / caller.per_hour,
            )
        self._rates[caller.key] = (left - 1, now)

    def add(self, key: str, id_: str, *, age: float = 0.0) -> None:
        """Add a job that waits, and has for some seconds already."""
        self._waiting.setdefault(key, {})[id_] = self._clock() - max(0.0, age)

    def drop(self, key: str, id_: str) -> bool:
        """Take a job out of the queue; returns whether it was in it."""
        ids = self._waiting.get(key, {})
        found = ids.pop(id_, None) is not None
        if found and not ids:
            del self._waiting[key]
        return found

    def waiting(self, key: str | None = None) -> list[str]:
        """The jobs that wait, in the order in which they are taken: those of one key, or of all."""
        if key is not None:
            return list(self._waiting.get(key, ()))
        rounds = zip_longest(*self._waiting.values())
        return [id_ for each in rounds for id_ in each if id_ is not None]

    def move(self, key: str, id_: str, place: int) -> bool:
        """Give a job that waits another place among those of its key; returns whether it still waited."""
        ids = self._waiting.get(key, {})
        if id_ not in ids:
            return False
        order = [each for each in ids if each != id_]
        order.insert(place, id_)
        self._waiting[key] = {each: ids[each] for each in order}
        return True

    def take(self) -> tuple[str, str] | None:
        """The next job to run, counted as running; None when nothing may run now."""
        if self.paused or self.in_flight >= self.most_running:
            return None
        key = next((key for key in self._waiting if self.running[key] < self.most_per_key), None)
        if key is None:
            return None
        id_ = next(iter(self._waiting[key]))
        self.drop(key, id_)
        if key in self._waiting:
            self._waiting.move_to_end(key)
        self.running[key] += 1
        return key, id_

    def ended(self, key: str) -> None:
        self.running[key] -= 1
        if not self.running[key]:
            del self.running[key]


class QueueState(Value):
    """The queue as it was when it was last changed by hand; jobs that came later wait behind these."""

    paused: bool = False
    order: list[str] = Field(default_factory=list)


def read_queue(folder: Path) -> QueueState:
    """The state in a folder; that of a new queue where there is none, or it cannot be read."""
    try:
        return QueueState.model_validate_json((folder / FILE_NAME).read_bytes())
    except FileNotFoundError:
        return QueueState()
    except (OSError, ValidationError) as error:
        log.error("%s cannot be read, and the queue is in order of arrival: %s", folder / FILE_NAME, error)
        return QueueState()


def write_queue(folder: Path, state: QueueState) -> None:
    write_atomic(folder / FILE_NAME, state.model_dump_json().encode())

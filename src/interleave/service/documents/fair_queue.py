"""Fair queue of jobs: keys are served round-robin, so a key with a thousand jobs does not block others."""

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


class FairQueue:
    """Waiting jobs and the number of running ones, by key. Uses monotonic time, not the wall clock."""

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
        self.max_running = running
        self.max_waiting = waiting
        self.max_per_key = running if per_key is None else per_key
        self.running: Counter[str] = Counter()
        self.paused = False
        """Whether no job is started; running jobs continue."""
        self._clock = clock
        self._waiting: OrderedDict[str, dict[str, float]] = OrderedDict()
        """Keys in round-robin order; for each, its job ids in order with their arrival times."""
        self._arriving: Counter[str] = Counter()
        self._rates: dict[str, tuple[float, float]] = {}
        """By key: remaining submissions in the token bucket, and the time of that count."""

    @property
    def depth(self) -> int:
        return sum(map(len, self._waiting.values()))

    @property
    def in_flight(self) -> int:
        return self.running.total()

    @property
    def oldest_seconds(self) -> float:
        """Age of the oldest waiting job."""
        arrivals = [next(iter(ids.values())) for ids in self._waiting.values() if ids]
        return max(0.0, self._clock() - min(arrivals)) if arrivals else 0.0

    def open_jobs(self, key: str) -> int:
        """Return the number of waiting and running jobs of a key."""
        return len(self._waiting.get(key, ())) + self.running[key]

    @contextmanager
    def admitted(self, caller: Caller) -> Iterator[None]:
        """Reserve a slot for a job while it is being stored; refuse it if there is none."""
        open_ = self.open_jobs(caller.key) + self._arriving[caller.key]
        if caller.max_jobs is not None and open_ >= caller.max_jobs:
            raise ApiRefusal(
                f"this key has {open_} open jobs, its maximum: wait until one has ended",
                status=429,
                code="rate_limit_exceeded",
                retry_after=BUSY_RETRY_SECONDS,
            )
        if self.depth + self._arriving.total() >= self.max_waiting:
            raise ApiRefusal(
                "the queue is full: try again later",
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
        """Take one submission from the token bucket, which refills evenly over an hour."""
        if caller.per_hour is None:
            return
        now = self._clock()
        left, counted = self._rates.get(caller.key, (float(caller.per_hour), now))
        left = min(caller.per_hour, left + (now - counted) * caller.per_hour / HOUR)
        if left < 1:
            raise ApiRefusal(
                f"this key may submit {caller.per_hour} jobs per hour: try again later",
                status=429,
                code="rate_limit_exceeded",
                retry_after=(1 - left) * HOUR / caller.per_hour,
            )
        self._rates[caller.key] = (left - 1, now)

    def add(self, key: str, id_: str, *, age: float = 0.0) -> None:
        """Add a job that has already waited for `age` seconds."""
        self._waiting.setdefault(key, {})[id_] = self._clock() - max(0.0, age)

    def drop(self, key: str, id_: str) -> bool:
        """Remove a job from the queue; return whether it was waiting."""
        ids = self._waiting.get(key, {})
        found = ids.pop(id_, None) is not None
        if found and not ids:
            del self._waiting[key]
        return found

    def waiting(self, key: str | None = None) -> list[str]:
        """Return the waiting jobs of one key, or of all, in the order in which they start."""
        if key is not None:
            return list(self._waiting.get(key, ()))
        rounds = zip_longest(*self._waiting.values())
        return [id_ for each in rounds for id_ in each if id_ is not None]

    def move(self, key: str, id_: str, place: int) -> bool:
        """Move a waiting job to another place among those of its key; return whether it was waiting."""
        ids = self._waiting.get(key, {})
        if id_ not in ids:
            return False
        order = [each for each in ids if each != id_]
        order.insert(place, id_)
        self._waiting[key] = {each: ids[each] for each in order}
        return True

    def take(self) -> tuple[str, str] | None:
        """Take the next job and count it as running; `None` if no job may start now."""
        if self.paused or self.in_flight >= self.max_running:
            return None
        key = next((key for key in self._waiting if self.running[key] < self.max_per_key), None)
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
    """Stored queue state after the last manual change; later jobs wait behind these."""

    paused: bool = False
    order: list[str] = Field(default_factory=list)


def read_queue(folder: Path) -> QueueState:
    """Read the queue state of a folder; return that of a new queue if it is missing or unreadable."""
    try:
        return QueueState.model_validate_json((folder / FILE_NAME).read_bytes())
    except FileNotFoundError:
        return QueueState()
    except (OSError, ValidationError) as error:
        log.error("%s cannot be read, so the queue is in order of arrival: %s", folder / FILE_NAME, error)
        return QueueState()


def write_queue(folder: Path, state: QueueState) -> None:
    write_atomic(folder / FILE_NAME, state.model_dump_json().encode())

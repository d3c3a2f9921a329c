"""The queue of a shared job table as one process sees it: counted in the table a moment ago."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

from interleave.service.documents.fair_queue import Turns
from interleave.service.documents.shared_jobs import KeyLoad, SharedJobTable

COUNT_SECONDS = 1.0


class SharedTurns(Turns):
    """Admits jobs by the load of all processes; whose turn it is the table decides."""

    shared = True

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.per_key_everywhere: int | None = options.get("per_key")
        """On all machines together; None for as many as there are places."""
        self._load: dict[str, KeyLoad] = {}
        self._since: Counter[str] = Counter()
        self._counted = -math.inf

    async def refresh(self, jobs: SharedJobTable) -> None:
        """Count the open jobs of all processes, unless that was done just now."""
        if self._clock() - self._counted < COUNT_SECONDS:
            return
        self._counted, before = self._clock(), self._since.copy()
        self._load = await jobs.load()
        self._since -= before

    def stored(self, key: str) -> None:
        """A job was added here since the last count."""
        self._since[key] += 1

    @property
    def depth(self) -> int:
        return sum(each.waiting for each in self._load.values()) + self._since.total()

    @property
    def in_flight(self) -> int:
        return sum(each.running for each in self._load.values())

    @property
    def oldest_seconds(self) -> float:
        return max((each.oldest_seconds for each in self._load.values()), default=0.0)

    def open_jobs(self, key: str) -> int:
        load = self._load.get(key, KeyLoad(0, 0, 0.0))
        return load.waiting + load.running + self._since[key]

"""Broadcasts of job events: each journal is folded once for all subscribers of its job.

One task polls the journals of all watched jobs, twenty times a second. A poll that finds nothing new takes a
few microseconds. A slow subscriber costs only its index into the list of events.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import suppress

from interleave import RunError
from interleave.plugin import journal
from interleave.service.documents.events import Event, Fold, JobEvents
from interleave.service.documents.folders import Folders
from interleave.service.documents.jobs import Job
from interleave.service.documents.supervision import Supervision

log = logging.getLogger(__name__)
POLL_SECONDS = 0.05
STUCK_SECONDS = 60.0
HEARTBEAT_SECONDS = 15.0
"""Time without an event before a heartbeat is sent: proxies cut silent connections."""


class JobBroadcast:
    """Events of one job so far, and its subscribers."""

    def __init__(self, job: Job, folders: Folders, kind: type[Fold]) -> None:
        self.job = job
        self.folders = folders
        self.kind = kind
        self._job_events = JobEvents(job, kind(job))
        self.events: list[Event] = self._job_events.begin()
        self.ended = False
        self.subscribers = 0
        self._reader = journal.JournalReader(folders.run(job.id))
        self._size = 0
        self._grown = asyncio.Event()

    async def wait(self, after: int, seconds: float) -> None:
        """Wait until there are more than `after` events, the job ends, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while len(self.events) <= after and not self.ended:
                    await self._grown.wait()

    def poll(self) -> None:
        """Fold the journal lines written since the last poll."""
        size = self._reader.size
        if size != self._size:
            self._size = size
            self._read()

    def _read(self) -> None:
        for entry in self._reader.read_new():
            self.events += self._job_events.add(entry)
        self._wake()

    def finish(self, job: Job) -> None:
        """Fold the rest of the journal, which no longer changes, and the final state."""
        if self.ended:
            return
        if self._reader.size:  # always read: another machine's writes may not show in its size yet
            self._read()
        self.events += self._job_events.end(job, self.folders.record(job.id))
        self.close()

    def close(self) -> None:
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()


class Broadcaster:
    """Broadcasts of all watched jobs."""

    def __init__(self, folders: Folders, supervision: Supervision | None = None) -> None:
        self.folders = folders
        self.supervision = supervision or Supervision()
        self._broadcasts: dict[tuple[str, type[Fold]], JobBroadcast] = {}
        self._polling: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._broadcasts)

    @property
    def watched(self) -> set[str]:
        """Ids of the jobs whose events are being streamed."""
        return {id_ for id_, _ in self._broadcasts}

    async def events(
        self,
        job: Job,
        latest: Callable[[], Awaitable[Job | None]],
        kind: type[Fold],
        *,
        after: int = -1,
    ) -> AsyncGenerator[Event | None]:
        """Yield the events of a job after number `after`, up to its final one; `None` is a heartbeat.

        `latest` reads the job again, because it may have ended before it was watched.
        """
        broadcast = self._open(await latest() or job, kind)  # it may have ended or been reopened since
        place = max(0, after + 1)
        try:
            if not broadcast.ended:
                now = await latest()
                if now is None:
                    broadcast.close()
                elif now.is_final:
                    self._guarded(broadcast, lambda: broadcast.finish(now))
            while True:
                while place < len(broadcast.events):
                    place += 1
                    yield broadcast.events[place - 1]
                if broadcast.ended:
                    return
                await broadcast.wait(place, HEARTBEAT_SECONDS)
                if place >= len(broadcast.events) and not broadcast.ended:
                    yield None
        finally:
            self._leave(broadcast)

    def job_ended(self, job: Job) -> None:
        """End the broadcasts of a job with its final state."""
        for broadcast in self._of(job.id):
            self._guarded(broadcast, lambda broadcast=broadcast: broadcast.finish(job))  # type: ignore[misc]

    def job_reopened(self, id_: str) -> None:
        """Start new broadcasts for a reopened job; current subscribers read on to the earlier end."""
        for broadcast in self._of(id_):
            del self._broadcasts[id_, broadcast.kind]

    def job_removed(self, id_: str) -> None:
        for broadcast in self._of(id_):
            broadcast.close()

    def _of(self, id_: str) -> list[JobBroadcast]:
        return [broadcast for (job, _), broadcast in self._broadcasts.items() if job == id_]

    def close(self) -> None:
        """End all streams. The service stops, and clients reconnect to the next one."""
        for broadcast in list(self._broadcasts.values()):
            broadcast.close()
        if self._polling is not None:
            self._polling.cancel()

    def _open(self, job: Job, kind: type[Fold]) -> JobBroadcast:
        broadcast = self._broadcasts.get((job.id, kind))
        if broadcast is None:
            broadcast = JobBroadcast(job, self.folders, kind)
            if job.is_final:
                broadcast.finish(job)
            else:
                self._broadcasts[job.id, kind] = broadcast
                broadcast.poll()
                if self._polling is None or self._polling.done():
                    self._polling = asyncio.create_task(self._poll())
        broadcast.subscribers += 1
        return broadcast

    def _leave(self, broadcast: JobBroadcast) -> None:
        broadcast.subscribers -= 1
        place = (broadcast.job.id, broadcast.kind)
        if not broadcast.subscribers and self._broadcasts.get(place) is broadcast:
            del self._broadcasts[place]

    async def _poll(self) -> None:
        with self.supervision.loop("stream events", max_age=STUCK_SECONDS) as loop:
            while self._broadcasts:
                loop.beat()
                for broadcast in list(self._broadcasts.values()):
                    if not broadcast.ended:
                        self._guarded(broadcast, broadcast.poll)
                await asyncio.sleep(POLL_SECONDS)

    def _guarded(self, broadcast: JobBroadcast, work: Callable[[], None]) -> None:
        """Run `work`; a damaged journal ends only the broadcast of its job."""
        try:
            work()
        except RunError as error:
            log.error("cannot stream the events of job %s: %s", broadcast.job.id, error)
            broadcast.close()

"""Feeds: the events of jobs that have subscribers, folded once for all of them as the journal grows.

One task looks at the journals of all watched jobs, twenty times a second: a look that finds nothing new costs
a few microseconds. A reader that is slow keeps only its place in the list of events.
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

log = logging.getLogger(__name__)
LOOK_SECONDS = 0.05
HEARTBEAT_SECONDS = 15.0
"""After so long without an event a stream says that it is alive: proxies cut silent connections."""


class Feed:
    """The events of one job so far."""

    def __init__(self, job: Job, folders: Folders, kind: type[Fold]) -> None:
        self.job = job
        self.folders = folders
        self.kind = kind
        self._told = JobEvents(job, kind(job))
        self.events: list[Event] = self._told.begin()
        self.ended = False
        self.readers = 0
        self._reader = journal.JournalReader(folders.run(job.id))
        self._size = 0
        self._grown = asyncio.Event()

    async def wait(self, after: int, seconds: float) -> None:
        """Return when there are more than `after` events, it has ended, or the time is over."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                while len(self.events) <= after and not self.ended:
                    await self._grown.wait()

    def look(self) -> None:
        """Fold what the journal has got since the last look."""
        size = self._reader.size
        if size != self._size:
            self._size = size
            self._read()

    def _read(self) -> None:
        for entry in self._reader.read_new():
            self.events += self._told.add(entry)
        self._wake()

    def finish(self, job: Job) -> None:
        """Fold the rest of the journal, which does not change any more, and the final state."""
        if self.ended:
            return
        if self._reader.size:  # read whatever its size seems to be: another machine may have written to it
            self._read()
        self.events += self._told.fold.end(job, self.folders.record(job.id))
        self.close()

    def close(self) -> None:
        self.ended = True
        self._wake()

    def _wake(self) -> None:
        self._grown.set()
        self._grown = asyncio.Event()


class Feeds:
    """The feeds of all jobs that are watched."""

    def __init__(self, folders: Folders) -> None:
        self.folders = folders
        self._feeds: dict[tuple[str, type[Fold]], Feed] = {}
        self._looking: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._feeds)

    @property
    def watched(self) -> set[str]:
        """The jobs whose events are being streamed."""
        return {id_ for id_, _ in self._feeds}

    async def events(
        self,
        job: Job,
        latest: Callable[[], Awaitable[Job | None]],
        kind: type[Fold],
        *,
        after: int = -1,
    ) -> AsyncGenerator[Event | None]:
        """The events of a job with numbers above `after`, until its final one; None when nothing happens.

        `latest` reads the job again: it may have ended before it was watched.
        """
        feed = self._open(await latest() or job, kind)  # it may have ended, or been reopened, since
        place = max(0, after + 1)
        try:
            if not feed.ended:
                now = await latest()
                if now is None:
                    feed.close()
                elif now.is_final:
                    self._guarded(feed, lambda: feed.finish(now))
            while True:
                while place < len(feed.events):
                    place += 1
                    yield feed.events[place - 1]
                if feed.ended:
                    return
                await feed.wait(place, HEARTBEAT_SECONDS)
                if place >= len(feed.events) and not feed.ended:
                    yield None
        finally:
            self._leave(feed)

    def job_ended(self, job: Job) -> None:
        """A job has got its final state."""
        for feed in self._of(job.id):
            self._guarded(feed, lambda feed=feed: feed.finish(job))  # type: ignore[misc]

    def job_reopened(self, id_: str) -> None:
        """A job that had ended goes on: who still reads gets the events to that end, others a new feed."""
        for feed in self._of(id_):
            del self._feeds[id_, feed.kind]

    def job_removed(self, id_: str) -> None:
        for feed in self._of(id_):
            feed.close()

    def _of(self, id_: str) -> list[Feed]:
        return [feed for (job, _), feed in self._feeds.items() if job == id_]

    def close(self) -> None:
        """End all streams: the service stops, and clients come back to the next one."""
        for feed in list(self._feeds.values()):
            feed.close()
        if self._looking is not None:
            self._looking.cancel()

    def _open(self, job: Job, kind: type[Fold]) -> Feed:
        feed = self._feeds.get((job.id, kind))
        if feed is None:
            feed = Feed(job, self.folders, kind)
            if job.is_final:
                feed.finish(job)
            else:
                self._feeds[job.id, kind] = feed
                feed.look()
                if self._looking is None or self._looking.done():
                    self._looking = asyncio.create_task(self._look())
        feed.readers += 1
        return feed

    def _leave(self, feed: Feed) -> None:
        feed.readers -= 1
        place = (feed.job.id, feed.kind)
        if not feed.readers and self._feeds.get(place) is feed:
            del self._feeds[place]

    async def _look(self) -> None:
        while self._feeds:
            for feed in list(self._feeds.values()):
                if not feed.ended:
                    self._guarded(feed, feed.look)
            await asyncio.sleep(LOOK_SECONDS)

    def _guarded(self, feed: Feed, work: Callable[[], None]) -> None:
        """A damaged journal ends the feed of its job, and of no other."""
        try:
            work()
        except RunError as error:
            log.error("the events of job %s end: %s", feed.job.id, error)
            feed.close()

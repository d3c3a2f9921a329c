"""What a batch reports while it works: the event lines of its runs, and every request that has ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interleave.batches.batch import Ended
    from interleave.runs.event_lines import EventLine


class Watcher:
    """Follows a batch; this one ignores all it is told. Lines may come from several threads."""

    def begin(self, total: int, what: str = "") -> None:
        """So many requests are to be answered; `what` names the pass where there are several."""

    def line(self, line: EventLine) -> None:
        """Something happened in a run of this process; runs on other machines report only their end."""

    def ended(self, ended: Ended, *, already: bool) -> None:
        """A request has ended, now or (`already`) in an earlier process."""


class Watchers(Watcher):
    """Several watchers of one batch."""

    def __init__(self, *each: Watcher) -> None:
        self.each = each

    def begin(self, total: int, what: str = "") -> None:
        for watcher in self.each:
            watcher.begin(total, what)

    def line(self, line: EventLine) -> None:
        for watcher in self.each:
            watcher.line(line)

    def ended(self, ended: Ended, *, already: bool) -> None:
        for watcher in self.each:
            watcher.ended(ended, already=already)

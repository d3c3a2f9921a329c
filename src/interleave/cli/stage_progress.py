"""Progress of a stage that counts what it has done: a bar on a terminal, else a line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from interleave.cli.console import make_console, text_column
from interleave.text import time_left

SECONDS_BETWEEN_LINES = 10


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yields a function to call with the number done and the total."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

    console = make_console()
    if not console.is_terminal:
        yield ProgressLines(what).show
        return
    columns = (text_column(what), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


class ProgressLines:
    """A line every few seconds, with an estimate of the time left."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.what = what
        self.clock = clock
        self.last = clock()
        self.first: tuple[float, int] | None = None
        """When the first number came, and which: what was done before took no time of this process."""

    def show(self, done: int, total: int) -> None:
        now = self.clock()
        self.first = self.first or (now, done)
        if now - self.last >= SECONDS_BETWEEN_LINES:
            self.last = now
            since, before = self.first
            left = (now - since) * (total - done) / (done - before) if done > before else None
            rest = f", {time_left(left)}" if left is not None and done < total else ""
            print(f"{self.what}: {done:,} of {total:,}{rest}", file=sys.stderr)

"""Progress of a batch on standard error: the last event, the share done and the estimated time left.

A terminal shows one live line. Otherwise finished images and requests print lines, at intervals of at least a
second and a hundredth of the elapsed time, up to ten minutes. A batch of 10,000 requests that takes a day
prints fewer than 800 lines. If nothing finishes for minutes, a line says so.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interleave.batches.batch import Watcher
from interleave.cli.streams import make_console, say, text_column
from interleave.runs.event_lines import DrawnLine, EventLine, JudgedLine, PlannedLine, StepFinishedLine
from interleave.text import count, one_line, time_left

if TYPE_CHECKING:
    from rich.console import Console

    from interleave.batches.batch import Ended


LEAST_SECONDS, MOST_SECONDS = 1.0, 600.0
SHARE = 0.01
"""Minimum interval between two lines, as a share of the elapsed time."""
SILENCE_SECONDS = 60.0
"""Seconds without an event after which a line reports that work continues."""
ID_CHARACTERS, REASON_CHARACTERS = 40, 200


@dataclass
class _Open:
    """A request in progress."""

    steps: int = 0
    """Steps of its plan; 0 until it is planned."""
    finished: set[int] = field(default_factory=set)
    own: set[int] = field(default_factory=set)
    """Steps finished by this process, not replayed from the journal."""


class WorkMeter:
    """Share of a batch that is done, and the estimated time left. Requests count by their finished steps."""

    def __init__(self, total: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.total = total
        self.ended = self.failed = self.already = self.images = 0
        self._clock = clock
        self._started = clock()
        self._open: dict[str, _Open] = {}
        self._worked = 0.0
        """Work of ended requests, in requests."""

    @property
    def elapsed(self) -> float:
        return self._clock() - self._started

    def line(self, line: EventLine) -> None:
        match line:
            case PlannedLine():
                self._of(line.id).steps = len(line.steps)
            case StepFinishedLine():
                request = self._of(line.id)
                request.finished.add(line.step)
                if not line.replayed:
                    request.own.add(line.step)
            case DrawnLine():
                self.images += not line.replayed

    def end(self, id_: str, *, failed: bool, already: bool) -> None:
        self.ended += 1
        self.failed += failed
        self.already += already
        request = self._open.pop(id_, _Open())
        earlier = len(request.finished - request.own) / request.steps if request.steps else 0.0
        self._worked += 0.0 if already else 1.0 - min(earlier, 1.0)

    @property
    def fraction(self) -> float:
        """Share of the batch that is done."""
        return (self.ended + self._under_way("finished")) / self.total if self.total else 1.0

    @property
    def seconds_left(self) -> float | None:
        """Estimated time left; `None` until this process has done some work."""
        worked = self._worked + self._under_way("own")
        left = self.total - self.ended - self._under_way("finished")
        return self.elapsed * max(left, 0.0) / worked if worked > 0 else None

    def __str__(self) -> str:
        failed = f", {self.failed:,} failed" if self.failed else ""
        parts = [f"{self.ended:,} of {self.total:,} ended{failed}"]
        if self.images:
            parts.append(count(self.images, "image"))
        if (left := self.seconds_left) is not None and self.ended < self.total:
            parts.append(time_left(left))
        return " · ".join(parts)

    def _of(self, id_: str | None) -> _Open:
        return self._open.setdefault(id_ or "", _Open())

    def _under_way(self, which: str) -> float:
        return sum(len(getattr(each, which)) / each.steps for each in self._open.values() if each.steps)


def described(line: EventLine) -> str | None:
    """Return a short description of an event; `None` if it is not worth a line."""
    match line:
        case DrawnLine(replayed=False):
            return f"{_name(line.id)}: step {line.step}, attempt {line.attempt} drawn in {line.seconds:.1f} s"
    return None


def _name(id_: str | None) -> str:
    return one_line(id_ or "", ID_CHARACTERS)


class BatchProgress(Watcher):
    """Base of plain and live progress."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self.meter = WorkMeter(0, clock)
        self.what = ""
        self._lock = threading.Lock()

    def begin(self, total: int, what: str = "") -> None:
        with self._lock:
            self.meter, self.what = WorkMeter(total, self.clock), what
            self.show("")

    def line(self, line: EventLine) -> None:
        with self._lock:
            self.meter.line(line)
            if (words := described(line)) is not None:
                self.show(words)
            elif isinstance(line, PlannedLine | JudgedLine | StepFinishedLine):
                self.show("")

    def ended(self, ended: Ended, *, already: bool) -> None:
        with self._lock:
            self.meter.end(ended.id, failed=ended.status == "failed", already=already)
            if not already:
                reason = f": {one_line(ended.reason, REASON_CHARACTERS)}" if ended.reason else ""
                self.show(f"{_name(ended.id)}: {ended.status}{reason}")

    def tick(self) -> None:
        """Called every few seconds."""

    def show(self, words: str) -> None:
        """Show the last event, if it is worth a line, and the progress of the batch."""

    def start(self) -> None: ...
    def stop(self) -> None: ...


class PlainBatchProgress(BatchProgress):
    """Occasional lines, for logs."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(clock)
        self._last = clock() - LEAST_SECONDS

    def show(self, words: str) -> None:
        wait = min(max(LEAST_SECONDS, SHARE * self.meter.elapsed), MOST_SECONDS)
        is_last = self.meter.ended == self.meter.total > self.meter.already
        if words and (is_last or self.clock() - self._last >= wait):
            self._print(words)

    def tick(self) -> None:
        with self._lock:
            silence = self.clock() - self._last
            if 0 < self.meter.total > self.meter.ended and silence >= max(
                SILENCE_SECONDS, SHARE * self.meter.elapsed
            ):
                self._print("working")

    def _print(self, words: str) -> None:
        self._last = self.clock()
        say(" · ".join(filter(None, [words, self.what, str(self.meter)])))


class LiveBatchProgress(BatchProgress):
    """One live line, for terminals."""

    def __init__(self, console: Console, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
        from rich.table import Column

        super().__init__(clock)
        rest = Column(ratio=1, no_wrap=True, overflow="ellipsis")  # the first to be cut on a narrow terminal
        self.bar = Progress(
            BarColumn(16),
            TimeElapsedColumn(),
            TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True)),
            TextColumn("{task.fields[words]}", style="dim", markup=False, table_column=rest),
            console=console,
            expand=True,
        )
        self.task = self.bar.add_task("", total=1.0, words="")

    def show(self, words: str) -> None:
        description = " · ".join(filter(None, [self.what, str(self.meter)]))
        if words:
            self.bar.update(self.task, words=one_line(words, 60))
        self.bar.update(self.task, completed=self.meter.fraction, description=description)

    def start(self) -> None:
        self.bar.start()

    def stop(self) -> None:
        self.bar.stop()


@contextmanager
def show_batch_progress() -> Iterator[BatchProgress]:
    """Show progress on standard error while the block runs."""
    console = make_console()
    progress = LiveBatchProgress(console) if console.is_terminal else PlainBatchProgress()
    over = threading.Event()

    def tick() -> None:
        while not over.wait(SILENCE_SECONDS / 4):
            progress.tick()

    ticking = threading.Thread(target=tick, daemon=True)
    progress.start()
    ticking.start()
    try:
        yield progress
    finally:
        over.set()
        progress.stop()
        ticking.join()


SECONDS_BETWEEN_LINES = 10


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """Yield a function to call with the number done and the total."""
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
    """Progress of a stage in lines, one every few seconds, with the estimated time left."""

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self.what = what
        self.clock = clock
        self.last = clock()
        self.first: tuple[float, int] | None = None
        """Time and value of the first report: earlier work took no time of this process."""

    def show(self, done: int, total: int) -> None:
        now = self.clock()
        self.first = self.first or (now, done)
        if now - self.last >= SECONDS_BETWEEN_LINES:
            self.last = now
            since, before = self.first
            left = (now - since) * (total - done) / (done - before) if done > before else None
            rest = f", {time_left(left)}" if left is not None and done < total else ""
            print(f"{self.what}: {done:,} of {total:,}{rest}", file=sys.stderr)

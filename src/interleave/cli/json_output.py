"""JSON on standard output: errors as objects, and the events of runs as lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, TextIO

from interleave.batches.watcher import Watcher

if TYPE_CHECKING:
    from interleave.batches.batch import Ended
    from interleave.runs.error_report import ErrorReport
    from interleave.runs.event_lines import EventLine

JSON, JSON_EVENTS = "--json", "--json-events"
STATUS_OF_CODE = {1: "short", 2: "refused", 3: "failed", 130: "interrupted"}


class EventPrinter:
    """Prints event lines as they happen; runs of a batch may report theirs from several threads."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = Lock()

    def __call__(self, line: EventLine) -> None:
        with self._lock:
            self._out.write(f"{line.model_dump_json()}\n")
            self._out.flush()


class EventWatcher(Watcher):
    """Prints the events of a batch."""

    def __init__(self, out_folder: Path, printer: EventPrinter) -> None:
        self.folder = out_folder
        self._print = printer

    def begin(self, total: int, what: str = "") -> None:
        from interleave.runs.event_lines import BatchStartedLine

        self._print(BatchStartedLine(out=str(self.folder), requests=total))

    def line(self, line: EventLine) -> None:
        self._print(line)

    def ended(self, ended: Ended, *, already: bool) -> None:
        from interleave.runs.event_lines import RequestEndedLine

        fields = ended.model_dump(include={"id", "status", "bad_request", "calls", "seconds", "generator"})
        run, reason = str(self.folder / ended.folder), ended.reason or None
        self._print(
            RequestEndedLine(**{"bad_request": False} | fields, run=run, reason=reason, already=already)
        )


def print_error(report: ErrorReport, code: int, arguments: Sequence[str], out: TextIO) -> None:
    """Print an error that ended a command, if its arguments ask for JSON."""
    from interleave.runs.event_lines import ErrorLine

    options = arguments[: arguments.index("--")] if "--" in arguments else arguments
    line = ErrorLine(status=STATUS_OF_CODE[code], error=report, exit_code=code)
    if JSON_EVENTS in options:
        EventPrinter(out)(line)
    elif JSON in options:
        print(line.model_dump_json(include={"status", "error", "exit_code"}), file=out)

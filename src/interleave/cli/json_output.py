"""JSON on standard output: errors as objects, and the events of runs as lines."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any, TextIO

from interleave.batches.watcher import Watcher
from interleave.text import storable

if TYPE_CHECKING:
    from interleave.batches.batch import Ended
    from interleave.runs.error_report import ErrorReport
    from interleave.runs.event_lines import EventLine
    from interleave.types import Value

JSON, JSON_EVENTS = "--json", "--json-events"
STATUS_OF_CODE = {1: "short", 2: "refused", 3: "failed", 130: "interrupted"}


def as_json(value: Value | dict[str, Any]) -> str:
    """One line of JSON; a path that is not valid Unicode can be read back from it."""
    plain = value if isinstance(value, dict) else value.model_dump(mode="json")
    return storable(json.dumps(plain, ensure_ascii=False))


class EventPrinter:
    """Prints event lines as they happen; runs of a batch may report theirs from several threads."""

    def __init__(self, out: TextIO) -> None:
        self._out = out
        self._lock = Lock()

    def __call__(self, line: EventLine) -> None:
        with self._lock:
            self._out.write(f"{as_json(line)}\n")
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
        print(as_json(line.model_dump(mode="json", include={"status", "error", "exit_code"})), file=out)

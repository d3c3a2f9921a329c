"""Runs that are killed: a small server that forks a run, kills it where it is told, and says how it ended.

Started once as `python crashing.py`; each line on stdin is a JSON order, each line on stdout the exit status.
Forking from a process without threads is quick and safe, and the kill is a real SIGKILL of a real process.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

REQUEST = "How a frog grows up, in five pictures"
KILLED = -signal.SIGKILL
DISK_FUNCTIONS = ("write", "fsync", "fdatasync", "replace", "rename", "open", "mkdir", "ftruncate")
DISK_FUNCTIONS += ("unlink", "rmdir")


@dataclass
class Order:
    """What to run, and where to kill it."""

    ledger: str
    folder: str = ""
    arguments: list[str] | None = None
    """A command to run instead of the request; its ledger tells calls apart by what was asked."""
    kill_at: int | None = None
    """Kill at the so-maniest touch of the disk."""
    output: str = ""
    """An output of a data stage to replace, instead of the request."""
    exchange: bool = True
    """Whether the system can swap two names in one step."""
    kill_at_call: int | None = None
    """Kill at the so-maniest call of a function of Python, in whatever thread."""
    kill_at_line: int | None = None
    """Kill when the so-maniest line has been added to the journal, and handed to the system."""
    story: str = ""
    """A long document of this kind, instead of the request."""


class CrashServer:
    """Runs orders one after another."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, **order: Any) -> int:
        """Run an order; returns its exit status, negative for a signal. Paths are those of the test."""
        order |= {name: str(Path(order[name]).absolute()) for name in ("ledger", "folder") if name in order}
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return int(self.process.stdout.readline())

    def close(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(timeout=120)
        assert self.process.stdout is not None
        self.process.stdout.close()


def ledger_of(path: Path) -> list[str]:
    """Every call that was really made, in order, as the doubles themselves wrote it down."""
    return path.read_text().split() if path.exists() else []


def _serve() -> None:
    import interleave.train.data.outputs  # noqa: F401  (imported once, before the forks)

    _prepare()
    for line in sys.stdin:
        order = Order(**json.loads(line))
        child = os.fork()
        if child == 0:
            _child(order)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)


def _prepare() -> None:
    """Import what a run imports, once and before the forks; a first run, in a fork of its own, says what."""
    reading, writing = os.pipe()
    if os.fork() == 0:
        import interleave

        with tempfile.TemporaryDirectory() as folder:
            interleave.generate(REQUEST, out=Path(folder, "run"))
        os.write(writing, " ".join(sys.modules).encode())
        os._exit(0)
    os.close(writing)
    with open(reading) as told:
        for name in told.read().split():
            with suppress(ImportError):
                importlib.import_module(name)
    os.wait()
    from interleave.backends.registry import known_backends

    for kind in ("generator", "vlm", "agent"):
        known_backends(kind)


def _child(order: Order) -> None:
    status = 1
    try:
        _keep_ledger(Path(order.ledger), with_fingerprints=order.arguments is not None)
        if not order.exchange:
            _forbid_exchange()
        if order.kill_at is not None:
            _kill_at_touch(order.kill_at)
        import interleave

        if order.output:
            _replace_output(Path(order.output))
            status = 0
            return
        if order.arguments is not None:
            from interleave.cli.main import run as run_command

            os.dup2(2, 1)  # standard output is for exit statuses
            status = run_command(order.arguments)
            return
        if order.kill_at_line is not None:
            _kill_at_line(order.kill_at_line)
        if order.story:
            status = 0 if _tell(order) == "done" else 3
            return
        if order.kill_at_call is not None:
            _kill_at_call(order.kill_at_call)
        run = interleave.generate(REQUEST, out=order.folder, generator="solid?size=64")
        status = 0 if run.status == "done" else 3
    finally:
        os._exit(status)


def _replace_output(out: Path) -> None:
    from interleave.train.data.outputs import atomic_folder

    with atomic_folder(out, "made.json", replace=True) as folder:
        (folder / "rows").mkdir()
        (folder / "rows" / "train.jsonl").write_text("new")
        (folder / "made.json").write_text("new")


def _forbid_exchange() -> None:
    from interleave.train.data import outputs

    outputs.exchange = lambda one, other: False


def _die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(10)


def _kill_at_call(at: int) -> None:
    """Die anywhere: counted in calls of functions and not in seconds, which say nothing about a run."""
    calls = count(1)

    def counted(_: Any, event: str, __: Any) -> None:
        if event == "call" and next(calls) == at:
            _die()

    threading.setprofile(counted)
    sys.setprofile(counted)


def _kill_at_line(at: int) -> None:
    from interleave.runs.journal import Journal

    lines, append = count(1), Journal.append

    def counted(self: Any, entry: Any) -> None:
        append(self, entry)
        if next(lines) == at:
            self.write()
            _die()

    Journal.append = counted  # type: ignore[method-assign]


def _tell(order: Order) -> str:
    from crash_stories import tell

    ledger, write = os.open(order.ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644), os.write
    return tell(order.folder, order.story, lambda call: write(ledger, f"{call}\n".encode()))


def _keep_ledger(path: Path, *, with_fingerprints: bool) -> None:
    from interleave.backends.fakes import ScriptedVlm, SolidGenerator
    from interleave.runs.replay import fingerprint_of_messages, fingerprint_of_request

    ledger = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    write = os.write
    generate, complete = SolidGenerator.generate, ScriptedVlm.complete

    async def noted_generate(self: Any, request: Any) -> Any:
        fingerprint = f":{fingerprint_of_request(request)}" if with_fingerprints else ""
        write(ledger, f"generator:{request.slot.call}{fingerprint}\n".encode())
        return await generate(self, request)

    async def noted_complete(self: Any, messages: Any, sampling: Any) -> Any:
        fingerprint = f":{fingerprint_of_messages(messages)}" if with_fingerprints else ""
        write(ledger, f"{self.role}:{sampling.slot.call}{fingerprint}\n".encode())
        return await complete(self, messages, sampling)

    SolidGenerator.generate = noted_generate  # type: ignore[method-assign]
    ScriptedVlm.complete = noted_complete  # type: ignore[method-assign]


def _kill_at_touch(at: int) -> None:
    """Count every way in which a run touches the disk, and die before the n-th."""
    touched = 0

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def touch(*arguments: Any, **options: Any) -> Any:
            nonlocal touched
            touched += 1
            if touched == at:
                _die()
            return function(*arguments, **options)

        return touch

    from interleave.train.data import outputs

    for name in DISK_FUNCTIONS:
        setattr(os, name, counted(getattr(os, name)))
    for name in ("exchange", "sync_file_system"):
        setattr(outputs, name, counted(getattr(outputs, name)))


if __name__ == "__main__":
    _serve()

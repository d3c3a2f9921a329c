"""SIGTERM and SIGHUP end a command in order, as Ctrl-C does."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import typer


@contextmanager
def interrupt_on_terminate() -> Iterator[None]:
    """Raise `KeyboardInterrupt` for these signals where no event loop handles them, as while models load.

    It leaves the block as `typer.Abort`: typer turns the other into an exit code, and nothing is said.
    """
    terminals, received = open_terminals(), list[int]()

    def stop(number: int, _: object) -> None:
        received.append(number)
        redirect_closed(terminals)
        raise KeyboardInterrupt

    before: dict[signal.Signals, Any] = {}
    with suppress(ValueError):  # not in the main thread
        before = {each: signal.signal(each, stop) for each in stop_signals()}
    try:
        yield
    except BaseException as error:
        if received or isinstance(error, KeyboardInterrupt):  # libraries may make another error of it
            raise typer.Abort from None
        raise
    finally:
        for each, handler in before.items():
            signal.signal(each, handler)


def stop_signals() -> list[signal.Signals]:
    """SIGTERM, and SIGHUP unless it is ignored, as under nohup."""
    known = [getattr(signal, name) for name in ("SIGTERM", "SIGHUP") if hasattr(signal, name)]  # Windows: one
    return [each for each in known if signal.getsignal(each) != signal.SIG_IGN]


def open_terminals() -> list[int]:
    """Which of standard output and error are terminals."""
    return [number for number in (1, 2) if os.isatty(number)]


def redirect_closed(terminals: list[int]) -> None:
    """Redirect the streams of a closed terminal to the null device, since writing to them would fail."""
    closed = [number for number in terminals if not os.isatty(number)]
    if closed:
        null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        for number in closed:
            os.dup2(null, number)
        os.close(null)

"""Carrying a run out in front of a user: progress, signals, the result on stdout, the exit code."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Callable
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING

from interleave.errors import LimitReached
from interleave.redaction import redacted
from interleave.text import count, visible

if TYPE_CHECKING:
    from interleave.runs.run import Event, Run, RunResult


def work(open_run: Callable[[], Run], *, json_output: bool, open_document: bool, fail_on_forced: bool) -> int:
    """Open a run, carry it out, and print what came of it; returns the exit code."""
    from interleave.backends.progress import listening
    from interleave.cli.progress import make_progress
    from interleave.runs.permissions import resume_command
    from interleave.runs.record import read_record, summary

    progress = make_progress()
    run = None
    try:
        progress.say("loading models…")
        run = open_run()
        if run.record.plan is not None and run.models is not None:
            progress.say(f"taking up {run.folder}: what it has comes first")
        show = _telling_cost(run, progress.show)
        with listening(progress.drawing):
            finished = asyncio.run(_follow(run, show))
    except (KeyboardInterrupt, asyncio.CancelledError):
        progress.close()
        if run is None:
            raise KeyboardInterrupt from None
        if json_output:
            print(json.dumps(summary(read_record(run.folder), run.folder), ensure_ascii=False))
        say(f"interleave: interrupted. Continue with: {resume_command(run.folder, run.config)}")
        return 130
    finally:
        progress.close()
    return _report(finished, json_output, open_document, fail_on_forced)


def _telling_cost(run: Run, show: Callable[[Event], None]) -> Callable[[Event], None]:
    """Say what a paid run may cost: now where its steps are known, else as soon as they are planned."""
    from interleave.events import Planned
    from interleave.runs.cost_estimate import cost_note, pictures_asked_for, pictures_planned

    models, config, limits = run.models, run.config, run.meter.limits
    pictures = pictures_asked_for(run.request, config)

    def tell(count: int | None) -> None:
        if models is not None and (note := cost_note(models, config, limits, steps=count)):
            say(note)

    def show_and_tell(event: Event) -> None:
        if pictures is None and isinstance(event, Planned):
            tell(pictures_planned(event.plan))
        show(event)

    tell(pictures)
    return show_and_tell


async def _follow(run: Run, show: Callable[..., None]) -> RunResult:
    from interleave.runs.run import RunResult

    cancel_on_terminate()
    async with aclosing(run.stream()) as events:
        async for event in events:
            if isinstance(event, RunResult):
                return event
            show(event)
    raise AssertionError("a run always ends with RunResult")


def cancel_on_terminate() -> None:
    """Take SIGTERM and SIGHUP as Ctrl-C: stop within the call under way, keep all, say how to go on."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    terminals = [number for number in (1, 2) if os.isatty(number)]

    def stop() -> None:
        _let_go_of_closed(terminals)
        if task is not None:
            task.cancel()

    with suppress(NotImplementedError, ValueError):  # not in the main thread, or not on this platform
        loop.add_signal_handler(signal.SIGTERM, stop)
        if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # nohup has it ignored
            loop.add_signal_handler(signal.SIGHUP, stop)


def _let_go_of_closed(terminals: list[int]) -> None:
    """Let what is still said go nowhere where a terminal was closed, since to write to it is an error."""
    closed = [number for number in terminals if not os.isatty(number)]
    if closed:
        nowhere = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
        for number in closed:
            os.dup2(nowhere, number)
        os.close(nowhere)


def _report(finished: RunResult, json_output: bool, open_document: bool, fail_on_forced: bool) -> int:
    from interleave.runs.permissions import resume_command
    from interleave.runs.record import summary

    record = finished.record
    pictures = sum(len(step.attempts) for step in record.steps)
    steps = sum(step.finished for step in record.steps)
    say(
        f"{record.status}: {steps} of {count(len(record.steps), 'step')} finished, "
        f"{count(pictures, 'picture')} drawn, {record.seconds:.1f} s"
    )
    if finished.error is not None:
        say(f"interleave: {finished.error}")
    if record.status in ("failed", "short"):
        say(f"Continue with: {resume_command(finished.folder, record.config)}")
    if json_output:
        print(json.dumps(summary(record, finished.folder), ensure_ascii=False))
    elif record.status in ("done", "short"):
        print(finished.document)
    if open_document:
        open_in_browser(finished)
    if record.status == "failed":
        return 3
    if isinstance(finished.error, LimitReached) or record.status == "short":
        return 1
    return 1 if fail_on_forced and record.forced_steps else 0


def open_in_browser(finished: RunResult) -> None:
    import webbrowser

    webbrowser.open(finished.document.absolute().as_uri())


def say(message: str) -> None:
    """One line on standard error."""
    print(" ".join(visible(redacted(message, message=True)).split()), file=sys.stderr)

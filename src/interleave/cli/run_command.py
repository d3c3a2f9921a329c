"""Carry out one run: progress on stderr, signals, the result on stdout, the exit code."""

from __future__ import annotations

import asyncio
import shlex
import sys
from collections.abc import Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interleave.cli.streams import (
    EventPrinter,
    as_json,
    collapse_retry_messages,
    interrupt_on_terminate,
    open_terminals,
    redirect_closed,
    say,
    stop_signals,
)
from interleave.errors import ConfigurationError, LimitReached
from interleave.text import count

if TYPE_CHECKING:
    from interleave.runs.decisions import CheckedDecision
    from interleave.runs.record import RunRecord
    from interleave.runs.run import Event, Run, RunResult
    from interleave.types import Question


@dataclass(frozen=True)
class Output:
    """Form of the result on standard output: a path, one JSON object, or a line for every event."""

    json: bool = False
    events: bool = False

    def __post_init__(self) -> None:
        if self.json and self.events:
            raise ConfigurationError("--json and --json-events cannot be combined: use one")


ASKED = 2
"""Exit code of a command whose planner asks back."""


def asked_json(question: Question, plan: dict[str, Any]) -> dict[str, Any]:
    """Return the JSON of a plan that does not fit its request, in the fields of a run's summary."""
    return {"status": "asked", "reason": question.text, **question.model_dump(exclude={"text"}), "plan": plan}


@interrupt_on_terminate()
def run_and_report(
    open_run: Callable[[], Run], *, output: Output, open_document: bool, fail_on_forced: bool
) -> int:
    """Open a run, carry it out and print the result. Return the exit code."""
    from interleave.backends.protocols import listening
    from interleave.cli.progress import make_progress
    from interleave.runs.event_lines import summarize
    from interleave.runs.permissions import resume_command
    from interleave.runs.record import read_record
    from interleave.runs.resolve import unfit_note

    progress = make_progress()
    run = None
    try:
        progress.say("loading models…")
        run = open_run()
        if note := unfit_note(run.config.asked):
            progress.say(note)
        if output.events:
            run.report_lines(EventPrinter(sys.stdout))
        if run.record.plan is not None and run.models is not None:
            progress.say(f"continuing {run.folder}: its recorded steps are replayed first")
        show = _with_cost_note(run, progress.show)
        with listening(progress.drawing), collapse_retry_messages():
            result = asyncio.run(_run(run, show))
    except (KeyboardInterrupt, asyncio.CancelledError):
        progress.close()
        if run is None:
            raise KeyboardInterrupt from None
        run.close()
        if output.json:
            print(as_json(summarize(read_record(run.folder), run.folder)))
        command = resume_command(run.folder, run.config, run.record.step_generators)
        say(f"interleave: interrupted. Continue with: {command}")
        return 130
    finally:
        progress.close()
    return _report(result, output, open_document, fail_on_forced)


def _with_cost_note(run: Run, show: Callable[[Event], None]) -> Callable[[Event], None]:
    """Print the possible cost of a paid run: now if its steps are known, otherwise once they are planned."""
    from interleave.events import Planned
    from interleave.runs.models import cost_note, images_asked_for, images_planned

    models, config, limits = run.models, run.config, run.meter.limits
    images = images_asked_for(run.request, config)

    def print_note(count: int | None) -> None:
        if models is not None and (note := cost_note(models, config, limits, steps=count)):
            say(note)

    def show_with_note(event: Event) -> None:
        if images is None and isinstance(event, Planned):
            print_note(images_planned(event.plan))
        show(event)

    print_note(images)
    return show_with_note


async def _run(run: Run, show: Callable[..., None]) -> RunResult:
    from interleave.runs.run import RunResult

    cancel_on_terminate()
    async with aclosing(run.stream()) as events:
        async for event in events:
            if isinstance(event, RunResult):
                return event
            show(event)
    raise AssertionError("a run always ends with RunResult")


def cancel_on_terminate() -> None:
    """Treat SIGTERM and SIGHUP like Ctrl-C: cancel the current task. Everything done so far is kept."""
    task, loop = asyncio.current_task(), asyncio.get_running_loop()
    terminals = open_terminals()

    def stop() -> None:
        redirect_closed(terminals)
        if task is not None:
            task.cancel()

    with suppress(NotImplementedError, ValueError):  # not in the main thread, or not on this platform
        for each in stop_signals():
            loop.add_signal_handler(each, stop)


def _report(result: RunResult, output: Output, open_document: bool, fail_on_forced: bool) -> int:
    from interleave.runs.event_lines import summarize
    from interleave.runs.permissions import resume_command, way_back
    from interleave.runs.record import PLAN_NAME

    record = result.record
    images = sum(not attempt.inherited for step in record.steps for attempt in step.attempts)
    steps = sum(step.finished for step in record.steps)
    say(
        f"{record.status}: {steps} of {count(len(record.steps), 'step')} finished, "
        f"{count(images, 'image')} drawn, {record.seconds:.1f} s"
    )
    if record.reason:
        say(f"interleave: {record.reason}", error=True)
    for note in record.plan_notes if record.status == "done" else ():
        say(note)
    say_outdated_texts(record, result.folder)
    if record.status in ("failed", "short"):
        say(f"Continue with: {resume_command(result.folder, record.config, record.step_generators)}")
        if record.can_be_undone:
            say(way_back(result.folder, record.config))
    plan = result.folder / PLAN_NAME
    if record.status in ("held", "asked"):
        command = resume_command(result.folder, record.config, action="approve")
        edited = f"{command} --plan {shlex.quote(str(plan))}"
        as_it_is = "Draw the plan" if record.status == "held" else "Or draw the plan as it is"
        say(f"{as_it_is}: {command}. Or edit it first, then: {edited}")
    if output.json:
        print(as_json(summarize(record, result.folder)))
    elif not output.events and record.status in ("done", "short"):
        print(result.document)
    elif not output.events and record.status in ("held", "asked"):
        print(plan)
    if open_document:
        open_in_browser(result.document)
    if record.status == "asked":
        return ASKED
    if record.status == "failed":
        return 3
    if isinstance(result.error, LimitReached) or record.status == "short":
        return 1
    return 1 if fail_on_forced and record.forced_steps else 0


def record_words(decision: CheckedDecision, output: Output, open_document: bool) -> int:
    """Record an edit of words, or its undo, and print the result. Return the exit code."""
    from interleave.api import write_words
    from interleave.runs.event_lines import summarize

    result = write_words(decision)
    say("words changed" if decision.line is not None else "nothing to change: these are the words already")
    say_outdated_texts(result.record, result.folder)
    if output.json:
        print(as_json(summarize(result.record, result.folder)))
    elif output.events:
        _print_lines(result)
    else:
        print(result.document)
    if open_document:
        open_in_browser(result.document)
    return 0


def _print_lines(result: RunResult) -> None:
    """Print the event lines of a run that this process has not continued."""
    from interleave.runs.event_lines import EventLines, summarize
    from interleave.runs.journal import Started, read_journal

    lines_of, printer = EventLines(result.folder), EventPrinter(sys.stdout)
    start, *others = read_journal(result.folder)
    if isinstance(start, Started):
        printer(lines_of.started(start, continued=True))
    for entry in others:
        for line in lines_of.of(entry, replayed=entry is not others[-1]):
            printer(line)
    printer(lines_of.ended(summarize(result.record, result.folder)))


def say_outdated_texts(record: RunRecord, folder: Path) -> None:
    """Name the steps whose text was written for an earlier image, and the command that changes it."""
    from interleave.runs.shown_document import as_shown

    outdated = [step for step in as_shown(record).steps if step.note]
    for step in outdated:
        say(f"step {step.record.plan.number}: {step.note}")
    if outdated:
        number = outdated[0].record.plan.number
        change = shlex.join(["interleave", "edit", str(folder), "words"])
        say(f"Change a text: {change} --step {number} --text TEXT. Or keep it: {change} --keep {number}")


def open_in_browser(page: Path) -> None:
    import webbrowser

    webbrowser.open(page.absolute().as_uri())

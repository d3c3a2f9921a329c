"""Carry out a batch of requests: progress, a summary, the exit code."""

from __future__ import annotations

import asyncio
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import aclosing, contextmanager, suppress
from pathlib import Path

from interleave.api import RunOptions, open_batch
from interleave.batches.batch import (
    Batch,
    BatchSummary,
    Ended,
    Watcher,
    Watchers,
    read_index,
    summarize_batch,
)
from interleave.batches.requests import Item, read_requests
from interleave.cli.batch_progress import show_batch_progress
from interleave.cli.run_command import ASKED, Output, cancel_on_terminate
from interleave.cli.streams import EventPrinter, as_json, collapse_retry_messages, interrupt_on_terminate, say
from interleave.errors import ConfigurationError, InterleaveError
from interleave.render.gallery import write_gallery
from interleave.runs.event_lines import BatchEndedLine, BatchStartedLine, EventLine, RequestEndedLine
from interleave.runs.resolve import unfit_note
from interleave.text import count, one_line

FAILURES_SHOWN = 5
REASON_CHARACTERS = 1000
"""Long enough for a whole error message, which ends with advice."""


class EventWatcher(Watcher):
    """Prints the events of a batch."""

    def __init__(self, out_folder: Path, printer: EventPrinter) -> None:
        self.folder = out_folder
        self._print = printer

    def begin(self, total: int, what: str = "") -> None:
        self._print(BatchStartedLine(out=str(self.folder), requests=total))

    def line(self, line: EventLine) -> None:
        self._print(line)

    def ended(self, ended: Ended, *, already: bool) -> None:
        fields = ended.model_dump(include={"id", "status", "bad_request", "calls", "seconds", "generator"})
        run, reason = str(self.folder / ended.folder), ended.reason or None
        self._print(
            RequestEndedLine(**{"bad_request": False} | fields, run=run, reason=reason, already=already)
        )


def run_requests(
    requests: Path,
    out: Path | None,
    choices: RunOptions,
    *,
    concurrency: int,
    retry_failed: bool,
    skip_bad: bool,
    gallery: bool,
    fail_on_forced: bool,
    output: Output,
) -> int:
    """Run the requests of a file and print a summary. Return the exit code."""
    if out is None:
        raise ConfigurationError("--requests needs --out DIR, the parent folder of the runs")
    items, problems = read_requests(requests, skip_bad=skip_bad)
    for problem in problems:
        say(f"left out: {problem}")
    say("loading models…")
    with watching(out, output) as watcher:
        batch = open_batch(out, watcher=watcher, **choices)
        return run_batch(
            batch,
            items,
            concurrency=concurrency,
            retry_failed=retry_failed,
            gallery=gallery,
            fail_on_forced=fail_on_forced,
            output=output,
        )


@contextmanager
def watching(folder: Path, output: Output) -> Iterator[Watcher]:
    """Yield a watcher of a batch that shows its progress and, if asked for, prints its event lines."""
    with interrupt_on_terminate(), show_batch_progress() as progress, collapse_retry_messages():
        events = [EventWatcher(folder, EventPrinter(sys.stdout))] if output.events else []
        yield Watchers(progress, *events)


def run_batch(
    batch: Batch,
    items: list[Item],
    *,
    concurrency: int,
    retry_failed: bool,
    fail_on_forced: bool,
    output: Output,
    gallery: bool = False,
) -> int:
    """Run the items of a batch and print a summary. Return the exit code."""
    for config in batch.assignment.configs:
        if unfit := unfit_note(config.asked):
            say(unfit)
    for note in batch.executor.notes:
        say(f"{note}; so for every step of {count(len(items), 'request')}")
    before, started = dict(batch.ended), time.monotonic()
    batch.watcher.begin(len(items))
    try:
        asyncio.run(_run(batch, items, concurrency, retry_failed))
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("interleave: interrupted. Run the same command again to continue")
        summary = _counted(batch, items, before)
        _print_result(summary, batch.folder, started, output, status="interrupted")
        return 130
    summary = _counted(batch, items, before)
    _print_summary(summary, batch.folder)
    made = batch.folder
    if gallery:
        all_ended = _in_order(items, batch.folder)
        made = write_gallery(batch.folder, all_ended, _texts_of_refused(items, all_ended))
    if output == Output():
        print(made)
    _print_result(summary, batch.folder, started, output)
    if summary.failed:
        return 3 if summary.failed > summary.bad_requests else 2
    if summary.asked:
        return ASKED
    return 1 if summary.short or summary.busy or (fail_on_forced and summary.forced) else 0


def _print_result(
    summary: BatchSummary, folder: Path, started: float, output: Output, **more: object
) -> None:
    """Print the summary of a batch as JSON, if asked for."""
    found = summarize_batch(summary, folder, time.monotonic() - started) | more
    if output.json:
        print(as_json(found))
    elif output.events:
        EventPrinter(sys.stdout)(BatchEndedLine.model_validate(found))


def _print_summary(summary: BatchSummary, folder: Path) -> None:
    for failure in summary.failures[:FAILURES_SHOWN]:
        say(f"failed: {one_line(failure.id, 60)}: {one_line(failure.reason, REASON_CHARACTERS)}", error=True)
    if summary.failed > FAILURES_SHOWN:
        say(f"and {summary.failed - FAILURES_SHOWN} more, all of them in {folder}/index*.jsonl")
    asked = f", {summary.asked} asked" if summary.asked else ""
    say(f"{summary.done} done, {summary.short} short, {summary.failed} failed{asked}")
    if summary.asked:
        say("the plan of an asked request does not fit it: 'interleave show RUN' has the question")
    if len(summary.generators) > 1:
        shares = (f"{generator} {number:,}" for generator, number in summary.generators.items())
        say(f"runs by generator: {', '.join(shares)}")
    if summary.bad_requests:
        bad, them = count(summary.bad_requests, "request"), "it" if summary.bad_requests == 1 else "them"
        say(f"{bad} cannot be carried out as asked: reword {them} under a new id, or leave {them} out")
    if summary.failed > summary.bad_requests or summary.short:
        say("run the same command with --retry-failed to retry what failed or ended short")
    if summary.busy:
        left = count(summary.busy, "request")
        say(f"{left} left to another process that is running them: run the same command again afterwards")


def _in_order(items: list[Item], out: Path) -> list[Ended]:
    """Return how the requests ended, in the order of their file."""
    ended = {each.id: each for each in read_index(out)}
    return [ended[item.id] for item in items if item.id in ended]


def _texts_of_refused(items: list[Item], all_ended: list[Ended]) -> dict[str, str]:
    """Return the texts of failed requests by id: a request that never became a run has no folder."""
    failed = {ended.id for ended in all_ended if ended.status == "failed"}
    texts: dict[str, str] = {}
    for item in items:
        if item.id in failed:
            with suppress(InterleaveError):  # an image of it may be gone; then its id stands for it
                texts[item.id] = item.load().text
    return texts


def _counted(batch: Batch, items: list[Item], before: dict[str, Ended]) -> BatchSummary:
    """Count how the items have ended so far; `before` has those that ended in an earlier process."""
    generators = Counter({config.generator.identity: 0 for config in batch.assignment.configs})
    summary = BatchSummary(total=len(items), generators=generators)
    for item in items:
        if (ended := batch.ended.get(item.id)) is not None:
            summary.count(ended, already=before.get(item.id) is ended)
    return summary


async def _run(batch: Batch, items: list[Item], concurrency: int, retry_failed: bool) -> None:
    cancel_on_terminate()
    running = batch.run(items, concurrency=concurrency, retry_failed=retry_failed)
    async with aclosing(running) as all_ended:
        async for _ in all_ended:
            pass

"""A batch of requests: a progress bar with rate and time left, a summary, the exit code."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import aclosing, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from interleave.cli.run_command import cancel_on_terminate, say
from interleave.cli.streams import limit_retry_messages
from interleave.errors import ConfigurationError, InterleaveError
from interleave.text import count, one_line

if TYPE_CHECKING:
    from interleave.api import RunOptions
    from interleave.batches.batch import Batch, BatchSummary, Ended
    from interleave.batches.requests import Item

SECONDS_BETWEEN_LINES = 10
FAILURES_SHOWN = 5
REASON_CHARACTERS = 1000
"""Enough for a whole error message, since its end says what to do."""


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
    json_output: bool,
) -> int:
    """Run the requests of a file and print a summary; returns the exit code."""
    from interleave.api import open_batch
    from interleave.batches.requests import read_requests

    if out is None:
        raise ConfigurationError("--requests needs --out DIR: the folder below which the runs are made")
    items, problems = read_requests(requests, skip_bad=skip_bad)
    for problem in problems:
        say(f"left out: {problem}")
    say("loading models…")
    batch = open_batch(out, **choices)
    return run_batch(
        batch,
        items,
        concurrency=concurrency,
        retry_failed=retry_failed,
        gallery=gallery,
        fail_on_forced=fail_on_forced,
        json_output=json_output,
    )


def run_batch(
    batch: Batch,
    items: list[Item],
    *,
    concurrency: int,
    retry_failed: bool,
    fail_on_forced: bool,
    json_output: bool,
    gallery: bool = False,
) -> int:
    """Run the items of a batch and print a summary; returns the exit code."""
    from interleave.batches.batch import summary_as_json
    from interleave.render.gallery import write_gallery
    from interleave.runs.agent_fit import unfit_note

    for config in batch.assignment.configs:
        if unfit := unfit_note(config.asked):
            say(unfit)
    for note in batch.executor.notes:
        say(f"{note}; so for every step of {count(len(items), 'request')}")
    bar, started = make_bar(len(items)), time.monotonic()
    try:
        with limit_retry_messages():
            summary = asyncio.run(_run(batch, items, bar, concurrency, retry_failed))
    except (KeyboardInterrupt, asyncio.CancelledError):
        say("interleave: interrupted. Run the same command again to continue")
        return 130
    finally:
        bar.close()
    _print_summary(summary, batch.folder)
    seconds = time.monotonic() - started
    made = batch.folder
    if gallery:
        all_ended = _in_order(items, batch.folder)
        made = write_gallery(batch.folder, all_ended, _texts_of_refused(items, all_ended))
    print(summary_as_json(summary, batch.folder, seconds) if json_output else made)
    if summary.failed:
        return 3 if summary.failed > summary.bad_requests else 2
    return 1 if summary.short or summary.busy or (fail_on_forced and summary.forced) else 0


def _print_summary(summary: BatchSummary, folder: Path) -> None:
    for failure in summary.failures[:FAILURES_SHOWN]:
        say(f"failed: {one_line(failure.id, 60)}: {one_line(failure.reason, REASON_CHARACTERS)}")
    if summary.failed > FAILURES_SHOWN:
        say(f"and {summary.failed - FAILURES_SHOWN} more, all of them in {folder}/index*.jsonl")
    say(f"{summary.done} done, {summary.short} short, {summary.failed} failed")
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
    """How the requests ended, in the order of their file."""
    from interleave.batches.batch import read_index

    ended = {each.id: each for each in read_index(out)}
    return [ended[item.id] for item in items if item.id in ended]


def _texts_of_refused(items: list[Item], all_ended: list[Ended]) -> dict[str, str]:
    """The texts of requests that failed, by id: where they never became runs, no folder has them."""
    failed = {ended.id for ended in all_ended if ended.status == "failed"}
    texts: dict[str, str] = {}
    for item in items:
        if item.id in failed:
            with suppress(InterleaveError):  # a picture of it may be gone; then its id stands for it
                texts[item.id] = item.load().text
    return texts


async def _run(
    batch: Batch, items: list[Item], bar: Bar, concurrency: int, retry_failed: bool
) -> BatchSummary:
    from interleave.batches.batch import BatchSummary

    cancel_on_terminate()
    before = set(batch.ended)
    generators = Counter({config.generator.identity: 0 for config in batch.assignment.configs})
    summary = BatchSummary(total=len(items), generators=generators)
    running = batch.run(items, concurrency=concurrency, retry_failed=retry_failed)
    async with aclosing(running) as all_ended:
        async for ended in all_ended:
            summary.count(ended, already=batch.ended.get(ended.id) is ended and ended.id in before)
            bar.advance(ended, summary)
    return summary


class Bar(Protocol):
    """Shows the progress of a batch."""

    def advance(self, ended: Ended, summary: BatchSummary) -> None: ...
    def close(self) -> None: ...


def make_bar(total: int) -> Bar:
    console = Console(stderr=True, highlight=False)
    return LiveBar(console, total) if console.is_terminal else PlainBar(total)


class LiveBar:
    """An animated bar, for terminals."""

    def __init__(self, console: Console, total: int) -> None:
        self.progress = Progress(
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rate]}"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[trouble]}", style="red"),
            console=console,
        )
        self.task = self.progress.add_task("", total=total, rate="", trouble="")
        self.started = time.monotonic()
        self.progress.start()

    def advance(self, ended: Ended, summary: BatchSummary) -> None:
        rate = (_ended(summary) - summary.already) / max(time.monotonic() - self.started, 1e-9)
        trouble = f"{summary.failed} failed" if summary.failed else ""
        self.progress.update(self.task, advance=1, rate=f"{rate:.1f}/s", trouble=trouble)

    def close(self) -> None:
        self.progress.stop()


class PlainBar:
    """One line every few seconds, for logs."""

    def __init__(self, total: int) -> None:
        self.total = total
        self.started = self.last = time.monotonic()

    def advance(self, ended: Ended, summary: BatchSummary) -> None:
        now = time.monotonic()
        finished = _ended(summary)
        if now - self.last < SECONDS_BETWEEN_LINES and finished < self.total:
            return
        self.last = now
        rate = (finished - summary.already) / max(now - self.started, 1e-9)
        if finished == summary.already:
            return  # nothing was left to do
        left = (self.total - finished) / rate if rate else 0
        failed = f", {summary.failed} failed" if summary.failed else ""
        say(f"{finished} of {self.total} ended{failed}, {rate:.1f}/s, about {left:.0f} s left")

    def close(self) -> None:
        pass


def _ended(summary: BatchSummary) -> int:
    return summary.done + summary.short + summary.failed + summary.busy

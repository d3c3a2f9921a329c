"""`interleave show`: show a run folder, or a folder of many runs."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interleave.cli import options
from interleave.cli.run_command import open_in_browser, say_outdated_texts
from interleave.cli.streams import as_json

if TYPE_CHECKING:
    from interleave.runs.journal import Entry
    from interleave.runs.record import RunRecord

FOLLOW_SECONDS = 0.2

Follow = Annotated[bool, typer.Option("--follow", help="Print the events of a running run until it ends.")]
Markdown = Annotated[bool, typer.Option("--markdown", help="Write document.md beside the images.")]
WordsOption = Annotated[
    bool,
    typer.Option("--words", help="Print the words of the document as JSON, for `edit RUN words --from`."),
]


def show(
    run: options.RunFolder,
    json_output: options.Json = False,
    markdown: Markdown = False,
    words: WordsOption = False,
    follow: Follow = False,
    open_document: options.Open = False,
) -> int:
    """Show a run: its steps on standard error, the path of its document on standard output.

    For a folder of many runs: the number of finished and unfinished runs, the errors, and the path of the
    gallery.
    """
    from interleave.batches.batch import CONFIG_NAME
    from interleave.errors import ConfigurationError
    from interleave.runs.event_lines import summarize
    from interleave.runs.record import lost_lines, read_record
    from interleave.runs.words import words_of
    from interleave.text import storable

    if (json_output, markdown, words).count(True) > 1:
        raise ConfigurationError("--json, --markdown and --words cannot be combined: use one")
    if (run / CONFIG_NAME).exists():
        if markdown or words or follow:
            option = "--markdown" if markdown else "--words" if words else "--follow"
            raise ConfigurationError(f"{run} holds many runs: {option} goes with one of those in {run}/runs")
        return _show_batch(run, json_output, open_document)
    record = _follow(run) if follow else read_record(run)
    if loss := lost_lines(record, run):
        print(f"interleave: {loss}", file=sys.stderr)
    if json_output:
        print(as_json(summarize(record, run)))
        return 0
    if words:
        print(storable(json.dumps(words_of(record), ensure_ascii=False, indent=2)))
        return 0
    if not follow:
        _print_steps(record, run)
    path = _document(run, record, markdown)
    if path is not None:
        _print_path(path, open_document)
    return 0


def _print_path(path: Path, open_it: bool) -> None:
    print(path)
    if open_it:
        open_in_browser(path)


def _show_batch(folder: Path, json_output: bool, open_gallery: bool) -> int:
    """Show a folder of many runs: counts and errors."""
    from interleave.batches.batch import summarize_batch
    from interleave.batches.status import read_batch_status
    from interleave.cli.batch_command import REASON_CHARACTERS
    from interleave.errors import ConfigurationError
    from interleave.render.gallery import FILE_NAME as GALLERY
    from interleave.text import count, one_line

    gallery = folder / GALLERY
    if open_gallery and not gallery.exists():
        raise ConfigurationError(f"{folder} has no gallery to open: run its command again with --gallery")
    status = read_batch_status(folder)
    summary, others = status.summary, status.others
    if json_output:
        unended = next((status for status in ("running", "interrupted") if others[status]), None)
        found = summarize_batch(summary, folder, 0.0) | others | ({"status": unended} if unended else {})
        print(as_json(found))
        return 0
    ended = f"{count(summary.total, 'request')} {'has' if summary.total == 1 else 'have'} ended"
    counts = [f"{summary.done} done", f"{summary.short} short", f"{summary.failed} failed"]
    counts += [f"{summary.asked} asked"] if summary.asked else []
    print(f"{ended}: {', '.join(counts)}", file=sys.stderr)
    if any(others.values()):
        not_ended = ", ".join(f"{number:,} {status}" for status, number in others.items() if number)
        print(f"not ended: {not_ended}", file=sys.stderr)
    for failure in summary.failures:
        reason = one_line(failure.reason, REASON_CHARACTERS)
        print(f"  {one_line(failure.id, 40)}  {reason}  ({failure.folder})", file=sys.stderr)
    _print_path(gallery if gallery.exists() else folder, open_gallery)
    return 0


def _follow(run: Path) -> RunRecord:
    """Print the entries of the journal as they are written. Reading takes no lock."""
    from interleave.runs.journal import Ended, JournalReader, is_being_written
    from interleave.runs.record import read_record

    reader, last = JournalReader(run), None
    while True:
        writing = is_being_written(run)  # checked before reading, so that no entry is missed
        for entry in reader.read_new():
            last = entry
            for line in describe_entry(entry):
                print(line, file=sys.stderr, flush=True)
        if not writing:
            record = read_record(run)
            if not isinstance(last, Ended):
                print(f"{record.status}: its process is gone; it can be resumed", file=sys.stderr)
            return record
        time.sleep(FOLLOW_SECONDS)


def describe_entry(entry: Entry) -> Iterator[str]:
    """Yield the lines that `--follow` prints for an entry of the journal; many entries have none."""
    from interleave.runs import journal
    from interleave.text import count, one_line
    from interleave.types import Outcome

    match entry:
        case journal.Planned(plan=plan):
            yield f"plan: {count(len(plan.steps), 'step')}"
            for step in plan.steps:
                yield f"  {step.number}  {one_line(step.text or step.prompt or '')}"
        case journal.ChapterPlanned(chapter=chapter, steps=steps):
            yield f"chapter {chapter.number}: {count(len(steps), 'step')}"
        case journal.Drawn():
            yield f"step {entry.step}, attempt {entry.attempt}: drawn in {entry.seconds:.1f} s"
        case journal.Judged(verdict=verdict):
            outcomes = {Outcome.ACCEPTED: "accepted", Outcome.REJECTED: "rejected"}
            outcome = outcomes.get(verdict.outcome, "not readable")
            yield f"step {entry.step}, attempt {entry.attempt}: {outcome}"
        case journal.CallFailed():
            yield f"the {entry.role} failed: {one_line(entry.error, 200)}"
        case journal.Continued():
            yield "continued"
        case journal.PlanReleased(plan=plan):
            yield f"the plan is released: {count(len(plan.steps), 'step')}"
        case journal.RedrawDecided():
            yield f"decided: step {entry.step} is drawn again"
        case journal.AttemptChosen():
            yield f"decided: attempt {entry.attempt} of step {entry.step} is shown"
        case journal.GeneratorChanged():
            yield f"decided: from step {entry.step} on {entry.generator.shown} draws"
        case journal.Undone():
            yield "decided: the last edit is undone"
        case journal.DocumentEdited():
            named = sorted(set(entry.named_steps))
            of = f" of step {', '.join(map(str, named))}" if named else ""
            yield f"edited: the words{of}"
        case journal.Branched():
            yield f"branched off from {one_line(entry.parent, 80)} at step {entry.step}"
        case journal.Ended():
            yield f"{entry.status}: {one_line(entry.reason, 200)}" if entry.reason else entry.status


def _document(run: Path, record: RunRecord, markdown: bool) -> Path | None:
    """Return the document, written if missing or older than its run; `None` if it cannot be written."""
    from interleave.errors import StorageError
    from interleave.render.html import write_document
    from interleave.render.markdown import write_markdown
    from interleave.runs.folder import DOCUMENT_NAME

    page = run / DOCUMENT_NAME
    if not markdown and page.exists() and record.status != "running" and _is_up_to_date(run):
        return page
    try:
        return write_markdown(run, record) if markdown else write_document(run, record)
    except StorageError as error:  # a run in a read-only folder can be shown all the same
        return _not_written(run, record, markdown, error)


def _is_up_to_date(run: Path) -> bool:
    """Return whether the document was written after the last entry of the journal."""
    from interleave.runs.record import is_current, read_stored

    stored = read_stored(run)
    return stored is not None and is_current(stored[0], run)


def _not_written(run: Path, record: RunRecord, markdown: bool, error: Exception) -> Path | None:
    """Report that the document cannot be written; return the old one, if any."""
    from interleave.render.markdown import FILE_NAME as MARKDOWN_NAME
    from interleave.render.markdown import render_markdown
    from interleave.runs.folder import DOCUMENT_NAME

    path = run / (MARKDOWN_NAME if markdown else DOCUMENT_NAME)
    reason = getattr(error.__cause__, "strerror", None) or error
    there = not markdown and path.exists()
    instead = (
        "here is what would be in it"
        if markdown
        else "the one that is there is older than the run"
        if there
        else "copy the run to where you may write, and show the copy"
    )
    print(f"{path} cannot be written ({reason}): {instead}", file=sys.stderr)
    if markdown:
        print(render_markdown(record), end="")
    return path if there else None


def _print_steps(record: RunRecord, run: Path) -> None:
    from interleave.render.html import by_hand_of, state_of
    from interleave.runs.document_layer import DocumentLayer
    from interleave.text import one_line

    print(f"{one_line(record.title)}  ({record.status})", file=sys.stderr)
    if record.parent is not None:
        parent = one_line(record.parent.parent or "", 80)
        print(f"branched off from {parent} at step {record.parent.step}", file=sys.stderr)
    layer = record.words or DocumentLayer()
    steps = {step.plan.number: step for step in record.steps}
    for number in layer.in_order(steps):
        step, hidden = steps[number], "hidden" if layer.of(number).hidden else ""
        state = {"text": "text only", "forced": "not accepted", "unfinished": "not finished"}
        attempts = f"{len(step.attempts)} attempts" if len(step.attempts) > 1 else ""
        notes = ", ".join(filter(None, [attempts, by_hand_of(step), state.get(state_of(step)), hidden]))
        text = one_line(layer.text_of(step.plan), 80)
        print(f"  {number}  {text}{f'  [{notes}]' if notes else ''}", file=sys.stderr)
    say_outdated_texts(record, run)
    if record.reason:
        print(one_line(record.reason, 300), file=sys.stderr)

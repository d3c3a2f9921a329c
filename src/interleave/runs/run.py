"""One request answered in one run folder, which can be resumed from any point.

The pipeline always runs from the beginning. Journalled calls are answered from the journal, in the same order
and with the same seeds, so a stopped and resumed run ends exactly like an undisturbed one.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING

from interleave import events
from interleave.config.run_config import Limits, RunConfig
from interleave.drift.measures import StepDrift, step_drift
from interleave.errors import (
    BackendError,
    ConfigurationError,
    InterleaveError,
    LimitReached,
    ReplyError,
    RunError,
    StorageError,
    class_and_message,
)
from interleave.pipeline import interleave
from interleave.runs import journal as lines
from interleave.runs.calls import CallRunner, refuse_undrawable_steps
from interleave.runs.folder import (
    DOCUMENT_NAME,
    ImageStore,
    open_journal,
    refuse_foreign_folder,
    refuse_other_run,
    remove_temporary_files,
    request_parts,
    stored_assets,
    stored_reading,
    with_reading,
)
from interleave.runs.folder import IMAGES_FOLDER as IMAGES
from interleave.runs.journal import (
    Entry,
    Journal,
    JournalReader,
    RedrawDecided,
    Started,
    Status,
    Undone,
    read_journal,
)
from interleave.runs.journal_files import Lease, has_journal
from interleave.runs.models import Meter, Models, refuse_unpriced
from interleave.runs.notebook_html import CellStep, cell_html
from interleave.runs.own_decisions import OwnDecisions, audits_made, document_of, pending_findings, redo_line
from interleave.runs.permissions import refuse_keys_in
from interleave.runs.plan_file import write_plan_file
from interleave.runs.record import (
    CallCounts,
    RunRecord,
    fold,
    image_names,
    lost_lines,
    read_record,
    write_stored,
)
from interleave.runs.replay import EventLog, Replay, Takes
from interleave.runs.shown_document import StepAsShown, as_shown
from interleave.runs.steering import Steering, steering_after
from interleave.scheduler import roots_of
from interleave.types import Asked, Question, Request
from interleave.version import __version__

if TYPE_CHECKING:
    from PIL.Image import Image

    from interleave.runs.decisions import CheckedDecision
    from interleave.runs.event_lines import EventLine

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ShownStep:
    """One step of a document: its text and its image file."""

    number: int
    text: str
    image: Path | None
    forced: bool
    """Whether no attempt was accepted."""
    name: str = ""
    """Heading; empty if there is none."""
    alt: str = ""
    """Alternative text of the image."""


@dataclass(frozen=True)
class RunResult:
    """Result of a run, finished or stopped; also the last event of its stream."""

    record: RunRecord = field(repr=False)
    folder: Path
    error: InterleaveError | None = None
    """The error that ended it, if one did."""

    @property
    def status(self) -> Status:
        return self.record.status

    @property
    def reason(self) -> str | None:
        """Why the run ended short or failed. `None` if it is done."""
        return self.record.reason or None

    @property
    def title(self) -> str:
        """Title of the document: a person's, else the first line of the request."""
        return self.record.title

    @property
    def question(self) -> Question | None:
        """What the planner asks back, with the status `asked`."""
        return self.record.question

    @property
    def notes(self) -> tuple[str, ...]:
        """Notes for readers: words that were exchanged, corrected or left out, and the models."""
        return self.record.notes

    @property
    def cost(self) -> float | None:
        """Recorded cost in US dollars. `None` if it is unknown."""
        return self.record.cost

    @property
    def calls(self) -> CallCounts:
        """Model calls per role: `planner`, `critic`, `generator`, and `repeated` for retries."""
        return self.record.calls

    @cached_property
    def steps(self) -> tuple[ShownStep, ...]:
        """The document as a reader sees it: without hidden steps, with a person's words, in order."""
        return tuple(map(self._shown, as_shown(self.record).steps))

    def _shown(self, step: StepAsShown) -> ShownStep:
        record = step.record
        image = self.folder / IMAGES / record.attempt.image if record.attempt else None
        return ShownStep(record.plan.number, step.text, image, record.forced, step.name, step.alt)

    @property
    def document(self) -> Path:
        """Path of the HTML page."""
        return self.folder / DOCUMENT_NAME

    def _repr_html_(self) -> str:
        """Return the document for the output of a notebook cell."""
        ended = "" if self.status == "done" else f"{self.status}: {self.reason or 'see the journal'}"
        return cell_html(self.title, map(self._in_cell, self.steps), ended)

    def _in_cell(self, step: ShownStep) -> CellStep:
        image = None
        if step.image is not None:
            with suppress(RunError):
                image = ImageStore(self.folder).get(step.image.name)
        return CellStep(step.name, step.text, step.alt, image, "not accepted" if step.forced else "")


Event = events.Event | RunResult


class Run:
    """A run folder open for writing, created with `Run.open`."""

    def __init__(
        self,
        folder: Path,
        request: Request,
        config: RunConfig,
        limits: Limits,
        models: Models | None,
        journal: Journal,
        entries: list[Entry],
        *,
        redraw: bool = False,
        write_document: Callable[[Path, RunRecord], object] | None = None,
    ) -> None:
        self.folder = folder
        self.request = request
        self.config = config
        self.models = models
        """`None` for a run that is already done."""
        self.journal = journal
        self.entries = entries
        self.write_document = write_document
        self.record = self._fold()
        self.store = ImageStore(folder)
        self.steering = steering_after(entries)
        self.event_log = EventLog(entries, redraw=redraw)
        self.replay = Replay.of(entries, redraw=redraw)
        self.meter = Meter(limits, calls=_calls_made(entries), cost=self.record.cost or 0.0)
        self._changed_from = 0
        """First step changed by a decision of the run itself in this session."""
        self._first_steps: dict[int, int] = {}
        """First step of the chain of images that each step belongs to."""
        self._first_images: dict[int, Image] = {}
        """Images of those first steps."""
        self._ending = Lock()
        self._ended: RunRecord | None = None
        self._report_end: Callable[[RunRecord], None] = lambda record: None

    @classmethod
    def open(
        cls,
        folder: Path,
        request: Request,
        config: RunConfig,
        limits: Limits,
        load_models: Callable[[], Models],
        *,
        redraw: bool = False,
        hold_plan: bool = False,
        lease: Lease | None = None,
        decision: CheckedDecision | None = None,
        write_document: Callable[[Path, RunRecord], object] | None = None,
    ) -> Run:
        """Start or continue a run in a folder and lock it; nothing is written before all checks pass.

        With `hold_plan`, a new run stops after its plan, until a person releases it. With `lease`, the run is
        taken over from the holder of an earlier lease. `decision` is journalled before the run continues.
        """
        if hold_plan and config.chapter_steps is not None:
            raise ConfigurationError(
                "a plan in chapters is not complete before the first image, so it cannot be held: "
                "drop hold_plan= or chapter_steps="
            )
        is_done = _is_done(folder, request, config, redraw=redraw)
        models = None if is_done and (decision is None or decision.line is None) else load_models()
        if models is not None:
            steering = decision.run.steering if decision else _steering_in(folder)
            refuse_unusable_models(models, request, config, limits, steering)
        journal = open_journal(folder, lease=lease)
        try:
            entries = _start_or_continue(
                journal,
                folder,
                Started(
                    request=request_parts(request),
                    config=config,
                    software=__version__,
                    hold_plan=hold_plan,
                    assets=stored_assets(request),
                    reading=stored_reading(request),
                ),
                request,
                redraw=redraw,
                is_done=models is None,
                decision=decision,
            )
            return cls(
                folder,
                with_reading(request, entries[0].reading if isinstance(entries[0], Started) else None),
                config,
                limits,
                models,
                journal,
                entries,
                redraw=redraw,
                write_document=write_document,
            )
        except BaseException:
            journal.close()
            raise

    def report_lines(self, listener: Callable[[EventLine], None], id_: str | None = None) -> None:
        """Call a listener with the event lines of the run: past lines now, new lines as they happen."""
        from interleave.runs.event_lines import EventLines, summarize

        lines_of = EventLines(self.folder, id_)
        start, *others = self.entries
        if isinstance(start, Started):
            listener(lines_of.started(start, continued=bool(others)))

        def report(entry: Entry, *, replayed: bool = False) -> None:
            for line in lines_of.of(entry, replayed=replayed):
                listener(line)

        for entry in others:
            report(entry, replayed=True)

        def keep_and_report(entry: Entry) -> None:
            self.entries.append(entry)
            report(entry)

        self.journal.listener = keep_and_report
        self._report_end = lambda record: listener(lines_of.ended(summarize(record, self.folder)))

    def close(self) -> None:
        """End a run that was not streamed to its end as interrupted, and release its folder."""
        self._end("interrupted", None)

    async def stream(self) -> AsyncGenerator[Event]:
        """Answer the request; unless an exception is raised, the last event is a `RunResult`."""
        status: Status = "done"
        error: InterleaveError | None = None
        refused: events.Planned | None = None
        try:
            if self.models is not None:
                while True:
                    own = OwnDecisions(self.config.remedies)
                    async with aclosing(self._pipeline(self.models, own)) as running:
                        async for event in running:
                            await self._journal_event(event, self.models)
                            if self._is_shown(event):
                                yield event
                            if self.steering.holds_plan and isinstance(event, events.Planned):
                                status = "held"
                                break
                            own.add(self.event_log.written(event), self.entries)
                    if status == "held" or not (decided := own.made or await self._audit(self.models)):
                        break
                    await self._decide(decided, self.models)
        except Asked as asked:
            status, error, refused = "asked", asked, events.Planned(asked.plan)
        except LimitReached as reached:
            status, error = "short", reached
        except (BackendError, ReplyError, StorageError) as failure:
            status, error = "failed", failure
        except (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt):
            self._end("interrupted", None)
            raise
        except InterleaveError as refusal:
            self._end("failed", refusal)
            raise
        except Exception as bug:  # possibly in a custom model: release the folder and record the error
            self._end("failed", BackendError(class_and_message(bug)))
            raise
        if refused is not None and self.models is not None:
            await self._journal_event(refused, self.models)
            yield refused
        try:
            record = await asyncio.to_thread(self._end, status, error)
        except asyncio.CancelledError:
            self._end(status, error)  # the thread may never have started
            raise
        yield RunResult(record, self.folder, error)

    def _is_shown(self, event: events.Event) -> bool:
        """Return whether an event is new: after its own decision, a run repeats all steps."""
        match event:
            case events.Planned(new_steps=new):
                return self._changed_from == 0 or any(step.number >= self._changed_from for step in new)
            case events.StepFinished(step=step):
                return step.number >= self._changed_from
        return event.slot.step >= self._changed_from

    async def _audit(self, models: Models) -> list[RedrawDecided | Undone]:
        """Audit the whole document if configured; return the decisions to redo steps."""
        findings = pending_findings(self.entries)
        made = audits_made(self.entries)
        if not findings:
            if len(made) >= self.config.remedies.audits or (made and not made[-1].findings):
                return []
            document = await models.disk.run(lambda: document_of(self._fold(), self.store, len(made) + 1))
            self.replay = Replay.of(self.entries)
            findings = await self._runner(models).auditor().audit(document) if document.steps else ()
            audited = lines.Audited(round=len(made) + 1, findings=findings)
            self.journal.append(audited)
            await models.disk.sync(self.journal)
        record, round_ = self._fold(), len(audits_made(self.entries))
        steering = steering_after(self.entries)
        ordered = sorted(findings, key=lambda finding: finding.step)
        return [redo_line(each, round_, record, steering) for each in ordered]

    async def _decide(self, decided: list[RedrawDecided | Undone], models: Models) -> None:
        """Journal decisions of the run itself and reset its state; the pipeline then restarts by replay."""
        for line in decided:
            self.journal.append(line)
        await models.disk.sync(self.journal)
        steps = [line.step for line in decided if isinstance(line, RedrawDecided)]
        self._changed_from = min(steps) if steps else self.steering.decisions[-1].step
        self.steering = steering_after(self.entries)
        self.event_log = EventLog(self.entries)
        self.replay = Replay.of(self.entries)

    def _runner(self, models: Models) -> CallRunner:
        return CallRunner(self.journal, self.store, self.meter, models, self.replay)

    def _pipeline(self, models: Models, own: OwnDecisions) -> AsyncGenerator[events.Event]:
        runner = self._runner(models)
        takes = Takes(self.steering, self.entries, self.replay, self.store, models.others)
        events = interleave(
            self.request,
            planner=runner.planner(reference_sheets=self.config.sheets),
            generator=runner.generator(self.config.generator.identity, self.steering, self.config.remedies),
            critic=models.safety.critic(runner.critic()),
            rules=self.config.rules,
            take_of=takes.of,
            may_begin=own.may_begin,
        )
        return models.safety.checked(self.request, events)

    async def _journal_event(self, event: events.Event, models: Models) -> None:
        """Journal an event; sync immediately if it does not follow from a journalled reply."""
        self._note_first_images(event)
        drift = await self._drift(event, models) if self.event_log.written(event) is None else None
        line = self.event_log.new_line(event, drift)
        if line is None:
            return
        self.journal.append(line)
        is_plan = isinstance(line, lines.Planned | lines.ChapterPlanned)
        agent = models.planner if is_plan else models.critic
        if agent.vlm is None and not isinstance(line, lines.StepFinished):
            await models.disk.sync(self.journal)

    async def _drift(self, event: events.Event, models: Models) -> StepDrift | None:
        """Measure the drift of a finished image from the one that it was to change."""
        if not isinstance(event, events.StepFinished) or event.attempt is None:
            return None
        if not event.before and not event.references:
            return None
        return await asyncio.to_thread(
            step_drift,
            event.before[-1] if event.before else None,
            event.attempt.image,
            self._first_image_of(event.step.number),
            event.references,
            models.identity,
        )

    def _note_first_images(self, event: events.Event) -> None:
        match event:
            case events.Planned(plan=plan):
                self._first_steps = roots_of(plan)
            case events.StepFinished(step=step, attempt=attempt) if attempt is not None:
                if self._first_steps[step.number] == step.number:
                    self._first_images[step.number] = attempt.image

    def _first_image_of(self, step: int) -> Image | None:
        """Return the first image of the chain that a step belongs to."""
        given = self.request.images
        return given[0] if given else self._first_images.get(self._first_steps[step])

    def _end(self, status: Status, error: InterleaveError | None) -> RunRecord:
        """Journal the end of the run, write its pages, then release the folder; later calls do nothing."""
        with self._ending:
            if self._ended is None:
                try:
                    record = self.record if self.models is None else self._journal_end(status, error)
                    self._write_pages(record)
                finally:
                    self.journal.close()
                self._ended = record
                self._report_end(record)
            return self._ended

    def _journal_end(self, status: Status, error: InterleaveError | None) -> RunRecord:
        """Journal the end and return the record; if the disk fails, the record on disk with this end."""
        reason = str(error or "")
        try:
            self.journal.append(
                lines.Ended(
                    status=status,
                    reason=reason,
                    seconds=round(self.meter.seconds, 3),
                    unreadable_plan=isinstance(error, ReplyError),
                    question=error.question if isinstance(error, Asked) else None,
                )
            )
            self.journal.sync()
            return self._fold()
        except StorageError:
            if status == "done":
                raise
            return self._on_disk().model_copy(update={"status": status, "reason": reason})

    def _fold(self) -> RunRecord:
        return fold(self.entries, where=self.folder, position=self.journal.position)

    def _on_disk(self) -> RunRecord:
        try:
            return read_record(self.folder)
        except RunError:  # the folder itself is gone
            return self.record

    def _write_pages(self, record: RunRecord) -> None:
        """Write the files derived from the journal; a failure is an error only for a finished run."""
        try:
            if self.journal.lease is not None:
                self.journal.lease.check()
            write_stored(self.folder, record)
            if record.status in ("held", "asked"):
                write_plan_file(self.folder, record)
            if self.write_document is not None:
                self.write_document(self.folder, record)
        except StorageError:
            if record.status == "done":
                raise


def _is_done(folder: Path, request: Request, config: RunConfig, *, redraw: bool) -> bool:
    """Return whether nothing is left to do: the run is complete, and done or waits for a person.

    Raises if it holds a different run or other files.
    """
    refuse_foreign_folder(folder)
    entries = read_journal(folder) if has_journal(folder) else []
    if not entries:
        return False
    record = fold(entries, where=folder)
    refuse_other_run(folder, record, request, config)
    problems = filter(None, map(ImageStore(folder).problem_with, image_names(record)))
    problem = next(problems, None)
    if problem is not None and not redraw:
        raise problem
    return record.status in ("done", "held", "asked") and problem is None


def _calls_made(entries: list[Entry]) -> int:
    """Count the calls of this run, without those of its parent."""
    branched = [place for place, entry in enumerate(entries) if isinstance(entry, lines.Branched)]
    own = entries[branched[-1] :] if branched else entries
    return sum(isinstance(entry, lines.Called) for entry in own)


def refuse_unusable_models(
    models: Models, request: Request, config: RunConfig, limits: Limits, steering: Steering | None
) -> None:
    """Refuse models that do not suit the limits, the request or the decisions about the run."""
    refuse_unpriced(limits, models.prices_known(planner_is_asked=config.plan is None))
    refuse_keys_in(request, config)
    refuse_undrawable_steps(request, config, models, steering)


def _steering_in(folder: Path) -> Steering | None:
    entries = read_journal(folder) if has_journal(folder) else []
    return steering_after(entries) if entries else None


def _start_or_continue(
    journal: Journal,
    folder: Path,
    start: Started,
    request: Request,
    *,
    redraw: bool,
    is_done: bool,
    decision: CheckedDecision | None,
) -> list[Entry]:
    """Journal that the run starts or continues; the returned list grows with the journal."""
    reader = JournalReader(folder)
    entries = reader.read_new()
    journal.listener = entries.append
    if not entries or redraw:
        store = ImageStore(folder)
        for image in request.all_images:
            store.put(image)
    if not entries:
        journal.append(start)
        journal.sync()
        return entries
    record = fold(entries, where=folder, position=reader.position)
    refuse_other_run(folder, record, request, start.config)
    _refuse_hold(folder, entries[0], start)
    if (loss := lost_lines(record, folder)) is not None:
        log.warning("%s", loss)
    remove_temporary_files(folder)
    if decision is not None:
        decision.append_to(journal, entries)
    if not is_done:
        journal.append(lines.Continued(software=__version__))
        journal.sync()
    return entries


def _refuse_hold(folder: Path, begun: Entry, start: Started) -> None:
    if start.hold_plan and isinstance(begun, Started) and not begun.hold_plan:
        raise RunError(
            f"{folder} holds a run that was started without hold_plan=True: drop it to continue the run, "
            "or choose another folder with out="
        )

"""One request carried out in one run folder: started, continued from any point, ended in order.

The pipeline is always run from the beginning. What the journal already has is answered from there, in the
same order with the same seeds, so that a run that was stopped ends as an undisturbed one would have.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from threading import Lock

from interleave import events
from interleave.agents.critic import Critic, VlmCritic
from interleave.agents.planner import GivenPlan, Planner, VlmPlanner
from interleave.backends.protocols import VisionLanguageModel
from interleave.config.run_config import Limits, RunConfig
from interleave.errors import (
    BackendError,
    InterleaveError,
    LimitReached,
    ReplyError,
    RunError,
    StorageError,
)
from interleave.pipeline import interleave
from interleave.runs import journal as lines
from interleave.runs.calls import (
    CallDesk,
    JournalledCritic,
    JournalledGenerator,
    JournalledPlanner,
    JournalledVlm,
)
from interleave.runs.consent import refuse_keys_in
from interleave.runs.event_log import Facts
from interleave.runs.folder import open_journal, refuse_foreign_folder, refuse_other_run, request_parts
from interleave.runs.journal import JournalReader, Started, Status, read_journal
from interleave.runs.limits import Meter, refuse_unpriced
from interleave.runs.models import Models
from interleave.runs.record import RunRecord, StepRecord, fold, picture_names, read_record
from interleave.runs.record_file import lost_lines, write_stored
from interleave.runs.replay import Replay
from interleave.runs.store import FOLDER as IMAGES
from interleave.runs.store import PictureStore, sweep
from interleave.types import Request
from interleave.version import __version__

log = logging.getLogger(__name__)

DOCUMENT_NAME = "document.html"
"""The page of a run; whoever opens a trajectory says how it is written."""


@dataclass(frozen=True)
class ShownStep:
    """One step of a document: text, and the file of its picture."""

    number: int
    text: str
    image: Path | None
    forced: bool
    """Whether no attempt was accepted."""


@dataclass(frozen=True)
class RunResult:
    """What came of a run, for now or for good; also the last event of its stream."""

    record: RunRecord = field(repr=False)
    folder: Path
    error: InterleaveError | None = None
    """What ended it, where that was an error."""

    @property
    def status(self) -> Status:
        return self.record.status

    @cached_property
    def steps(self) -> tuple[ShownStep, ...]:
        """The document as a reader sees it."""
        return tuple(self._shown(step) for step in self.record.steps)

    def _shown(self, step: StepRecord) -> ShownStep:
        attempt = step.attempt
        image = self.folder / IMAGES / attempt.image if attempt else None
        return ShownStep(step.plan.number, step.plan.text, image, step.forced)

    @property
    def document(self) -> Path:
        """The page to look at."""
        return self.folder / DOCUMENT_NAME


Event = events.Event | RunResult


class Trajectory:
    """A run folder that is open for writing."""

    def __init__(
        self,
        folder: Path,
        request: Request,
        config: RunConfig,
        limits: Limits,
        load_models: Callable[[], Models],
        *,
        redraw: bool = False,
        write_document: Callable[[Path, RunRecord], object] | None = None,
    ) -> None:
        self.folder = folder
        self.request = request
        self.config = config
        self.redraw = redraw
        self.write_document = write_document
        self.store = PictureStore(folder)
        # What can be refused is refused here, before anything is written; a finished run needs no models.
        self.models = None if self._is_done() else load_models()
        if self.models is not None:
            refuse_unpriced(limits, self.models.prices_known(planner_is_asked=config.plan is None))
            refuse_keys_in(request, config)
        self.journal = open_journal(folder)
        try:
            self.record = self._start_or_continue()
        except BaseException:
            self.journal.close()
            raise
        self.facts = Facts(self.entries, redraw=redraw)
        self.replay = Replay.of(self.entries, redraw=redraw)
        made = sum(isinstance(entry, lines.Called) for entry in self.entries)
        self.meter = Meter(limits, calls=made, cost=self.record.cost or 0.0)
        self._ending = Lock()
        self._ended: RunRecord | None = None

    async def run(self) -> AsyncGenerator[Event]:
        """Carry the request out; the last event is `RunResult`, whatever happened."""
        status: Status = "done"
        error: InterleaveError | None = None
        try:
            if self.models is not None:
                async with aclosing(self._pipeline(self.models)) as running:
                    async for event in running:
                        await self._note(event, self.models)
                        yield event
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
        except Exception as bug:  # of a user's own model, perhaps: let go of the folder and say what it was
            self._end("failed", BackendError(f"{type(bug).__name__}: {bug}"))
            raise
        try:
            record = await asyncio.to_thread(self._end, status, error)
        except asyncio.CancelledError:
            self._end(status, error)  # what only waits for a thread is cancelled too, and would never end
            raise
        yield RunResult(record, self.folder, error)

    def _pipeline(self, models: Models) -> AsyncGenerator[events.Event]:
        desk = CallDesk(self.journal, self.store, self.meter, models, self.replay)
        return interleave(
            self.request,
            planner=_journalled_planner(models, desk, self.config.max_steps),
            generator=JournalledGenerator(models.generator, desk, self.config.generator.identity),
            critic=_journalled_critic(models, desk),
            rules=self.config.rules,
        )

    def _is_done(self) -> bool:
        """Whether the folder holds this run, finished and whole; raises when it holds anything else."""
        refuse_foreign_folder(self.folder)
        entries = read_journal(self.folder) if (self.folder / lines.FILE_NAME).exists() else []
        if not entries:
            return False
        record = fold(entries, where=self.folder)
        refuse_other_run(self.folder, record, self.request, self.config)
        problems = filter(None, map(self.store.problem_with, picture_names(record)))
        problem = next(problems, None)
        if problem is not None and not self.redraw:
            raise problem
        return record.status == "done" and problem is None

    def _start_or_continue(self) -> RunRecord:
        reader = JournalReader(self.folder)
        self.entries = reader.news()
        self.journal.listener = self.entries.append
        if not self.entries or self.redraw:
            for picture in self.request.pictures:
                self.store.put(picture)
        if not self.entries:
            parts = request_parts(self.request)
            self.journal.append(Started(request=parts, config=self.config, software=__version__))
            self.journal.sync()
            return self._fold()
        record = fold(self.entries, where=self.folder, mark=reader.mark)
        refuse_other_run(self.folder, record, self.request, self.config)
        if (loss := lost_lines(record, self.folder)) is not None:
            log.warning("%s", loss)
        sweep(self.folder)
        if self.models is not None:
            self.journal.append(lines.Continued(software=__version__))
            self.journal.sync()
        return record

    async def _note(self, event: events.Event, models: Models) -> None:
        """Journal a fact; one that no reply in the journal implies is synced at once."""
        fact = self.facts.news(event)
        if fact is None:
            return
        self.journal.append(fact)
        from_model = models.planner_is_model if isinstance(fact, lines.Planned) else models.critic_is_model
        if not from_model and not isinstance(fact, lines.StepFinished):
            await models.disk.sync(self.journal)

    def _end(self, status: Status, error: InterleaveError | None) -> RunRecord:
        """Journal how it ended, write its pages, and only then let go of the folder; once, whoever asks."""
        with self._ending:
            if self._ended is None:
                try:
                    record = self.record if self.models is None else self._journal_end(status, error)
                    self._write_pages(record)
                finally:
                    self.journal.close()
                self._ended = record
            return self._ended

    def _journal_end(self, status: Status, error: InterleaveError | None) -> RunRecord:
        """The record with its end; where the disk fails even here, what is on it and how it ended."""
        reason = str(error or "")
        try:
            self.journal.append(
                lines.Ended(
                    status=status,
                    reason=reason,
                    seconds=round(self.meter.seconds, 3),
                    unreadable_plan=isinstance(error, ReplyError),
                )
            )
            self.journal.sync()
            return self._fold()
        except StorageError:
            if status == "done":
                raise
            return self._on_disk().model_copy(update={"status": status, "reason": reason})

    def _fold(self) -> RunRecord:
        return fold(self.entries, where=self.folder, mark=self.journal.mark)

    def _on_disk(self) -> RunRecord:
        try:
            return read_record(self.folder)
        except RunError:  # even the folder is gone
            return self.record

    def _write_pages(self, record: RunRecord) -> None:
        """Write what can be made again from the journal; only a finished run insists on it."""
        try:
            write_stored(self.folder, record)
            if self.write_document is not None:
                self.write_document(self.folder, record)
        except StorageError:
            if record.status == "done":
                raise


def _journalled_planner(models: Models, desk: CallDesk, max_steps: int) -> Planner:
    model = models.planner
    if isinstance(model, GivenPlan):
        return model
    if isinstance(model, VisionLanguageModel):
        return VlmPlanner(JournalledVlm("planner", model, desk), models.pack, max_steps=max_steps)
    return JournalledPlanner(model, desk)


def _journalled_critic(models: Models, desk: CallDesk) -> Critic:
    model = models.critic
    if isinstance(model, VisionLanguageModel):
        return VlmCritic(JournalledVlm("critic", model, desk), models.pack)
    return JournalledCritic(model, desk)

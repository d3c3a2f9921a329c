"""One request carried out in one run folder: started, continued from any point, ended in order.

The pipeline is always run from the beginning. What the journal already has is answered from there, in the
same order with the same seeds, so that a run that was stopped ends as an undisturbed one would have.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from pathlib import Path

from interleave import events
from interleave.agents.critic import Critic, VlmCritic
from interleave.agents.planner import GivenPlan, Planner, VlmPlanner
from interleave.agents.prompts import PromptPack
from interleave.backends.protocols import ImageGenerator, VisionLanguageModel
from interleave.backends.retries import RetryPolicy
from interleave.errors import BackendError, InterleaveError, LimitReached, ReplyError, RunError
from interleave.pipeline import interleave
from interleave.runs import journal as lines
from interleave.runs.calls import (
    CallDesk,
    JournalledCritic,
    JournalledGenerator,
    JournalledPlanner,
    JournalledVlm,
    Replay,
)
from interleave.runs.config import Limits, RunConfig, differences
from interleave.runs.document import FILE_NAME as DOCUMENT_NAME
from interleave.runs.document import write_document
from interleave.runs.journal import Journal, Line, RequestPart, Started, Status
from interleave.runs.limits import Meter, refuse_unpriced
from interleave.runs.record import RunRecord, fold, read_record
from interleave.runs.store import FOLDER as IMAGES
from interleave.runs.store import PictureStore, name_of, sync_folder, write_whole
from interleave.types import Picture, Request, Text
from interleave.version import __version__

RECORD_NAME = "run.json"


@dataclass(frozen=True)
class Models:
    """The models and words of a run, loaded. Many runs may share them."""

    planner: VisionLanguageModel | Planner
    critic: VisionLanguageModel | Critic
    generator: ImageGenerator
    pack: PromptPack
    retries: RetryPolicy = field(default_factory=RetryPolicy)


@dataclass(frozen=True)
class ShownStep:
    """One step of a document: text, and the file of its picture."""

    number: int
    text: str
    image: Path | None
    forced: bool
    """Whether the critic refused every attempt."""


@dataclass(frozen=True)
class Finished:
    """The last event of a run: it has ended, for now or for good."""

    record: RunRecord
    folder: Path
    error: InterleaveError | None = None
    """What ended it, where that was an error."""

    @property
    def status(self) -> Status:
        return self.record.status

    @property
    def steps(self) -> tuple[ShownStep, ...]:
        """The document as a reader sees it."""
        return tuple(
            ShownStep(
                step.plan.number,
                step.plan.text,
                self.folder / IMAGES / step.attempt.image if step.attempt else None,
                step.forced,
            )
            for step in self.record.steps
        )

    @property
    def document(self) -> Path:
        """The page to look at."""
        return self.folder / DOCUMENT_NAME


Event = events.Event | Finished


class Trajectory:
    """A run folder that is open for writing."""

    def __init__(
        self,
        folder: Path,
        request: Request,
        config: RunConfig,
        limits: Limits,
        load_models: Callable[[], Models],
    ) -> None:
        self.folder = folder
        self.request = request
        self.config = config
        self.store = PictureStore(folder)
        # What can be refused is refused here, before anything is written; a finished run needs no models.
        self._models = None if self._is_done() else load_models()
        if self._models is not None:
            refuse_unpriced(limits, _prices(self._models, config))
        self.journal = _open_journal(folder)
        try:
            self.record = self._start_or_continue()
        except BaseException:
            self.journal.close()
            raise
        entries = lines.read_journal(folder)
        self.facts = _facts(entries)
        made = sum(isinstance(entry, lines.Called) for entry in entries)
        self.meter = Meter(limits, calls=made, cost=self.record.cost or 0.0)

    async def run(self) -> AsyncGenerator[Event]:
        """Carry the request out; the last event is `Finished`, whatever happened."""
        status: Status = "done"
        error: InterleaveError | None = None
        try:
            if self.record.status != "done":
                async with aclosing(self._pipeline()) as running:
                    async for event in running:
                        self._note(event)
                        yield event
        except LimitReached as reached:
            status, error = "short", reached
        except (BackendError, ReplyError) as failure:
            status, error = "failed", failure
        except (asyncio.CancelledError, GeneratorExit, KeyboardInterrupt):
            self._end("interrupted", None)
            raise
        except InterleaveError as refusal:
            self._end("failed", refusal)
            raise
        yield Finished(self._end(status, error), self.folder, error)

    def _pipeline(self) -> AsyncGenerator[events.Event]:
        models = self._models
        if models is None:
            raise RunError(f"{self.folder} was finished by another process: run the same command again")
        replay = Replay.of(lines.read_journal(self.folder))
        desk = CallDesk(self.journal, self.store, self.meter, models.retries, replay)
        return interleave(
            self.request,
            planner=_journalled_planner(models, desk, self.config.max_steps),
            generator=JournalledGenerator(models.generator, desk, self.config.generator.spec),
            critic=_journalled_critic(models, desk),
            rules=self.config.rules,
        )

    def _is_done(self) -> bool:
        """Whether the folder holds this run, finished; raises when it holds anything else."""
        refuse_foreign_folder(self.folder)
        entries = lines.read_journal(self.folder) if (self.folder / lines.FILE_NAME).exists() else []
        if not entries:
            return False
        record = fold(entries, where=self.folder)
        refuse_other_run(self.folder, record, self._parts(), self.config)
        return record.status == "done"

    def _parts(self) -> tuple[RequestPart, ...]:
        return tuple(
            RequestPart(text=part.text) if isinstance(part, Text) else RequestPart(image=name_of(part.image))
            for part in self.request.parts
        )

    def _start_or_continue(self) -> RunRecord:
        self.journal.drop_torn_line()
        entries = lines.read_journal(self.folder)
        if not entries:
            for picture in self.request.pictures:
                self.store.put(picture)
            started = Started(request=self._parts(), config=self.config, software=__version__)
            self.journal.append(started, sync=True)
            sync_folder(self.folder)
            return fold([started])
        record = fold(entries, where=self.folder)
        refuse_other_run(self.folder, record, self._parts(), self.config)
        if record.status != "done":
            self.journal.append(lines.Continued(software=__version__), sync=True)
        return record

    def _note(self, event: events.Event) -> None:
        """Journal a fact, unless the journal has it; a fact that contradicts it means the models changed."""
        fact = _fact_of(event)
        if fact is None:
            return
        key = _key(fact)
        if key not in self.facts:
            self.facts[key] = fact
            self.journal.append(fact, sync=not isinstance(fact, lines.StepFinished))
        elif self.facts[key] != fact:
            raise RunError(
                f"{self.folder} was made by a version that works differently: continue it with that version, "
                "or start again in a new folder"
            )

    def _end(self, status: Status, error: InterleaveError | None) -> RunRecord:
        try:
            if self.record.status != "done":
                self.journal.append(
                    lines.Ended(
                        status=status,
                        reason=str(error or ""),
                        seconds=round(self.meter.seconds, 3),
                        unreadable_plan=isinstance(error, ReplyError),
                    ),
                    sync=True,
                )
            record = read_record(self.folder)
            write_whole(self.folder / RECORD_NAME, record.model_dump_json(indent=1).encode() + b"\n")
            write_document(self.folder, record)
            return record
        finally:
            self.journal.close()


def refuse_other_run(
    folder: Path, record: RunRecord, parts: tuple[RequestPart, ...], config: RunConfig
) -> None:
    """A folder is continued only with the request and configuration it was started with."""
    if record.request != parts:
        raise RunError(f"{folder} holds a run of another request: choose another folder with --out")
    if different := differences(config, record.config):
        raise RunError(
            f"{folder} holds this request with another configuration ({'; '.join(different)}): "
            f"continue it with 'interleave resume {folder}', or choose another folder with --out"
        )


def stored_request(folder: Path, record: RunRecord) -> Request:
    """The request of a run, with its pictures, from its folder."""
    store = PictureStore(folder)
    return Request(
        tuple(
            Picture(store.get(part.image)) if part.image else Text(part.text or "") for part in record.request
        )
    )


def refuse_foreign_folder(folder: Path) -> None:
    """An output folder must be new, empty, or a run: anything else belongs to somebody."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise RunError(f"{folder} is a file: choose another folder with --out")
    contents = {entry.name for entry in folder.iterdir()}
    if contents and lines.FILE_NAME not in contents:
        raise RunError(
            f"{folder} holds other things ({sorted(contents)[0]!r}…): choose a new or empty folder with --out"
        )


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


def _open_journal(folder: Path) -> Journal:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        return Journal(folder / lines.FILE_NAME)
    except OSError as error:
        raise RunError(
            f"cannot write to {folder} ({error.strerror}): choose another folder with --out"
        ) from None


def _prices(models: Models, config: RunConfig) -> dict[str, bool]:
    agents = (
        {"critic": models.critic} if config.plan else {"planner": models.planner, "critic": models.critic}
    )
    return {"generator": models.generator.capabilities.price_per_image is not None} | {
        # an agent that is no model computes its answers, and costs nothing
        role: not isinstance(agent, VisionLanguageModel) or agent.capabilities.knows_its_price
        for role, agent in agents.items()
    }


def _fact_of(event: events.Event) -> Line | None:
    """The journal line for an event; a drawing is journalled with the call that made it."""
    match event:
        case events.Planned(plan=plan):
            return lines.Planned(plan=plan)
        case events.Judged(slot=slot, verdict=verdict):
            return lines.Judged(step=slot.step, attempt=slot.attempt, verdict=verdict)
        case events.StepFinished(step=step, attempt=attempt):
            return lines.StepFinished(
                step=step.number,
                attempt=attempt.number if attempt else None,
                accepted=attempt is None or attempt.verdict.accepted,
                forced=event.forced,
            )
    return None


def _facts(entries: list[lines.Entry]) -> dict[tuple[str, int, int], Line]:
    """The facts a journal has, without their times."""
    facts = (
        entry for entry in entries if isinstance(entry, lines.Planned | lines.Judged | lines.StepFinished)
    )
    return {_key(fact): fact.model_copy(update={"time": 0.0}) for fact in facts}


def _key(fact: Line) -> tuple[str, int, int]:
    match fact:
        case lines.Judged(step=step, attempt=attempt):
            return ("judged", step, attempt)
        case lines.StepFinished(step=step):
            return ("step_finished", step, 0)
    return ("planned", 0, 0)

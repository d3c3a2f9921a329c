"""Runs as JSON for other programs: the summary of `--json`, errors, and the lines of `--json-events`.

Lines are derived from the journal alone. A continued run first repeats the lines of its journal so far,
marked `replayed`, and a finished run repeats all its lines. A run that was stopped and continued has the same
lines as an undisturbed one, apart from the events `started`, `call_failed` and `retry` and the fields `time`,
`seconds` and `replayed`.

Fields may be added within a version; readers must ignore unknown fields and events.
"""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError

from interleave.errors import (
    BackendError,
    BrokenChain,
    ConfigurationError,
    Failure,
    FolderInUse,
    InputError,
    InterleaveError,
    LimitReached,
    MissingDependency,
    MissingImage,
    OutOfMemory,
    ReplyError,
    RunError,
    StorageError,
    UnknownWords,
    first_problem,
)
from interleave.redaction import redacted
from interleave.runs import journal
from interleave.runs.document_layer import DocumentLayer
from interleave.runs.folder import DOCUMENT_NAME
from interleave.runs.folder import IMAGES_FOLDER as IMAGES
from interleave.runs.journal import Entry, Role, Status
from interleave.runs.permissions import resume_command
from interleave.runs.plan_file import plan_of_record
from interleave.runs.record import PLAN_NAME, ByHand, CallCounts, RunRecord, StepRecord
from interleave.runs.shown_document import as_shown, step_as_shown
from interleave.types import Asked, Outcome, PlanStep, Value


class StepSummary(Value):
    """One step of a document."""

    number: int
    text: str
    """Text shown to readers: a person's, else the plan's."""
    image: str | None
    """Path of its image, relative to the run folder; `None` if it has no image, as in a text-only step."""
    attempts: int
    accepted: bool
    forced: bool
    """Whether its image is shown although no attempt was accepted."""
    by_hand: ByHand | None = None
    """Decision of a person about it: `redrawn`, `chosen` or `kept`."""
    name: str = ""
    """Heading shown to readers; empty if it has none or if it equals the text."""
    alt: str | None = None
    """Alternative text of its image; `None` if it has no image."""
    place: int | None = None
    """Place in the document, from 1; `None` if the step is hidden."""
    words_for: str | None = None
    """Prompt for which its text was written, if its image was redrawn with another one; else `None`."""


class BranchSummary(Value):
    """The run and step that a branch started from."""

    run: str
    """The name of the other run's folder."""
    step: int


class RunSummary(Value):
    """State of a run, or its result."""

    run: str
    """The run folder."""
    status: Status
    reason: str | None
    """Why it ended; `None` if it is done."""
    document: str | None
    """Path of the HTML document, if it has been written."""
    steps: tuple[StepSummary, ...]
    calls: CallCounts
    cost: float | None
    """US dollars; `None` if no backend knows its price."""
    seconds: float
    resume: str | None
    """The command that continues it; `None` if it is done or running."""
    notes: tuple[str, ...] = ()
    """Notes for readers: words that were exchanged, corrected or left out, and the models."""
    understood: tuple[str, ...] | None = None
    """Things of the request that the plan of an asked run has; `None` for other runs."""
    missing: tuple[str, ...] | None = None
    """What the plan of an asked run lacks; `None` for other runs."""
    plan: str | dict[str, Any] | None = None
    """File of the plan of a held run, relative to the run folder; the plan itself, with its request, of an
    asked run; `None` for other runs."""
    branched_from: BranchSummary | None = None
    title: str = ""
    """Title of the document."""


def summarize(record: RunRecord, folder: Path) -> RunSummary:
    document, parent, question = folder / DOCUMENT_NAME, record.parent, record.question
    shown = [step.record.plan.number for step in as_shown(record).steps]
    places = {number: place for place, number in enumerate(shown, start=1)}
    return RunSummary(
        run=str(folder),
        status=record.status,
        reason=record.reason or None,
        document=str(document) if document.exists() else None,
        steps=tuple(_summarize_step(step, record, places) for step in record.steps),
        calls=record.calls,
        cost=record.cost,
        seconds=record.seconds,
        resume=None if record.status in ("done", "running") else _resume_command(record, folder),
        notes=record.notes,
        understood=question.understood if question else None,
        missing=question.missing if question else None,
        plan=plan_of_record(record) if question else PLAN_NAME if record.status == "held" else None,
        branched_from=BranchSummary(run=parent.parent or "", step=parent.step or 0) if parent else None,
        title=record.title,
    )


def _resume_command(record: RunRecord, folder: Path) -> str | None:
    try:
        return resume_command(folder, record.config, record.step_generators)
    except ConfigurationError:  # a folder from elsewhere may name unusable models
        return None


def _summarize_step(step: StepRecord, record: RunRecord, places: Mapping[int, int]) -> StepSummary:
    number = step.plan.number
    shown = step_as_shown(step, record.words or DocumentLayer(), places.get(number, number))
    return StepSummary(
        number=number,
        text=shown.text,
        image=image_path(step.attempt.image) if step.attempt else None,
        attempts=len(step.attempts),
        accepted=step.plan.prompt is None or step.accepted,
        forced=step.forced,
        by_hand=step.by_hand,
        name=shown.name,
        alt=shown.alt if step.attempt else None,
        place=places.get(number),
        words_for=step.words_for,
    )


def image_path(name: str) -> str:
    """Return the path of an image, relative to the run folder."""
    return f"{IMAGES}/{name}"


ADVICE: dict[type[Exception], str] = {
    ConfigurationError: "change the option, spec or profile that the message names",
    MissingDependency: "install the package that the message names",
    InputError: "change the request or the file that the message names",
    UnknownWords: "use other words, or exchange them with nearest=True",
    Asked: "reword the request, or edit its plan and draw it with plan=",
    RunError: "choose another folder, or restore this one from a copy",
    FolderInUse: "wait until the other process has ended",
    MissingImage: "restore the image, or redraw it with redraw=True",
    BrokenChain: "restore the journal from a copy",
    StorageError: "free disk space or repair the disk, then continue the run",
    OutOfMemory: "choose a smaller size, batch or model",
    ReplyError: "choose another model for this role, or raise its reply length limit",
    LimitReached: "continue with a higher limit",
}
FAILURE_ADVICE = {
    Failure.FAILED: "read the message of the model or its server, then continue the run",
    Failure.UNREACHABLE: "start the server or correct its address, then continue the run",
    Failure.TIMEOUT: "raise ?timeout= in its spec or lower ?concurrency=, then continue the run",
    Failure.BUSY: "continue the run later",
    Failure.DENIED: "set the key that the message names, or renew its permission or credit",
    Failure.INVALID: "correct the spec: its model, its options or its address",
    Failure.BAD_REPLY: "check which server answers at this address, then continue the run",
    Failure.REFUSED: "reword the request",
    Failure.NO_IMAGE: "choose a model that generates images",
}
UNEXPECTED = "unexpected"
"""Kind of an error that this package does not raise itself."""


class ErrorReport(Value):
    """An error that ended a command."""

    kind: str
    """Name of its class in `interleave`, in snake case; or `usage_error`, `interrupted`, `unexpected`."""
    message: str
    advice: str
    """What to do about errors of this kind; the message is often more specific."""
    failure: str | None = None
    """The `kind` of a `BackendError`: how a model or an API failed."""
    transient: bool = False
    """Whether trying again may help."""


def report_of(error: Exception) -> ErrorReport:
    message = redacted(str(error), message=True)
    if isinstance(error, BackendError):
        advice = ADVICE[OutOfMemory] if isinstance(error, OutOfMemory) else FAILURE_ADVICE[error.kind]
        return ErrorReport(
            kind=_snake_case(type(error)),
            message=message,
            advice=advice,
            failure=error.kind.value,
            transient=error.transient,
        )
    if not isinstance(error, InterleaveError):
        return ErrorReport(kind=UNEXPECTED, message=message, advice="add --debug for a traceback")
    advice = error.advice if isinstance(error, ReplyError) and error.advice else ""
    known = next((ADVICE[each] for each in type(error).__mro__ if each in ADVICE), "")
    return ErrorReport(kind=_snake_case(type(error)), message=message, advice=advice or known)


def _snake_case(class_: type[Exception]) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", class_.__name__).lower()


VERSION = 1


class _Line(Value):
    """Fields of every line."""

    model_config = ConfigDict(extra="ignore")  # a newer version may write more

    event: str
    version: int = VERSION
    time: float = Field(default_factory=lambda: round(time.time(), 3))
    """Seconds since 1970."""


class _RunLine(_Line):
    """Fields of every line about one run."""

    run: str
    """The run folder."""
    id: str | None = None
    """The id of its request, in a batch."""


class _JournalLine(_RunLine):
    replayed: bool = False
    """Whether its journal entry existed before this process opened the run."""


class StartedLine(_RunLine):
    """A run was opened: the first line of every run."""

    event: Literal["started"] = "started"
    request: str
    """Text of the request."""
    pictures: int
    """Number of images in the request."""
    models: dict[str, str]
    """Specs of planner, critic and generator."""
    continued: bool
    """Whether the folder already held a part of the run."""


class PlannedStep(Value):
    """A step of a plan."""

    number: int
    name: str | None
    text: str
    prompt: str | None
    """`None` for a text-only step."""


class PlannedLine(_JournalLine):
    """The plan is complete; for a plan in chapters, all chapters so far."""

    event: Literal["planned"] = "planned"
    steps: tuple[PlannedStep, ...]


class _AttemptLine(_JournalLine):
    step: int
    attempt: int


class DrawnLine(_AttemptLine):
    """An image was drawn and is in the run folder."""

    event: Literal["drawn"] = "drawn"
    image: str
    """Path of its file, relative to the run folder."""
    prompt: str
    seed: int
    cost: float | None
    seconds: float


class JudgedLine(_AttemptLine):
    """The critic has judged an image."""

    event: Literal["judged"] = "judged"
    outcome: Outcome
    reasoning: str
    refined_prompt: str | None
    confidence: float | None


class StepFinishedLine(_JournalLine):
    """A step is complete."""

    event: Literal["step_finished"] = "step_finished"
    step: int
    attempt: int | None
    """The attempt to show; `None` for a text-only step."""
    image: str | None
    text: str
    accepted: bool
    forced: bool


class DecidedLine(_JournalLine):
    """A decision of a person; the steps that it changes are finished again after it."""

    event: Literal["decided"] = "decided"
    decision: Literal[
        "redraw_decided", "attempt_chosen", "generator_changed", "document_edited", "undone", "branched"
    ]
    step: int | None = None
    """`None` for an undo and for an edit of words, which `ended` has."""
    attempt: int | None = None
    """The chosen attempt."""
    prompt: str | None = None
    """New prompt of a redrawn step, if given."""
    generator: str | None = None
    """New generator of the step, or of all remaining steps, if given."""
    by: str
    """Who decided; empty if not given."""


class _CallLine(_JournalLine):
    role: Role
    step: int
    """0 for the planner."""
    attempt: int
    tries: int
    """Number of tries of this call, including this one."""


class CallFailedLine(_CallLine):
    """A call to a model failed."""

    event: Literal["call_failed"] = "call_failed"
    reason: str
    transient: bool
    """Whether it may be made again."""


class RetryLine(_CallLine):
    """A call that failed, or was unfinished when a process ended, is repeated."""

    event: Literal["retry"] = "retry"


class EndedLine(RunSummary, _RunLine):
    """A run has ended: the last line of every run, with the fields of `--json`."""

    event: Literal["ended"] = "ended"


class BatchStartedLine(_Line):
    """A batch begins: its first line."""

    event: Literal["batch_started"] = "batch_started"
    out: str
    """The folder of the batch."""
    requests: int


class RequestEndedLine(_RunLine):
    """A request of a batch has ended, now or (`already`) before this process."""

    event: Literal["request_ended"] = "request_ended"
    status: Literal["done", "short", "failed", "busy", "asked"]
    reason: str | None
    already: bool
    bad_request: bool
    """Whether the request itself is the cause, so that retrying cannot help."""
    calls: int
    seconds: float
    generator: str


class BatchEndedLine(_Line):
    """A batch has ended: its last line, with the fields of `--json`."""

    model_config = ConfigDict(extra="allow")

    event: Literal["batch_ended"] = "batch_ended"
    out: str
    status: str


class ErrorLine(_Line):
    """The command ended with an error before a result, or instead of one."""

    event: Literal["error"] = "error"
    status: str
    error: ErrorReport
    exit_code: int


EventLine = (
    StartedLine
    | PlannedLine
    | DrawnLine
    | JudgedLine
    | StepFinishedLine
    | DecidedLine
    | CallFailedLine
    | RetryLine
    | EndedLine
    | BatchStartedLine
    | RequestEndedLine
    | BatchEndedLine
    | ErrorLine
)
_LINE: TypeAdapter[EventLine] = TypeAdapter(Annotated[EventLine, Field(discriminator="event")])


def read_event_line(text: str | bytes) -> EventLine:
    """Parse a line of `--json-events`; raise `InputError` for anything else."""
    try:
        return _LINE.validate_json(text)
    except ValidationError as error:
        raise InputError(f"not an event line: {first_problem(error)}") from None


class EventLines:
    """Converts the journal of one run into lines; it keeps the earlier entries that later lines refer to."""

    def __init__(self, folder: Path, id_: str | None = None) -> None:
        self._place: dict[str, Any] = {"run": str(folder), "id": id_}
        self._tries: Counter[tuple[str, int]] = Counter()
        self._texts: dict[int, str] = {}
        self._steps: list[PlannedStep] = []
        self._images: dict[tuple[int, int], str] = {}

    def started(self, start: journal.Started, *, continued: bool) -> StartedLine:
        config = start.config
        return StartedLine(
            **self._place,
            request="\n".join(part.text for part in start.request if part.text),
            pictures=sum(part.image is not None for part in start.request),
            models={role: getattr(config, role).spec for role in ("planner", "critic", "generator")},
            continued=continued,
        )

    def ended(self, summary: RunSummary) -> EndedLine:
        return EndedLine(**self._place | summary.model_dump())

    def of(self, entry: Entry, *, replayed: bool) -> Iterator[EventLine]:
        """Yield the lines of a journal entry; many entries have none."""
        place = {**self._place, "time": entry.time, "replayed": replayed}
        match entry:
            case journal.Planned(plan=plan) | journal.PlanReleased(plan=plan):
                self._texts.clear()
                self._steps = []
                yield self._planned(plan.steps, place)
            case journal.ChapterPlanned(steps=steps):
                yield self._planned(steps, place)
            case journal.Drawn():
                image = self._images[entry.step, entry.attempt] = image_path(entry.image)
                fields = entry.model_dump(include={"step", "attempt", "prompt", "seed", "cost", "seconds"})
                yield DrawnLine(**place, **fields, image=image)
            case journal.Judged(verdict=verdict):
                yield JudgedLine(**place, step=entry.step, attempt=entry.attempt, **verdict.model_dump())
            case journal.StepFinished():
                fields = entry.model_dump(include={"step", "attempt", "accepted", "forced"})
                image_of_step = self._images.get((entry.step, entry.attempt or 0))
                text = self._texts.get(entry.step, "")
                yield StepFinishedLine(**place, **fields, image=image_of_step, text=text)
            case (
                journal.RedrawDecided()
                | journal.AttemptChosen()
                | journal.GeneratorChanged()
                | journal.DocumentEdited()
                | journal.Undone()
                | journal.Branched()
            ):
                said = entry.model_dump(include={"step", "attempt", "prompt", "by"})
                generator = getattr(entry, "generator", None)
                shown = generator.shown if generator else None
                yield DecidedLine(**place, decision=entry.event, generator=shown, **said)
            case journal.Called() | journal.CallFailed():
                yield from self._call(entry, place)

    def _planned(self, steps: Sequence[PlanStep], place: dict[str, Any]) -> PlannedLine:
        """Add `steps` to the plan so far and return its line."""
        self._texts |= {step.number: step.text for step in steps}
        self._steps += [
            PlannedStep(number=step.number, name=step.name, text=step.text, prompt=step.prompt)
            for step in steps
        ]
        return PlannedLine(**place, steps=tuple(self._steps))

    def _call(self, entry: journal.Called | journal.CallFailed, place: dict[str, Any]) -> Iterator[EventLine]:
        call = (entry.role, entry.call)
        self._tries[call] += isinstance(entry, journal.Called)
        fields = {
            **place,
            **entry.model_dump(include={"role", "step", "attempt"}),
            "tries": self._tries[call],
        }
        if isinstance(entry, journal.CallFailed):
            yield CallFailedLine(**fields, reason=entry.error, transient=entry.transient)
        elif self._tries[call] > 1:
            yield RetryLine(**fields)

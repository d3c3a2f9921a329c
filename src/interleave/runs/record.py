"""The record of a run: its journal folded into one value, and `run.json`, a copy of it for other programs.

The journal is the source of truth, but folding it takes ten times as long as reading `run.json`. A process
writes the record when it ends, after its journal is on disk. A killed process leaves an outdated record.
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from functools import reduce
from hashlib import sha256
from pathlib import Path
from typing import Any, Literal

from pydantic import Field, ValidationError

from interleave.agents.auditor import AUDIT_ATTEMPTS
from interleave.config.run_config import RoleConfig, RunConfig
from interleave.drift.measures import StepDrift
from interleave.errors import RunError
from interleave.files import read_from, write_atomic
from interleave.runs.document_layer import DocumentLayer
from interleave.runs.journal import (
    VERSION,
    AttemptChosen,
    Audited,
    Branched,
    Called,
    CallFailed,
    CallLine,
    Cause,
    ChapterPlanned,
    Continued,
    DecisionLine,
    Drawn,
    Ended,
    Entry,
    GeneratorChanged,
    JournalReader,
    Judged,
    Planned,
    PlanReleased,
    RedrawDecided,
    Replied,
    RequestPart,
    Started,
    Status,
    StepFinished,
    StoredAsset,
    StoredReading,
    Undone,
    damaged,
    is_being_written,
)
from interleave.runs.journal_files import JournalPosition, is_journal, journal_path, last_digest
from interleave.runs.steering import Steering, TakeKey
from interleave.types import WRITTEN_IF_GIVEN, Finding, Plan, PlanStep, Question, Value, Verdict

UNDOABLE = ("redraw", "choice", "generator")
"""Kinds of decisions that can be undone."""


class DecisionRecord(Value):
    """One decision, by a person or by the run itself."""

    kind: Literal["plan", "redraw", "choice", "generator", "branch"]
    step: int | None = None
    attempt: int | None = None
    """The chosen attempt."""
    prompt: str | None = None
    seed: int | None = None
    generator: RoleConfig | None = None
    kept: dict[int, int] = Field(default_factory=dict)
    """Later steps that kept their image, with the attempt of each."""
    parent: str | None = None
    """The parent run of a branch."""
    by: str = ""
    time: float = 0.0
    undone: bool = False
    cause: Cause | None = None
    """Why the run decided it itself; `None` for a person's decision."""


def records_of(line: DecisionLine) -> list[DecisionRecord]:
    """Return the records of a decision; empty for an undo, which marks an earlier record."""
    said: dict[str, Any] = {"by": line.by, "time": line.time, "cause": line.cause}
    match line:
        case PlanReleased():
            return [DecisionRecord(kind="plan", **said)]
        case RedrawDecided():
            said |= {"prompt": line.prompt, "seed": line.seed, "generator": line.generator}
            return [DecisionRecord(kind="redraw", step=line.step, kept=line.keep, **said)]
        case AttemptChosen():
            said |= {"attempt": line.attempt}
            return [DecisionRecord(kind="choice", step=line.step, kept=line.keep, **said)]
        case GeneratorChanged():
            return [DecisionRecord(kind="generator", step=line.step, generator=line.generator, **said)]
        case Branched():
            return [DecisionRecord(kind="branch", step=line.step, parent=line.parent, **said)]
    return []


PLAN_NAME = "plan.json"
"""File with the plan of a held or asked run, which may be edited."""
ByHand = Literal["redrawn", "chosen", "kept"]


class AttemptRecord(Value):
    """One drawn image and its verdict."""

    number: int
    prompt: str
    seed: int
    image: str
    verdict: Verdict | None = None
    """`None` until the critic has judged it."""
    bad_replies: tuple[str, ...] = ()
    """Unusable replies of the critic."""
    draw_seconds: float = 0.0
    judge_seconds: float = 0.0
    cost: float | None = None
    """US dollars, to draw and to judge it; `None` if unknown."""
    take: int = 1
    """Number of its take: attempts in sequence with the same aim, sources and generator."""
    aim: str | None = None
    """Prompt of its step when it was drawn, if that has changed since."""
    sources: tuple[str, ...] | None = None
    """Images that it was drawn from, if the sources of its step have changed since."""
    generator: str | None = None
    """Its generator, if that is not the run's."""
    inherited: bool = False
    """Whether it was drawn in the parent run of this branch."""


class StepRecord(Value):
    """One step of the document."""

    plan: PlanStep
    attempts: tuple[AttemptRecord, ...] = ()
    shown: int | None = None
    """Number of the attempt to show."""
    accepted: bool = False
    forced: bool = False
    finished: bool = False
    by_hand: ByHand | None = None
    """Decision of a person about it, if still in effect."""
    drift: StepDrift | None = None
    """Drift of its image from the one that it was to change."""
    anew: bool = False
    """Whether it was redrawn from its scene description because its image had drifted too far."""
    words_for: str | None = WRITTEN_IF_GIVEN
    """Prompt for which its text was written, if a person has had its image drawn with another one since."""

    @property
    def attempt(self) -> AttemptRecord | None:
        return next((attempt for attempt in self.attempts if attempt.number == self.shown), None)

    @property
    def own_takes(self) -> dict[int, tuple[AttemptRecord, ...]]:
        """Attempts drawn in this run, by take, including superseded ones."""
        takes: dict[int, tuple[AttemptRecord, ...]] = {}
        for attempt in self.attempts:
            if not attempt.inherited:
                takes[attempt.take] = (*takes.get(attempt.take, ()), attempt)
        return takes

    @property
    def line(self) -> tuple[AttemptRecord, ...]:
        """Attempts of the same take as the shown one."""
        shown = self.attempt
        if shown is None:
            return self.attempts
        return tuple(attempt for attempt in self.attempts if attempt.take == shown.take)


class AuditRecord(Value):
    """One audit of the whole document."""

    round: int
    findings: tuple[Finding, ...] = ()


class CallCounts(Value):
    """Model calls by role, each counted once, and the number of retries."""

    planner: int = 0
    critic: int = 0
    generator: int = 0
    repeated: int = 0

    @property
    def total(self) -> int:
        return self.planner + self.critic + self.generator + self.repeated


class RunRecord(Value):
    """Complete state of a run."""

    version: int = VERSION
    software: str
    status: Status = "running"
    reason: str = ""
    """Why it ended; empty if it is done."""
    question: Question | None = WRITTEN_IF_GIVEN
    """What the planner asks back, with the status `asked`."""
    request: tuple[RequestPart, ...]
    reading: StoredReading | None = WRITTEN_IF_GIVEN
    config: RunConfig
    plan: Plan | None = None
    steps: tuple[StepRecord, ...] = ()
    calls: CallCounts = CallCounts()
    cost: float | None = None
    seconds: float = 0.0
    started: float = 0.0
    planner_bad_replies: tuple[str, ...] = ()
    errors: tuple[str, ...] = Field(default=())
    """Calls that failed, in order."""
    assets: tuple[StoredAsset, ...] = ()
    """Named assets given with the request."""
    audits: tuple[AuditRecord, ...] = ()
    """Audits of the whole document and their findings."""
    decisions: tuple[DecisionRecord, ...] = ()
    """All decisions in order, including undone ones."""
    journal: JournalPosition = JournalPosition()
    """End of the journal from which this record was folded; older versions did not record it."""
    words: DocumentLayer | None = WRITTEN_IF_GIVEN
    """What a person changed of the document shown; `as_shown` applies it."""

    @property
    def title(self) -> str:
        """The title of the document: a person's, else the first line of the request."""
        return self.words.title if self.words and self.words.title else self.request_title

    @property
    def request_title(self) -> str:
        """The first line of the request."""
        lines = (line.strip() for part in self.request for line in (part.text or "").splitlines())
        return next((line.lstrip("# ") for line in lines if line.lstrip("# ")), "Untitled")

    @property
    def step_generators(self) -> tuple[RoleConfig, ...]:
        """Generators chosen for single steps, without duplicates."""
        held = (decision.generator for decision in self.decisions if not decision.undone)
        return tuple(dict.fromkeys(generator for generator in held if generator is not None))

    @property
    def generator_changes(self) -> tuple[DecisionRecord, ...]:
        """Decisions in effect to draw the remaining steps with another generator."""
        return tuple(each for each in self.decisions if each.kind == "generator" and not each.undone)

    @property
    def can_be_undone(self) -> bool:
        """Whether the last decision about steps in effect is a person's."""
        held = [each for each in self.decisions if each.kind in UNDOABLE and not each.undone]
        return bool(held) and held[-1].cause is None

    @property
    def model_notes(self) -> tuple[str, ...]:
        """Notes about the models for readers, without duplicates."""
        own = (generator.note for generator in self.step_generators if generator.note)
        return tuple(dict.fromkeys([*self.config.notes, *own]))

    @property
    def plan_notes(self) -> tuple[str, ...]:
        """Notes for readers about words that were exchanged, corrected or left out."""
        return self.plan.notes if self.plan else ()

    @property
    def notes(self) -> tuple[str, ...]:
        """All notes for readers."""
        return (*self.plan_notes, *self.model_notes)

    @property
    def plan_released(self) -> bool:
        """Whether a person approved or edited the plan."""
        return any(decision.kind == "plan" for decision in self.decisions)

    @property
    def parent(self) -> DecisionRecord | None:
        """The decision with which this run branched off, if it is a branch."""
        return next((each for each in reversed(self.decisions) if each.kind == "branch"), None)

    @property
    def forced_steps(self) -> tuple[int, ...]:
        return tuple(step.plan.number for step in self.steps if step.forced)


def read_record(folder: str | Path) -> RunRecord:
    """Return the record of the run in `folder`, folded from its current journal."""
    folder = Path(folder)
    writing = is_being_written(folder)
    reader = JournalReader(folder)
    record = fold(reader.read_new(), where=folder, position=reader.position)
    if record.status == "running" and not writing:  # its process died
        return record.model_copy(update={"status": "interrupted"})
    return record


def fold(
    entries: Iterable[Entry], *, where: Path | None = None, position: JournalPosition | None = None
) -> RunRecord:
    """Fold a journal into the state of its run; nothing else determines that state.

    Raises `RunError` with the number of a line that cannot follow the lines before it.
    """
    entries, path = list(entries), journal_path(where or Path())
    if not entries:
        raise RunError(f"{path} is empty: no run has been started in this folder")
    if not isinstance(entries[0], Started):
        raise damaged(path, 1, "it does not record the start of the run")
    folding = _Folding(entries[0], steered=any(isinstance(entry, DecisionLine) for entry in entries))
    for number, entry in enumerate(entries[1:], start=2):
        if problem := folding.problem_with(entry):
            raise damaged(path, number, problem)
        folding.add(entry)
    return folding.record(position or JournalPosition())


class _Folding:
    def __init__(self, start: Started, *, steered: bool) -> None:
        self.start = start
        self.steering = Steering(start) if steered else None
        self.takes: dict[int, dict[TakeKey, int]] = defaultdict(dict)
        """Takes of each step, numbered from 1."""
        self.keys: dict[tuple[int, int], TakeKey] = {}
        """Take of each attempt, by step and number."""
        self.decisions: list[DecisionRecord] = []
        self.audits: list[AuditRecord] = []
        self.inherited: set[tuple[int, int]] = set()
        self.plan: Plan | None = None
        self.planned: set[int] = set()
        self.status: Status = "running"
        self.reason = ""
        self.question: Question | None = None
        self.attempts: defaultdict[int, dict[int, dict[str, Any]]] = defaultdict(dict)
        """By step and number."""
        self.finished: dict[int, StepFinished] = {}
        self.replies: dict[tuple[str, int, int], list[Replied]] = {}
        self.called: dict[tuple[str, int], int] = {}
        self.costs: list[float | None] = []
        self.errors: list[str] = []
        self.seconds = 0.0
        self.session_seconds = 0.0

    def problem_with(self, entry: Entry) -> str | None:
        """Return why an entry cannot follow those before it, or `None` if it can."""
        if self.status != "running" and not isinstance(entry, Continued | DecisionLine):
            return "it comes after the end of the run"
        if isinstance(entry, DecisionLine):
            return self.steering.problem_with(entry) if self.steering else None
        match entry:
            case Started():
                return "the run was started before"
            case Replied() | Drawn() | CallFailed() if self._unannounced(entry):
                return f"call {entry.call} of the {entry.role} was never announced"
            case ChapterPlanned() if self.plan is None or not self.plan.is_unfinished:
                return "the plan has no further chapter"
            case Drawn() if entry.step not in self.planned:
                return f"the plan has no step {entry.step}"
            case StepFinished(attempt=None):
                return None if entry.step in self.planned else f"the plan has no step {entry.step}"
            case Replied(role="critic") if entry.attempt > AUDIT_ATTEMPTS and entry.step in self.planned:
                return None
            case Replied(role="critic") | Judged() | StepFinished():
                drawn = entry.step in self.attempts and entry.attempt in self.attempts[entry.step]
                return None if drawn else f"attempt {entry.attempt} of step {entry.step} was never drawn"
        return None

    def _unannounced(self, entry: CallLine) -> bool:
        """Return whether a result's call is missing. A branch draws images of its parent's document."""
        is_of_document = isinstance(entry, Drawn) and entry.role == "planner"
        return (entry.role, entry.call) not in self.called and not is_of_document

    def add(self, entry: Entry) -> None:
        self._add(entry)
        if self.steering is None:
            return
        if isinstance(entry, Drawn):
            self._note_take(entry, self.steering)
        is_about_words = self.steering.is_about_words(entry)
        changed_from = self.steering.add(entry)
        if changed_from is not None:
            self.finished = {
                step: line
                for step, line in self.finished.items()
                if step < changed_from or line.attempt is None
            }
        if isinstance(entry, DecisionLine) and not is_about_words:
            self.status, self.reason, self.question = "running", "", None
            if isinstance(entry, Undone):
                self._note_undone()
            self.decisions += records_of(entry)

    def _note_take(self, drawn: Drawn, steering: Steering) -> None:
        planned = (
            next(step for step in steering.plan.steps if step.number == drawn.step) if steering.plan else None
        )
        if planned is not None:
            key = self.keys[drawn.step, drawn.attempt] = steering.key_of(planned)
            takes = self.takes[drawn.step]
            takes.setdefault(key, len(takes) + 1)

    def _note_undone(self) -> None:
        for place in reversed(range(len(self.decisions))):
            decision = self.decisions[place]
            if decision.kind in ("redraw", "choice", "generator") and not decision.undone:
                self.decisions[place] = decision.model_copy(update={"undone": True})
                return

    def _add(self, entry: Entry) -> None:
        match entry:
            case Called():
                key = (entry.role, entry.call)
                self.called[key] = self.called.get(key, 0) + 1
            case CallFailed():
                self.errors.append(f"{entry.role}: {entry.error}")
            case Replied():
                self._result(entry)
                self.replies.setdefault((entry.role, entry.step, entry.attempt), []).append(entry)
            case Drawn():
                self._result(entry)
                self.attempts[entry.step][entry.attempt] = {
                    "number": entry.attempt,
                    "prompt": entry.prompt,
                    "seed": entry.seed,
                    "image": entry.image,
                    "draw_seconds": entry.seconds,
                    "cost": entry.cost,
                }
            case Planned() | PlanReleased():
                self.plan = entry.plan
                self.planned = {step.number for step in entry.plan.steps}
            case ChapterPlanned() if self.plan is not None:
                self.plan = entry.after(self.plan)
                self.planned |= {step.number for step in entry.steps}
            case Branched():  # calls of the parent are counted there
                self.called.clear()
                self.costs.clear()
                self.errors.clear()
                self.seconds = self.session_seconds = 0.0
                self.inherited = {(step, number) for step, drawn in self.attempts.items() for number in drawn}
            case Judged():
                self.attempts[entry.step][entry.attempt]["verdict"] = entry.verdict
            case StepFinished():
                self.finished[entry.step] = entry
            case Audited():
                self.audits.append(AuditRecord(round=entry.round, findings=entry.findings))
            case Ended():
                self.status, self.reason, self.question = entry.status, entry.reason, entry.question
                self.seconds += entry.seconds
                self.session_seconds = 0.0
            case Continued():
                self.status, self.reason, self.question = "running", "", None
                self.seconds += self.session_seconds  # the process before this one died
                self.session_seconds = 0.0

    def _result(self, entry: Replied | Drawn) -> None:
        self.costs.append(entry.cost)
        self.session_seconds += entry.seconds

    def record(self, position: JournalPosition) -> RunRecord:
        known = [cost for cost in self.costs if cost is not None]
        return RunRecord(
            software=self.start.software,
            status=self.status,
            reason=self.reason,
            question=self.question,
            request=self.start.request,
            reading=self.start.reading,
            config=self.start.config,
            plan=self._plan_in_effect(),
            steps=tuple(self._step(step) for step in self.plan.steps) if self.plan else (),
            calls=self._calls(),
            cost=round(sum(known), 6) if known else None,
            seconds=round(self.seconds + self.session_seconds, 3),
            started=self.start.time,
            planner_bad_replies=tuple(self._planner_bad_replies()),
            errors=tuple(self.errors),
            assets=self.start.assets,
            audits=tuple(self.audits),
            decisions=tuple(self.decisions),
            journal=position,
            words=self._words(),
        )

    def _words(self) -> DocumentLayer | None:
        layer = self.steering.layer if self.steering else DocumentLayer()
        return None if layer == DocumentLayer() else layer

    def _planner_bad_replies(self) -> Iterator[str]:
        """Yield the planner replies that led to no plan or chapter."""
        planned = self.plan.chapter.number if self.plan and self.plan.chapter else int(self.plan is not None)
        for (role, _, attempt), replies in self.replies.items():
            if role == "planner":
                used = max(attempt, 1) <= planned
                yield from (reply.text for reply in (replies[:-1] if used else replies))

    def _plan_in_effect(self) -> Plan | None:
        if self.plan is None or self.steering is None:
            return self.plan
        return self.plan.model_copy(update={"steps": tuple(map(self.steering.revised, self.plan.steps))})

    def _calls(self) -> CallCounts:
        counts = Counter(role for role, _ in self.called)
        return CallCounts(**counts, repeated=sum(times - 1 for times in self.called.values()))

    def _step(self, planned: PlanStep) -> StepRecord:
        step = self.steering.revised(planned) if self.steering else planned
        drawn = self.attempts.get(step.number, {})
        key = self.steering.key_of(planned) if self.steering and drawn else None
        attempts = tuple(self._attempt(step.number, drawn[number], key) for number in sorted(drawn))
        from_scene = self.steering is not None and step.number in self.steering.from_scene
        record = StepRecord(plan=step, attempts=attempts, by_hand=self._by_hand(step.number), anew=from_scene)
        if (finished := self.finished.get(step.number)) is not None:
            return record.model_copy(
                update={
                    "words_for": self._words_for(planned),
                    "shown": finished.attempt,
                    "accepted": finished.accepted,
                    "forced": finished.forced,
                    "finished": True,
                    "drift": finished.drift,
                }
            )
        current = [each for each in attempts if key is None or self.keys[step.number, each.number] == key]
        if current and self.status == "short":  # stopped by a limit: show the best attempt so far
            shown = reduce(self.start.config.rules.better_of, current)
            return record.model_copy(update={"shown": shown.number, "forced": True})
        return record

    def _words_for(self, planned: PlanStep) -> str | None:
        """Return the prompt that the text of a drawn step was written for, unless it is the one in effect."""
        if self.steering is None or not self.steering.layer.text_of(planned):
            return None
        redraw = self.steering.redraws.get(planned.number)
        if redraw is not None and redraw.cause is not None:  # the run's own prompt aims at the same text
            return None
        written_for = self.steering.layer.of(planned.number).prompt or planned.prompt
        return None if written_for == self.steering.revised(planned).prompt else written_for

    def _by_hand(self, step: int) -> ByHand | None:
        steering = self.steering
        if steering is None or step in steering.by_run:
            return None
        if step in steering.chosen:
            return "kept" if step in steering.kept else "chosen"
        return "redrawn" if step in steering.redraws else None

    def _attempt(self, step: int, fields: dict[str, Any], current: TakeKey | None) -> AttemptRecord:
        """Return the record of an attempt; one of another take records what differs from the current take."""
        replies = self.replies.get(("critic", step, fields["number"]), [])
        readable = "verdict" in fields and fields["verdict"].outcome != "unreadable"
        costs = [each for each in (fields["cost"], *(reply.cost for reply in replies)) if each is not None]
        return AttemptRecord(
            **{**fields, "cost": round(sum(costs), 6) if costs else None},
            bad_replies=tuple(reply.text for reply in (replies[:-1] if readable else replies)),
            judge_seconds=round(sum(reply.seconds for reply in replies), 3),
            inherited=(step, fields["number"]) in self.inherited,
            **(self._take_fields(step, fields["number"], current) if current else {}),
        )

    def _take_fields(self, step: int, number: int, current: TakeKey) -> dict[str, Any]:
        own = self.keys[step, number]
        return {
            "take": self.takes[step][own],
            "aim": own.aim if own.aim != current.aim else None,
            "sources": own.sources if own.sources != current.sources else None,
            "generator": own.generator,
        }


def image_names(record: RunRecord) -> list[str]:
    """Return every image that the record names, without duplicates."""
    given = [part.image for part in record.request if part.image]
    given += [asset.image for asset in record.assets if asset.image]
    drawn = [attempt.image for step in record.steps for attempt in step.attempts]
    return list(dict.fromkeys([*given, *drawn]))


RECORD_NAME = "run.json"
SEAL_BYTES, LINE_BYTES = 64, 65_536
"""Bytes read from the end of a journal: for the digest of its last line, and for the whole line."""


def write_stored(folder: Path, record: RunRecord) -> None:
    """Write `run.json` atomically."""
    write_atomic(folder / RECORD_NAME, record.model_dump_json(indent=1).encode() + b"\n")


def read_stored(folder: Path) -> tuple[RunRecord, bytes] | None:
    """Return the record in `run.json` and its bytes, or `None` if unreadable. It may be outdated."""
    try:
        data = read_from(folder / RECORD_NAME)
        return RunRecord.model_validate_json(data), data
    except (OSError, ValidationError):
        return None


def is_current(record: RunRecord, folder: Path) -> bool:
    """Return whether a stored record is current: the journal has neither gained nor lost lines since.

    Only the end of the journal is read.
    """
    path = journal_path(folder)
    try:
        end = _end_of(path, SEAL_BYTES if record.journal.digest else LINE_BYTES)
    except FileNotFoundError:
        return True  # there is only the record
    except OSError as error:
        raise RunError(f"{path} cannot be read ({error.strerror})") from None
    digest = last_digest(end).decode()
    if record.journal.digest or digest:
        return record.journal.digest == digest
    return _ends_with(end, record.status)


def _end_of(path: Path, size: int) -> bytes:
    file = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # half the cost of open(), for every run
    try:
        return os.pread(file, size, max(0, os.fstat(file).st_size - size))
    finally:
        os.close(file)


def _ends_with(end: bytes, status: Status) -> bool:
    """Return whether the last line of a journal without digests records this end."""
    try:
        last = Ended.model_validate_json(end[end[:-1].rfind(b"\n") + 1 :])
    except ValidationError:
        return False
    return last.status == status


def read_ended(folder: Path) -> tuple[RunRecord, str]:
    """Return the record of a run and the SHA-256 of its file: `run.json` of an ended run, else the journal.

    A run that was continued and then killed has a journal with more lines than its `run.json` records.
    """
    stored = read_stored(folder)
    if stored is not None and stored[0].status in ("done", "short") and is_current(stored[0], folder):
        return stored[0], sha256(stored[1]).hexdigest()
    record = read_record(folder)
    if (loss := lost_lines(record, folder)) is not None:
        raise RunError(loss)
    return record, sha256(read_from(journal_path(folder))).hexdigest()


def is_run_file(name: str) -> bool:
    """Return whether a file of this name marks its folder as a run."""
    return name == RECORD_NAME or is_journal(name)


def lost_lines(record: RunRecord, folder: Path) -> str | None:
    """Return a warning if `run.json` was made from more lines than the journal has; no crash causes that."""
    stored = read_stored(folder)
    if stored is None or stored[0].journal.lines <= record.journal.lines:
        return None
    return (
        f"{journal_path(folder)} has lost its end: it has {record.journal.lines} lines, and {RECORD_NAME} "
        f"was made from {stored[0].journal.lines}: restore it from a copy, or resume the run to redo the "
        "rest"
    )

"""The record of a run: its journal folded into one value. `run.json` is a copy of it for other programs."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from functools import reduce
from pathlib import Path
from typing import Any

from pydantic import Field

from interleave.config.run_config import RunConfig
from interleave.errors import RunError
from interleave.pictures import pixel_digest
from interleave.pipeline import better_of
from interleave.runs.digest_chain import JournalPosition
from interleave.runs.journal import FILE_NAME as JOURNAL_NAME
from interleave.runs.journal import (
    VERSION,
    Called,
    CallFailed,
    Continued,
    Drawn,
    Ended,
    Entry,
    JournalReader,
    Judged,
    Planned,
    Replied,
    RequestPart,
    Started,
    Status,
    StepFinished,
    damaged,
    is_being_written,
)
from interleave.runs.store import PictureStore
from interleave.types import Plan, PlanStep, Value, Verdict


class AttemptRecord(Value):
    """One picture that was drawn, and its verdict."""

    number: int
    prompt: str
    seed: int
    image: str
    verdict: Verdict | None = None
    """None until the critic has judged it."""
    bad_replies: tuple[str, ...] = ()
    """Replies of the critic that could not be used."""
    draw_seconds: float = 0.0
    judge_seconds: float = 0.0


class StepRecord(Value):
    """One step of the document."""

    plan: PlanStep
    attempts: tuple[AttemptRecord, ...] = ()
    shown: int | None = None
    """The number of the attempt to show."""
    accepted: bool = False
    forced: bool = False
    finished: bool = False

    @property
    def attempt(self) -> AttemptRecord | None:
        return next((attempt for attempt in self.attempts if attempt.number == self.shown), None)


class CallCounts(Value):
    """Model calls, each counted once, and the number of retries."""

    planner: int = 0
    critic: int = 0
    generator: int = 0
    repeated: int = 0

    @property
    def total(self) -> int:
        return self.planner + self.critic + self.generator + self.repeated


class RunRecord(Value):
    """The state of a run, complete."""

    version: int = VERSION
    software: str
    status: Status = "running"
    reason: str = ""
    """Why it ended, unless it is done."""
    request: tuple[RequestPart, ...]
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
    journal: JournalPosition = JournalPosition()
    """Where the journal ended when this was folded from it; older versions did not record it."""

    @property
    def title(self) -> str:
        """The first line of the request."""
        lines = (line.strip() for part in self.request for line in (part.text or "").splitlines())
        return next((line.lstrip("# ") for line in lines if line.lstrip("# ")), "Untitled")

    @property
    def forced_steps(self) -> tuple[int, ...]:
        return tuple(step.plan.number for step in self.steps if step.forced)


def read_record(folder: str | Path) -> RunRecord:
    """The record of the run in this folder, from its journal as it is now."""
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
    """The state of a run is the fold of its journal, and nothing else.

    Raises `RunError` with the line where one cannot follow the lines before it.
    """
    entries, path = list(entries), (where or Path()) / JOURNAL_NAME
    if not entries:
        raise RunError(f"{path} is empty: no run has been started in this folder")
    if not isinstance(entries[0], Started):
        raise damaged(path, 1, "it does not say how the run was started")
    folding = _Folding(entries[0])
    for number, entry in enumerate(entries[1:], start=2):
        if problem := folding.problem_with(entry):
            raise damaged(path, number, problem)
        folding.add(entry)
    return folding.record(position or JournalPosition())


class _Folding:
    def __init__(self, start: Started) -> None:
        self.start = start
        self.plan: Plan | None = None
        self.planned: set[int] = set()
        self.status: Status = "running"
        self.reason = ""
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
        """Why an entry cannot follow those before it, if it cannot."""
        if self.status != "running" and not isinstance(entry, Continued):
            return "it comes after the end of the run"
        match entry:
            case Started():
                return "the run has started before"
            case Replied() | Drawn() | CallFailed() if (entry.role, entry.call) not in self.called:
                return f"call {entry.call} of the {entry.role} was never announced"
            case Drawn() if entry.step not in self.planned:
                return f"the plan has no step {entry.step}"
            case StepFinished(attempt=None):
                return None if entry.step in self.planned else f"the plan has no step {entry.step}"
            case Replied(role="critic") | Judged() | StepFinished():
                drawn = entry.step in self.attempts and entry.attempt in self.attempts[entry.step]
                return None if drawn else f"attempt {entry.attempt} of step {entry.step} was never drawn"
        return None

    def add(self, entry: Entry) -> None:
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
                }
            case Planned():
                self.plan = entry.plan
                self.planned = {step.number for step in entry.plan.steps}
            case Judged():
                self.attempts[entry.step][entry.attempt]["verdict"] = entry.verdict
            case StepFinished():
                self.finished[entry.step] = entry
            case Ended():
                self.status, self.reason = entry.status, entry.reason
                self.seconds += entry.seconds
                self.session_seconds = 0.0
            case Continued():
                self.status, self.reason = "running", ""
                self.seconds += self.session_seconds  # the process before this one died
                self.session_seconds = 0.0

    def _result(self, entry: Replied | Drawn) -> None:
        self.costs.append(entry.cost)
        self.session_seconds += entry.seconds

    def record(self, position: JournalPosition) -> RunRecord:
        plan_replies = self.replies.get(("planner", 0, 0), [])
        known = [cost for cost in self.costs if cost is not None]
        return RunRecord(
            software=self.start.software,
            status=self.status,
            reason=self.reason,
            request=self.start.request,
            config=self.start.config,
            plan=self.plan,
            steps=tuple(self._step(step) for step in self.plan.steps) if self.plan else (),
            calls=self._calls(),
            cost=round(sum(known), 6) if known else None,
            seconds=round(self.seconds + self.session_seconds, 3),
            started=self.start.time,
            planner_bad_replies=tuple(
                reply.text for reply in (plan_replies[:-1] if self.plan else plan_replies)
            ),
            errors=tuple(self.errors),
            journal=position,
        )

    def _calls(self) -> CallCounts:
        counts = Counter(role for role, _ in self.called)
        return CallCounts(**counts, repeated=sum(times - 1 for times in self.called.values()))

    def _step(self, step: PlanStep) -> StepRecord:
        drawn = self.attempts.get(step.number, {})
        attempts = tuple(self._attempt(step.number, drawn[number]) for number in sorted(drawn))
        if (finished := self.finished.get(step.number)) is not None:
            return StepRecord(
                plan=step,
                attempts=attempts,
                shown=finished.attempt,
                accepted=finished.accepted,
                forced=finished.forced,
                finished=True,
            )
        if attempts and self.status == "short":  # cut off by a limit: show what there is
            return StepRecord(
                plan=step, attempts=attempts, shown=reduce(better_of, attempts).number, forced=True
            )
        return StepRecord(plan=step, attempts=attempts)

    def _attempt(self, step: int, fields: dict[str, Any]) -> AttemptRecord:
        replies = self.replies.get(("critic", step, fields["number"]), [])
        readable = "verdict" in fields and fields["verdict"].outcome != "unreadable"
        return AttemptRecord(
            **fields,
            bad_replies=tuple(reply.text for reply in (replies[:-1] if readable else replies)),
            judge_seconds=round(sum(reply.seconds for reply in replies), 3),
        )


def picture_names(record: RunRecord) -> list[str]:
    """Every picture that the record names, without repeats."""
    given = [part.image for part in record.request if part.image]
    drawn = [attempt.image for step in record.steps for attempt in step.attempts]
    return list(dict.fromkeys([*given, *drawn]))


def comparable(folder: str | Path) -> dict[str, Any]:
    """What is equal in equal runs: the record without times, paths, versions and retries.

    Pictures are compared by their pixels, not by how their files were compressed.
    """
    store = PictureStore(Path(folder))
    record = read_record(folder).model_dump(mode="json")
    for name in ("software", "seconds", "started", "errors", "version", "journal"):
        del record[name]
    del record["calls"]["repeated"], record["config"]["prompts"]["version"]
    for part in record["request"]:
        if part["image"]:
            part["image"] = pixel_digest(store.get(part["image"]))
    for step in record["steps"]:
        for attempt in step["attempts"]:
            attempt["image"] = pixel_digest(store.get(attempt["image"]))
            del attempt["draw_seconds"], attempt["judge_seconds"]
    return record

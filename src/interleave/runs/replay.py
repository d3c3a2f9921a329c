"""Replay of a journal: stored results of calls, events that are already written, and attempt numbers.

A stored result is used only for a call with the same fingerprint.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from interleave import events
from interleave.agents.documents import first_images
from interleave.backends.protocols import ImageGenerator, ImageRequest, Message
from interleave.drift.measures import StepDrift
from interleave.errors import RunError
from interleave.events import Attempt
from interleave.images import pixel_digest, remember_digest
from interleave.pipeline import Take
from interleave.runs import journal as lines
from interleave.runs.folder import ImageStore
from interleave.runs.journal import (
    Audited,
    Branched,
    Called,
    CallLine,
    ChapterPlanned,
    Drawn,
    Ended,
    Entry,
    Judged,
    Line,
    Planned,
    PlanReleased,
    Replied,
    StepFinished,
)
from interleave.runs.steering import Steering, replayed
from interleave.types import ImagePart, Plan, PlanStep, Slot, Verdict

EventKey = tuple[str, int, int]


@dataclass
class Replay:
    """Results of calls in a journal, by the attempt that they were made for."""

    replies: dict[tuple[str, int, int], dict[int, Replied]] = field(default_factory=dict)
    """By role, step and attempt, then by call number, in order."""
    images: dict[tuple[int, int], Drawn] = field(default_factory=dict)
    plan: Plan | None = None
    chapters: dict[int, ChapterPlanned] = field(default_factory=dict)
    """Further chapters of the plan, by number."""
    released: Plan | None = None
    """Plan released by a person; the planner is not called."""
    verdicts: dict[tuple[int, int], Verdict] = field(default_factory=dict)
    first_images: dict[int, str] = field(default_factory=dict)
    """Images of a native system's document: the first attempts of its steps."""
    audits: int = 0
    """Number of audits of the whole document."""
    unreadable_plans: int = 0
    """Number of planner calls that ended in an unreadable plan; these are not replayed."""
    last_calls: Counter[str] = field(default_factory=Counter)
    """Highest call number, by role."""
    open_calls: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """Numbers of calls without a result, by role, step and attempt; repeated calls keep their number."""

    redraw: bool = False
    """Whether a missing image may be redrawn and the calls that depend on it repeated."""

    def reply(self, role: str, slot: Slot, turn: int) -> Replied | None:
        """Return reply number `turn` about an attempt, if the journal has it."""
        replies = list(self.replies.get((role, slot.step, slot.attempt), {}).values())
        return replies[turn - 1] if turn <= len(replies) else None

    def reply_to(self, role: str, slot: Slot, fingerprint: str) -> Replied | None:
        """Return the reply with this fingerprint, if the journal has it."""
        replies = self.replies.get((role, slot.step, slot.attempt), {}).values()
        return next((each for each in replies if each.fingerprint == fingerprint), None)

    def number_of(self, stored: Replied | Drawn | None, role: str, slot: Slot) -> int:
        """Return the number of a call to make: a new one, or that of the call that it repeats."""
        if stored is not None:
            return stored.call
        if (number := self.open_calls.pop((role, slot.step, slot.attempt), None)) is not None:
            return number
        self.last_calls[role] += 1
        return self.last_calls[role]

    def answers(self, stored: Replied | Drawn, fingerprint: str) -> bool:
        """Return whether a stored result matches the fingerprint of the current call."""
        if stored.fingerprint == fingerprint:
            return True
        if self.redraw:
            return False
        raise RunError(
            f"call {stored.call} of the {stored.role} in the journal does not match the one this version "
            "makes: continue with the version that started the run, or start again in a new folder"
        )

    @classmethod
    def of(cls, entries: Iterable[Entry], *, redraw: bool = False) -> Replay:
        replay, plans = cls(redraw=redraw), 0
        for entry in entries:
            match entry:
                case Called():
                    replay.open_calls[entry.role, entry.step, entry.attempt] = entry.call
                    replay._count(entry)
                case Branched():  # calls of the parent run are not repeated
                    replay.open_calls.clear()
                case Replied():
                    asked = (entry.role, entry.step, entry.attempt)
                    replay.replies.setdefault(asked, {})[entry.call] = entry
                    replay._count(entry)
                    plans = max(plans, entry.call) if entry.role == "planner" else plans
                case Drawn():
                    replay.images[entry.step, entry.attempt] = entry
                    replay._count(entry)
                case Planned():
                    replay.plan = entry.plan
                case ChapterPlanned(chapter=chapter):
                    replay.chapters[chapter.number] = entry
                case PlanReleased():
                    replay.released = entry.plan
                case Judged():
                    replay.verdicts[entry.step, entry.attempt] = entry.verdict
                case Audited():
                    replay.audits += 1
                case Ended(unreadable_plan=True) if replay.plan is None:
                    replay.unreadable_plans = plans
                case Ended(unreadable_plan=True):  # of a chapter
                    replay.replies.pop(("planner", 0, len(replay.chapters) + 2), None)
        if replay.plan is not None:
            replay.first_images = _first_images(replay, replay.plan)
        return replay

    def _count(self, entry: CallLine) -> None:
        self.last_calls[entry.role] = max(self.last_calls[entry.role], entry.call)
        if isinstance(entry, Replied | Drawn):
            self.open_calls.pop((entry.role, entry.step, entry.attempt), None)


def _first_images(replay: Replay, plan: Plan) -> dict[int, str]:
    """Return the document's images by step, without those whose step was edited in the plan."""
    document = next((each.document for each in _planner_replies(replay) if each.document), ())
    names = [part.image for part in document if part.image]
    found = first_images(plan, names) if names else {}
    if replay.released is not None:
        kept = {(step.number, step.prompt) for step in replay.released.steps}
        found = {
            step.number: found[step.number]
            for step in plan.steps
            if step.number in found and (step.number, step.prompt) in kept
        }
    return found


def _planner_replies(replay: Replay) -> Iterable[Replied]:
    return replay.replies.get(("planner", 0, 0), {}).values()


class EventLog:
    """Converts pipeline events into journal lines, without those that the journal already has."""

    def __init__(self, entries: Sequence[Entry], *, redraw: bool = False) -> None:
        self._written: dict[EventKey, Line] = {}
        self._redraw = redraw
        for entry, _, changed_from in replayed(entries):
            if changed_from is not None:
                self._forget_from(changed_from)
            if isinstance(entry, Planned | ChapterPlanned | Judged | StepFinished):
                self._written[_key(entry)] = entry
            elif isinstance(entry, PlanReleased):
                released = Planned(plan=entry.plan)
                self._written[_key(released)] = released

    def _forget_from(self, step: int) -> None:
        """Forget how steps from `step` on were finished: after a decision they are journalled again."""
        for key in [key for key in self._written if key[0] == "step_finished" and key[1] >= step]:
            del self._written[key]

    def written(self, event: events.Event) -> Line | None:
        """Return the journal line of an event, if there is one."""
        line = _line_of(event)
        return None if line is None else self._written.get(_key(line))

    def new_line(self, event: events.Event, drift: StepDrift | None = None) -> Line | None:
        """Return the line to journal for an event if it is new; raise if it contradicts the journal."""
        line = _line_of(event)
        if line is None:
            return None
        key = _key(line)
        before = self._written.get(key)
        if isinstance(line, StepFinished):
            known = before.drift if isinstance(before, StepFinished) else drift
            line = line.model_copy(update={"drift": known})
        self._written[key] = line
        if before is None or self._redraw:  # events after a redrawn image are written again
            return line
        if before.model_copy(update={"time": line.time}) != line:
            raise RunError(
                "this run was started by an incompatible version: continue it with that version, "
                "or start again in a new folder"
            )
        return None


def _line_of(event: events.Event) -> Line | None:
    """Return the journal line of an event; an image is journalled with the call that made it."""
    match event:
        case events.Planned(plan=plan) if plan.chapter is not None and plan.chapter.number > 1:
            return lines.ChapterPlanned(chapter=plan.chapter, steps=event.new_steps, assets=plan.assets)
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


def _key(line: Line) -> EventKey:
    match line:
        case lines.Judged(step=step, attempt=attempt):
            return ("judged", step, attempt)
        case lines.StepFinished(step=step):
            return ("step_finished", step, 0)
        case lines.ChapterPlanned(chapter=chapter):
            return ("planned", chapter.number, 0)
    return ("planned", 0, 0)


def fingerprint_of_messages(messages: Sequence[Message]) -> str:
    """Return a digest of messages to a vision-language model."""
    digest = hashlib.sha256()
    for message in messages:
        digest.update(f"\x00{message.role}".encode())
        for part in message.parts:
            content = pixel_digest(part.image) if isinstance(part, ImagePart) else f"\x01{part.text}"
            digest.update(content.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()[:32]


def fingerprint_of_request(request: ImageRequest) -> str:
    """Return a digest of a request to a generator."""
    sources = ",".join(pixel_digest(source) for source in request.sources)
    return hashlib.sha256(f"{request.seed}/{sources}/{request.prompt}".encode()).hexdigest()[:32]


AttemptKey = tuple[int, str, str | None, str | None]
"""Identity of an attempt: step, fingerprint, aim, generator."""


class Takes:
    """The takes of a run, with the numbers of their attempts.

    Attempts of a step are numbered in the order in which they were first drawn. A repeated attempt keeps its
    number, so that its results are found in the journal.
    """

    def __init__(
        self,
        steering: Steering,
        entries: Sequence[Entry],
        replay: Replay,
        store: ImageStore,
        others: Mapping[str, ImageGenerator],
    ) -> None:
        """Create the takes; `others` are the generators other than the run's own, by identity."""
        self.others = others
        self.steering = steering
        self.replay = replay
        self.store = store
        self._numbers = _numbers_in(entries) if steering.first_decided is not None else {}

    def of(self, planned: PlanStep) -> Take:
        """Return how a step of the plan is drawn, or which attempt is shown."""
        step = self.steering.revised(planned)
        seed = self.steering.seed_of(step.number)
        first = self.steering.first_decided
        if first is None or step.number < first:
            return Take(step, seed)
        from_scene, most = step.number in self.steering.from_scene, self._most_sources(step.number)
        if (number := self.steering.chosen.get(step.number)) is not None:
            stored = self._stored(step.number, number)
            by_hand = step.number not in self.steering.by_run
            return Take(step, seed, chosen=stored, by_hand=by_hand, from_scene=from_scene, most_sources=most)
        return Take(step, seed, number=partial(self._number, step), from_scene=from_scene, most_sources=most)

    def _most_sources(self, step: int) -> int | None:
        """Return the maximum number of source images of a step with another generator."""
        wanted = self.steering.generator_of(step)
        other = None if wanted is None else self.others.get(wanted.identity)
        return None if other is None else other.capabilities.max_sources

    def _number(self, step: PlanStep, turn: int, request: ImageRequest) -> int:
        key = _key_of(fingerprint_of_request(request), step, self.steering)
        taken = [number for (number_of, *_), number in self._numbers.items() if number_of == step.number]
        return self._numbers.setdefault(key, max(taken, default=0) + 1)

    def _stored(self, step: int, number: int) -> Attempt:
        drawn, verdict = self.replay.images.get((step, number)), self.replay.verdicts.get((step, number))
        if drawn is None or verdict is None:
            raise RunError(
                f"attempt {number} of step {step} was chosen before it was judged: undo the choice"
            )
        image = remember_digest(self.store.get(drawn.image))
        return Attempt(number, drawn.prompt, drawn.seed, image, verdict)


def _numbers_in(entries: Sequence[Entry]) -> dict[AttemptKey, int]:
    """Return the number of every attempt in a journal, by its identity."""
    numbers: dict[AttemptKey, int] = {}
    for entry, steering, _ in replayed(entries):
        if isinstance(entry, Drawn):
            step = steering.revised(steering.planned(entry.step))
            numbers[_key_of(entry.fingerprint, step, steering)] = entry.attempt
    return numbers


def _key_of(fingerprint: str, step: PlanStep, steering: Steering) -> AttemptKey:
    generator = steering.generator_of(step.number)
    return step.number, fingerprint, step.prompt, generator.identity if generator else None

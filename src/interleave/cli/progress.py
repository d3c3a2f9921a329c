"""Progress of a run on stderr: a live line on a terminal, plain lines otherwise."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from rich.text import Text

from interleave import events
from interleave.cli.streams import make_console
from interleave.text import count, one_line, visible
from interleave.types import Outcome, Plan, PlanStep, Slot, Verdict

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from interleave.runs.run import Event

MARKS = {Outcome.ACCEPTED: "✓", Outcome.REJECTED: "✗", Outcome.UNREADABLE: "?"}
STYLES = {Outcome.ACCEPTED: "green", Outcome.REJECTED: "red", Outcome.UNREADABLE: "yellow"}


class Progress(Protocol):
    """A display of the events of a run."""

    def say(self, message: str) -> None: ...
    def show(self, event: Event) -> None: ...
    def drawing(self, slot: Slot, done: int, total: int) -> None: ...
    def close(self) -> None: ...


def make_progress() -> Progress:
    """Return the live display on a terminal, plain lines otherwise."""
    console = make_console()
    return LiveProgress(console) if console.is_terminal else PlainProgress(console)


class PlainProgress:
    """One line per event, for logs and pipes."""

    def __init__(self, console: Console) -> None:
        self.console = console

    def say(self, message: str) -> None:
        self.console.print(visible(message), soft_wrap=True)

    def show(self, event: Event) -> None:
        match event:
            case events.Planned(plan=plan, new_steps=new):
                self.say(f"{_what_is_planned(plan).lower()}: {count(len(new), 'step')}")
                for step in new:
                    self.say(f"  {step.number}  {one_line(step.text or step.prompt or '')}")
            case events.Drawn(slot=slot):
                self.say(f"step {slot.step}, attempt {slot.attempt}: drawn")
            case events.Judged(slot=slot, verdict=verdict):
                self.say(f"step {slot.step}, attempt {slot.attempt}: {_judgement(verdict)}")
            case events.StepFinished(step=step, attempt=None):
                self.say(f"step {step.number}: text only")
            case events.StepFinished(step=step, attempt=events.Attempt(number=number)) if event.chosen:
                self.say(f"step {step.number}: attempt {number} is shown, as decided")
            case events.StepFinished(step=step) if event.forced:
                self.say(f"step {step.number}: no attempt was accepted, the best one is shown")

    def drawing(self, slot: Slot, done: int, total: int) -> None:
        pass  # too many lines for a log

    def close(self) -> None:
        pass


class LiveProgress:
    """The plan, then one live line for the current step; finished steps stay above it."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self.status: Status | None = None
        self.steps: tuple[PlanStep, ...] = ()
        self.marks: defaultdict[int, list[Outcome]] = defaultdict(list)
        """By step: several steps may be in progress."""

    def say(self, message: str) -> None:
        self._live(Text(visible(message)))

    def show(self, event: Event) -> None:
        match event:
            case events.Planned(plan=plan, new_steps=new):
                self.steps = plan.steps
                self._print_plan(_what_is_planned(plan), new)
                if new:
                    self._live(self._line(new[0], "drawing…"))
            case events.Drawn(slot=slot):
                self._live(self._line(self._step(slot.step), f"judging attempt {slot.attempt}…"))
            case events.Judged(slot=slot, verdict=verdict):
                self.marks[slot.step].append(verdict.outcome)
                if not verdict.accepted:
                    self._live(self._line(self._step(slot.step), f"drawing attempt {slot.attempt + 1}…"))
            case events.StepFinished(step=step):
                self.console.print(self._line(step, _ending(event)))
                self.marks.pop(step.number, None)
                if step.number != self.steps[-1].number:
                    self._live(self._line(self._step(step.number + 1), "drawing…"))

    def drawing(self, slot: Slot, done: int, total: int) -> None:
        """Show the denoising step of an image. Called from the generator's thread."""
        if self.steps and slot.step and done < total:
            self._live(
                self._line(self._step(slot.step), f"drawing attempt {slot.attempt}: {done} of {total}…")
            )

    def close(self) -> None:
        if self.status is not None:
            self.status.stop()
            self.status = None

    def _print_plan(self, what: str, steps: Sequence[PlanStep]) -> None:
        self.console.print(f"{what}: {count(len(steps), 'step')}", style="bold")
        for step in steps:
            words = one_line(step.text or step.prompt or "", self.console.width - 8)
            self.console.print(f"{step.number:>4}  {words}", style="dim")

    def _step(self, number: int) -> PlanStep:
        return self.steps[number - self.steps[0].number]

    def _line(self, step: PlanStep, state: str) -> Text:
        title = one_line(step.name or step.text or step.prompt or "", 44)
        line = Text.assemble((f"{step.number:>4}  ", "bold"), f"{title:<46}")
        for mark in self.marks.get(step.number, ()):
            line.append(f"{MARKS[mark]} ", style=STYLES[mark])
        return line.append(state, style="dim")

    def _live(self, message: Text) -> None:
        if self.status is None:
            self.status = self.console.status(message)
            self.status.start()
        else:
            self.status.update(message)


def _what_is_planned(plan: Plan) -> str:
    return f"Chapter {plan.chapter.number}" if plan.chapter else "Plan"


def _ending(event: events.StepFinished) -> str:
    if event.attempt is None:
        return "text only"
    if event.chosen:
        return f"attempt {event.attempt.number} is shown, as decided"
    if event.forced:
        return "not accepted; the best attempt is shown"
    return "" if event.attempt.number == 1 else f"accepted at attempt {event.attempt.number}"


def _judgement(verdict: Verdict) -> str:
    match verdict.outcome:
        case Outcome.ACCEPTED:
            return "accepted"
        case Outcome.REJECTED:
            better = f"; better: {one_line(verdict.refined_prompt)}" if verdict.refined_prompt else ""
            return f"rejected{better}"
        case _:
            return "the critic's reply could not be read"

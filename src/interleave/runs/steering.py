"""What a person has decided about a run, folded from its journal.

A decision is about one step: draw it again, or show another of its attempts. Later steps whose images
follow from it are drawn again, unless the decision keeps them. Decisions hold in the order in which they were
made; an undo takes away the last one that still holds. Attempts are never taken away, so what was drawn under
a decision that was undone is not drawn again when the same is decided again.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from interleave.backends.protocols import GeneratorCapabilities
from interleave.config.run_config import RoleConfig
from interleave.errors import RunError
from interleave.runs.journal import (
    AttemptChosen,
    Branched,
    ChapterPlanned,
    Drawn,
    Entry,
    GeneratorChanged,
    Planned,
    PlanReleased,
    RedrawDecided,
    Started,
    StepFinished,
    Undone,
)
from interleave.sources import SourceImages, steps_that_follow
from interleave.types import Plan, PlanStep

Decision = RedrawDecided | AttemptChosen | GeneratorChanged
_ANY_NUMBER_OF_SOURCES = GeneratorCapabilities(max_sources=sys.maxsize)


@dataclass(frozen=True)
class TakeKey:
    """What the attempts of one take have in common: their aim, seed, generator and sources."""

    aim: str
    seed: int
    generator: str | None
    """The identity of a generator other than the run's."""
    sources: tuple[str, ...]
    """The names of the images that they start from."""


def replayed(entries: Sequence[Entry]) -> Iterator[tuple[Entry, Steering, int | None]]:
    """Each line of a journal, what holds after it, and the first step whose image it may change."""
    start, *others = entries
    if not isinstance(start, Started):
        raise RunError("a journal begins with how its run was started")
    steering = Steering(start)
    yield start, steering, None
    for entry in others:
        yield entry, steering, steering.add(entry)


def steering_after(entries: Sequence[Entry]) -> Steering:
    """What holds after all lines of a journal."""
    return [steering for _, steering, _ in replayed(entries)][-1]


class Steering:
    """The decisions that hold after the lines so far, and what follows from them for each step."""

    def __init__(self, start: Started) -> None:
        self.config = start.config
        self.given = tuple(part.image for part in start.request if part.image)
        self.assets = {asset.name: asset.image for asset in start.assets if asset.image}
        self.holds_plan = start.hold_plan
        """Whether the plan has to be released before anything is drawn."""
        self.plan: Plan | None = None
        self.released: Plan | None = None
        """The plan that a person released."""
        self.decisions: list[Decision] = []
        """Those that hold, in order."""
        self.first_decided: int | None = None
        """The first step that was ever decided about; steps before it are as the plan made them."""
        self.redraws: dict[int, RedrawDecided] = {}
        self.chosen: dict[int, int] = {}
        """The attempts to show, by step."""
        self.kept: set[int] = set()
        """Those of `chosen` that were kept, not chosen, when a step before them changed."""
        self.by_run: set[int] = set()
        """The steps about which the run decided last, not a person."""
        self.finished: set[int] = set()
        """The steps whose images nothing has changed since they were finished."""
        self._drawn_under: dict[tuple[int, int], RedrawDecided | None] = {}
        self._images: dict[tuple[int, int], str] = {}
        self._shown: dict[int, str] = {}

    def add(self, entry: Entry) -> int | None:
        """Take in a line; returns the first step whose image it may change, if it may."""
        match entry:
            case Drawn():
                self._images[entry.step, entry.attempt] = entry.image
                self._drawn_under[entry.step, entry.attempt] = self.redraws.get(entry.step)
            case StepFinished(attempt=int(attempt)):
                self.finished.add(entry.step)
                self._shown[entry.step] = self._images.get((entry.step, attempt), "")
            case Planned():
                self.plan = entry.plan
            case ChapterPlanned() if self.plan is not None:
                self.plan = entry.after(self.plan)
            case PlanReleased():
                self.plan = self.released = entry.plan
                self.holds_plan = False
            case RedrawDecided() | AttemptChosen() | GeneratorChanged():
                self.finished -= self._changed_by(entry)
                self.decisions.append(entry)
                return self._settle(entry.step)
            case Undone() if self.decisions:
                self.finished -= self._changed_by(self.decisions[-1])
                return self._settle(self.decisions.pop().step)
        return None

    def problem_with(self, entry: Entry) -> str | None:
        """Why a decision cannot follow the lines before it, if it cannot."""
        match entry:
            case PlanReleased() if self._images:
                return "images of another plan were drawn before it"
            case RedrawDecided() | AttemptChosen() | GeneratorChanged() | Branched() if (
                entry.step not in self.drawable()
            ):
                return f"the plan has no step {entry.step} with an image"
            case AttemptChosen() if (entry.step, entry.attempt) not in self._images:
                return f"attempt {entry.attempt} of step {entry.step} was never drawn"
            case RedrawDecided() | AttemptChosen() if not entry.keep.items() <= self._images.keys():
                return "it keeps an attempt that was never drawn"
            case Undone() if not self.decisions:
                return "there is no decision to undo"
        return None

    def planned(self, number: int) -> PlanStep:
        """A step as the plan has it; raises where there is none."""
        for step in self.plan.steps if self.plan else ():
            if step.number == number:
                return step
        raise RunError(f"the plan has no step {number}")

    def revised(self, planned: PlanStep) -> PlanStep:
        """A step of the plan with the prompt that a person gave it, if one did."""
        redraw = self.redraws.get(planned.number)
        if redraw is None or redraw.prompt is None:
            return planned
        return planned.model_copy(update={"prompt": redraw.prompt})

    def seed_of(self, step: int) -> int:
        """What the seeds of a step's attempts are derived from."""
        redraw = self.redraws.get(step)
        return self.config.seed if redraw is None else redraw.seed

    def generator_of(self, step: int) -> RoleConfig | None:
        """The generator that a person wants for a step, the last that was named; None: the run's own."""
        own = self.redraws.get(step)
        for decision in reversed(self.decisions):
            is_about_it = isinstance(decision, GeneratorChanged) and decision.covers(step)
            if not isinstance(decision, AttemptChosen) and (is_about_it or decision is own):
                if decision.generator is None:
                    continue
                return None if self._is_own(decision.generator) else decision.generator
        return None

    def _is_own(self, generator: RoleConfig) -> bool:
        return generator.identity == self.config.generator.identity

    @property
    def generators(self) -> tuple[RoleConfig, ...]:
        """The generators besides the run's own that steps may still be drawn by, without repeats."""
        wanted = [redraw.generator for step, redraw in self.redraws.items() if step not in self.chosen]
        wanted += [each.generator for each in self.decisions if isinstance(each, GeneratorChanged)]
        others = (each for each in wanted if each is not None and not self._is_own(each))
        return tuple(dict.fromkeys(others))

    def key_of(self, planned: PlanStep) -> TakeKey:
        """The take that a step's next attempt would belong to; the steps before it are finished."""
        generator = self.generator_of(planned.number)
        return TakeKey(
            aim=self.revised(planned).prompt or "",
            seed=self.seed_of(planned.number),
            generator=generator.identity if generator else None,
            sources=self._sources_of(planned),
        )

    @property
    def anew(self) -> set[int]:
        """The steps that are drawn from their scene by decision."""
        return {step for step, redraw in self.redraws.items() if redraw.anew}

    def followers_of(self, step: int) -> set[int]:
        """The later steps whose images follow from this one's."""
        if self.plan is None:
            return set()
        anchors = self.config.remedies.anchor_every
        return steps_that_follow(
            self.plan, self.config.sources, step, anchor_every=anchors, anew=self.anew - {step}
        )

    def _changed_by(self, decision: Decision) -> set[int]:
        """The steps whose images change when a decision comes or goes."""
        if isinstance(decision, GeneratorChanged):
            steps = {step for step in self.drawable() if decision.covers(step)}
            return steps.union(*map(self.followers_of, steps))
        return {decision.step, *(self.followers_of(decision.step) - decision.keep.keys())}

    def drawable(self) -> set[int]:
        """The steps that have an image."""
        steps = self.plan.steps if self.plan else ()
        return {step.number for step in steps if step.prompt is not None}

    def left_to_draw(self) -> set[int]:
        """The steps whose image is still to be drawn, as far as the plan is known."""
        return self.drawable() - self.finished - self.chosen.keys()

    def _sources_of(self, planned: PlanStep) -> tuple[str, ...]:
        if self.plan is None:
            return ()
        images = SourceImages(
            self.given,
            self.config.sources,
            _ANY_NUMBER_OF_SOURCES,
            assets=self.assets,
            anchor_every=self.config.remedies.anchor_every,
        )
        images.check_plan(self.plan)
        for step in self.plan.steps:
            if step.number == planned.number:
                break
            if step.prompt is not None:
                images.add(step.number, self._shown.get(step.number, ""))
        return images.start_of(planned, anew=planned.number in self.anew).sources

    def _settle(self, step: int) -> int:
        """Work out again what holds for each step; the decision that came or went was about this one."""
        self.first_decided = min(step, self.first_decided or step)
        self._shown = {number: image for number, image in self._shown.items() if number < step}
        self.redraws, self.chosen, self.kept, self.by_run = {}, {}, set(), set()
        for decision in self.decisions:
            if isinstance(decision, GeneratorChanged):
                continue  # nothing that was shown changes
            by_choice = self.chosen.keys() - self.kept
            if isinstance(decision, RedrawDecided):
                self.redraws[decision.step] = decision
                self._forget({decision.step})
            else:
                self._choose(decision.step, decision.attempt)
                self.kept.discard(decision.step)
            self._forget(self.followers_of(decision.step))
            for later, attempt in decision.keep.items():
                self._choose(later, attempt)
                self.kept |= {later} - by_choice
            about = {decision.step, *decision.keep}
            self.by_run = self.by_run - about if decision.cause is None else self.by_run | about
        return step

    def _choose(self, step: int, attempt: int) -> None:
        """Show an attempt; drawn again, its step would be drawn as that attempt was."""
        self.chosen[step] = attempt
        under = self._drawn_under.get((step, attempt))
        if under is None:
            self.redraws.pop(step, None)
        else:
            self.redraws[step] = under

    def _forget(self, steps: set[int]) -> None:
        for step in steps:
            self.chosen.pop(step, None)
        self.kept -= steps

"""The decisions in effect about a run, folded from its journal.

A decision is about one step: redraw it, or show another of its attempts. Later steps whose images follow from
it are redrawn unless the decision keeps them. Decisions apply in the order in which they were made; an undo
removes the last one in effect. Attempts are never removed, so repeating an undone decision draws nothing new.

Edits of the document are kept in the same order, so that a person's undo removes the last edit of any kind.
They change the document layer only; an undo by the run itself passes them over.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from interleave.backends.protocols import GeneratorCapabilities
from interleave.config.run_config import RoleConfig
from interleave.errors import RunError
from interleave.runs.document_layer import DocumentLayer
from interleave.runs.journal import (
    AttemptChosen,
    Branched,
    ChapterPlanned,
    DocumentEdited,
    Drawn,
    Ended,
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
    """Properties shared by the attempts of one take."""

    aim: str
    seed: int
    generator: str | None
    """Identity of the generator, if it is not the run's."""
    sources: tuple[str, ...]
    """Names of the source images."""


def replayed(entries: Sequence[Entry]) -> Iterator[tuple[Entry, Steering, int | None]]:
    """Yield each journal line, the steering after it, and the first step whose image it may change."""
    start, *others = entries
    if not isinstance(start, Started):
        raise RunError("the journal does not begin with the start of its run")
    steering = Steering(start)
    yield start, steering, None
    for entry in others:
        yield entry, steering, steering.add(entry)


def steering_after(entries: Sequence[Entry]) -> Steering:
    """Return the steering after all lines of a journal."""
    return [steering for _, steering, _ in replayed(entries)][-1]


class Steering:
    """The decisions in effect after the lines so far, and their consequences for each step."""

    def __init__(self, start: Started) -> None:
        self.config = start.config
        self.given = tuple(part.image for part in start.request if part.image)
        self.assets = {asset.name: asset.image for asset in start.assets if asset.image}
        self.holds_plan = start.hold_plan
        """Whether the plan must be released before drawing starts."""
        self.plan: Plan | None = None
        self.released: Plan | None = None
        """Plan released by a person."""
        self.in_effect: list[Decision | DocumentEdited] = []
        """Decisions and edits of the document in effect, in order."""
        self._layers: list[DocumentLayer] = []
        """The document layer after each edit in effect."""
        self.first_decided: int | None = None
        """First step with a decision, in effect or not; earlier steps follow the plan."""
        self.redraws: dict[int, RedrawDecided] = {}
        self.chosen: dict[int, int] = {}
        """Chosen or kept attempts, by step."""
        self.kept: set[int] = set()
        """Steps in `chosen` that were kept, not chosen, when an earlier step changed."""
        self.by_run: set[int] = set()
        """Steps whose last decision was made by the run, not by a person."""
        self.finished: set[int] = set()
        """Finished steps that no later decision has changed."""
        self._drawn_under: dict[tuple[int, int], RedrawDecided | None] = {}
        self._images: dict[tuple[int, int], str] = {}
        self._shown: dict[int, str] = {}

    @property
    def decisions(self) -> list[Decision]:
        """Decisions about steps in effect, in order."""
        return [each for each in self.in_effect if not isinstance(each, DocumentEdited)]

    @property
    def layer(self) -> DocumentLayer:
        """The document layer in effect."""
        return self._layers[-1] if self._layers else DocumentLayer()

    def undone_by(self, undo: Undone) -> Decision | DocumentEdited | None:
        """Return what an undo removes, if there is anything."""
        undoable = self.in_effect if undo.cause is None else self.decisions
        return undoable[-1] if undoable else None

    def is_about_words(self, entry: Entry) -> bool:
        """Return whether an entry changes the document layer, or undoes such a change."""
        changed = self.undone_by(entry) if isinstance(entry, Undone) else entry
        return isinstance(changed, DocumentEdited)

    def add(self, entry: Entry) -> int | None:
        """Apply a line; return the first step whose image it may change, if any."""
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
                if not self._is_extended_by(entry.plan):
                    self.in_effect, self._layers = [*self.decisions], []  # its steps may be others
                self.plan = self.released = entry.plan
                self.holds_plan = False
            case Ended(status="asked"):
                self.holds_plan = True
            case RedrawDecided() | AttemptChosen() | GeneratorChanged():
                self.finished -= self._changed_by(entry)
                self.in_effect.append(entry)
                return self._settle(entry.step)
            case DocumentEdited() if self.plan is not None:
                self._layers.append(self.layer.edited(entry, map(self.revised, self.plan.steps)))
                self.in_effect.append(entry)
            case Undone():
                return self._undo(self.undone_by(entry))
        return None

    def _undo(self, last: Decision | DocumentEdited | None) -> int | None:
        if last is None:
            return None
        self.in_effect = [each for each in self.in_effect if each is not last]
        if isinstance(last, DocumentEdited):
            self._layers.pop()
            return None
        self.finished -= self._changed_by(last)
        return self._settle(last.step)

    def problem_with(self, entry: Entry) -> str | None:
        """Return why a decision cannot follow the lines before it, or `None` if it can."""
        match entry:
            case PlanReleased() if self._images and not self._is_extended_by(entry.plan):
                return "images of another plan were drawn before it"
            case RedrawDecided() | AttemptChosen() | GeneratorChanged() | Branched() if (
                entry.step not in self.drawable()
            ):
                return f"the plan has no step {entry.step} with an image"
            case AttemptChosen() if (entry.step, entry.attempt) not in self._images:
                return f"attempt {entry.attempt} of step {entry.step} was never drawn"
            case RedrawDecided() | AttemptChosen() if not entry.keep.items() <= self._images.keys():
                return "it keeps an attempt that was never drawn"
            case DocumentEdited() if not self._numbers().issuperset(entry.named_steps):
                return "it names a step that the plan does not have"
            case Undone() if self.undone_by(entry) is None:
                return "there is no decision to undo"
        return None

    def _is_extended_by(self, plan: Plan) -> bool:
        """Return whether a plan has all steps of the current one, and perhaps more after them."""
        return self.plan is not None and plan.steps[: len(self.plan.steps)] == self.plan.steps

    def planned(self, number: int) -> PlanStep:
        """Return a step of the plan; raise if there is none."""
        for step in self.plan.steps if self.plan else ():
            if step.number == number:
                return step
        raise RunError(f"the plan has no step {number}")

    def revised(self, planned: PlanStep) -> PlanStep:
        """Return a step of the plan with its new prompt, if a decision changed it."""
        redraw = self.redraws.get(planned.number)
        if redraw is None or redraw.prompt is None:
            return planned
        return planned.model_copy(update={"prompt": redraw.prompt})

    def seed_of(self, step: int) -> int:
        """Return the base seed of a step's attempts."""
        redraw = self.redraws.get(step)
        return self.config.seed if redraw is None else redraw.seed

    def generator_of(self, step: int) -> RoleConfig | None:
        """Return the generator last chosen for a step; `None` for the run's own."""
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
        """Generators other than the run's own that steps may still use, without duplicates."""
        wanted = [redraw.generator for step, redraw in self.redraws.items() if step not in self.chosen]
        wanted += [each.generator for each in self.decisions if isinstance(each, GeneratorChanged)]
        others = (each for each in wanted if each is not None and not self._is_own(each))
        return tuple(dict.fromkeys(others))

    def key_of(self, planned: PlanStep) -> TakeKey:
        """Return the take of a step's next attempt, given that the steps before it are finished."""
        generator = self.generator_of(planned.number)
        return TakeKey(
            aim=self.revised(planned).prompt or "",
            seed=self.seed_of(planned.number),
            generator=generator.identity if generator else None,
            sources=self._sources_of(planned),
        )

    @property
    def from_scene(self) -> set[int]:
        """Steps drawn from their scene description by decision."""
        return {step for step, redraw in self.redraws.items() if redraw.anew}

    def followers_of(self, step: int) -> set[int]:
        """Return the later steps whose images follow from this one's."""
        if self.plan is None:
            return set()
        anchors = self.config.remedies.anchor_every
        return steps_that_follow(
            self.plan, self.config.sources, step, anchor_every=anchors, from_scene=self.from_scene - {step}
        )

    def _changed_by(self, decision: Decision) -> set[int]:
        """Return the steps whose images change when a decision is made or undone."""
        if isinstance(decision, GeneratorChanged):
            steps = {step for step in self.drawable() if decision.covers(step)}
            return steps.union(*map(self.followers_of, steps))
        return {decision.step, *(self.followers_of(decision.step) - decision.keep.keys())}

    def _numbers(self) -> set[int]:
        return {step.number for step in self.plan.steps} if self.plan else set()

    def drawable(self) -> set[int]:
        """Return the steps with an image."""
        steps = self.plan.steps if self.plan else ()
        return {step.number for step in steps if step.prompt is not None}

    def unfinished(self) -> set[int]:
        """Return the steps of the plan so far whose image is still to be drawn."""
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
        return images.start_of(planned, from_scene=planned.number in self.from_scene).sources

    def _settle(self, step: int) -> int:
        """Recompute the state of each step after a decision about `step` was made or undone."""
        self.first_decided = min(step, self.first_decided or step)
        self._shown = {number: image for number, image in self._shown.items() if number < step}
        self.redraws, self.chosen, self.kept, self.by_run = {}, {}, set(), set()
        for decision in self.decisions:
            if isinstance(decision, GeneratorChanged):
                continue  # shown images do not change
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
        """Show an attempt; a redraw of its step would use the settings of that attempt."""
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

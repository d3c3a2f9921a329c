"""How each step of a run is drawn, given what a person has decided about it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

from interleave.backends.protocols import ImageGenerator, ImageRequest
from interleave.errors import RunError
from interleave.events import Attempt
from interleave.images import remember_digest
from interleave.pipeline import Take
from interleave.runs.journal import Drawn, Entry
from interleave.runs.replay import Replay, fingerprint_of_drawing
from interleave.runs.steering import Steering, replayed
from interleave.runs.store import PictureStore
from interleave.types import PlanStep

Question = tuple[int, str, str | None, str | None]
"""What one attempt of a step was asked for: step, fingerprint, aim, generator."""


class Takes:
    """The takes of a run, with the numbers of their attempts.

    All attempts of a step are numbered in the order in which they were first drawn. An attempt that is asked
    for again has the number that it had, so its results in the journal are found.
    """

    def __init__(
        self,
        steering: Steering,
        entries: Sequence[Entry],
        replay: Replay,
        store: PictureStore,
        others: Mapping[str, ImageGenerator],
    ) -> None:
        """`others` are the generators besides the run's own, by identity."""
        self.others = others
        self.steering = steering
        self.replay = replay
        self.store = store
        self._numbers = _numbers_in(entries) if steering.first_decided is not None else {}

    def of(self, planned: PlanStep) -> Take:
        """How a step of the plan is drawn, or which attempt is shown."""
        step = self.steering.revised(planned)
        seed = self.steering.seed_of(step.number)
        first = self.steering.first_decided
        if first is None or step.number < first:
            return Take(step, seed)
        anew, most = step.number in self.steering.anew, self._most_sources(step.number)
        if (number := self.steering.chosen.get(step.number)) is not None:
            stored = self._stored(step.number, number)
            by_hand = step.number not in self.steering.by_run
            return Take(step, seed, chosen=stored, by_hand=by_hand, anew=anew, most_sources=most)
        return Take(step, seed, number=partial(self._number, step), anew=anew, most_sources=most)

    def _most_sources(self, step: int) -> int | None:
        """The pictures that another generator of a step takes."""
        wanted = self.steering.generator_of(step)
        other = None if wanted is None else self.others.get(wanted.identity)
        return None if other is None else other.capabilities.max_sources

    def _number(self, step: PlanStep, turn: int, request: ImageRequest) -> int:
        question = _question(fingerprint_of_drawing(request), step, self.steering)
        taken = [number for (number_of, *_), number in self._numbers.items() if number_of == step.number]
        return self._numbers.setdefault(question, max(taken, default=0) + 1)

    def _stored(self, step: int, number: int) -> Attempt:
        drawn, verdict = self.replay.drawings.get((step, number)), self.replay.verdicts.get((step, number))
        if drawn is None or verdict is None:
            raise RunError(
                f"attempt {number} of step {step} was chosen before it was judged: undo the choice"
            )
        image = remember_digest(self.store.get(drawn.image))
        return Attempt(number, drawn.prompt, drawn.seed, image, verdict)


def _numbers_in(entries: Sequence[Entry]) -> dict[Question, int]:
    """The number of every attempt in a journal, by what was asked for."""
    numbers: dict[Question, int] = {}
    for entry, steering, _ in replayed(entries):
        if isinstance(entry, Drawn):
            step = steering.revised(steering.planned(entry.step))
            numbers[_question(entry.fingerprint, step, steering)] = entry.attempt
    return numbers


def _question(fingerprint: str, step: PlanStep, steering: Steering) -> Question:
    generator = steering.generator_of(step.number)
    return step.number, fingerprint, step.prompt, generator.identity if generator else None

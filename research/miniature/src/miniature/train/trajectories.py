"""Trajectories: stories drawn to their end under a critic's verdicts, to learn from as a whole.

A step is drawn, judged and redrawn with the critic's prompt, as in use, and the next one starts from the
image that was chosen. Plans are true ones. All trajectories of a story draw with the same seeds: the same
prompt for the same image gives the same drawing, which is made once, so that trajectories differ by what
the critic said and by nothing else.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from functools import reduce
from random import Random
from typing import TYPE_CHECKING

from interleave import (
    ImageGenerator,
    ImageRequest,
    Message,
    Outcome,
    ReplyError,
    Sampling,
    Slot,
    Verdict,
    VisionLanguageModel,
)
from interleave.plugin import PromptPack, config, critic_input, critic_messages, read_verdict
from interleave_mini.bench.tasks import Step, Task
from interleave_mini.reader import Reading, shared_batched_reader
from interleave_mini.reader.scores import shows
from interleave_mini.world.drawing import draw

if TYPE_CHECKING:
    from PIL.Image import Image

MAX_TOKENS = 112
"""Verdicts have 8 to 60 tokens; one that does not end makes a whole batch wait."""


@dataclass(frozen=True)
class JudgedAttempt:
    """An attempt at a step: what the critic was asked, what it said, and whether the image is right."""

    number: int
    messages: tuple[Message, ...]
    answer: str
    verdict: Verdict
    image: Image
    right: bool
    doubt: float = 0.0
    """How open a token of the reply was, at most: 1 where another was as likely. The verdict's own confidence
    is no measure: it is read where the reasoning before it has decided already."""

    @property
    def is_false_alarm(self) -> bool:
        """Whether a right image was not accepted, or nothing that can be read was said."""
        if self.verdict.outcome is Outcome.UNREADABLE:
            return True
        return self.right and not self.verdict.accepted


@dataclass
class Trajectory:
    """A story as it was drawn: the attempts at its steps, up to the first whose chosen image is wrong.

    What follows from a wrong image is wrong as well, and its verdicts would be judged by a truth that the
    critic cannot see.
    """

    story: int
    """Trajectories of one story are compared with each other."""
    steps: list[list[JudgedAttempt]] = field(default_factory=list)
    planned: int = 0
    """The number of steps of the story."""

    @property
    def attempts(self) -> list[JudgedAttempt]:
        return [attempt for attempts in self.steps for attempt in attempts]

    @property
    def length(self) -> int:
        return max(self.planned, len(self.steps))

    @property
    def is_right(self) -> bool:
        """Whether every step was drawn and its chosen image is right."""
        return len(self.steps) == self.length and all(chosen(attempts).right for attempts in self.steps)


@dataclass(frozen=True)
class TrajectoryReward:
    """The reward of a trajectory: at most 1, less the cost of its redraws and false alarms."""

    peak: float = 0.4
    """For the share of steps of which any attempt is right,"""
    kept: float = 0.6
    """for the share of steps whose chosen image is right,"""
    redraw: float = 0.05
    """and what each redraw costs, divided by the number of steps."""
    false_alarm: float = 0.25
    """What each refusal of a right image costs besides, and each unreadable reply, divided likewise: in use
    nearly all images are right, in training half of them are not, and a critic would learn to refuse when
    in doubt."""

    def of(self, trajectory: Trajectory) -> float:
        steps = trajectory.steps
        peak = sum(any(each.right for each in attempts) for attempts in steps)
        kept = sum(chosen(attempts).right for attempts in steps)
        redraws = sum(len(attempts) - 1 for attempts in steps)
        alarms = sum(each.is_false_alarm for each in trajectory.attempts)
        gained = self.peak * peak + self.kept * kept - self.redraw * redraws - self.false_alarm * alarms
        return gained / trajectory.length


@dataclass(frozen=True)
class StepReward:
    """The reward of one verdict alone: is it right, and is the image of its prompt?"""

    verdict: float = 0.5
    """For refusing a wrong image,"""
    prompt: float = 0.5
    """and where the image of its prompt is right; both together for accepting a right image."""
    false_alarm: float = 0.5
    """What refusing a right image costs, as an unreadable reply does. Its prompt gains nothing."""

    def of(self, attempts: Sequence[JudgedAttempt], place: int) -> float:
        attempt = attempts[place]
        whole = self.verdict + self.prompt
        if attempt.is_false_alarm:
            return -self.false_alarm
        if attempt.verdict.accepted:
            return whole * attempt.right
        is_last = place + 1 == len(attempts)
        return whole if is_last else self.verdict + self.prompt * attempts[place + 1].right


def chosen(attempts: Sequence[JudgedAttempt]) -> JudgedAttempt:
    """The attempt that counts, as in use."""
    first, *others = attempts
    return reduce(config.best_attempt, others, first)


@dataclass(frozen=True)
class Drawn:
    """An image and what the reader sees in it."""

    image: Image
    reading: Reading


class Drawings:
    """Images that were asked for: the same request is drawn and read once."""

    def __init__(self) -> None:
        self._made: dict[Hashable, asyncio.Future[Drawn]] = {}
        self._sources: list[Image] = []  # their ids are keys: they must live as long

    async def requested(self, generator: ImageGenerator, request: ImageRequest) -> Drawn:
        self._sources += request.sources
        key = (id(generator), request.prompt, request.seed, *map(id, request.sources))
        return await self._once(key, lambda: generator.generate(request))

    async def of_step(self, step: Step) -> Drawn:
        """What a step should show."""

        async def drawn() -> Image:
            return draw(step.scene)

        return await self._once(step.scene, drawn)

    async def _once(self, key: Hashable, make: Callable[[], Awaitable[Image]]) -> Drawn:
        async def made() -> Drawn:
            image = await make()
            [reading] = await shared_batched_reader().read_all([image])
            return Drawn(image, reading)

        if key not in self._made:
            self._made[key] = asyncio.ensure_future(made())
        return await self._made[key]


class Player:
    """Draws stories under the verdicts of a critic, which are sampled, not the likeliest ones."""

    def __init__(
        self,
        critic: VisionLanguageModel,
        generators: Sequence[ImageGenerator],
        pack: PromptPack,
        *,
        max_attempts: int = 3,
        temperature: float = 1.0,
        strays: float = 0.0,
    ) -> None:
        """Each story is drawn by one of the generators; `strays` is the share of first attempts that show
        another step of the story instead."""
        self.critic, self.generators, self.pack = critic, generators, pack
        self.max_attempts, self.temperature, self.strays = max_attempts, temperature, strays

    async def play(
        self, stories: Sequence[Task], samples: int, seed: int, drawings: Drawings
    ) -> list[Trajectory]:
        """Each story so many times, all at once: the models take the calls in batches."""
        return await asyncio.gather(
            *(
                trajectory
                for number, story in enumerate(stories)
                for trajectory in self._trajectories(number, story, samples, _seed(seed, story.id), drawings)
            )
        )

    def _trajectories(
        self, number: int, story: Task, samples: int, seed: int, drawings: Drawings
    ) -> list[Awaitable[Trajectory]]:
        images = (part.image for part in reversed(story.request().parts) if hasattr(part, "image"))
        before = next(images, None)
        generator = self.generators[seed % len(self.generators)]
        hand = _Hand(drawings, generator, story.steps, seed, self.strays)
        return [self._trajectory(number, story, before, hand) for _ in range(samples)]

    async def _trajectory(self, number: int, story: Task, before: Image | None, hand: _Hand) -> Trajectory:
        made = Trajectory(number, planned=len(story.steps))
        for place in range(len(story.steps)):
            made.steps.append(await self._step(place, before, hand))
            latest = chosen(made.steps[-1])
            if not latest.right:
                break
            before = latest.image
        return made

    async def _step(self, place: int, before: Image | None, hand: _Hand) -> list[JudgedAttempt]:
        attempts: list[JudgedAttempt] = []
        step, slot = hand.steps[place], Slot(place + 1)
        prompt, sources = step.prompt, (before,) if before is not None else ()
        sampling = Sampling(temperature=self.temperature, max_tokens=MAX_TOKENS, token_probabilities=True)
        while True:
            number = len(attempts) + 1
            drawn = await hand.draw(place, number, prompt, sources)
            messages = critic_messages(
                critic_input(step.prompt, prompt, sources, drawn.image, slot), self.pack
            )
            reply = await self.critic.complete(messages, sampling)
            try:
                verdict = read_verdict(reply)
            except ReplyError as error:
                verdict = Verdict(outcome=Outcome.UNREADABLE, reasoning=str(error))
            right = shows(drawn.reading, step.scene)
            doubt = max((4 * each.probability * (1 - each.probability) for each in reply.tokens), default=0.0)
            attempts.append(JudgedAttempt(number, messages, reply.text, verdict, drawn.image, right, doubt))
            if verdict.outcome is not Outcome.REJECTED or number == self.max_attempts:
                return attempts
            prompt = verdict.refined_prompt or step.prompt


@dataclass(frozen=True)
class _Hand:
    """Draws the steps of one story, alike for all its trajectories."""

    drawings: Drawings
    generator: ImageGenerator
    steps: Sequence[Step]
    seed: int
    strays: float

    async def draw(self, place: int, number: int, prompt: str, sources: tuple[Image, ...]) -> Drawn:
        rng = Random(_seed(self.seed, place))
        others = [each for each in self.steps if each.scene != self.steps[place].scene]
        if number == 1 and others and rng.random() < self.strays:
            return await self.drawings.of_step(rng.choice(others))
        request = ImageRequest(prompt, _seed(self.seed, place, number), sources, Slot(place + 1))
        return await self.drawings.requested(self.generator, request)


def _seed(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big") >> 1

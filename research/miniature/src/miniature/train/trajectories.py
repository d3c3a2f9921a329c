"""Trajectories: whole stories drawn under a critic's verdicts, as training data.

A step is drawn, judged and redrawn with the critic's prompt, as in use, and the next step starts from the
chosen image. Plans are correct. All trajectories of a story use the same seeds: the same prompt for the same
image gives the same result, which is drawn once. So trajectories differ only by the critic's verdicts.
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
"""Maximum tokens of a verdict: most have 8 to 60, and an endless one would delay its batch."""


@dataclass(frozen=True)
class JudgedAttempt:
    """An attempt at a step: the critic's messages and reply, and whether the image is right."""

    number: int
    messages: tuple[Message, ...]
    answer: str
    verdict: Verdict
    image: Image
    right: bool
    doubt: float = 0.0
    """Highest uncertainty of a token of the reply: 1 if another token was as likely. The confidence of the
    verdict is not usable, as the reasoning before it has already decided."""

    @property
    def is_false_alarm(self) -> bool:
        """Whether a right image was rejected, or the reply was unreadable."""
        if self.verdict.outcome is Outcome.UNREADABLE:
            return True
        return self.right and not self.verdict.accepted


@dataclass
class Trajectory:
    """A drawn story: the attempts at its steps, up to the first whose chosen image is wrong.

    Steps after a wrong image are wrong as well, and their verdicts would be judged by a truth that the
    critic cannot see.
    """

    story: int
    """Number of the story; trajectories of one story are compared with each other."""
    steps: list[list[JudgedAttempt]] = field(default_factory=list)
    planned: int = 0
    """Number of steps of the story."""

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
    """Weight of the share of steps with a right attempt."""
    kept: float = 0.6
    """Weight of the share of steps whose chosen image is right."""
    redraw: float = 0.05
    """Cost of each redraw, divided by the number of steps."""
    false_alarm: float = 0.25
    """Additional cost of each rejected right image and each unreadable reply, divided likewise. In use nearly
    all images are right, but in training half are wrong, and a critic would learn to reject when in doubt."""

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
    """The reward of a single verdict: whether it is right, and whether the image of its prompt is."""

    verdict: float = 0.5
    """Reward for rejecting a wrong image."""
    prompt: float = 0.5
    """Reward if the image of its prompt is right; accepting a right image earns both."""
    false_alarm: float = 0.5
    """Cost of rejecting a right image or of an unreadable reply, whose prompt earns nothing."""

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
    """Return the chosen attempt, as in use."""
    first, *others = attempts
    return reduce(config.best_attempt, others, first)


@dataclass(frozen=True)
class Drawn:
    """An image and its reading."""

    image: Image
    reading: Reading


class ImageCache:
    """Cache of requested images: equal requests are drawn and read once."""

    def __init__(self) -> None:
        self._made: dict[Hashable, asyncio.Future[Drawn]] = {}
        self._sources: list[Image] = []  # their ids are keys, so they must stay alive

    async def requested(self, generator: ImageGenerator, request: ImageRequest) -> Drawn:
        self._sources += request.sources
        key = (id(generator), request.prompt, request.seed, *map(id, request.sources))
        return await self._once(key, lambda: generator.generate(request))

    async def of_step(self, step: Step) -> Drawn:
        """Return the true image of a step."""

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
    """Draws stories under sampled verdicts of a critic."""

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
        """Create a player. Each story uses one of `generators`; `strays` is the share of first attempts that
        show another step of the story."""
        self.critic, self.generators, self.pack = critic, generators, pack
        self.max_attempts, self.temperature, self.strays = max_attempts, temperature, strays

    async def play(
        self, stories: Sequence[Task], samples: int, seed: int, cache: ImageCache
    ) -> list[Trajectory]:
        """Draw each story `samples` times, all concurrently, so that the models can batch the calls."""
        return await asyncio.gather(
            *(
                trajectory
                for number, story in enumerate(stories)
                for trajectory in self._trajectories(number, story, samples, _seed(seed, story.id), cache)
            )
        )

    def _trajectories(
        self, number: int, story: Task, samples: int, seed: int, cache: ImageCache
    ) -> list[Awaitable[Trajectory]]:
        images = (part.image for part in reversed(story.request().parts) if hasattr(part, "image"))
        before = next(images, None)
        generator = self.generators[seed % len(self.generators)]
        hand = _Hand(cache, generator, story.steps, seed, self.strays)
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
    """Draws the steps of one story, identically for all its trajectories."""

    cache: ImageCache
    generator: ImageGenerator
    steps: Sequence[Step]
    seed: int
    strays: float

    async def draw(self, place: int, number: int, prompt: str, sources: tuple[Image, ...]) -> Drawn:
        rng = Random(_seed(self.seed, place))
        others = [each for each in self.steps if each.scene != self.steps[place].scene]
        if number == 1 and others and rng.random() < self.strays:
            return await self.cache.of_step(rng.choice(others))
        request = ImageRequest(prompt, _seed(self.seed, place, number), sources, Slot(place + 1))
        return await self.cache.requested(self.generator, request)


def _seed(*parts: object) -> int:
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:4], "big") >> 1

"""Training examples of the generator: a prompt, its source images, and the target image.

They are sampled on the fly from a seed, without held-out pairs of kind and colour.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from random import Random

from interleave_mini.bench.random_scenes import MAX_THINGS, random_operations, random_scene
from interleave_mini.bench.splits import has_held_out_pair
from interleave_mini.bench.tasks import Step
from interleave_mini.bench.wider_scenes import wider_operations, wider_scene
from interleave_mini.language.prompts import edit_prompt, scene_prompt
from interleave_mini.world.operations import (
    Operation,
    apply_all,
)
from interleave_mini.world.scene import Scene
from miniature.grammar.tasks import sample_training_task
from miniature.train.composed_requests import planned_steps

FROM_NOTHING = 0.35
FROM_TASKS, FROM_WORKED, FROM_WIDER_WORLD = 0.15, 0.35, 0.4
"""Shares of steps of the grammar's requests, of worked examples and composed requests, and of random scenes
of the whole world; the others are random, and of the world that the grammar's requests are about."""
TASKS = ("story", "story", "story", "edit", "plain")
"""Suites whose steps are examples; one named three times is three times as frequent."""
IN_SHORT, IN_OTHER_WORDS = 0.45, 0.35
"""Shares of prompts in the planner's words and in varied words; the others are exact, the easiest."""
WITH_EARLIER = 0.12
"""Share of edits with an earlier image as a second source, as with `--sources history`."""
MAX_WORDS = 76
"""Words and marks of a prompt. Nearly each is one of the 80 tokens that the generator reads."""

SceneMaker = Callable[[Random], Scene]
OperationMaker = Callable[[Scene, Random], tuple[Operation, ...] | None]


@dataclass(frozen=True)
class Example:
    """One training example. `before` is `None` for an image drawn from text alone."""

    prompt: str
    before: Scene | None
    after: Scene
    earlier: Scene | None = None
    """The scene before `before`, if it is a source too."""

    @property
    def sources(self) -> tuple[Scene, ...]:
        """Source images, oldest first."""
        return tuple(scene for scene in (self.earlier, self.before) if scene is not None)


def sample_example(rng: Random) -> Example:
    """Return a random example."""
    while True:
        chance = rng.random()
        if chance < FROM_TASKS:
            task = sample_training_task(rng.choice(TASKS), rng)
            made: Example | None = _from_steps(task.steps, rng)
        elif chance < FROM_TASKS + FROM_WORKED:
            made = _from_steps(planned_steps(rng), rng)
        elif chance < FROM_TASKS + FROM_WORKED + FROM_WIDER_WORLD:
            made = _at_random(rng, wider_scene, wider_operations)
        else:
            made = _at_random(rng, random_scene, random_operations)
        if made is not None and _is_read_whole(made.prompt) and not has_held_out_pair(made.after):
            return made


def _is_read_whole(prompt: str) -> bool:
    return len(re.findall(r"[\w'’-]+|[^\w\s]", prompt)) <= MAX_WORDS


def _at_random(rng: Random, scene_of: SceneMaker, operations_in: OperationMaker) -> Example | None:
    scene = scene_of(rng)
    if rng.random() < FROM_NOTHING:
        return Example(_describe(scene, rng), None, scene)
    operations = operations_in(scene, rng)
    if operations is None:
        return None
    earlier = None
    if rng.random() < WITH_EARLIER:
        earlier = apply_all(operations_in(scene, rng) or (), scene)
    return Example(_ask(operations, scene, rng), scene, apply_all(operations, scene), earlier)


def _from_steps(steps: Sequence[Step], rng: Random) -> Example:
    """Return a step of a plan, as the planner or the critic would prompt it."""
    number = rng.randrange(len(steps))
    step = steps[number]
    if step.before is None:
        return Example(_describe(step.scene, rng), None, step.scene)
    has_earlier = number >= 2 and rng.random() < WITH_EARLIER
    earlier = steps[number - 2].scene if has_earlier else None
    return Example(_ask(step.operations, step.before, rng), step.before, step.scene, earlier)


def _describe(scene: Scene, rng: Random) -> str:
    return _in_some_way(scene, rng, lambda **style: scene_prompt(scene, **style))


def _ask(operations: tuple[Operation, ...], scene: Scene, rng: Random) -> str:
    return _in_some_way(scene, rng, lambda **style: edit_prompt(operations, scene, **style))


def _in_some_way(scene: Scene, rng: Random, say: Callable[..., str]) -> str:
    """Word a prompt as the planner does, in varied words, or exactly if it is short enough."""
    chance = rng.random()
    if chance < IN_SHORT or len(scene.everything) > MAX_THINGS:
        return say()
    return say(rng=rng) if chance < IN_SHORT + IN_OTHER_WORDS else say(exact=True)

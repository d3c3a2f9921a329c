"""Training examples of the generator: a prompt, its source images if any, and the image to draw.

They are sampled on the fly from a seed, without held-out pairs of kind and colour.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from interleave_mini.bench.random_scenes import MAX_THINGS, random_operations, random_scene
from interleave_mini.bench.splits import has_held_out_pair
from interleave_mini.language.prompts import edit_prompt, scene_prompt
from interleave_mini.world.operations import (
    Operation,
    apply_all,
)
from interleave_mini.world.scene import Scene
from miniature.grammar.tasks import sample_training_task

FROM_NOTHING = 0.35
FROM_TASKS = 0.45
TASKS = ("story", "story", "story", "edit", "plain")
"""The suites whose steps are examples; one that is named thrice comes three times as often."""
IN_SHORT, IN_OTHER_WORDS = 0.45, 0.35
"""The shares of prompts in the planner's words and in varied ones; the others are exact, which is easiest."""
WITH_EARLIER = 0.12
"""The share of edits with the image before the last as a second source, as with `--sources history`."""


@dataclass(frozen=True)
class Example:
    """One training example. `before` is None for an image drawn from text alone."""

    prompt: str
    before: Scene | None
    after: Scene
    earlier: Scene | None = None
    """The scene before `before`, where it is a source too."""

    @property
    def sources(self) -> tuple[Scene, ...]:
        """The images it starts from, oldest first."""
        return tuple(scene for scene in (self.earlier, self.before) if scene is not None)


def sample_example(rng: Random) -> Example:
    """A random example."""
    while True:
        made = _from_task(rng) if rng.random() < FROM_TASKS else _at_random(rng)
        if made is not None and not has_held_out_pair(made.after):
            return made


def _at_random(rng: Random) -> Example | None:
    scene = random_scene(rng)
    if rng.random() < FROM_NOTHING:
        return Example(_describe(scene, rng), None, scene)
    operations = random_operations(scene, rng)
    if operations is None:
        return None
    return Example(_ask(operations, scene, rng), scene, apply_all(operations, scene), _earlier(scene, rng))


def _from_task(rng: Random) -> Example:
    """A step of a request of the training split, as the planner or the critic would ask for it."""
    task = sample_training_task(rng.choice(TASKS), rng)
    number = rng.randrange(len(task.steps))
    step = task.steps[number]
    if step.before is None:
        return Example(_describe(step.scene, rng), None, step.scene)
    has_earlier = number >= 2 and rng.random() < WITH_EARLIER
    earlier = task.steps[number - 2].scene if has_earlier else None
    return Example(_ask(step.operations, step.before, rng), step.before, step.scene, earlier)


def _earlier(scene: Scene, rng: Random) -> Scene | None:
    """An earlier scene as a second source; None for most edits."""
    if rng.random() >= WITH_EARLIER:
        return None
    return apply_all(random_operations(scene, rng) or (), scene)


def _describe(scene: Scene, rng: Random) -> str:
    return _in_some_way(scene, rng, lambda **style: scene_prompt(scene, **style))


def _ask(operations: tuple[Operation, ...], scene: Scene, rng: Random) -> str:
    return _in_some_way(scene, rng, lambda **style: edit_prompt(operations, scene, **style))


def _in_some_way(scene: Scene, rng: Random, say: Callable[..., str]) -> str:
    """In the planner's words, in varied words, or exactly: of many things that would be cut off."""
    chance = rng.random()
    if chance < IN_SHORT or len(scene.things) > MAX_THINGS:
        return say()
    return say(rng=rng) if chance < IN_SHORT + IN_OTHER_WORDS else say(exact=True)

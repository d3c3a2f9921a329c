"""Training examples of the generator: a prompt, its source pictures if any, and the picture to draw.

They are sampled on the fly from a seed, without held-out pairs of kind and colour.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from random import Random

from interleave_mini.language.prompts import edit_prompt, scene_prompt
from interleave_mini.language.splits import HELD_OUT_PAIRS, has_held_out_pair
from interleave_mini.language.tasks import sample_training_task
from interleave_mini.world.kinds import BACKGROUNDS, COLOURS, KINDS, NOUNS
from interleave_mini.world.operations import (
    Add,
    ChangeBackground,
    ChangeState,
    Impossible,
    Move,
    Operation,
    Pick,
    Place,
    Recolour,
    Remove,
    Replace,
    Resize,
    Swap,
    apply_all,
)
from interleave_mini.world.scene import CELLS, GRID, Gripper, Scene, Size, Thing

MAX_THINGS = 6
"""Of scenes in exact prompts and in the evaluation."""
COUNTS = (2, 10, 12, 10, 8, 6, 4, 2, 1, 1)
"""How often a random scene has nothing in it, one thing, two, up to nine."""
FROM_NOTHING = 0.35
FROM_TASKS = 0.45
TASKS = ("story", "story", "story", "edit", "plain")
"""The suites whose steps are examples; one that is named thrice comes three times as often."""
IN_SHORT, IN_OTHER_WORDS = 0.45, 0.35
"""The shares of prompts in the planner's words and in varied ones; the others are exact, which is easiest."""
WITH_EARLIER = 0.12
"""The share of edits with the picture before the last as a second source, as with `--sources history`."""
_NOUNS = tuple(NOUNS)
_COLOURS = tuple(COLOURS)
_PAIRS = tuple(
    (noun, colour) for noun in _NOUNS for colour in _COLOURS if (NOUNS[noun][0], colour) not in HELD_OUT_PAIRS
)


@dataclass(frozen=True)
class Example:
    """One training example. `before` is None for a picture drawn from text alone."""

    prompt: str
    before: Scene | None
    after: Scene
    earlier: Scene | None = None
    """The scene before `before`, where it is a source too."""

    @property
    def sources(self) -> tuple[Scene, ...]:
        """The pictures it starts from, oldest first."""
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


def random_scene(rng: Random, things: int | None = None) -> Scene:
    """Some things on a background, a few of them alike; now and then a gripper with blocks."""
    background = rng.choice(BACKGROUNDS)
    if things is None and rng.random() < 0.08:
        return _bench(background if rng.random() < 0.3 else "workbench", rng)
    count = things if things is not None else rng.choices(range(CELLS + 1), COUNTS)[0]
    cells = rng.sample(range(CELLS), count)
    chosen: dict[int, Thing] = {}
    for cell in cells:
        alike = chosen and rng.random() < 0.12
        chosen[cell] = rng.choice(list(chosen.values())) if alike else random_thing(rng)
    return Scene.of(background, chosen)


def random_thing(rng: Random) -> Thing:
    """Any noun in any colour that training may see; mostly large, as in stories."""
    noun, colour = rng.choice(_PAIRS)
    kind, state = NOUNS[noun]
    return Thing(kind, colour, Size.SMALL if rng.random() < 0.35 else Size.LARGE, state)


def _bench(background: str, rng: Random) -> Scene:
    cells = rng.sample(range(GRID, CELLS), rng.randint(1, 4))
    blocks = {cell: Thing("block", rng.choice(_COLOURS), Size.SMALL) for cell in cells}
    return Scene.of(background, blocks, Gripper(rng.randrange(GRID), rng.choice((None, *_COLOURS))))


def random_operations(scene: Scene, rng: Random) -> tuple[Operation, ...] | None:
    """One possible operation in this scene (sometimes two); None when no try is possible."""
    made: list[Operation] = []
    for _ in range(2 if rng.random() < 0.08 else 1):
        operation = _random_operation(apply_all(made, scene), rng)
        if operation is None:
            break
        made.append(operation)
    return tuple(made) or None


def _random_operation(scene: Scene, rng: Random) -> Operation | None:
    makers = _HANDLING if scene.gripper is not None and rng.random() < 0.7 else _MAKERS
    for _ in range(8):
        maker = rng.choice(makers)
        with suppress(Impossible, IndexError):
            operation = maker(scene, rng)
            if not has_held_out_pair(operation.apply(scene)):
                return operation
    return None


def _cell(scene: Scene, rng: Random) -> int:
    return rng.choice(list(scene.things))


def _free(scene: Scene, rng: Random) -> int:
    return rng.choice([cell for cell in range(CELLS) if scene.is_free(cell)])


def _another_state(scene: Scene, rng: Random) -> Operation:
    changing = [cell for cell, thing in scene.things.items() if len(KINDS[thing.kind].states) > 1]
    cell = rng.choice(changing)
    thing = scene.things[cell]
    return ChangeState(cell, rng.randrange(len(KINDS[thing.kind].states)))


def _other(scene: Scene, rng: Random) -> Operation:
    cell = _cell(scene, rng)
    new = random_thing(rng)
    return Replace(cell, replace(new, size=scene.things[cell].size))


_MAKERS: tuple[Callable[[Scene, Random], Operation], ...] = (
    lambda scene, rng: Add(random_thing(rng), _free(scene, rng)),
    lambda scene, rng: Add(random_thing(rng), _free(scene, rng)),
    lambda scene, rng: Remove(_cell(scene, rng)),
    lambda scene, rng: Recolour(_cell(scene, rng), rng.choice(_COLOURS)),
    lambda scene, rng: Resize(_cell(scene, rng), rng.choice(list(Size))),
    lambda scene, rng: Move(_cell(scene, rng), _free(scene, rng)),
    lambda scene, rng: Move(_cell(scene, rng), _free(scene, rng)),
    *([lambda scene, rng: Swap(_cell(scene, rng), _cell(scene, rng))] * 3),  # the hardest
    _another_state,
    _another_state,
    _other,
    lambda scene, rng: ChangeBackground(rng.choice(BACKGROUNDS)),
)
_HANDLING: tuple[Callable[[Scene, Random], Operation], ...] = (
    lambda scene, rng: Pick(_cell(scene, rng)),
    lambda scene, rng: Place(_free(scene, rng)),
)

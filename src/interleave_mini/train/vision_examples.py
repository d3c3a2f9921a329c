"""What an agent learns to see from, before it has any job: pictures of the world, and words about them.

Five exercises, made on the fly from a seed: to say what a picture shows, what has changed between two,
whether a picture shows what is said, whether one picture has become another as asked, and to say a wish about
a picture as exactly as can be. Kinds in colours that are held out never appear.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from interleave.errors import ConfigurationError, InputError, did_you_mean
from interleave_mini.language.prompts import scene_prompt
from interleave_mini.language.references import Style
from interleave_mini.language.sentences import say_all
from interleave_mini.language.splits import has_held_out_pair
from interleave_mini.language.tasks import sample_task
from interleave_mini.oracle import ACCEPTED, describe_faults, refine_prompt
from interleave_mini.train.examples import Example, random_operations, random_scene, sample_example
from interleave_mini.world.mistakes import with_mistake
from interleave_mini.world.operations import apply_all, changes
from interleave_mini.world.scene import Scene

EXERCISES = ("look", "compare", "check", "judge", "word")
FROM_STORIES = 0.35
UNCHANGED = 0.12
RIGHT = 0.4
FROM_PLANS = 0.7
"""The share of edits that are steps of plans, in scenes with distractors and look-alikes."""
DRAWN_AGAIN = 0.4
"""The share of judgements about pictures that were drawn from a refined prompt."""


@dataclass(frozen=True)
class Exercise:
    """A question with one or two pictures, and its answer.

    Words come first, as in the critic's prompt: whoever knows the wish can look for it in the picture.
    """

    name: str
    question: tuple[Scene | str, ...]
    answer: str

    @property
    def pictures(self) -> tuple[Scene, ...]:
        return tuple(part for part in self.question if isinstance(part, Scene))


def exercises_named(names: Iterable[str]) -> tuple[str, ...]:
    """The names as given; raises `ConfigurationError` for an unknown exercise."""
    chosen = tuple(name.strip() for name in names)
    for name in chosen:
        if name not in EXERCISES:
            raise ConfigurationError(f"no exercise named {name!r}. {did_you_mean(name, EXERCISES)}")
    return chosen


def sample_exercise(rng: Random, names: Sequence[str] = EXERCISES) -> Exercise:
    """A random exercise of one of these kinds; a kind that is named twice comes twice as often."""
    name = rng.choice(names)
    while True:
        made = _MAKERS[name](rng)
        if made is not None and not any(map(has_held_out_pair, made.pictures)):
            return made


def _look(rng: Random) -> Exercise:
    scene = _scene(rng)
    return Exercise("look", ("Look:", scene), scene_prompt(scene, exact=True))


def _compare(rng: Random) -> Exercise | None:
    before = _scene(rng)
    if rng.random() < UNCHANGED:
        return Exercise("compare", ("Compare:", before, before), "Nothing has changed.")
    after = _changed_scene(before, rng)
    try:
        said = say_all(changes(before, after), before, Style(exact=True))
    except InputError:  # the language has no words for this change
        return None
    return Exercise("compare", ("Compare:", before, after), said) if said else None


def _check(rng: Random) -> Exercise:
    wanted = _scene(rng)
    shown = wanted if rng.random() < RIGHT else _changed_scene(wanted, rng)
    said = scene_prompt(wanted, exact=rng.random() < 0.5)
    return Exercise("check", (f"Check: {said}", shown), _verdict_text(shown, wanted))


def _judge(rng: Random) -> Exercise | None:
    """A critic's own question: a picture, what was asked for, and what became of it."""
    edit = _sample_edit(rng)
    if edit.before is None:
        return None
    shown = edit.after if rng.random() < RIGHT else _changed_scene(edit.after, rng, edit.before)
    drawn = refine_prompt(edit.after, edit.before) if rng.random() < DRAWN_AGAIN else edit.prompt
    asked = f"Judge: {edit.prompt} Drawn: {drawn}"
    return Exercise("judge", (asked, edit.before, shown), _verdict_text(shown, edit.after))


def _word(rng: Random) -> Exercise | None:
    """What a critic writes after a failure: the same edit in exact words."""
    edit = _sample_edit(rng)
    if edit.before is None:
        return None
    return Exercise("word", (f"Word: {edit.prompt}", edit.before), refine_prompt(edit.after, edit.before))


def _sample_edit(rng: Random) -> Example:
    """Something to be done to a picture: a step of a plan that training may see, or anything."""
    while rng.random() < FROM_PLANS:
        task = sample_task(rng.choice(("story", "edit")), rng)
        if task.split == "train":
            step = rng.choice(task.steps)
            return Example(step.prompt, step.before, step.scene)
    return sample_example(rng)


def _verdict_text(shown: Scene, wanted: Scene) -> str:
    return ACCEPTED if shown == wanted else describe_faults(shown, wanted)


def _scene(rng: Random) -> Scene:
    """Anything, or a moment of a story that training may see."""
    while rng.random() < FROM_STORIES:
        task = sample_task("story", rng)
        if task.split == "train":
            return rng.choice(task.steps).scene
    return random_scene(rng)


def _changed_scene(scene: Scene, rng: Random, before: Scene | None = None) -> Scene:
    """A scene that differs in something: by a mistake, or by something that has happened."""
    if rng.random() < (0.5 if before is None else 0.8):
        return with_mistake(scene, rng, before)
    operations = random_operations(scene, rng)
    return apply_all(operations, scene) if operations else with_mistake(scene, rng, before)


_MAKERS: Mapping[str, Callable[[Random], Exercise | None]] = {
    "look": _look,
    "compare": _compare,
    "check": _check,
    "judge": _judge,
    "word": _word,
}

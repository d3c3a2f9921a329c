"""The exercises of pretraining: questions about the world and its pictures, with their answers.

look: describe a picture. compare: say what changed between two. check: does a picture show a description?
verdict: a critic's whole reply about a step, with a better prompt where the picture is wrong. audit: the same
about a finished picture of a document and all that it should show. plan-SUITE:
plan a request of that suite. again: plan it again, told what the first plan has left out. They are sampled on
the fly from a seed, of the training split alone: without held-out pairs of kind and colour, voices and
wordings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from random import Random

from interleave.agents.replies import render_plan, render_verdict
from interleave.errors import ConfigurationError, InputError, did_you_mean
from interleave.types import Outcome, Verdict
from interleave_mini.language.prompts import scene_prompt
from interleave_mini.language.references import Style
from interleave_mini.language.sentences import say_all
from interleave_mini.language.splits import has_held_out_pair
from interleave_mini.language.tasks import SUITES, Task, sample_training_task
from interleave_mini.oracle import ACCEPTED, describe_faults, refine_prompt
from interleave_mini.plan_check import leaves_out
from interleave_mini.train.examples import Example, random_operations, random_scene, sample_example
from interleave_mini.train.new_words import with_new_words
from interleave_mini.train.typos import with_other_words, with_typo
from interleave_mini.world.kinds import COLOURS, NOUNS
from interleave_mini.world.mistakes import with_mistake
from interleave_mini.world.operations import apply_all, changes
from interleave_mini.world.scene import Scene

SEEING = ("look", "compare", "check", "verdict", "audit")
PLANNING = (*(f"plan-{suite}" for suite in SUITES), "again")
EXERCISES = (*SEEING, *PLANNING)
FROM_STORIES = 0.35
MISTYPED, OTHER_WORDS = 0.04, 0.25
NEW_WORDS = 0.15
UNCHANGED = 0.12
RIGHT = 0.4
FROM_PLANS = 0.7
"""The share of edits that are steps of plans, in scenes with distractors and look-alikes."""
DRAWN_AGAIN = 0.4
"""The share of verdicts on pictures that were drawn from a refined prompt."""
ACCEPTED_SHARE = 0.6
"""The share of right pictures among those of verdicts."""
OF_ANOTHER_STEP = 0.3
"""The share of wrong pictures that are right for another step of the same plan."""
JUDGED_SUITES = ("story", "story", "story", "edit", "plain", "know")


@dataclass(frozen=True)
class Shown:
    """A picture by its place among pictures that the generator has drawn (`drawings.py`)."""

    place: int


@dataclass(frozen=True)
class Exercise:
    """A question with one or two pictures, and its answer.

    The text comes first, as in the critic's prompt, so that the vision tokens can attend to it. None is the
    white canvas that a critic is shown where there is no picture before.
    """

    name: str
    question: tuple[Scene | Shown | str | None, ...]
    answer: str
    first_answer: str = ""
    complaint: str = ""
    """A first answer, and what was said about it."""

    @property
    def pictures(self) -> tuple[Scene | Shown | None, ...]:
        return tuple(part for part in self.question if not isinstance(part, str))

    @property
    def scenes(self) -> tuple[Scene, ...]:
        return tuple(part for part in self.question if isinstance(part, Scene))


def exercises_named(names: Iterable[str]) -> tuple[str, ...]:
    """The names as given; raises `ConfigurationError` for an unknown exercise."""
    chosen = tuple(name.strip() for name in names)
    for name in chosen:
        if name not in EXERCISES:
            raise ConfigurationError(f"no exercise named {name!r}. {did_you_mean(name, EXERCISES)}")
    return chosen


def sample_exercise(rng: Random, names: Sequence[str] = EXERCISES) -> Exercise:
    """A random exercise of one of these kinds; a kind named twice is twice as likely."""
    name = rng.choice(names)
    while True:
        made = _MAKERS[name](rng)
        if made is not None and not any(map(has_held_out_pair, made.scenes)):
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


def _verdict(rng: Random) -> Exercise:
    """The critic's whole reply, about a step of a plan or an edit at random."""
    step, others = sample_step(rng)
    shown = step.after
    if rng.random() >= ACCEPTED_SHARE:
        of_others = [scene for scene in others if scene != step.after]
        is_other = of_others and rng.random() < OF_ANOTHER_STEP
        shown = rng.choice(of_others) if is_other else _changed_scene(step.after, rng, step.before)
    drawn = refine_prompt(step.after, step.before) if rng.random() < DRAWN_AGAIN else step.prompt
    answer = verdict_on(_verdict_text(shown, step.after), step)
    return Exercise("verdict", (verdict_question(step.prompt, drawn), step.before, shown), answer)


def _audit(rng: Random) -> Exercise:
    """A finished picture, judged by the description of the whole and not by the change that was asked for.

    Shown wrong, it is as an earlier mistake has left it, or as another step of the document should be.
    """
    step, others = sample_step(rng)
    shown = step.after
    if rng.random() >= ACCEPTED_SHARE:
        of_others = [scene for scene in others if scene != step.after]
        is_other = of_others and rng.random() < OF_ANOTHER_STEP
        shown = rng.choice(of_others) if is_other else _changed_scene(step.after, rng, step.before)
    whole = Example(scene_prompt(step.after, exact=True), None, step.after)
    answer = verdict_on(_verdict_text(shown, step.after), whole)
    return Exercise("audit", (verdict_question(whole.prompt, whole.prompt), None, shown), answer)


def sample_step(rng: Random) -> tuple[Example, tuple[Scene, ...]]:
    """A step of a plan of the training split with the scenes of the others, or a random example."""
    if rng.random() >= FROM_PLANS:
        example = sample_example(rng)
        return Example(example.prompt, example.before, example.after), ()
    task = sample_training_task(rng.choice(JUDGED_SUITES), rng)
    step = rng.choice(task.steps)
    before = task.steps[0].before
    scenes = (*((before,) if before else ()), *(each.scene for each in task.steps))
    return Example(step.prompt, step.before, step.scene), scenes


def verdict_question(planned: str, drawn: str) -> str:
    """The text of the critic's prompt in the pack `mini`."""
    return f"Judge: {planned} Drawn: {drawn}"


def verdict_on(reasoning: str, step: Example) -> str:
    """A critic's reply: accepted, or refused with an exact prompt."""
    if reasoning == ACCEPTED:
        return render_verdict(Verdict(outcome=Outcome.ACCEPTED, reasoning=reasoning))
    refined = refine_prompt(step.after, step.before)
    return render_verdict(Verdict(outcome=Outcome.REJECTED, reasoning=reasoning, refined_prompt=refined))


def _verdict_text(shown: Scene, wanted: Scene) -> str:
    return ACCEPTED if shown == wanted else describe_faults(shown, wanted)


def _planning(suite: str) -> Callable[[Random], Exercise]:
    def sample(rng: Random) -> Exercise:
        task = sample_training_task(suite, rng)
        answer = render_plan(task.plan())
        if task.parts == (task.text,) and rng.random() < NEW_WORDS:
            scenes = [step.scene for step in task.steps]
            text, answer = with_new_words(task.text, answer, scenes, rng)
            return Exercise(f"plan-{suite}", ("Plan: ", text), answer)
        return Exercise(f"plan-{suite}", _as_asked(task, rng), answer)

    return sample


def _again(rng: Random) -> Exercise | None:
    """A plan in which one kind or colour is another, the complaint about it, and the true plan."""
    task = sample_training_task("story", rng)
    answer = render_plan(task.plan())
    said = [word for word in (*COLOURS, *NOUNS) if re.search(rf"\b{word}\b", task.text, re.IGNORECASE)]
    said = [word for word in said if re.search(rf"\b{word}\b", answer)]
    if not said:
        return None
    left_out = rng.choice(said)
    other = rng.choice([word for word in (COLOURS if left_out in COLOURS else NOUNS) if word != left_out])
    wrong = re.sub(rf"\b{left_out}\b", other, answer)
    return Exercise("again", _as_asked(task, rng), answer, wrong, leaves_out([left_out]))


def _as_asked(task: Task, rng: Random) -> tuple[Scene | str, ...]:
    """The request as the planner's prompt has it; now and then a word is mistyped, left out or too many."""
    chance = rng.random()
    if chance >= MISTYPED + OTHER_WORDS:
        return ("Plan: ", *task.parts)
    change = with_typo if chance < MISTYPED else with_other_words
    texts = [at for at, part in enumerate(task.parts) if isinstance(part, str)]
    at = rng.choice((texts[0], texts[-1]))  # between them are captions
    return ("Plan: ", *task.parts[:at], change(str(task.parts[at]), rng), *task.parts[at + 1 :])


def _scene(rng: Random) -> Scene:
    """A random scene, or one of a story of the training split."""
    if rng.random() < FROM_STORIES:
        return rng.choice(sample_training_task("story", rng).steps).scene
    return random_scene(rng)


def _changed_scene(scene: Scene, rng: Random, before: Scene | None = None) -> Scene:
    """A scene that differs from this one: by a mistake, or by an operation."""
    if rng.random() < (0.5 if before is None else 0.8):
        return with_mistake(scene, rng, before)
    operations = random_operations(scene, rng)
    return apply_all(operations, scene) if operations else with_mistake(scene, rng, before)


_MAKERS: Mapping[str, Callable[[Random], Exercise | None]] = {
    "look": _look,
    "compare": _compare,
    "check": _check,
    "verdict": _verdict,
    "audit": _audit,
    **{f"plan-{suite}": _planning(suite) for suite in SUITES},
    "again": _again,
}

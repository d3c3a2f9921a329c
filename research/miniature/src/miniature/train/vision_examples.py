"""The exercises of pretraining: questions about the world and its images, with their answers.

look: describe an image. compare: say what changed between two. check: does an image match a description?
verdict: a critic's whole reply about a step, with a better prompt if the image is wrong. audit: the same
about a finished image and everything that it should show. plan-SUITE: plan a request of that suite.
plan-worked: plan one of the hand-written examples. plan-frames: plan a request composed from a verb and
things that fit it. again: plan again, given what the first plan lacks.
plan-robot: the sub-tasks to a goal of the gripper. done: has a sub-task been carried out, and if not, what is
left to do? segment: describe the changes between consecutive shots of an episode. Exercises are sampled on
the fly from a seed, from the training split only: without held-out pairs of kind and colour, voices and
wordings.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random

from interleave import ConfigurationError, InputError, Outcome, Verdict
from interleave.plugin import agents, did_you_mean
from interleave_mini.bench.random_scenes import random_scene
from interleave_mini.bench.splits import has_held_out_pair
from interleave_mini.bench.tasks import ROBOT, SUITES, Step, Task
from interleave_mini.bench.wider_scenes import wider_operations, wider_scene
from interleave_mini.language.prompts import scene_prompt
from interleave_mini.language.references import Style
from interleave_mini.language.sentences import say_all
from interleave_mini.language.words import NUMBERS
from interleave_mini.oracle import refine_prompt
from interleave_mini.plan_audit import plan_question
from interleave_mini.plan_check import COUNTED, KIND_OF, has_unwanted, leaves_out
from interleave_mini.reader.scores import ACCEPTED, describe_faults
from interleave_mini.robots.episodes import Episode, described_shots, reached_at, record, what_is_seen
from interleave_mini.robots.gripper import badly_done, correction, same_state
from interleave_mini.robots.oracle import MOVING, what_is_wrong
from interleave_mini.world.kinds import COLOURS, NOUNS
from interleave_mini.world.mistakes import with_mistake
from interleave_mini.world.motion import Frame, Shot, movement
from interleave_mini.world.operations import apply_all, changes
from interleave_mini.world.scene import GRID, Gripper, Scene
from miniature.grammar.negations import with_negation
from miniature.grammar.tasks import DESCRIBE, sample_training_task
from miniature.train.composed_requests import planned_steps, sample_composed_request
from miniature.train.examples import Example, sample_example
from miniature.train.made_plans import sample_made_plan
from miniature.train.new_words import has_word, with_new_words
from miniature.train.retold_examples import sample_worked_example
from miniature.train.typos import with_other_words, with_typo
from miniature.train.wider_requests import sample_wider_request
from miniature.train.wrong_plans import wrong_plan

SEEING = ("look", "compare", "check", "verdict", "audit", "done")
PLANNING = (
    *(f"plan-{suite}" for suite in (*SUITES, ROBOT)),
    "plan-worked",
    "plan-wider",
    "plan-frames",
    "again",
    "segment",
)
EXERCISES = (*SEEING, *PLANNING, "audit-plan")
FROM_STORIES = 0.35
MISTYPED, OTHER_WORDS, NEGATED = 0.05, 0.25, 0.06
NEW_WORDS = 0.05
IMAGES = 0.2
"""Additional share of stories from the domains that new users start with."""
FIRST_ASKED = ("pictures", "arranging and counting")
UNCHANGED = 0.12
RIGHT = 0.4
FROM_WORKED, FROM_PLANS = 0.45, 0.25
"""Shares of edits that are steps of worked examples, and of other plans, in scenes with distractors and
look-alikes."""
WORKED_SCENES, WIDER_SCENES = 0.35, 0.35
"""Shares of single scenes that are those of worked examples, and random ones of the whole world."""
PLAIN_WISHES = 0.7
"""Share of plain requests in the exercise plan-wider; the others are worked examples."""
WRONG_PLANS = 0.4
MADE_PLANS = 0.35
"""Share of judged plans that a planner made."""
JUDGED_WORKED, JUDGED_COMPOSED, JUDGED_STORIES = 0.3, 0.4, 0.15
"""Shares of judged plans that are those of worked examples, of composed requests and of stories; the others
are of plain ones."""
DRAWN_AGAIN = 0.4
"""Share of verdicts on images drawn from a refined prompt."""
ACCEPTED_SHARE = 0.6
"""Share of right images in verdicts."""
OF_ANOTHER_STEP = 0.45
"""Share of wrong images that are right for another step of the same plan."""
MOVING_SHARE = 0.25
"""Share of unfinished sub-tasks with the gripper still moving."""
ELSEWHERE_SHARE = 0.2
"""Share of finished sub-tasks with the gripper above an unexpected column."""
OWN_WORDS_SHARE = 0.4
"""Share of instructions in varied words."""
SHEET = (3, 8)
"""Minimum and maximum shots of an episode per exercise."""
CLOSE_SHARE = 0.5
"""Share of sheets with shots close together, around a change."""
JUDGED_SUITES = ("story", "story", "story", "edit", "plain", "know")


@dataclass(frozen=True)
class Shown:
    """An image by its index among images drawn by the generator (`drawn_images.py`)."""

    place: int


@dataclass(frozen=True)
class Exercise:
    """A question with one or two images, and its answer.

    The text comes first, as in the critic's prompt, so that the vision tokens can attend to it. `None` is
    the white canvas that a critic sees if there is no previous image.
    """

    name: str
    question: tuple[Shot | Shown | str | None, ...]
    answer: str
    first_answer: str = ""
    complaint: str = ""
    """A first answer, and the complaint about it."""

    @property
    def images(self) -> tuple[Shot | Shown | None, ...]:
        return tuple(part for part in self.question if not isinstance(part, str))

    @property
    def scenes(self) -> tuple[Scene, ...]:
        shots = (part.scene if isinstance(part, Frame) else part for part in self.question)
        return tuple(part for part in shots if isinstance(part, Scene))


def exercises_named(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names, “look×2” as two of them; raise `ConfigurationError` for an unknown exercise."""
    chosen: tuple[str, ...] = ()
    for each in names:
        name, _, times = each.strip().partition("×")
        chosen += (name,) * (int(times) if times.isdecimal() else 1)
        if name not in EXERCISES:
            raise ConfigurationError(f"no exercise named {name!r}. {did_you_mean(name, EXERCISES)}")
    return chosen


def sample_exercise(rng: Random, names: Sequence[str] = EXERCISES) -> Exercise:
    """Return a random exercise of one of these kinds; a kind named twice is twice as likely."""
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
    except InputError:  # the language cannot describe this change
        return None
    return Exercise("compare", ("Compare:", before, after), said) if said else None


def _check(rng: Random) -> Exercise:
    wanted = _scene(rng)
    shown = wanted if rng.random() < RIGHT else _changed_scene(wanted, rng)
    said = scene_prompt(wanted, exact=rng.random() < 0.5)
    return Exercise("check", (f"Check: {said}", shown), _verdict_text(shown, wanted))


def _verdict(rng: Random) -> Exercise:
    """Return an exercise of the critic's whole reply, about a plan step or a random edit."""
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
    """Return an exercise about a finished image, judged by its full description, not by the requested change.

    A wrong image has an earlier mistake, or shows another step of the document.
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


def _audit_plan(rng: Random) -> Exercise | None:
    """Return an exercise about a plan as text: does it fit its request?"""
    if rng.random() < MADE_PLANS:
        return _audit_made_plan(rng)
    task = _planned(rng)
    request = str(_as_asked(task, rng)[1])
    if rng.random() >= WRONG_PLANS:
        right = Verdict(outcome=Outcome.ACCEPTED, reasoning=ACCEPTED)
        question = plan_question(request, [step.prompt for step in task.steps])
        return Exercise("audit-plan", (question,), agents.render_verdict(right))
    wrong = wrong_plan(request, task.steps, _planned(rng).steps, rng)
    if wrong is None:
        return None
    verdict = Verdict(outcome=Outcome.REJECTED, reasoning=wrong.reasoning, refined_prompt=wrong.right)
    return Exercise("audit-plan", (plan_question(request, wrong.prompts),), agents.render_verdict(verdict))


def _audit_made_plan(rng: Random) -> Exercise:
    """Return an exercise about a plan that a planner made."""
    made = sample_made_plan(rng, is_right=rng.random() >= WRONG_PLANS)
    request = with_other_words(made.request, rng) if rng.random() < OTHER_WORDS else made.request
    outcome = Outcome.REJECTED if made.fault else Outcome.ACCEPTED
    verdict = Verdict(outcome=outcome, reasoning=made.fault or ACCEPTED, refined_prompt=made.better)
    return Exercise("audit-plan", (plan_question(request, made.prompts),), agents.render_verdict(verdict))


def _planned(rng: Random) -> Task:
    """Return a request in text alone, with its plan."""
    chance = rng.random()
    if chance < JUDGED_WORKED:
        return _task_of(*sample_worked_example(rng))
    if chance < JUDGED_WORKED + JUDGED_COMPOSED:
        return _task_of(*sample_composed_request(rng))
    while chance < JUDGED_WORKED + JUDGED_COMPOSED + JUDGED_STORIES:
        task = sample_training_task("story", rng)
        if task.parts == (task.text,):
            return task
    return _task_of("own steps", *sample_wider_request(rng))


def sample_step(rng: Random) -> tuple[Example, tuple[Scene, ...]]:
    """Return a plan step of the training split with the scenes of the others, or a random example."""
    chance = rng.random()
    if chance >= FROM_WORKED + FROM_PLANS:
        example = sample_example(rng)
        return Example(example.prompt, example.before, example.after), ()
    steps = (
        planned_steps(rng)
        if chance < FROM_WORKED
        else sample_training_task(rng.choice(JUDGED_SUITES), rng).steps
    )
    step, before = rng.choice(steps), steps[0].before
    scenes = (*((before,) if before else ()), *(each.scene for each in steps))
    return Example(step.prompt, step.before, step.scene), scenes


def verdict_question(planned: str, drawn: str) -> str:
    """Return the text of the critic's prompt in the pack `mini`."""
    return f"Judge: {planned} Drawn: {drawn}"


def verdict_on(reasoning: str, step: Example) -> str:
    """Return a critic's reply: accepted, or rejected with an exact prompt."""
    if reasoning == ACCEPTED:
        return agents.render_verdict(Verdict(outcome=Outcome.ACCEPTED, reasoning=reasoning))
    refined = refine_prompt(step.after, step.before)
    return agents.render_verdict(
        Verdict(outcome=Outcome.REJECTED, reasoning=reasoning, refined_prompt=refined)
    )


def _verdict_text(shown: Scene, wanted: Scene) -> str:
    return ACCEPTED if shown == wanted else describe_faults(shown, wanted)


def _planning(suite: str) -> Callable[[Random], Exercise]:
    def sample(rng: Random) -> Exercise:
        task = sample_training_task(suite, rng)
        if suite == "story" and rng.random() < IMAGES:
            while task.domain not in FIRST_ASKED:
                task = sample_training_task(suite, rng)
        return _to_plan(f"plan-{suite}", task, rng)

    return sample


def _worked(rng: Random) -> Exercise:
    return _to_plan("plan-worked", _task_of(*sample_worked_example(rng)), rng)


def _composed(rng: Random) -> Exercise:
    return _to_plan("plan-frames", _task_of(*sample_composed_request(rng)), rng)


def _wider(rng: Random) -> Exercise:
    if rng.random() >= PLAIN_WISHES:
        return _to_plan("plan-wider", _task_of(*sample_worked_example(rng)), rng)
    return _to_plan("plan-wider", _task_of("own steps", *sample_wider_request(rng)), rng)


def _task_of(topic: str, text: str, steps: tuple[Step, ...]) -> Task:
    return Task("story", "worked examples", topic, text, (text,), steps)


def _to_plan(name: str, task: Task, rng: Random) -> Exercise:
    answer = agents.render_plan(task.plan())
    if task.parts == (task.text,) and rng.random() < NEW_WORDS:
        scenes = [step.scene for step in task.steps]
        text, answer = with_new_words(task.text, answer, scenes, rng)
        return Exercise(name, ("Plan: ", text), answer)
    return Exercise(name, _as_asked(task, rng), answer)


# Robots


def done_question(instruction: str) -> str:
    """Return the text of the prompt `completion` in the pack `mini`."""
    return f"Judge: {instruction} Drawn: by the robot."


def _done(rng: Random) -> Exercise:
    """Return an exercise with a sub-task, the bench before it and the current camera image: is it done?"""
    step = rng.choice(_training_goal(rng).steps)
    before = step.before or step.scene
    in_own_words = rng.random() < OWN_WORDS_SHARE
    instruction = say_all(step.operations, before, Style(rng=rng)) if in_own_words else step.prompt
    shown = _after_sub_task(step, before, rng)
    return Exercise("done", (done_question(instruction), before, shown), done_answer(shown, step))


def _after_sub_task(step: Step, before: Scene, rng: Random) -> Shot:
    if rng.random() < ACCEPTED_SHARE:
        column = rng.randrange(GRID)
        if rng.random() < ELSEWHERE_SHARE and step.scene.gripper and step.scene.cells[column] is None:
            return replace(step.scene, gripper=Gripper(column, step.scene.gripper.holds))
        return step.scene
    if rng.random() < MOVING_SHARE:
        *on_the_way, _ = movement(step.operations[0], before, rng.randint(8, 16))
        return rng.choice(on_the_way)
    return badly_done(step.operations[0], before, rng)


def done_answer(shown: Shot, step: Step) -> str:
    """Return the true verdict on a sub-task; if it is not done, with the remaining actions."""
    seen, wanted = what_is_seen(shown), step.scene
    if isinstance(shown, Scene) and same_state(seen, wanted):
        return agents.render_verdict(Verdict(outcome=Outcome.ACCEPTED, reasoning=ACCEPTED))
    what_to_do = say_all(correction(seen, wanted), seen) or step.prompt
    return agents.render_verdict(
        Verdict(outcome=Outcome.REJECTED, reasoning=_what_is_wrong(shown, wanted), refined_prompt=what_to_do)
    )


def _what_is_wrong(shown: Shot, wanted: Scene) -> str:
    return MOVING if isinstance(shown, Frame) else what_is_wrong(shown, wanted)


def _training_goal(rng: Random) -> Task:
    return sample_training_task(ROBOT, rng)


def _segment(rng: Random) -> Exercise:
    """Return an exercise with shots of an episode; the answer is that of the suite `annotate`."""
    task = _training_goal(rng)
    while len(task.steps) < 2:
        task = _training_goal(rng)
    episode = record(task.text, task.steps[0].before or task.steps[0].scene, task.steps, rng)
    places = _sheet(episode, rng)
    steps = described_shots(episode, places)
    ending = rng.choice(DESCRIBE)
    answer = agents.render_plan(Task("annotate", "", "describing", ending, (ending,), steps).plan())
    return Exercise("segment", ("Plan: ", *(episode.shots[place] for place in places), ending), answer)


def _sheet(episode: Episode, rng: Random) -> list[int]:
    """Return equally spaced shots: over much of the episode, or around a change."""
    count, length = rng.randint(*SHEET), len(episode.shots)
    if rng.random() < CLOSE_SHARE:
        change = reached_at(episode, rng.choice(episode.sub_tasks))
        width = rng.randint(count, 4 * count)
        first = max(0, change - rng.randrange(width + 1))
        last = min(length - 1, first + width)
    else:
        first = rng.randrange(length // 3)
        last = rng.randrange(2 * length // 3, length)
    return [first + round(place * (last - first) / (count - 1)) for place in range(count)]


def _again(rng: Random) -> Exercise | None:
    """Return an exercise with a wrong plan, the complaint about it, and the true plan."""
    task = sample_training_task("story", rng)
    return rng.choice((_another_word, _another_word, _another_number, _something_unwanted))(task, rng)


def _another_word(task: Task, rng: Random) -> Exercise | None:
    """Replace one kind or colour by another."""
    answer = agents.render_plan(task.plan())
    said = [word for word in (*COLOURS, *NOUNS) if has_word(task.text, word) and has_word(answer, word)]
    if not said:
        return None
    left_out = rng.choice(said)
    wrong = _with_word(answer, left_out, COLOURS if left_out in COLOURS else NOUNS, rng)
    return Exercise("again", _as_asked(task, rng), answer, wrong, leaves_out([left_out]))


def _another_number(task: Task, rng: Random) -> Exercise | None:
    """Change the number of something."""
    found, answer = COUNTED.search(task.text), agents.render_plan(task.plan())
    if found is None:
        return None
    said = found["count"].lower()
    number = NUMBERS[int(said)] if said.isdigit() else said
    if not has_word(answer, number):
        return None
    wrong = _with_word(answer, number, NUMBERS[2:], rng)
    return Exercise("again", ("Plan: ", *task.parts), answer, wrong, leaves_out([found[0]]))


def _something_unwanted(task: Task, rng: Random) -> Exercise | None:
    """Add something to the plan that the request excludes."""
    answer = agents.render_plan(task.plan())
    text = with_negation(task.text, _kinds_of(task), rng)
    unwanted = [
        word for word in KIND_OF if word in NOUNS and has_word(text, word) and not has_word(task.text, word)
    ]
    drawn = [noun for noun in NOUNS if has_word(answer, noun) and has_word(task.text, noun)]
    if task.parts != (task.text,) or not unwanted or not drawn:
        return None
    wrong = re.sub(rf"\b{rng.choice(drawn)}\b", unwanted[0], answer)
    return Exercise("again", ("Plan: ", text), answer, wrong, has_unwanted(unwanted[:1]))


def _with_word(text: str, word: str, others: Iterable[str], rng: Random) -> str:
    other = rng.choice([each for each in others if not has_word(each, word)])  # no crescent moon for a moon
    return re.sub(
        rf"\b{word}\b",
        lambda found: other.capitalize() if found[0][0].isupper() else other,
        text,
        flags=re.IGNORECASE,
    )


def _kinds_of(task: Task) -> set[str]:
    return {thing.kind for step in task.steps for thing in step.scene.things.values()}


def _as_asked(task: Task, rng: Random) -> tuple[Scene | str, ...]:
    """Return the request as in the planner's prompt; sometimes a word is mistyped, missing or extra."""
    if task.parts == (task.text,) and rng.random() < NEGATED:
        return ("Plan: ", with_negation(task.text, _kinds_of(task), rng))
    chance = rng.random()
    if chance >= MISTYPED + OTHER_WORDS:
        return ("Plan: ", *task.parts)
    change = with_typo if chance < MISTYPED else with_other_words
    texts = [at for at, part in enumerate(task.parts) if isinstance(part, str)]
    at = rng.choice((texts[0], texts[-1]))  # the texts between them are captions
    return ("Plan: ", *task.parts[:at], change(str(task.parts[at]), rng), *task.parts[at + 1 :])


def _scene(rng: Random) -> Scene:
    """Return a scene of a worked example, one of the whole world, one of a story, or a random one."""
    chance = rng.random()
    if chance < WORKED_SCENES:
        return rng.choice(planned_steps(rng)).scene
    if chance < WORKED_SCENES + WIDER_SCENES:
        return wider_scene(rng)
    if rng.random() < FROM_STORIES:
        return rng.choice(sample_training_task("story", rng).steps).scene
    return random_scene(rng)


def _changed_scene(scene: Scene, rng: Random, before: Scene | None = None) -> Scene:
    """Return a scene that differs from this one by a mistake or an operation."""
    if rng.random() < (0.5 if before is None else 0.8):
        return with_mistake(scene, rng, before)
    operations = wider_operations(scene, rng)
    return apply_all(operations, scene) if operations else with_mistake(scene, rng, before)


_MAKERS: Mapping[str, Callable[[Random], Exercise | None]] = {
    "look": _look,
    "compare": _compare,
    "check": _check,
    "verdict": _verdict,
    "audit": _audit,
    "done": _done,
    **{f"plan-{suite}": _planning(suite) for suite in (*SUITES, ROBOT)},
    "plan-worked": _worked,
    "plan-wider": _wider,
    "plan-frames": _composed,
    "audit-plan": _audit_plan,
    "again": _again,
    "segment": _segment,
}

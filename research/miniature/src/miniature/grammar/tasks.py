"""Tasks, sampled from a seed or parsed from a request.

Riddles and reasoning edits are worded by templates, the other suites also in the voices of people.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import pairwise
from random import Random

from interleave import InputError
from interleave_mini.bench.splits import (
    UNSEEN_PAIR,
    UNSEEN_TEMPLATE,
    UNSEEN_VOICE,
    has_held_out_pair,
    is_held_out_pair,
    unseen_in,
)
from interleave_mini.bench.tasks import ROBOT, Step, Task
from interleave_mini.language.descriptions import describe
from interleave_mini.language.patterns import NotUnderstood, normalised
from interleave_mini.language.references import Style
from interleave_mini.language.sentences import parse_sentence, say_all
from interleave_mini.world.kinds import BACKGROUNDS, COLOURS, KINDS
from interleave_mini.world.operations import Impossible, apply_all, changes
from interleave_mini.world.scene import CELLS, Scene, Size, Thing
from miniature.grammar.distractors import (
    NO_DISTRACTORS,
    Distractors,
    add_distractors,
    sample_distractors,
    split_distractors,
)
from miniature.grammar.edits import EDITS, parse_edit, sample_edit
from miniature.grammar.edits.plain import joined, read_edits, sample_edits
from miniature.grammar.narrations import read_narration, sample_narration
from miniature.grammar.natural import any_of, dressed, read_request, sample_request, undressed
from miniature.grammar.own_steps import read_own_steps, sample_own_steps
from miniature.grammar.riddles import RIDDLE_TOPICS
from miniature.grammar.robot_goals import read_goal, sample_goal
from miniature.grammar.topics import DOMAINS, Topic, TopicRequest
from miniature.grammar.variants import variants
from miniature.grammar.voices import Voice, voices

VOICED = ("story", "continue", "plain", "annotate")
"""Suites whose requests are also worded in the voices of people."""
Voices = tuple[Voice, ...]
KNOWLEDGE = "knowledge"
EDITING = "reasoning edits"
PLAIN_EDITING = "plain edits"
OWN_STEPS = "own steps"
NARRATION = "narration"
ROBOT_GOALS = "robot goals"
GO_ON = (
    "Please continue from here.",
    "Go on with the remaining steps.",
    "This is how it begins. Draw the rest.",
    "What comes next? Finish it.",
    "Draw what happens next, until the end.",
    "Show the steps that are still missing.",
    "Now carry on until it is finished.",
    "Tell the rest of it, step by step.",
)
DESCRIBE = (
    "Describe each picture in one sentence.",
    "Write a caption for every picture.",
    "Tell in words what happens from picture to picture.",
    "Label each step of this sequence.",
    "What happens in these pictures? One sentence for each.",
    "Say in words what each picture shows.",
    "Describe what changes from one picture to the next.",
    "Write one sentence about each picture.",
)
BY_TEMPLATE = 0.2
"""Share of stories worded by a template of their topic; the others are in a voice."""
BY_TOPIC = 0.5
"""Share of stories whose topic is drawn from all topics, not from one domain."""
IN_OWN_STEPS, NARRATED = 0.16, 0.13
"""Shares of stories that spell out their steps, and that are told in free sentences."""
DISTRACTOR_SHARE, DISTRACTOR_SHARE_IN_VOICES = 0.6, 0.2
"""Share of stories with distractors, of those with room for them."""
FOLLOW_UP = 0.3
"""Share of plain edits that follow a story."""
_TRIES = 20_000
_STORY_TOPICS = (
    *(("story", domain, topic) for domain, topics in DOMAINS.items() for topic in topics),
    *(("know", KNOWLEDGE, topic) for topic in RIDDLE_TOPICS),
)
_GO_ON = {normalised(text).lower() for text in GO_ON}
_DESCRIBE = {normalised(text).lower() for text in DESCRIBE}


# Sampling tasks


def sample_task(suite: str, rng: Random) -> Task:
    """Return a random task of a suite, of any split."""
    return _sampled(suite, rng, voices())


def _sampled(suite: str, rng: Random, heard: Voices) -> Task:
    while True:
        with suppress(Impossible):  # rarely, no random scene fits
            return _SAMPLERS[suite](rng, heard)


def sample_training_task(suite: str, rng: Random) -> Task:
    """Return a random task of the training split."""
    heard = tuple(voice for voice in voices() if not voice.held_out)
    while True:
        task = _sampled(suite, rng, heard)
        if task.split == "train":
            return task


def tasks(suite: str, split: str, *, seed: int = 0) -> Iterator[Task]:
    """Yield an endless stream of distinct tasks of a split, the same for the same seed.

    The rules parse a test task back to the same steps, so that its truth is unique and the oracle finds it.
    A quarter of test tasks have a voice (riddles and reasoning edits: a wording) that training never sees,
    and a quarter have such a pair of kind and colour. The other half has neither.
    """
    rng = Random(f"{suite}/{split}/{seed}")
    unseen_words = UNSEEN_VOICE if suite in VOICED else UNSEEN_TEMPLATE
    wanted = [()] if split != "test" else [(), (), (unseen_words,), (UNSEEN_PAIR,)]
    seen: set[str] = set()
    while True:
        for unseen in wanted:
            yield _next_task(suite, split, unseen, rng, seen)


def _next_task(suite: str, split: str, unseen: tuple[str, ...], rng: Random, seen: set[str]) -> Task:
    for _ in range(_TRIES):
        task = sample_task(suite, rng)
        if task.unseen != unseen or task.split != split or task.id in seen:
            continue
        if split != "test" or _is_read_back(task):
            seen.add(task.id)
            return task
    raise InputError(f"the {split} split of {suite!r} has no more than {len(seen)} different tasks")


def _is_read_back(task: Task) -> bool:
    try:
        found = parse_task(task.parts)
    except InputError:
        return False
    return found.first_number == task.first_number and _drawn(found) == _drawn(task)


def _drawn(task: Task) -> list[tuple[str, Scene]]:
    return [(step.prompt, step.scene) for step in task.steps]


def _story(rng: Random, heard: Voices) -> Task:
    if rng.random() < NARRATED:
        return _narration_task(*sample_narration(rng))
    voice = _some_voice(rng, heard)
    if voice and rng.random() < IN_OWN_STEPS and (own := sample_own_steps(voice, rng)):
        return _own_steps_task(*own, voice=voice)
    domain, topic = _some_topic(rng)
    written = sample_request(topic, voice, rng) if voice else None
    if written is None:  # also if the voice has no words for it
        voice, written = None, topic.sample(rng)
    share = DISTRACTOR_SHARE_IN_VOICES if voice else DISTRACTOR_SHARE
    with_distractors = not topic.alone and rng.random() < share
    distractors = sample_distractors(written.story.steps, rng) if with_distractors else NO_DISTRACTORS
    try:
        return _story_task("story", domain, topic, written, distractors, voice)
    except Impossible:  # blocks an event between two images
        return _story_task("story", domain, topic, written, voice=voice)


def _some_topic(rng: Random) -> tuple[str, Topic]:
    """Return a topic of any domain, so that topics of large domains are not too rare."""
    domains = list(DOMAINS) if rng.random() < BY_TOPIC else [rng.choice(list(DOMAINS))]
    choices = [(domain, topic) for domain in domains for topic in DOMAINS[domain]]
    return rng.choices(choices, [topic.often for _, topic in choices])[0]


def _some_voice(rng: Random, heard: Voices, by_template: float = BY_TEMPLATE) -> Voice | None:
    """Return one of these voices; `None` for a wording by template."""
    return None if rng.random() < by_template or not heard else rng.choice(heard)


def _own_steps_task(text: str, template: str, steps: tuple[Step, ...], *, voice: Voice | None = None) -> Task:
    unseen = _unseen(voice, [step.scene for step in steps])
    return Task("story", OWN_STEPS, OWN_STEPS, template, (text,), steps, unseen=unseen)


def _narration_task(text: str, steps: tuple[Step, ...]) -> Task:
    unseen = _unseen(None, [step.scene for step in steps])
    return Task("story", NARRATION, NARRATION, NARRATION, (text,), steps, unseen=unseen)


def _unseen(voice: Voice | None, scenes: Sequence[Scene]) -> tuple[str, ...]:
    said = (UNSEEN_VOICE,) if voice and voice.held_out else ()
    return (*said, UNSEEN_PAIR) if any(map(has_held_out_pair, scenes)) else said


def _know(rng: Random, heard: Voices) -> Task:
    topic = rng.choice(RIDDLE_TOPICS)
    return _story_task("know", KNOWLEDGE, topic, topic.sample(rng))


def _story_task(
    suite: str,
    domain: str,
    topic: Topic,
    written: TopicRequest,
    distractors: Distractors = NO_DISTRACTORS,
    voice: Voice | None = None,
) -> Task:
    steps = add_distractors(written.story.steps, distractors)
    scenes = [step.scene for step in steps]
    if suite in VOICED:
        unseen = _unseen(voice, scenes)
    else:
        unseen = unseen_in(topic.name, written.template, topic.templates, scenes)
    text = distractors.added_to(written.text)
    return Task(suite, domain, topic.name, written.template, (text,), steps, unseen=unseen)


def _continue(rng: Random, heard: Voices) -> Task:
    while True:
        whole = _story(rng, heard)
        if len(whole.steps) > 2 and "{n}" not in whole.template:  # the number would be that of all steps
            break
    shown = rng.randint(1, len(whole.steps) - 1)
    voice = _voice_of(whole)
    return _continuation(whole, shown, _line(voice, "go on", rng) or rng.choice(GO_ON))


def _voice_of(task: Task) -> Voice | None:
    """Return the voice of a task; `None` for a wording by template."""
    name = task.template.split(":")[0]
    return next((voice for voice in voices() if voice.name == name), None)


def _line(voice: Voice | None, section: str, rng: Random) -> str:
    """Return a line of a section as a person types it; empty for a wording by template."""
    return dressed(voice.line(section, rng), voice, rng) if voice and voice.section(section) else ""


def _continuation(whole: Task, shown: int, ending: str) -> Task:
    parts: list[str | Scene] = [whole.text]
    for number, step in enumerate(whole.steps[:shown], start=1):
        parts += [f"Step {number}: {step.caption}", step.scene]
    return Task(
        "continue",
        whole.domain,
        whole.topic,
        whole.template,
        (*parts, ending),
        whole.steps[shown:],
        shown + 1,
        whole.unseen,
    )


def _edit(rng: Random, heard: Voices) -> Task:
    held_out = rng.random() < 0.2
    written = sample_edit(
        rng.choice(EDITS), rng, allowed=lambda thing: held_out or not is_held_out_pair(thing)
    )
    before = written.step.before or written.step.scene
    edit = written.edit
    scenes = (before, written.step.scene)
    unseen = unseen_in(edit.name, written.template, edit.templates, scenes)
    return Task(
        "edit", EDITING, edit.kind, written.template, (before, written.text), (written.step,), unseen=unseen
    )


def _annotate(rng: Random, heard: Voices) -> Task:
    whole = _story(rng, heard)
    scenes = [step.scene for step in whole.steps]
    voice = _voice_of(whole)
    task = _described(scenes, _line(voice, "describe", rng) or rng.choice(DESCRIBE))
    return Task(
        "annotate",
        whole.domain,
        whole.topic,
        task.template,
        task.parts,
        task.steps,
        unseen=_unseen(voice, scenes),
    )


def _described(scenes: Sequence[Scene], ending: str) -> Task:
    steps = [Step("Picture 1", describe(scenes[0]), scenes[0])]
    for number, (before, after) in enumerate(pairwise(scenes), start=2):
        happened = changes(before, after)
        caption = say_all(happened, before, Style(way=1)) if happened else "Nothing changes."
        steps.append(Step(f"Picture {number}", caption, after, happened, before))
    return Task("annotate", "", "describing", ending, (*scenes, ending), tuple(steps))


def _plain(rng: Random, heard: Voices) -> Task:
    while True:
        voice = _some_voice(rng, heard, by_template=0)
        if voice is None:
            raise InputError("there are no voices to word plain edits in")
        try:
            if rng.random() < FOLLOW_UP:
                return _plain_after_story(voice, rng, heard)
            return _plain_alone(voice, rng)
        except Impossible:
            continue


def _plain_alone(voice: Voice, rng: Random) -> Task:
    scene = _random_scene(rng)
    text, steps = _wishes(scene, voice, rng)
    return Task(
        "plain", PLAIN_EDITING, "one picture", voice.name, (scene, text), steps, unseen=_seen_in(voice, steps)
    )


def _plain_after_story(voice: Voice, rng: Random, heard: Voices) -> Task:
    whole = _story(rng, heard)
    while whole.steps[0].scene.gripper is not None or (_voice_of(whole) or voice).held_out != voice.held_out:
        whole = _story(rng, heard)
    shown = rng.randint(1, min(len(whole.steps), 4))
    text, steps = _wishes(whole.steps[shown - 1].scene, voice, rng)
    told = _continuation(whole, shown, text)
    scenes = [each for each in told.parts if isinstance(each, Scene)]
    unseen = _unseen(voice, [*scenes, *(step.scene for step in steps)])
    return Task("plain", PLAIN_EDITING, "follow-up", voice.name, told.parts, steps, shown + 1, unseen)


def _wishes(scene: Scene, voice: Voice, rng: Random) -> tuple[str, tuple[Step, ...]]:
    texts, steps = sample_edits(scene, voice, rng, rng.choice((1, 1, 1, 1, 2, 2, 3)))
    return dressed(joined(texts, rng), voice, rng), tuple(steps)


def _robot(rng: Random, heard: Voices) -> Task:
    """Return a goal for the gripper on a given bench, which is not a suite of the benchmark."""
    asked = sample_goal(rng)
    scenes = [asked.scene, *(step.scene for step in asked.steps)]
    unseen = unseen_in(asked.goal.name, asked.template, asked.goal.templates, scenes)
    parts = (asked.scene, asked.text)
    return Task(ROBOT, ROBOT_GOALS, asked.goal.name, asked.template, parts, asked.steps, unseen=unseen)


def _seen_in(voice: Voice, steps: Sequence[Step]) -> tuple[str, ...]:
    return _unseen(voice, [scene for step in steps for scene in (step.before or step.scene, step.scene)])


def _random_scene(rng: Random) -> Scene:
    """Return a scene of a few things, some of them equal."""
    things: dict[int, Thing] = {}
    kinds = [rng.choice(list(KINDS)) for _ in range(3)]
    for cell in rng.sample(range(CELLS), rng.randint(1, 5)):
        kind = KINDS[rng.choice((*kinds, rng.choice(list(KINDS))))]
        state = kind.usual if rng.random() < 0.7 else rng.randrange(len(kind.states))
        colour = kind.colour if rng.random() < 0.4 else rng.choice(list(COLOURS))
        things[cell] = Thing(kind.name, colour, Size.SMALL if rng.random() < 0.25 else Size.LARGE, state)
    return Scene.of(rng.choice(BACKGROUNDS), things)


_SAMPLERS: dict[str, Callable[[Random, Voices], Task]] = {
    "story": _story,
    "continue": _continue,
    "know": _know,
    "edit": _edit,
    "plain": _plain,
    "annotate": _annotate,
    ROBOT: _robot,
}


# Parsing tasks


def parse_task(parts: Sequence[str | Scene]) -> Task:
    """Parse a user's request into its task; raise `NotUnderstood` if no template matches."""
    scenes = [part for part in parts if isinstance(part, Scene)]
    texts = [part for part in parts if isinstance(part, str) and part.strip()]
    if not scenes:
        return _read_story(" ".join(texts))
    last = normalised(texts[-1]).lower() if texts else ""
    if not texts or last in _DESCRIBE or _is_said("describe", texts[-1]):
        return _described(scenes, texts[-1] if texts else DESCRIBE[0])
    if last in _GO_ON or _is_said("go on", texts[-1]):
        whole = _read_story(texts[0])
        if len(scenes) >= len(whole.steps):
            raise NotUnderstood("there is nothing left to draw: all steps are there already")
        return _continuation(whole, len(scenes), texts[-1])
    is_story = any(re.match(r"step \d+:", text, re.IGNORECASE) for text in texts)
    if is_story:
        return replace(_read_edit(scenes[-1], texts[-1], tuple(parts)), first_number=len(scenes) + 1)
    return _read_edit(scenes[-1], " ".join(texts), tuple(parts))


def _read_story(text: str) -> Task:
    request, distractors = split_distractors(text)
    wrong_number = ""
    for variant in variants(normalised(request)):
        for suite, domain, topic in _STORY_TOPICS:
            written = topic.read(variant.text)
            if written is None:
                continue
            steps = len(written.story.steps)
            if variant.steps in (None, steps):
                again = TopicRequest(request, written.template, {}, written.story)
                return _story_task(suite, domain, topic, again, distractors)
            wrong_number = f"this takes {steps} pictures, not {variant.steps}"
    if natural := read_request(request):
        found = TopicRequest(request, natural.request.template, {}, natural.request.story)
        return _story_task("story", natural.domain, natural.topic, found, distractors)
    if own := read_own_steps(text):
        return _own_steps_task(text, "", own)
    if told := read_narration(request):
        return _narration_task(request, told)
    raise NotUnderstood(wrong_number or "none reads like this")


def _is_said(section: str, text: str) -> bool:
    """Return whether a text is a line of this section in some voice."""
    return any(
        re.fullmatch(rf"(?:{any_of(section)})[.!?…]*", bare, re.IGNORECASE) for bare, _ in undressed(text)
    )


def _read_edit(scene: Scene, text: str, parts: tuple[str | Scene, ...]) -> Task:
    for variant in variants(normalised(text)):
        if goal_steps := read_goal(variant.text, scene):
            return Task(ROBOT, ROBOT_GOALS, ROBOT_GOALS, "", parts, goal_steps)
    if found := parse_edit(normalised(text), scene):
        edit, step = found
        return Task("edit", EDITING, edit.kind, "", parts, (step,))
    for bare, _ in undressed(text):
        if steps := read_edits(bare, scene):
            return Task("plain", PLAIN_EDITING, "plain", "", parts, tuple(steps))
    operations = parse_sentence(text, scene)
    said = say_all(operations, scene, Style(way=1))
    step = Step("The change", said, apply_all(operations, scene), operations, scene)
    return Task("edit", EDITING, "plain", "", parts, (step,))

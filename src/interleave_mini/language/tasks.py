"""Tasks: requests with their right answers, sampled from a seed or parsed from a user's request.

Five suites: `story` (text in), `continue` (text and pictures in), `know` (riddles), `edit` (a picture and a
sentence to think about), `annotate` (pictures in, text out).
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from random import Random

from interleave.errors import InputError
from interleave.types import Part, Picture, Plan, PlanStep, Request, Text
from interleave_mini.language.descriptions import describe
from interleave_mini.language.distractors import (
    NO_DISTRACTORS,
    UNSEEN_WORDING,
    Distractors,
    add_distractors,
    sample_distractors,
    split_distractors,
)
from interleave_mini.language.edits import EDITS, parse_edit, sample_edit
from interleave_mini.language.patterns import NotUnderstood, normalised, variants
from interleave_mini.language.references import Style
from interleave_mini.language.riddles import RIDDLE_TOPICS
from interleave_mini.language.sentences import parse_sentence, say_all
from interleave_mini.language.splits import (
    UNSEEN_PAIR,
    UNSEEN_TEMPLATE,
    is_held_out_pair,
    seen_templates,
    split_of,
    unseen_in,
)
from interleave_mini.language.story import Step
from interleave_mini.language.topics import DOMAINS, Topic, TopicRequest
from interleave_mini.world.drawing import draw
from interleave_mini.world.operations import apply_all, changes
from interleave_mini.world.scene import Scene

SUITES = ("story", "continue", "know", "edit", "annotate")
KNOWLEDGE = "knowledge"
EDITING = "reasoning edits"
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
SEEN_DESCRIBE = seen_templates("annotate", DESCRIBE)
"""Wordings that training may see."""
DISTRACTOR_SHARE = 0.68
"""The share of stories with distractors, of those with room for them; about 60 % of all stories."""
_TRIES = 20_000
_STORY_TOPICS = (
    *(("story", domain, topic) for domain, topics in DOMAINS.items() for topic in topics),
    *(("know", KNOWLEDGE, topic) for topic in RIDDLE_TOPICS),
)
_GO_ON = {normalised(text).lower() for text in GO_ON}
_DESCRIBE = {normalised(text).lower() for text in DESCRIBE}


@dataclass(frozen=True)
class Task:
    """A request and its right answer."""

    suite: str
    domain: str
    topic: str
    template: str
    parts: tuple[str | Scene, ...]
    """The request: texts, and scenes as pictures."""
    steps: tuple[Step, ...]
    """The steps of the answer."""
    first_number: int = 1
    unseen: tuple[str, ...] = ()
    """What in this request is held out from training."""

    @property
    def text(self) -> str:
        return "\n".join(part for part in self.parts if isinstance(part, str))

    @property
    def id(self) -> str:
        return f"{self.suite}-{hashlib.sha256(repr(self.parts).encode()).hexdigest()[:12]}"

    @property
    def split(self) -> str:
        return split_of(repr(self.parts), self.unseen)

    @property
    def text_only(self) -> bool:
        return self.suite == "annotate"

    def request(self) -> Request:
        """The request as a user would send it, with its pictures drawn."""
        return Request(tuple(_as_part(part) for part in self.parts))

    def plan(self) -> Plan:
        """The true plan, with short prompts."""
        steps = tuple(
            PlanStep(
                number=number,
                name=step.name,
                instruction=step.instruction,
                prompt=None if self.text_only else step.prompt,
                caption=step.caption,
            )
            for number, step in enumerate(self.steps, start=self.first_number)
        )
        return Plan(steps=steps, reasoning=f"{self.topic.capitalize()}: {len(steps)} to do.")


def _as_part(part: str | Scene) -> Part:
    return Text(part) if isinstance(part, str) else Picture(draw(part))


# Sampling tasks


def sample_task(suite: str, rng: Random) -> Task:
    """A random task of a suite, of any split."""
    return _SAMPLERS[suite](rng)


def tasks(suite: str, split: str, *, seed: int = 0) -> Iterator[Task]:
    """An endless stream of distinct tasks of a split, the same for the same seed.

    A quarter of the test tasks have a wording and a quarter a pair of kind and colour that training never
    sees; the other half has neither.
    """
    rng = Random(f"{suite}/{split}/{seed}")
    wanted = [()] if split != "test" else [(), (), (UNSEEN_TEMPLATE,), (UNSEEN_PAIR,)]
    seen: set[str] = set()
    while True:
        for unseen in wanted:
            yield _next_task(suite, split, unseen, rng, seen)


def _next_task(suite: str, split: str, unseen: tuple[str, ...], rng: Random, seen: set[str]) -> Task:
    for _ in range(_TRIES):
        task = sample_task(suite, rng)
        if task.unseen == unseen and task.split == split and task.id not in seen:
            seen.add(task.id)
            return task
    raise InputError(f"the {split} split of {suite!r} has no more than {len(seen)} different tasks")


def _story(rng: Random) -> Task:
    domain = rng.choice(list(DOMAINS))
    topic = rng.choice(DOMAINS[domain])
    written = topic.sample(rng)
    with_distractors = not topic.alone and rng.random() < DISTRACTOR_SHARE
    distractors = sample_distractors(written.story.steps, rng) if with_distractors else NO_DISTRACTORS
    return _story_task("story", domain, topic, written, distractors)


def _know(rng: Random) -> Task:
    topic = rng.choice(RIDDLE_TOPICS)
    return _story_task("know", KNOWLEDGE, topic, topic.sample(rng))


def _story_task(
    suite: str, domain: str, topic: Topic, written: TopicRequest, distractors: Distractors = NO_DISTRACTORS
) -> Task:
    steps = add_distractors(written.story.steps, distractors)
    unseen = unseen_in(topic.name, written.template, topic.templates, (step.scene for step in steps))
    if distractors.wording == UNSEEN_WORDING and UNSEEN_TEMPLATE not in unseen:
        unseen = (UNSEEN_TEMPLATE, *unseen)
    text = distractors.added_to(written.text)
    return Task(suite, domain, topic.name, written.template, (text,), steps, unseen=unseen)


def _continue(rng: Random) -> Task:
    while True:
        whole = _story(rng)
        if len(whole.steps) > 2 and "{n}" not in whole.template:  # the number would be that of all steps
            break
    shown = rng.randint(1, len(whole.steps) - 1)
    return _continuation(whole, shown, rng.choice(GO_ON))


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


def _edit(rng: Random) -> Task:
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


def _annotate(rng: Random) -> Task:
    whole = _story(rng)
    scenes = [step.scene for step in whole.steps]
    task = _described(scenes, rng.choice(DESCRIBE))
    pair = tuple(each for each in whole.unseen if each == UNSEEN_PAIR)
    wording = unseen_in("annotate", task.template, DESCRIBE, ())
    return Task(
        "annotate",
        whole.domain,
        whole.topic,
        task.template,
        task.parts,
        task.steps,
        unseen=(*wording, *pair),
    )


def _described(scenes: Sequence[Scene], ending: str) -> Task:
    steps = [Step("Picture 1", describe(scenes[0]), scenes[0])]
    for number, (before, after) in enumerate(pairwise(scenes), start=2):
        happened = changes(before, after)
        caption = say_all(happened, before, Style(way=1)) if happened else "Nothing changes."
        steps.append(Step(f"Picture {number}", caption, after, happened, before))
    return Task("annotate", "", "describing", ending, (*scenes, ending), tuple(steps))


_SAMPLERS = {"story": _story, "continue": _continue, "know": _know, "edit": _edit, "annotate": _annotate}


# Parsing tasks


def parse_task(parts: Sequence[str | Scene]) -> Task:
    """Parse a user's request into its task; raises `NotUnderstood` when no template matches."""
    scenes = [part for part in parts if isinstance(part, Scene)]
    texts = [part for part in parts if isinstance(part, str) and part.strip()]
    if not scenes:
        return _read_story(" ".join(texts))
    last = normalised(texts[-1]).lower() if texts else ""
    if last in _DESCRIBE or not texts:
        return _described(scenes, texts[-1] if texts else DESCRIBE[0])
    if last in _GO_ON:
        whole = _read_story(texts[0])
        if len(scenes) >= len(whole.steps):
            raise NotUnderstood("there is nothing left to draw: all steps are there already")
        return _continuation(whole, len(scenes), texts[-1])
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
    raise NotUnderstood(wrong_number or "none reads like this")


def _read_edit(scene: Scene, text: str, parts: tuple[str | Scene, ...]) -> Task:
    if found := parse_edit(normalised(text), scene):
        edit, step = found
        return Task("edit", EDITING, edit.kind, "", parts, (step,))
    operations = parse_sentence(text, scene)
    said = say_all(operations, scene, Style(way=1))
    step = Step("The change", said, apply_all(operations, scene), operations, scene)
    return Task("edit", EDITING, "plain", "", parts, (step,))

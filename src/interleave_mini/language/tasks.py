"""Tasks: requests with their truth, made from a seed or read from what a user has asked.

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
from interleave_mini.language.distractors import NOBODY, UNSEEN_WORDING, Company, invite, join, part_company
from interleave_mini.language.edits import EDITS, read_edit, sample_edit
from interleave_mini.language.patterns import NotUnderstood, normalised
from interleave_mini.language.references import Manner
from interleave_mini.language.riddle_requests import RIDDLE_TOPICS
from interleave_mini.language.sentences import read_sentence, say_all
from interleave_mini.language.splits import (
    UNSEEN_PAIR,
    UNSEEN_TEMPLATE,
    is_held_out_pair,
    seen_templates,
    split_of,
    unseen_in,
)
from interleave_mini.language.story import Beat
from interleave_mini.language.topics import DOMAINS, Topic, Written
from interleave_mini.language.variants import variants
from interleave_mini.world.changes import changes
from interleave_mini.world.drawing import draw
from interleave_mini.world.operations import apply_all
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
"""Those that training may see."""
WITH_COMPANY = 0.68
"""The share of stories told in company, of those with room for it; of all stories that makes about 60 %."""
_TRIES = 20_000
_TELLING = (
    *(("story", domain, topic) for domain, topics in DOMAINS.items() for topic in topics),
    *(("know", KNOWLEDGE, topic) for topic in RIDDLE_TOPICS),
)
_GO_ON = {normalised(text).lower() for text in GO_ON}
_DESCRIBE = {normalised(text).lower() for text in DESCRIBE}


@dataclass(frozen=True)
class Task:
    """A request, and what a right answer to it is."""

    suite: str
    domain: str
    topic: str
    template: str
    parts: tuple[str | Scene, ...]
    """The request: texts, and scenes as pictures."""
    beats: tuple[Beat, ...]
    """The steps of the answer."""
    first_number: int = 1
    unseen: tuple[str, ...] = ()
    """What this request has that training never sees."""

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
        """As a user would send it, with its pictures drawn."""
        return Request(tuple(_as_part(part) for part in self.parts))

    def plan(self) -> Plan:
        """The true plan, with short prompts."""
        steps = tuple(
            PlanStep(
                number=number,
                name=beat.name,
                instruction=beat.instruction,
                prompt=None if self.text_only else beat.prompt,
                caption=beat.caption,
            )
            for number, beat in enumerate(self.beats, start=self.first_number)
        )
        return Plan(steps=steps, reasoning=f"{self.topic.capitalize()}: {len(steps)} to do.")


def _as_part(part: str | Scene) -> Part:
    return Text(part) if isinstance(part, str) else Picture(draw(part))


# Making tasks


def sample_task(suite: str, rng: Random) -> Task:
    """A random task of a suite, of any split."""
    return _SAMPLERS[suite](rng)


def tasks(suite: str, split: str, *, seed: int = 0) -> Iterator[Task]:
    """Different tasks of a split, without end, always the same for a seed.

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
    accompanied = not topic.alone and rng.random() < WITH_COMPANY
    company = invite(written.tale.beats, rng) if accompanied else NOBODY
    return _told("story", domain, topic, written, company)


def _know(rng: Random) -> Task:
    topic = rng.choice(RIDDLE_TOPICS)
    return _told("know", KNOWLEDGE, topic, topic.sample(rng))


def _told(suite: str, domain: str, topic: Topic, written: Written, company: Company = NOBODY) -> Task:
    beats = join(written.tale.beats, company)
    unseen = unseen_in(topic.name, written.template, topic.templates, (beat.scene for beat in beats))
    if company.wording == UNSEEN_WORDING and UNSEEN_TEMPLATE not in unseen:
        unseen = (UNSEEN_TEMPLATE, *unseen)
    text = company.asked_for_in(written.text)
    return Task(suite, domain, topic.name, written.template, (text,), beats, unseen=unseen)


def _continue(rng: Random) -> Task:
    while True:
        whole = _story(rng)
        if len(whole.beats) > 2 and "{n}" not in whole.template:  # the number would be that of all steps
            break
    shown = rng.randint(1, len(whole.beats) - 1)
    return _begun(whole, shown, rng.choice(GO_ON))


def _begun(whole: Task, shown: int, ending: str) -> Task:
    parts: list[str | Scene] = [whole.text]
    for number, beat in enumerate(whole.beats[:shown], start=1):
        parts += [f"Step {number}: {beat.caption}", beat.scene]
    return Task(
        "continue",
        whole.domain,
        whole.topic,
        whole.template,
        (*parts, ending),
        whole.beats[shown:],
        shown + 1,
        whole.unseen,
    )


def _edit(rng: Random) -> Task:
    held_out = rng.random() < 0.2
    written = sample_edit(
        rng.choice(EDITS), rng, allowed=lambda thing: held_out or not is_held_out_pair(thing)
    )
    before = written.beat.before or written.beat.scene
    edit = written.edit
    scenes = (before, written.beat.scene)
    unseen = unseen_in(edit.name, written.template, edit.templates, scenes)
    return Task(
        "edit", EDITING, edit.kind, written.template, (before, written.text), (written.beat,), unseen=unseen
    )


def _annotate(rng: Random) -> Task:
    whole = _story(rng)
    scenes = [beat.scene for beat in whole.beats]
    task = _described(scenes, rng.choice(DESCRIBE))
    pair = tuple(each for each in whole.unseen if each == UNSEEN_PAIR)
    wording = unseen_in("annotate", task.template, DESCRIBE, ())
    return Task(
        "annotate",
        whole.domain,
        whole.topic,
        task.template,
        task.parts,
        task.beats,
        unseen=(*wording, *pair),
    )


def _described(scenes: Sequence[Scene], ending: str) -> Task:
    beats = [Beat("Picture 1", describe(scenes[0]), scenes[0])]
    for number, (before, after) in enumerate(pairwise(scenes), start=2):
        happened = changes(before, after)
        caption = say_all(happened, before, Manner(way=1)) if happened else "Nothing changes."
        beats.append(Beat(f"Picture {number}", caption, after, happened, before))
    return Task("annotate", "", "describing", ending, (*scenes, ending), tuple(beats))


_SAMPLERS = {"story": _story, "continue": _continue, "know": _know, "edit": _edit, "annotate": _annotate}


# Reading tasks


def read_task(parts: Sequence[str | Scene]) -> Task:
    """The task behind a request of a user; raises `NotUnderstood` when the language has no such request."""
    scenes = [part for part in parts if isinstance(part, Scene)]
    texts = [part for part in parts if isinstance(part, str) and part.strip()]
    if not scenes:
        return _read_told(" ".join(texts))
    last = normalised(texts[-1]).lower() if texts else ""
    if last in _DESCRIBE or not texts:
        return _described(scenes, texts[-1] if texts else DESCRIBE[0])
    if last in _GO_ON:
        whole = _read_told(texts[0])
        if len(scenes) >= len(whole.beats):
            raise NotUnderstood("there is nothing left to draw: all steps are there already")
        return _begun(whole, len(scenes), texts[-1])
    return _read_edit(scenes[-1], " ".join(texts), tuple(parts))


def _read_told(text: str) -> Task:
    request, company = part_company(text)
    wrong_number = ""
    for variant in variants(normalised(request)):
        for suite, domain, topic in _TELLING:
            written = topic.read(variant.text)
            if written is None:
                continue
            steps = len(written.tale.beats)
            if variant.steps in (None, steps):
                again = Written(request, written.template, {}, written.tale)
                return _told(suite, domain, topic, again, company)
            wrong_number = f"this takes {steps} pictures, not {variant.steps}"
    raise NotUnderstood(wrong_number or "none reads like this")


def _read_edit(scene: Scene, text: str, parts: tuple[str | Scene, ...]) -> Task:
    if found := read_edit(normalised(text), scene):
        edit, beat = found
        return Task("edit", EDITING, edit.kind, "", parts, (beat,))
    operations = read_sentence(text, scene)
    said = say_all(operations, scene, Manner(way=1))
    beat = Beat("The change", said, apply_all(operations, scene), operations, scene)
    return Task("edit", EDITING, "plain", "", parts, (beat,))

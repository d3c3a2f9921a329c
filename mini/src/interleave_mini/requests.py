"""Checks of a user's request before any model runs, and of the plan the model returns.

`plugin.py` registers `accept_request` for the miniature's planners and `check_prompt` for its generator. Both
raise `InputError` for requests outside the miniature's world, before a run costs anything. Known words are
never refused for their order: they are planned, and `PlanCheck` compares the plan with them.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import groupby

from interleave import ImagePart, InputError, Plan, Question, Reading, Request, Text, UnknownWords
from interleave.plugin import Part, agents, one_line
from interleave.plugin import count as counted
from interleave_mini.language.own_sentences import own_sentences
from interleave_mini.language.vocabulary import (
    Example,
    Unknown,
    asked_text,
    corrected,
    corrections,
    is_known,
    is_plural,
    language,
    left_out,
    other_language,
    unknown_words,
)
from interleave_mini.language.words import listed, plural, with_article
from interleave_mini.plan_audit import PlanAudit
from interleave_mini.plan_check import (
    has_unwanted,
    impossible_step,
    is_about_something_else,
    leaves_out,
    missing_from,
    more_than_fit,
    named_in,
    named_things,
    scenes_of,
    topic_of,
    understood_in,
    unwanted_in,
)
from interleave_mini.plan_mending import mended
from interleave_mini.world.kinds import COLOURS
from interleave_mini.world.scene import CELLS, Scene

MIN_CLEAR_CELLS = 5
"""Cells, of nine. Images of this world have nearly all cells clear, other images none."""
MAX_SHOWN, MAX_WORD_LENGTH, MAX_REQUEST_SHOWN = 6, 40, 200
EXAMPLES = (
    "How a frog grows up, step by step, in four pictures",
    "Tell the story of a cat and a dog that become friends in the meadow.",
    "Draw a cat and a house, then make it night.",
    "How do you bake a purple cake?",
    "Why does a yellow snowman melt when the sun comes out? Explain it in four pictures.",
    "Show the phases of the moon.",
)
OFFERS = (
    "Draw {0} and {1}, then make it night.",
    "Draw {0}, then paint it blue.",
)
"""Requests about any thing of the world and another one."""
COMPANIONS = ("house", "tree")
_REFERRING = "The same thing"
"""Start of a wording that makes sense only after another request."""
SHOWN = 3
"""Maximum requests suggested in a refusal."""
REAL_MODELS = "For anything else use real models: `interleave models list` lists them."

_CAPITALS = re.compile(r"\b(?:[A-Z]{2,}|A(?= [A-Z]{2}))\b")
_MARKUP_LINE = re.compile(r"^\s{0,3}(#{1,6}\s.*|>.*|---+|\*.*\*|Step \d+:?)\s*$", re.MULTILINE)
"""Headings, notes and rules of a Markdown document, which belong to no caption."""
_LEAD = re.compile(r"^\s*(?:#{1,6}\s+)?")
_ESCAPED = re.compile(r"\\(?=[^\w\s])")
_STEP = re.compile(r"^\s*step \d+:", re.IGNORECASE)


def accept_request(request: Request, options: Mapping[str, str]) -> Request:
    """Return the request with the planner's reading of it; raise `InputError` for one outside the world.

    Mistyped words with one candidate are corrected. With the option `nearest`, lacking things are exchanged.
    A story in the user's own sentences becomes a list of steps. Notes name what was changed and left out.
    """
    story = normalise_story(request)
    with_images = bool(request.images)
    wrong = corrections(story.text, with_images=with_images)
    exchanged = {}
    if "nearest" in options:
        unknown = unknown_words(corrected(story.text, wrong), with_images=with_images, in_passing=True)
        exchanged = _exchanges(story.text, unknown)

    def read(text: str) -> str:
        for word, near in exchanged.items():
            text = _replaced(text, word, near)
        text = corrected(text, wrong)
        return text if with_images else _in_lower_case(text)

    told = None if with_images else own_sentences(request.text)
    if told is not None:
        parts: tuple[Part, ...] = (Text(told.as_list([read(each) for each in told.sentences])),)
    else:
        parts = tuple(_read_part(part, read, with_images=with_images) for part in story.parts)
    check_request(replace(request, parts=parts))
    captions = told.sentences if told else ()
    notes = (*_notes(wrong, exchanged), *_left_out_note(read(story.text), with_images=with_images))
    if parts == request.parts and not captions and not notes:
        return request
    return replace(request, reading=Reading(parts, captions, notes))


def _in_lower_case(text: str) -> str:
    """Write known words in capitals in lower case, as the planner has learned them."""
    return _CAPITALS.sub(lambda found: found[0].lower() if is_known(found[0]) else found[0], text)


def _read_part(part: Part, read: Callable[[str], str], *, with_images: bool) -> Part:
    """Return a part as the planner reads it; captions of given images stay as they are."""
    if isinstance(part, ImagePart) or (with_images and _STEP.match(part.text)):
        return part
    return Text(read(part.text))


def _exchanges(text: str, unknown: Sequence[Unknown]) -> dict[str, str]:
    """Return each unknown word that has a neighbour, with one that the request does not name yet."""
    taken, found = {*_words(text)}, dict[str, str]()
    for each in unknown:
        if each.nearest:
            found[each.word] = next((near for near in each.nearest if near not in taken), each.nearest[0])
            taken.add(found[each.word])
    return found


def _notes(wrong: Mapping[str, str], exchanged: Mapping[str, str]) -> Iterator[str]:
    if wrong:
        yield f"read {listed([f'“{typed}” as “{meant}”' for typed, meant in wrong.items()])}"
    for word, near in exchanged.items():
        many = is_plural(word) and near not in COLOURS
        instead = near if near in COLOURS else plural(near) if many else with_article(near, near)
        yield f"no {word.lower()} here: {instead} instead"


def _left_out_note(text: str, *, with_images: bool) -> Iterator[str]:
    words = left_out(asked_text(text) if with_images else text)
    if words:
        yield f"left out: {', '.join(f'“{one_line(word, MAX_WORD_LENGTH)}”' for word in words)}"


# Checks before planning


def check_prompt(prompt: str) -> None:
    """Raise `InputError` for a prompt with words the miniature does not know."""
    if unknown := unknown_words(prompt):
        raise _unknown_words_error(prompt, unknown, takes_nearest=False)


def check_request(request: Request) -> None:
    """Raise `InputError` for unknown words, and for images that are not of the miniature's world."""
    check_words(request)
    if not request.images:
        return
    from interleave_mini.reader import shared_reader  # loads all drawing code and takes seconds to build
    from interleave_mini.reader.scores import is_clear

    for number, reading in enumerate(shared_reader().read_many(list(request.images)), start=1):
        if sum(is_clear(reading, cell) for cell in range(CELLS)) < MIN_CLEAR_CELLS:
            which = f"image {number} is" if len(request.images) > 1 else "the image is"
            raise InputError(
                f"{which} not of the miniature's world, and it knows no other: begin with one that it has "
                f"drawn, or leave it out. {REAL_MODELS}"
            )


def check_words(request: Request) -> None:
    """Raise `InputError`, with neighbours in meaning and requests to paste, for unknown words."""
    text = request.text
    unknown = unknown_words(text, with_images=bool(request.images))
    if not unknown:
        _check_numbers(text)
        return
    if language := other_language(text):
        raise InputError(
            f"the miniature reads English only, and this looks like {language}: sorry! "
            f"In English it can do, for example, {quoted(EXAMPLES[:SHOWN])}. {REAL_MODELS}"
        )
    raise _unknown_words_error(text, unknown)


def _check_numbers(text: str) -> None:
    if too_many := more_than_fit(text):
        raise InputError(
            f"the miniature's images have room for nine things, and "
            f"“{one_line(too_many, MAX_WORD_LENGTH)}” are more. "
            f"It can do {quoted([f'Draw nine {too_many.split()[-1].lower()}'])}. {REAL_MODELS}"
        )


def _unknown_words_error(text: str, unknown: Sequence[Unknown], takes_nearest: bool = True) -> UnknownWords:
    """`takes_nearest` is false for a prompt: the option exchanges words of requests alone."""
    shown = unknown[:MAX_SHOWN]
    words = ", ".join(f"“{one_line(each.word, MAX_WORD_LENGTH)}”{_nearest(each)}" for each in shown)
    more = f" and {len(unknown) - MAX_SHOWN} more" if len(unknown) > MAX_SHOWN else ""
    exchanged = _exchanges(text, unknown)
    instead = ""
    if exchanged and takes_nearest:
        pairs = listed([f"{near} for {one_line(word, MAX_WORD_LENGTH)}" for word, near in exchanged.items()])
        instead = f" Take {pairs} with nearest=True."
    own = [near for near in exchanged.values() if near not in COLOURS]
    can = quoted(nearest_requests(" ".join([text, *own])))
    message = f"the miniature does not know {words}{more}.{instead} It can do {can}. {REAL_MODELS}"
    return UnknownWords(message, exchanged)


def _nearest(unknown: Unknown) -> str:
    return f" (it has {listed([*unknown.nearest])})" if unknown.nearest else ""


def _replaced(text: str, word: str, near: str) -> str:
    """Replace a word by its neighbour, with the right number and article."""
    if is_plural(word) and near not in COLOURS:
        return re.sub(rf"\b{re.escape(word)}\b", plural(near), text)
    article = with_article(near, near)
    text = re.sub(rf"\ban? {re.escape(word)}\b", article, text)
    text = re.sub(rf"\bAn? {re.escape(word)}\b", article[0].upper() + article[1:], text)
    return re.sub(rf"\b{re.escape(word)}\b", near, text)


def suggest_requests(text: str, number: int) -> list[str]:
    """Return requests with the things that `text` names, then near ones, or varied ones if none is."""
    found = nearest_requests(text, number) if text.strip() else []
    return list(dict.fromkeys([*found, *EXAMPLES]))[:number]


def nearest_requests(text: str, limit: int = SHOWN) -> list[str]:
    """Return requests that work: first with the things of `text`, then those that share the most words."""
    things, near = named_in(text), _like(text, len(language().examples))
    own = offers_with(things)
    with_them = [each for each in near if not _things_of_example(each).isdisjoint(things)][:2]
    return list(dict.fromkeys([*own[:1], *with_them, *own[1:], *near]))[:limit]


@cache
def _things_of_example(text: str) -> frozenset[str]:
    return frozenset(named_in(text))


def offers_with(things: Sequence[str]) -> list[str]:
    """Return requests about these things; a test plans them for every thing of the world."""
    one = things[:1]
    other = next((each for each in (*things[1:2], *COMPANIONS) if each not in one), "")
    return [
        offer.format(with_article(thing, thing), with_article(other, other))
        for thing in one
        for offer in OFFERS
    ]


def _like(text: str, limit: int) -> list[str]:
    """Return requests of different topics whose wordings share the most words with `text`.

    A word counts by the share of a topic's wordings that have it, and more where few topics have it.
    """
    asked = _words(text)
    examples = [each for each in language().examples if not each.text.startswith(_REFERRING)]
    topics_with = Counter(word for each in examples for word in each.counts)

    def nearness(each: Example) -> float:
        shares = ((word, each.counts[word] / each.wordings) for word in sorted(asked & each.counts.keys()))
        return sum(share * math.log(len(examples) / topics_with[word]) for word, share in shares)

    ranked = sorted(examples, key=nearness, reverse=True)
    return [each.text for each in ranked[:limit]] if nearness(ranked[0]) else [*EXAMPLES[:limit]]


def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[a-z]+", text.lower()))


def quoted(texts: Sequence[str]) -> str:
    return " or ".join(f"“{text}”" for text in texts)


# The check of a plan


class PlanCheck:
    """Compares a plan with its request: it must contain what the request names, and be drawable."""

    def __init__(self, samples: int = 0, audit: PlanAudit | None = None) -> None:
        self.samples = samples
        self.audit = audit
        """The critic's opinion of plans that no rule objects to."""

    def mended(self, request: Request, plan: Plan) -> Plan:
        """Return the plan with room for what its steps do; that of given images is drawn as it is."""
        return plan if request.images else mended(plan)

    def problem(self, request: Request, plan: Plan) -> str:
        """Return the problem to tell the planner, or an empty string if no rule finds one."""
        if missing := missing_from(plan, request):
            return leaves_out(missing)
        if (wanted := _other_count(request, plan)) is not None:
            return f"The plan has {counted(len(plan.steps), 'step')}, and {wanted} are wanted."
        if prompt := impossible_step(plan, _last_scene(request)):
            return f"Nobody can draw “{prompt}”."
        if request.images:
            return ""
        if unwanted := unwanted_in(plan, request):
            return has_unwanted(unwanted)
        return "The plan is about something else." if is_about_something_else(plan, request) else ""

    def question(self, request: Request, plan: Plan) -> Question | None:
        """Return what to ask the user, or `None` if the plan can be drawn.

        A plan for given images stands if all that is wrong is a thing taken for another: the generator sees
        the image too, and mostly does what is meant.
        """
        if request.images and not missing_from(plan, request) and _other_count(request, plan) is None:
            return None
        understood, missing = understood_in(plan, request), _missing(request, plan)
        return _asked_back(understood, _why(request, plan), missing)

    async def doubt(self, request: Request, plan: Plan) -> Question | None:
        """Return what to ask the user if the critic is sure that a plan does something else.

        A riddle does not name what answers it: four of five such doubts about riddles were wrong.
        """
        is_riddle = topic_of(plan) in language().riddle_topics
        if self.audit is None or is_riddle or not (why := await self.audit.objection(request, plan)):
            return None
        return _asked_back(understood_in(plan, request), why, [])

    def meaning(self, plan: Plan) -> Hashable:
        """Return the scenes of a plan, or its words if the request has images the plan cannot know."""
        return tuple(scenes_of(plan)) or tuple((step.prompt, step.caption) for step in plan.steps)


def _asked_back(understood: Sequence[str], why: str, missing: Sequence[str]) -> Question:
    known = listed([f"“{each}”" for each in understood])
    said = f"the miniature understood {known}, but its plan" if understood else "the miniature's plan"
    text = f"{said} {why}. Say it in other words, or in smaller steps"
    return Question(text=text, understood=tuple(understood), missing=tuple(missing))


def _missing(request: Request, plan: Plan) -> list[str]:
    """Return what a plan lacks, or has against the request, as the user would name it."""
    if missing := missing_from(plan, request):
        return missing
    if (wanted := _other_count(request, plan)) is not None:
        return [counted(wanted, "step")]
    if unwanted := unwanted_in(plan, request):
        return [f"no {each}" for each in unwanted]
    return [] if is_about_something_else(plan, request) else [_impossible(request, plan)]


def _why(request: Request, plan: Plan) -> str:
    """Return what is wrong with a plan, as the end of a sentence about it."""
    if missing := missing_from(plan, request):
        return f"leaves out {listed([f'“{each}”' for each in missing])}"
    if (wanted := _other_count(request, plan)) is not None:
        have = counted(len(plan.steps), "step")
        if request.reading and request.reading.captions:
            return f"has {have} for your {counted(wanted, 'sentence')}"
        return f"has {have}, not {wanted}"
    if unwanted := unwanted_in(plan, request):
        return f"has {listed(unwanted)}, which you do not want"
    if is_about_something_else(plan, request):
        return f"shows {listed(named_things(plan)) or 'something else'} instead of what you asked for"
    return f"cannot be drawn at {_impossible(request, plan)}"


def _impossible(request: Request, plan: Plan) -> str:
    prompt = impossible_step(plan, _last_scene(request))
    number = next((step.number for step in plan.steps if step.prompt == prompt), 0)
    return f"step {number}, “{prompt}”"


def _last_scene(request: Request) -> Scene | None:
    """Return the scene of the last image, which the plan continues; `None` without images."""
    if not request.images:
        return None
    from interleave_mini.reader import shared_batched_reader

    return shared_batched_reader().read(request.images[-1]).scene


def _other_count(request: Request, plan: Plan) -> int | None:
    """Return the number of steps a request wants if the plan has another number, else `None`."""
    own = request.reading.captions if request.reading else ()
    wanted = len(own) or agents.named_steps(request)
    return wanted if wanted is not None and wanted != len(plan.steps) else None


# Stories that have begun


def normalise_story(request: Request) -> Request:
    """Return an unfinished story in the planner's form: title, “Step 1: …” and image, then the wish.

    Users send documents with a title, headings, and captions above or below the images. Any request that is
    not such a story, or has that form already, is returned as it is.
    """
    parts = [part for part in request.parts if isinstance(part, ImagePart) or part.text.strip()]
    if len(parts) < 3:
        return request
    first, *story, wish = parts
    if not isinstance(first, Text) or not isinstance(wish, Text):
        return request
    images = [part for part in story if isinstance(part, ImagePart)]
    if not images or (isinstance(story[0], Text) and _STEP.match(story[0].text)):
        return request
    title, *words = _LEAD.sub("", _unescaped(first.text)).strip().split("\n", 1)
    captions = _captions([Text("\n".join(words)), *story])
    normalised: list[Part] = [Text(title.strip())]
    for number, (caption, image) in enumerate(zip(captions, images, strict=True), start=1):
        normalised += [Text(f"Step {number}: {caption}"), image]
    return Request((*normalised, wish), request.assets)


def _captions(story: Sequence[Part]) -> list[str]:
    """Return the caption of each image: the text above it if the first image has one there, else below."""
    texts = [""]
    for is_image, some in groupby(story, lambda part: isinstance(part, ImagePart)):
        if is_image:
            texts += [""] * len(list(some))
        else:
            text = "\n".join(part.text for part in some if isinstance(part, Text))
            texts[-1] = " ".join(_MARKUP_LINE.sub("", _unescaped(text)).split())
    return texts[:-1] if texts[0] else texts[1:]


def _unescaped(text: str) -> str:
    """Remove backslash escapes from Markdown."""
    return _ESCAPED.sub("", text)

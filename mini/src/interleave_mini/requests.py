"""Checks of a user's request before any model runs, and of the plan the model returns.

`plugin.py` registers `accept_request` for the miniature's planners and `check_prompt` for its generator. Both
raise `InputError` for requests outside the miniature's world, before a run costs anything. Known words are
never refused for their order: they are planned, and `PlanCheck` compares the plan with them.
"""

from __future__ import annotations

import logging
import math
import re
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from itertools import groupby

from interleave import ImagePart, InputError, Plan, Request, Text
from interleave.plugin import Part, agents, one_line
from interleave.plugin import count as counted
from interleave_mini.language.vocabulary import (
    Example,
    Unknown,
    corrected,
    corrections,
    has_only_trained_words,
    is_plural,
    language,
    other_language,
    unknown_words,
)
from interleave_mini.language.words import listed, plural, with_article
from interleave_mini.plan_check import (
    has_unwanted,
    impossible_step,
    is_about_something_else,
    leaves_out,
    missing_from,
    more_than_fit,
    named_things,
    scenes_of,
    unwanted_in,
)
from interleave_mini.world.kinds import COLOURS
from interleave_mini.world.scene import CELLS, Scene

log = logging.getLogger(__name__)

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
SHOWN = 3
"""Maximum requests suggested in a refusal."""
REAL_MODELS = "For anything else use real models: `interleave models list` lists them."

_MARKUP_LINE = re.compile(r"^\s{0,3}(#{1,6}\s.*|>.*|---+|\*.*\*|Step \d+:?)\s*$", re.MULTILINE)
"""Headings, notes and rules of a Markdown document, which belong to no caption."""
_LEAD = re.compile(r"^\s*(?:#{1,6}\s+)?")
_ESCAPED = re.compile(r"\\(?=[^\w\s])")
_STEP = re.compile(r"^\s*step \d+:", re.IGNORECASE)


def accept_request(request: Request, options: Mapping[str, str]) -> Request:
    """Return the request as the planner reads it; raise `InputError` for one outside the world.

    Mistyped words with one candidate are corrected, and said so; a story that has begun gets its parts in
    order. Nothing else stands between the person's words and the planner.
    """
    request = normalise_story(request)
    with_images = bool(request.images)
    found = corrections(request.text, with_images=with_images)
    if found:
        log.warning("read %s", listed([f"“{wrong}” as “{right}”" for wrong, right in found.items()]))
        request = Request(
            tuple(
                Text(corrected(part.text, found))
                if isinstance(part, Text) and not (with_images and _STEP.match(part.text))
                else part
                for part in request.parts
            ),
            request.assets,
        )
    check_request(request)
    return request


# Checks before planning


def check_prompt(prompt: str) -> None:
    """Raise `InputError` for a prompt with words the miniature does not know."""
    if unknown := unknown_words(prompt):
        raise _unknown_words_error(prompt, unknown)


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


def _unknown_words_error(text: str, unknown: Sequence[Unknown]) -> InputError:
    shown = unknown[:MAX_SHOWN]
    words = ", ".join(f"“{one_line(each.word, MAX_WORD_LENGTH)}”{_nearest(each)}" for each in shown)
    more = f" and {len(unknown) - MAX_SHOWN} more" if len(unknown) > MAX_SHOWN else ""
    own = _with_neighbours(text, unknown)
    instead = f"Try {quoted(own)}" if own else f"It can do {quoted(nearest_requests(text))}"
    return InputError(f"the miniature does not know {words}{more}. {instead}. {REAL_MODELS}")


def _nearest(unknown: Unknown) -> str:
    return f" (it has {listed([*unknown.nearest])})" if unknown.nearest else ""


def _with_neighbours(text: str, unknown: Sequence[Unknown]) -> list[str]:
    """Return the user's request with known neighbours in place of unknown words, in three variants.

    Empty unless that makes sense and all its other words are of requests that the planner knows: a paper car
    is as hard to fold as a paper crane.
    """
    if not all(each.replaceable for each in unknown) or len(text) > MAX_REQUEST_SHOWN:
        return []
    own = []
    for turn in range(SHOWN):
        said = text
        for place, each in enumerate(unknown):
            said = _replaced(said, each.word, each.nearest[(turn + place) % len(each.nearest)])
        own.append(one_line(said, MAX_REQUEST_SHOWN))
    return list(dict.fromkeys(own)) if all(has_only_trained_words(said) for said in own) else []


def _replaced(text: str, word: str, near: str) -> str:
    """Replace a word by its neighbour, with the right number and article."""
    if is_plural(word) and near not in COLOURS:
        return re.sub(rf"\b{re.escape(word)}\b", plural(near), text)
    article = with_article(near, near)
    text = re.sub(rf"\ban? {re.escape(word)}\b", article, text)
    text = re.sub(rf"\bAn? {re.escape(word)}\b", article[0].upper() + article[1:], text)
    return re.sub(rf"\b{re.escape(word)}\b", near, text)


def suggest_requests(text: str, number: int) -> list[str]:
    """Return requests that share words with `text`, nearest first, or varied ones if none does."""
    found = nearest_requests(text, number) if text.strip() else []
    return list(dict.fromkeys([*found, *EXAMPLES]))[:number]


def nearest_requests(text: str, limit: int = SHOWN) -> list[str]:
    """Return requests of different topics whose wordings share the most words with `text`.

    A word counts by the share of a topic's wordings that have it, and more where few topics have it.
    """
    asked = _words(text)
    examples = language().examples
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

    samples = 8

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

    def refusal(self, request: Request, plan: Plan) -> InputError | None:
        """Return the error for the user if no sampled plan is better.

        A plan for given images stands if all that is wrong is a thing taken for another: the generator sees
        the image too, and mostly does what is meant.
        """
        if request.images and not missing_from(plan, request) and _other_count(request, plan) is None:
            return None
        return InputError(
            f"{_why(request, plan)}. It can do {quoted(nearest_requests(request.text))}. {REAL_MODELS}"
        )

    def meaning(self, plan: Plan) -> Hashable:
        """Return the scenes of a plan, or its words if the request has images the plan cannot know."""
        return tuple(scenes_of(plan)) or tuple((step.prompt, step.caption) for step in plan.steps)


def _why(request: Request, plan: Plan) -> str:
    understood = f"the miniature understood {listed(named_things(plan)) or 'nothing that it can draw'}"
    in_other_words = "say it in other words, or in smaller steps"
    if missing := missing_from(plan, request):
        left_out = listed([f"“{each}”" for each in missing])
        return f"{understood}, but its plan leaves out {left_out}: {in_other_words}"
    if (wanted := _other_count(request, plan)) is not None:
        told = counted(len(plan.steps), "image")
        return (
            f"{understood}, but it tells this in {told}, not in {wanted}: ask for {told}, or name no number"
        )
    if unwanted := unwanted_in(plan, request):
        return f"{understood}, but its plan has {listed(unwanted)}, which you do not want: {in_other_words}"
    if is_about_something_else(plan, request):
        return "the miniature finds nothing in this that it can draw"
    return f"{understood}, but its plan cannot be drawn at “{impossible_step(plan)}”: {in_other_words}"


def _last_scene(request: Request) -> Scene | None:
    """Return the scene of the last image, which the plan continues; `None` without images."""
    if not request.images:
        return None
    from interleave_mini.reader import shared_batched_reader

    return shared_batched_reader().read(request.images[-1]).scene


def _other_count(request: Request, plan: Plan) -> int | None:
    """Return the number of images a request names if the plan has another number, else `None`."""
    wanted = agents.named_steps(request)
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

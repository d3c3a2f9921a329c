"""What the miniature does with a user's request before any model runs: normalise it, check it, parse it.

`plugin.py` registers `accept_request` for the miniature's planners and `check_prompt` for its generator. Both
raise `InputError` for what is outside the little world, so that a run is refused before it costs anything.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from random import Random

from interleave.agents.planner import named_steps
from interleave.errors import InputError
from interleave.text import count
from interleave.types import Part, Picture, Request, Text
from interleave_mini.language.patterns import NotUnderstood
from interleave_mini.language.tasks import GO_ON, Task, parse_task, sample_task
from interleave_mini.language.vocabulary import EXAMPLES, REAL_MODELS, check_words
from interleave_mini.reader import shared_batched_reader, shared_reader
from interleave_mini.reader.scores import is_clear
from interleave_mini.world.operations import Impossible
from interleave_mini.world.scene import CELLS

MIN_CLEAR_CELLS = 5
"""Of nine: a picture of this world has nearly all its cells clear, any other picture none."""

_MARKUP_LINE = re.compile(r"^\s{0,3}(#{1,6}\s.*|>.*|---+|\*.*\*|Step \d+:?)\s*$", re.MULTILINE)
"""Headings, notes and rules of a Markdown document: they are not part of a caption."""
_LEAD = re.compile(r"^\s*(?:#{1,6}\s+)?")
_ESCAPED = re.compile(r"\\(?=[^\w\s])")
_STEP = re.compile(r"^\s*step \d+:", re.IGNORECASE)
_CONTINUE = re.compile(
    r"\b(go on|goes on|carry on|continue|continues|next|rest|remaining|missing|finish|finished|end)\b",
    re.IGNORECASE,
)


def accept_request(request: Request, options: Mapping[str, str]) -> Request:
    """The request in the form the planners were trained on; raises `InputError` for one outside the world.

    With the planner option `guess`, known words and pictures are enough: the request need not parse.
    """
    normalised = normalise_story(without_shouting(request))
    check_request(normalised)
    if options.get("guess", "false").lower() in ("true", "1", "yes", "on"):
        return normalised
    steps = len(parse_request(normalised).steps)
    if (wanted := named_steps(request)) not in (None, steps):
        raise InputError(f"this takes {count(steps, 'step')}, not {wanted}: name that number, or none")
    return normalised


# Checks


def check_prompt(prompt: str) -> None:
    """Raise `InputError` for a prompt with words the miniature does not know."""
    check_words(Request.of(prompt))


def check_request(request: Request) -> None:
    """Raise `InputError` for unknown words, and for pictures that are not of the miniature's world."""
    check_words(request)
    if not request.pictures:  # the reader takes seconds to make
        return
    for number, reading in enumerate(shared_reader().read_many(list(request.pictures)), start=1):
        if sum(is_clear(reading, cell) for cell in range(CELLS)) < MIN_CLEAR_CELLS:
            which = f"picture {number} is" if len(request.pictures) > 1 else "the picture is"
            raise InputError(
                f"{which} not of the miniature's world, and it knows no other: begin with one that it has "
                f"drawn, or leave it out. {REAL_MODELS}"
            )


def parse_request(request: Request) -> Task:
    """The task behind a request, its pictures read; raises `InputError` when no template matches."""
    parts = [
        part.text if isinstance(part, Text) else shared_batched_reader().read(part.image).scene
        for part in request.parts
    ]
    try:
        return parse_task(parts)
    except (NotUnderstood, Impossible) as error:
        nearest = " or ".join(f"“{text}”" for text in _nearest_requests(request.text))
        raise InputError(
            f"the miniature knows all these words, but no such request ({error}). "
            f"Requests it knows read like {nearest}. {REAL_MODELS}"
        ) from None


def suggest_requests(text: str, number: int) -> list[str]:
    """Requests of this world that share words with a text, the nearest first; else varied ones."""
    if not text.strip() and number <= len(EXAMPLES):
        return list(EXAMPLES[:number])
    found = _nearest_requests(text, number)
    if _words(text).isdisjoint(_words(" ".join(found))):
        found = [*EXAMPLES, *found]
    return list(dict.fromkeys(found))[:number]


def _nearest_requests(text: str, limit: int = 2) -> list[str]:
    """Requests of different topics that share the most words with this one."""
    rng, asked = Random(0), _words(text)
    nearest: dict[str, tuple[float, int, str]] = {}
    for _ in range(600):
        task = sample_task("story", rng)
        words = _words(task.text)
        shared = len(words & asked) / len(words | asked)
        found = (-shared, len(task.text), task.text)  # of two that are as near, the shorter one
        nearest[task.topic] = min(nearest.get(task.topic, found), found)
    return [text for *_, text in sorted(nearest.values())[:limit]]


def _words(text: str) -> set[str]:
    return set(re.findall(r"[a-z]+", text.lower()))


# Normalisation


def normalise_story(request: Request) -> Request:
    """A half-finished picture story in the planners' form: title, “Step 1: …” and picture, a wish to go on.

    Users send documents with a title, headings, and captions above or below the pictures. Any request that is
    not such a story, or has that form already, is returned as it is.
    """
    parts = [part for part in request.parts if isinstance(part, Picture) or part.text.strip()]
    if len(parts) < 3:
        return request
    first, *story, wish = parts
    if not isinstance(first, Text) or not isinstance(wish, Text) or not _CONTINUE.search(wish.text):
        return request
    pictures = [part for part in story if isinstance(part, Picture)]
    if not pictures or (isinstance(story[0], Text) and _STEP.match(story[0].text)):
        return request
    title, *words = _LEAD.sub("", _unescaped(first.text)).strip().split("\n", 1)
    captions = _captions([Text("\n".join(words)), *story])
    normalised: list[Part] = [Text(title.strip())]
    for number, (caption, picture) in enumerate(zip(captions, pictures, strict=True), start=1):
        normalised += [Text(f"Step {number}: {caption}"), picture]
    return Request((*normalised, Text(GO_ON[0])))


def without_shouting(request: Request) -> Request:
    """A text request in lower case with one full stop, if it was all capitals or ended in “!”.

    The planners were trained on calm sentences only.
    """
    words = request.text.removesuffix("\n").rstrip("!?.")
    calm = f"{words}." if "!" in request.text[len(words) :] else request.text
    if request.pictures or not (calm != request.text or calm.isupper()):
        return request
    return Request.of(calm.capitalize() if calm.isupper() else calm)


def _captions(story: Sequence[Part]) -> list[str]:
    """The caption of each picture: the text above it if the first picture has text above it, else below."""
    texts = [""]
    for is_picture, some in groupby(story, lambda part: isinstance(part, Picture)):
        if is_picture:
            texts += [""] * len(list(some))
        else:
            text = "\n".join(part.text for part in some if isinstance(part, Text))
            texts[-1] = " ".join(_MARKUP_LINE.sub("", _unescaped(text)).split())
    return texts[:-1] if texts[0] else texts[1:]


def _unescaped(text: str) -> str:
    """Markdown without the backslashes that keep characters from being markup."""
    return _ESCAPED.sub("", text)

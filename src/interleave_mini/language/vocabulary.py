"""The vocabulary of the language, and the check for unknown words that runs before any model."""

from __future__ import annotations

import difflib
import re
from functools import cache

from interleave.errors import InputError
from interleave.text import one_line
from interleave.types import Request
from interleave_mini.language.distractors import WORDINGS
from interleave_mini.language.edits import EDITS
from interleave_mini.language.edits.edit import CATEGORIES
from interleave_mini.language.riddles import RIDDLE_TOPICS, RIDDLES
from interleave_mini.language.sentences import SPEECH
from interleave_mini.language.tasks import DESCRIBE, GO_ON
from interleave_mini.language.topics import DOMAINS
from interleave_mini.language.words import (
    BACKGROUND_OF_NOUN,
    BACKGROUND_OF_PHRASE,
    CELL_OF,
    DIRECTIONS,
    NUMBERS,
    RELATIONS,
    ROWS,
    SIZES,
    plural,
)
from interleave_mini.world.kinds import COLOURS, KINDS, NOUNS

_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_GAP = re.compile(r"{\w+}")
_GIVEN_STEP = re.compile(r"^step \d+:.*$", re.IGNORECASE | re.MULTILINE)
"""Captions of steps the user gives: they may contain any words."""
_MAX_SHOWN = 6
MAX_WORD_LENGTH = 40
EXAMPLES = (
    "How a frog grows up, step by step, in four pictures",
    "Tell the story of a cat and a dog that become friends in the meadow.",
    "Show the phases of the moon.",
    "How do you bake a purple cake?",
    "Why does a yellow snowman melt when the sun comes out? Explain it in four pictures.",
    "Draw a green rocket step by step.",
)
REAL_MODELS = "For anything else use real models: `interleave backends` lists them."


@cache
def vocabulary() -> frozenset[str]:
    """Every word of the language, in lower case."""
    topics = [topic for topics in (*DOMAINS.values(), RIDDLE_TOPICS) for topic in topics]
    texts = [
        *(template for topic in topics for template in topic.templates),
        *(_regex_words(gap.regex) for topic in topics for gap in topic.gaps.values()),
        *(template for edit in EDITS for template in edit.templates),
        *(pattern.text for speech in SPEECH.values() for pattern in speech.patterns),
        *(riddle for riddles in RIDDLES.values() for riddle in riddles),
        *(*NOUNS, *(plural(noun) for noun in NOUNS), *COLOURS, *SIZES, *NUMBERS, *CATEGORIES),
        *(*BACKGROUND_OF_NOUN, *BACKGROUND_OF_PHRASE, *CELL_OF, *ROWS, *RELATIONS, *DIRECTIONS),
        *(
            *GO_ON,
            *DESCRIBE,
            *WORDINGS,
            "please kindly can could you i want to now me nothing else unchanged",
            "a an some one with and there is are stay stays step steps picture pictures images scenes",
        ),
    ]
    return frozenset(word.lower() for text in texts for word in _WORD.findall(_GAP.sub(" ", text)))


def unknown_words(text: str) -> list[str]:
    """The words of a text that are not in the vocabulary, each once, in order."""
    known, asked = vocabulary(), _GIVEN_STEP.sub("", text)
    return list(dict.fromkeys(word for word in _WORD.findall(asked) if word.lower() not in known))


def check_words(request: Request) -> None:
    """Raise `InputError` with suggestions when a request has unknown words."""
    foreign = unknown_words(request.text)
    if not foreign:
        return
    named = ", ".join(f"“{one_line(word, MAX_WORD_LENGTH)}”" for word in foreign[:_MAX_SHOWN])
    more = f" and {len(foreign) - _MAX_SHOWN} more" if len(foreign) > _MAX_SHOWN else ""
    raise InputError(
        f"the miniature does not know {named}{more}.{_suggestions(foreign[:_MAX_SHOWN])} "
        f"It can draw for example {', '.join(_some_nouns())}; try “{EXAMPLES[0]}”. {REAL_MODELS}"
    )


def _suggestions(foreign: list[str]) -> str:
    pairs = [(word, _close_match(word.lower())) for word in foreign if len(word) <= MAX_WORD_LENGTH]
    hints = [f"“{close}” for “{word}”" for word, close in pairs if close][:2]
    return f" Did you mean {' and '.join(hints)}?" if hints else ""


def _close_match(word: str) -> str | None:
    """The closest known word: something to draw if possible, else any word."""
    things = sorted({*NOUNS, *(plural(noun) for noun in NOUNS), *COLOURS})
    swapped = [thing for thing in things if len(thing) == len(word) and sorted(thing) == sorted(word)]
    close = swapped or difflib.get_close_matches(word, things, 1, 0.8)
    close = close or difflib.get_close_matches(word, sorted(vocabulary()), 1, 0.8)
    return close[0] if close else None


def _some_nouns() -> list[str]:
    """A few things to draw, from different categories."""
    by_category = {kind.category: kind.states[kind.usual] for kind in KINDS.values()}
    return [plural(noun) for noun in list(by_category.values())[:_MAX_SHOWN]]


def _regex_words(regex: str) -> str:
    """The words in the regular expression of a gap."""
    return re.sub(r"\\.|[^a-zA-Z'’-]+", " ", regex)

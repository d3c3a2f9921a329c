"""Which words of a request the miniature does not know, said before any model runs."""

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
from interleave_mini.language.riddle_requests import RIDDLE_TOPICS
from interleave_mini.language.riddles import RIDDLES
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
_ALREADY_THERE = re.compile(r"^step \d+:.*$", re.IGNORECASE | re.MULTILINE)
"""The captions of steps a user has already: they may say anything."""
_SHOWN = 6
LONGEST_WORD = 40
EXAMPLES = (
    "How a frog grows up, step by step, in four pictures",
    "Tell the story of a cat and a dog that become friends in the meadow.",
    "Show the phases of the moon.",
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
    """The words of a text that the language does not have, each once, in order."""
    known, asked = vocabulary(), _ALREADY_THERE.sub("", text)
    return list(dict.fromkeys(word for word in _WORD.findall(asked) if word.lower() not in known))


def refuse_foreign_words(request: Request) -> None:
    """Raise with a helpful answer when a request has words the miniature does not know."""
    foreign = unknown_words(request.text)
    if not foreign:
        return
    named = ", ".join(f"“{one_line(word, LONGEST_WORD)}”" for word in foreign[:_SHOWN])
    more = f" and {len(foreign) - _SHOWN} more" if len(foreign) > _SHOWN else ""
    raise InputError(
        f"the miniature does not know {named}{more}.{_instead(foreign[:_SHOWN])} "
        f"It can draw for example {', '.join(_some_nouns())}; try “{EXAMPLES[0]}”. {REAL_MODELS}"
    )


def _instead(foreign: list[str]) -> str:
    pairs = [(word, _close(word.lower())) for word in foreign if len(word) <= LONGEST_WORD]
    hints = [f"“{close}” for “{word}”" for word, close in pairs if close][:2]
    return f" Did you mean {' and '.join(hints)}?" if hints else ""


def _close(word: str) -> str | None:
    """A word that was perhaps meant: rather something to draw than any other."""
    things = sorted({*NOUNS, *(plural(noun) for noun in NOUNS), *COLOURS})
    swapped = [thing for thing in things if len(thing) == len(word) and sorted(thing) == sorted(word)]
    close = swapped or difflib.get_close_matches(word, things, 1, 0.8)
    close = close or difflib.get_close_matches(word, sorted(vocabulary()), 1, 0.8)
    return close[0] if close else None


def _some_nouns() -> list[str]:
    """A few things to draw, from different categories."""
    by_category = {kind.category: kind.states[kind.usual] for kind in KINDS.values()}
    return [plural(noun) for noun in list(by_category.values())[:_SHOWN]]


def _regex_words(regex: str) -> str:
    """The words of a gap: its expression, with everything but letters taken out."""
    return re.sub(r"\\.|[^a-zA-Z'’-]+", " ", regex)

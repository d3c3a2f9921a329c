"""`language.json`: what the runtime knows about the language, collected from the grammar.

Requests may have every word of every template, voice and riddle. The lexicon adds English words, and things
that the world lacks. The same grammar gives the same bytes.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from interleave_mini.language.sentences import SPEECH
from interleave_mini.language.vocabulary import WORD, Language, contexts, dictionary
from interleave_mini.language.words import (
    ALL_BACKGROUND_OF_NOUN,
    ALL_BACKGROUND_OF_PHRASE,
    ALL_PLACES,
    CELL_OF,
    DIRECTIONS,
    NUMBERS,
    RELATIONS,
    ROWS,
    SIZES,
    plural,
)
from interleave_mini.world.wider import ALL_COLOURS, ALL_NOUNS, NIGHT
from miniature.grammar import lexicon
from miniature.grammar.distractors import WORDINGS
from miniature.grammar.edits import EDITS
from miniature.grammar.edits.edit import CATEGORIES
from miniature.grammar.learned_words import (
    contexts_of_unmeant,
    counted_examples,
    effects_of_words,
    said_otherwise,
    sampled_examples,
    vague_places,
)
from miniature.grammar.narrations import narration_lines
from miniature.grammar.riddles import RIDDLE_TOPICS, RIDDLES
from miniature.grammar.synonyms import (
    ADJECTIVES,
    COLOUR_SYNONYMS,
    NAMES,
    NOUN_SYNONYMS,
    PLACE_NOUNS,
    PLACE_PHRASES,
    SIZE_WORDS,
)
from miniature.grammar.tasks import DESCRIBE, GO_ON
from miniature.grammar.topics import DOMAINS
from miniature.grammar.topics.arrangements import EMPTY_PLACES, RELATED
from miniature.grammar.voices import voices
from miniature.grammar.wider_words import (
    LIKE,
    SAME,
    WIDER_COLOURS,
    WIDER_PHRASES,
    WIDER_PLACES,
)
from miniature.grammar.worked_examples import LEARNED, parsed_examples

_GAP = re.compile(r"{[^{}]*}")
_FEW_TOPICS = 6
"""Maximum number of topics of a word that identifies the topic of a request."""
_SMALL_WORDS = frozenset(
    WORD.findall(
        "a an and any at by comes from goes in into of off on one picture single some the thing things to two"
        " up what"
    )
)
"""Words in topic names that do not describe the topic."""


_NOUNS = NOUN_SYNONYMS | SAME | LIKE
_COMMON = 2
"""Minimum number of worked examples with a word that requests may have."""


def write_language(path: Path) -> None:
    """Write the file, with one entry per line."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(gathered(), ensure_ascii=False, indent=1) + "\n", "utf-8")


def gathered() -> dict[str, Any]:
    """Return the content of the file."""
    lacking = lexicon.neighbour_lines()
    said: dict[str, Any] = {
        "harmless": _joined(lexicon.harmless_words()),
        "trained": _joined(vocabulary() - lexicon.harmless_words()),
        "everyday": _joined(lexicon.everyday_words() - vocabulary()),
        "misspelt": lexicon.misspelt_words(),
        "foreign": {name: _joined(words) for name, words in lexicon.foreign_words().items()},
        "lacking": [
            {"nearest": known, "words": unknown, "replaceable": alike} for known, unknown, alike in lacking
        ],
        "nouns": _NOUNS,
        "drawn_as": sorted(LIKE),
        "colours": COLOUR_SYNONYMS | WIDER_COLOURS,
        "sizes": SIZE_WORDS,
        "adjectives": ADJECTIVES,
        "place_phrases": _merged(PLACE_PHRASES, WIDER_PHRASES),
        "vague_places": [],
        "unmeant": [],
        "place_nouns": _merged(PLACE_NOUNS, WIDER_PLACES),
        "empty_places": EMPTY_PLACES,
        "related": RELATED,
        "telling": {topic: _joined(words) for topic, words in _telling_words().items()},
        "riddles": {noun: [_joined(words) for words in told] for noun, told in _riddle_words().items()},
        "riddle_topics": [topic.name for topic in RIDDLE_TOPICS],
        "examples": list(_examples()),
        "effects": [],
        "otherwise": [],
        "spoken_of": [],
        "riddle_contexts": [],
    }
    so_far = Language(json.loads(json.dumps(said)))
    examples = counted_examples(so_far)
    own = {place: (words.within, *words.others) for place, words in ALL_PLACES.items() if NIGHT not in place}
    effects = effects_of_words(examples, so_far.things, _said_in_templates())
    return said | {
        "unmeant": contexts_of_unmeant([*examples, *sampled_examples(so_far)], so_far),
        "vague_places": vague_places(examples, _merged(PLACE_PHRASES, WIDER_PHRASES, own)),
        "effects": effects,
        "otherwise": said_otherwise(examples, effects),
        "spoken_of": _spoken_of(so_far),
        "riddle_contexts": _riddle_contexts(so_far),
    }


def _merged(*said: dict[str, tuple[str, ...]]) -> dict[str, list[str]]:
    places = dict.fromkeys(place for each in said for place in each)
    return {
        place: list(dict.fromkeys(words for each in said for words in each.get(place, ())))
        for place in places
    }


def _joined(words: Iterable[str]) -> str:
    return " ".join(sorted(words))


# Known words


@cache
def vocabulary() -> frozenset[str]:
    """Return every word that a request may have, in lower case."""
    return _said_in_templates() | lexicon.harmless_words() | _worked_words()


@cache
def _said_in_templates() -> frozenset[str]:
    return frozenset(word.lower() for text in _texts() for word in _words_of(text))


def _worked_words() -> frozenset[str]:
    """Return the English words that some worked examples have; the others may be typing errors."""
    found = Counter(
        word
        for example in parsed_examples(*LEARNED)
        for word in {word.lower() for request in example.requests for word in WORD.findall(request)}
    )
    return frozenset(word for word, count in found.items() if count >= _COMMON and word in dictionary())


def _texts() -> Iterator[str]:
    yield from (template for topic in _topics() for template in topic.templates)
    yield from (_regex_words(gap.regex) for topic in _topics() for gap in topic.gaps.values())
    yield from (template for edit in EDITS for template in edit.templates)
    yield from (pattern.text for speech in SPEECH.values() for pattern in speech.patterns)
    yield from (riddle for riddles in RIDDLES.values() for riddle in riddles)
    yield from (*_voice_lines(), *narration_lines())
    nouns = (*ALL_NOUNS, *_NOUNS)
    yield from (*nouns, *map(plural, nouns), *ALL_COLOURS, *COLOUR_SYNONYMS, *WIDER_COLOURS, *SIZES, *NUMBERS)
    yield from (*CATEGORIES, *ADJECTIVES, *NAMES)
    yield from (*ALL_BACKGROUND_OF_NOUN, *ALL_BACKGROUND_OF_PHRASE, *CELL_OF, *ROWS, *RELATIONS, *DIRECTIONS)
    places = (PLACE_PHRASES, PLACE_NOUNS, WIDER_PHRASES, WIDER_PLACES)
    for words in (*SIZE_WORDS.values(), *(words for each in places for words in each.values())):
        yield from words
    yield from (*GO_ON, *DESCRIBE, *WORDINGS)


def _topics() -> list[Any]:
    return [topic for topics in (*DOMAINS.values(), RIDDLE_TOPICS) for topic in topics]


@cache
def _voice_lines() -> tuple[str, ...]:
    """Return every line of every voice, without its gaps."""
    lines = (each.text for voice in voices() for lines in voice.phrasings.values() for each in lines)
    return tuple(_GAP.sub(" ", line) for line in lines)


def _words_of(text: str) -> list[str]:
    return WORD.findall(re.sub(r"[\[\]()|]", " ", _GAP.sub(" ", text)))


def _regex_words(regex: str) -> str:
    """Return the words in the regular expression of a gap."""
    return re.sub(r"\\.|[^a-zA-Z'’-]+", " ", regex)


# Words for things that the world lacks, in wordings that use them otherwise


def _spoken_of(language: Language) -> list[tuple[str, bool]]:
    """Return contexts such as "a bed of flowers", which asks for no bed."""
    templates = [template for topic in _topics() for template in topic.templates]
    edits = [template for edit in EDITS for template in edit.templates]
    texts = (*_voice_lines(), *templates, *edits)
    said = {language.mention(found) for text in texts for found in language.asked_for.finditer(text)}
    worked = Counter(
        mention
        for example in parsed_examples(*LEARNED)
        for mention in {
            language.mention(found)
            for request in example.requests
            for found in language.asked_for.finditer(request)
        }
    )
    return sorted(said | {mention for mention, count in worked.items() if count >= _COMMON})


def _riddle_contexts(language: Language) -> list[str]:
    """Return such contexts in riddles: "a princess lives in it"."""
    texts = [riddle for riddles in RIDDLES.values() for riddle in riddles]
    found = ((each, text) for text in texts for each in language.asked_for.finditer(text))
    return sorted({context for each, text in found for context in contexts(each, text)})


# What a request is about


def _telling_words() -> dict[str, set[str]]:
    """Return, by topic, the words that identify it because few other topics have them."""
    words_of: dict[str, set[str]] = {}
    for topic, text in _worded_topics():
        words_of.setdefault(topic, set(topic.split())).update(word.lower() for word in _words_of(text))
    topics_with = Counter(word for words in words_of.values() for word in words)
    others = lexicon.harmless_words() | lexicon.neighbours().keys()
    return {
        topic: {
            word
            for word in words
            if word in set(topic.split()) - _SMALL_WORDS
            or (topics_with[word] <= _FEW_TOPICS and word not in others)
        }
        for topic, words in words_of.items()
    }


def _worded_topics() -> Iterator[tuple[str, str]]:
    for topic in (topic for topics in DOMAINS.values() for topic in topics):
        yield from ((topic.name, template) for template in topic.templates)
        for voice in voices():
            yield from ((topic.name, each.text) for each in voice.section(topic.name))


def _riddle_words() -> dict[str, list[set[str]]]:
    """Return the words of each riddle, except those in more than one of twenty riddles."""
    told = {noun: [_lower_words(riddle) for riddle in riddles] for noun, riddles in RIDDLES.items()}
    found = Counter(word for riddles in told.values() for words in riddles for word in words)
    count = sum(map(len, told.values()))
    common = {word for word, times in found.items() if times > count / 20}
    return {noun: [words - common for words in riddles] for noun, riddles in told.items()}


def _lower_words(text: str) -> set[str]:
    return {word.lower() for word in WORD.findall(text)}


def _examples() -> Iterator[dict[str, Any]]:
    """Yield a plain request of every topic, and the number of its wordings with each word."""
    for topic in (topic for topics in DOMAINS.values() for topic in topics):
        lines = [_GAP.sub(" ", each.text) for voice in voices() for each in voice.section(topic.name)]
        texts = (topic.example(), *lines)
        found = Counter(word for text in texts for word in set(re.findall(r"[a-z]+", text.lower())))
        words = found.keys() - lexicon.harmless_words()
        by_count = {count: [word for word in words if found[word] == count] for count in found.values()}
        yield {
            "text": texts[0],
            "wordings": len(texts),
            "counts": {
                str(count): _joined(by_count[count])
                for count in sorted(by_count, reverse=True)
                if by_count[count]
            },
        }

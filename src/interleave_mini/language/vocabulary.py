"""The vocabulary of requests: which words are known, which are mistyped, which name what the world lacks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache

from interleave_mini.language.distractors import WORDINGS
from interleave_mini.language.edits import EDITS
from interleave_mini.language.edits.edit import CATEGORIES
from interleave_mini.language.lexicon import (
    everyday_words,
    foreign_words,
    harmless_words,
    misspelt_words,
    neighbours,
    replaceable,
)
from interleave_mini.language.narrations import narration_lines
from interleave_mini.language.riddles import RIDDLE_TOPICS, RIDDLES
from interleave_mini.language.sentences import SPEECH
from interleave_mini.language.synonyms import (
    ADJECTIVES,
    COLOUR_SYNONYMS,
    NAMES,
    NOUN_SYNONYMS,
    PLACE_NOUNS,
    PLACE_PHRASES,
    SIZE_WORDS,
)
from interleave_mini.language.tasks import DESCRIBE, GO_ON
from interleave_mini.language.topics import DOMAINS
from interleave_mini.language.voices import voices
from interleave_mini.language.words import (
    BACKGROUND_OF_NOUN,
    BACKGROUND_OF_PHRASE,
    CELL_OF,
    DIRECTIONS,
    NUMBERS,
    RELATIONS,
    ROWS,
    SIZES,
    one_of,
    plural,
)
from interleave_mini.world.kinds import COLOURS, NOUNS

_WORD = re.compile(r"\b[^\W\d_]+(?:['’-][^\W\d_]+)*")
_GAP = re.compile(r"{[^{}]*}")
_GIVEN_STEP = re.compile(r"^step \d+:.*$", re.IGNORECASE | re.MULTILINE)
"""Captions of steps the user gives: they may contain any words."""
_NAMED = re.compile(r"\b(?:named|called)\s+([^\W\d_]+)", re.IGNORECASE)
_SPEAKER = re.compile(r"\b(?:i['’]?m|i am|we are|we['’]re) (?:an? |the )?([^\W\d_]+)", re.IGNORECASE)
"""What people say of themselves: "I'm a baker" asks for none."""
_SHORTEST_TYPO, _LONG_WORD = 3, 7
"""Shorter words are not taken for mistyped ones; in long ones two letters may be wrong."""
_SHORTEST_BASE = 3
_FEW_TOPICS = 6
"""A word of so many topics at most tells what a request is about."""
_MOST_TYPOS, _LONGEST_WORD = 6, 40
"""So many unknown words of a text are looked at, and no longer ones."""
_FOREIGN_SHARE = 0.4
"""The share of unknown words from which on a text may be in another language."""


@dataclass(frozen=True)
class Unknown:
    """A word of a request that the world has nothing for, and what it has instead."""

    word: str
    nearest: tuple[str, ...] = ()
    """Nearest in meaning; empty where the meaning is not known."""
    replaceable: bool = False
    """Whether the request makes sense with the nearest in its place."""


# Known words


@cache
def vocabulary() -> frozenset[str]:
    """Every word that a request may have, in lower case."""
    return frozenset(word.lower() for text in _texts() for word in _words_of(text)) | harmless_words()


def _texts() -> Iterator[str]:
    topics = [topic for topics in (*DOMAINS.values(), RIDDLE_TOPICS) for topic in topics]
    yield from (template for topic in topics for template in topic.templates)
    yield from (_regex_words(gap.regex) for topic in topics for gap in topic.gaps.values())
    yield from (template for edit in EDITS for template in edit.templates)
    yield from (pattern.text for speech in SPEECH.values() for pattern in speech.patterns)
    yield from (riddle for riddles in RIDDLES.values() for riddle in riddles)
    yield from (*voice_lines(), *narration_lines())
    yield from (
        *thing_words(),
        *COLOURS,
        *COLOUR_SYNONYMS,
        *SIZES,
        *NUMBERS,
        *CATEGORIES,
        *ADJECTIVES,
        *NAMES,
    )
    yield from (*BACKGROUND_OF_NOUN, *BACKGROUND_OF_PHRASE, *CELL_OF, *ROWS, *RELATIONS, *DIRECTIONS)
    for words in (
        *PLACE_PHRASES.values(),
        *PLACE_NOUNS.values(),
        *SIZE_WORDS.values(),
        GO_ON,
        DESCRIBE,
        WORDINGS,
    ):
        yield from words


@cache
def voice_lines() -> tuple[str, ...]:
    """Every line of every voice, its gaps left out."""
    lines = (each.text for voice in voices() for lines in voice.phrasings.values() for each in lines)
    return tuple(_GAP.sub(" ", line) for line in lines)


@cache
def thing_words() -> frozenset[str]:
    """Every noun for a thing, singular and plural."""
    nouns = (*NOUNS, *NOUN_SYNONYMS)
    return frozenset((*nouns, *map(plural, nouns)))


def _words_of(text: str) -> list[str]:
    return _WORD.findall(re.sub(r"[\[\]()|]", " ", _GAP.sub(" ", text)))


def _regex_words(regex: str) -> str:
    """The words in the regular expression of a gap."""
    return re.sub(r"\\.|[^a-zA-Z'’-]+", " ", regex)


# Unknown words


def unknown_words(text: str, *, with_pictures: bool = True) -> list[Unknown]:
    """The words of a text that name what the world lacks, and those that are no English words.

    Each once, in order. Other English words are no reason to refuse a request: the planner reads past them.
    With pictures, lines such as "Step 1: …" are their captions; without, they are steps that are asked for.
    """
    asked = _GIVEN_STEP.sub("", text) if with_pictures else text
    speakers = {found.start(1) for found in _SPEAKER.finditer(asked)}
    found = {each.start(): each for each in (*_lacking(asked), *_never_seen(asked))}
    found = {start: each for start, each in found.items() if start not in speakers}
    words = dict.fromkeys(found[start][0] for start in sorted(found))
    return [
        Unknown(word, neighbours().get(_singular(word), ()), _singular(word) in replaceable())
        for word in words
    ]


def _never_seen(text: str) -> Iterator[re.Match[str]]:
    named = {found.start(1) for found in _NAMED.finditer(text)}
    for found in _WORD.finditer(text):
        if not is_known(found[0]) and found.start() not in named and not _is_name(found, text):
            yield found


def is_known(word: str) -> bool:
    """Whether a word is one of the world or of everyday English, or made of such words."""
    word = word.lower().replace("’", "'")
    known = _english()
    bare = word.removesuffix("'s").removesuffix("'")
    if _singular(bare) in neighbours() and vocabulary().isdisjoint((word, bare)):
        return False  # a word for what the world lacks
    parts = bare.split("-")
    if len(parts) > 1 and all(part in known for part in parts):
        return True
    return word in known or bare in known or any(form in known for form in _base_forms(bare))


def has_only_trained_words(text: str) -> bool:
    """Whether all words of a text are those of requests that the planner was trained on."""
    words = (word.lower().replace("’", "'") for word in _WORD.findall(text))
    return all(word in vocabulary() or word.removesuffix("'s") in vocabulary() for word in words)


@cache
def _english() -> frozenset[str]:
    return vocabulary() | everyday_words()


def _base_forms(word: str) -> list[str]:
    """What a verb may be without its ending: "ripens", "ripened" and "ripening" come from "ripen"."""
    endings = {"s": ("",), "es": ("", "e"), "ies": ("y",), "ed": ("", "e"), "ied": ("y",), "ing": ("", "e")}
    return [
        word.removesuffix(ending) + base
        for ending, bases in endings.items()
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_BASE
        for base in bases
    ]


def _is_name(found: re.Match[str], text: str) -> bool:
    """Whether a word is written as a name, within a sentence that is not all capitals."""
    word = found[0]
    if not (word[0].isupper() and word[1:].islower()) or _singular(word) in neighbours():
        return False
    before = text[: found.start()].rstrip()
    return bool(before) and before[-1] not in ".!?:\n"


def _lacking(text: str) -> Iterator[re.Match[str]]:
    """Words for what the world lacks where they are asked for: "a dragon", but not "my teacher"."""
    text = _known_phrases().sub(lambda found: "_" * len(found[0]), text)  # "an ice cream" asks for no ice
    asked_for = (
        found
        for found in _asked_for().finditer(text)
        if not _is_spoken_of(*_mention(found)) and _in_riddles().isdisjoint(_contexts(found, text))
    )
    for found in (*asked_for, *_wanted_colour().finditer(text)):
        word = re.compile(re.escape(found["word"]))
        yield from word.finditer(text, found.start("word"), found.end("word"))


@cache
def _known_phrases() -> re.Pattern[str]:
    """Things and places of more than one word."""
    places = (words for phrases in (*PLACE_PHRASES.values(), *PLACE_NOUNS.values()) for words in phrases)
    phrases = [words for words in (*thing_words(), *places) if " " in words or "-" in words]
    return re.compile(rf"\b{one_of(phrases)}\b", re.IGNORECASE)


@cache
def _wanted_colour() -> re.Pattern[str]:
    """ "make it white": a request for a colour that the world lacks."""
    colours = [word for word, known in neighbours().items() if COLOURS.keys() >= set(known)]
    made = "(?:make|paint|colou?r|turn) (?:it|them|him|her|everything)(?: all)?"
    return re.compile(rf"\b{made} (?P<word>{one_of(colours)})\b", re.IGNORECASE)


@cache
def _asked_for() -> re.Pattern[str]:
    words = [word for word in neighbours() if word not in thing_words() and word not in COLOURS]
    before = one_of(
        (*ADJECTIVES, *COLOURS, *COLOUR_SYNONYMS, *(w for words in SIZE_WORDS.values() for w in words))
    )
    number = one_of((*NUMBERS[2:], *map(str, range(2, 10))))
    return re.compile(
        rf"(?<!for )(?<!like )(?<!as )\b(?:(?P<one>an?|one|{number})|draw|show|paint|and|with) "
        rf"(?:{before} )*"
        rf"(?P<word>{one_of((*words, *map(plural, words)))})\b",
        re.IGNORECASE,
    )


def _mention(found: re.Match[str]) -> tuple[str, bool]:
    """A word for what the world lacks, and whether an article or a number makes it a thing.

    "Trees grow up and bear apples" says nothing of "a bear".
    """
    return _singular(found["word"]), found["one"] is not None


@cache
def _is_spoken_of(word: str, as_thing: bool) -> bool:
    """Whether the voices or templates use a word for what the world lacks as it is: "a bed of flowers"."""
    named = re.compile(rf"\b(?:{re.escape(word)}|{re.escape(plural(word))})\b", re.IGNORECASE)
    mentions = (found for text in _wordings() if named.search(text) for found in _asked_for().finditer(text))
    return (word, as_thing) in map(_mention, mentions)


@cache
def _wordings() -> tuple[str, ...]:
    topics = [topic for topics in (*DOMAINS.values(), RIDDLE_TOPICS) for topic in topics]
    templates = [template for topic in topics for template in topic.templates]
    return (*voice_lines(), *templates, *(template for edit in EDITS for template in edit.templates))


@cache
def _in_riddles() -> frozenset[str]:
    """The same in riddles, with the words around: "a princess lives in it"."""
    texts = [riddle for riddles in RIDDLES.values() for riddle in riddles]
    found = ((each, text) for text in texts for each in _asked_for().finditer(text))
    return frozenset(context for each, text in found for context in _contexts(each, text))


def _contexts(found: re.Match[str], text: str) -> tuple[str, str]:
    """A word with the two words before it, and with the one after it."""
    before = _WORD.findall(text[: found.start("word")])[-2:]
    after = _WORD.findall(text[found.end() :])[:1]
    return " ".join([*before, found["word"], ">"]).lower(), " ".join([found["word"], *after, "<"]).lower()


def _singular(word: str) -> str:
    word = word.lower()
    return _singulars().get(word, word)


def is_plural(word: str) -> bool:
    """Whether a word for what the world lacks is in the plural."""
    return word.lower() in _singulars()


@cache
def _singulars() -> dict[str, str]:
    return {plural(word): word for word in neighbours()}


# What a request is about

_SMALL_WORDS = frozenset(
    _WORD.findall(
        "a an and any at by comes from goes in into of off on one picture single some the thing things to two"
        " up what"
    )
)
"""Words in the names of topics that say nothing of them."""


@cache
def telling_words() -> dict[str, frozenset[str]]:
    """By topic: words that say that a request is about it, because few other topics have them."""
    words_of: dict[str, set[str]] = {}
    for topic, text in _worded_topics():
        words_of.setdefault(topic, set(topic.split())).update(word.lower() for word in _words_of(text))
    topics_with = Counter(word for words in words_of.values() for word in words)
    return {
        topic: frozenset(
            word
            for word in words
            if word in set(topic.split()) - _SMALL_WORDS
            or (
                topics_with[word] <= _FEW_TOPICS and word not in harmless_words() and word not in neighbours()
            )
        )
        for topic, words in words_of.items()
    }


def _worded_topics() -> Iterator[tuple[str, str]]:
    for topic in (topic for topics in DOMAINS.values() for topic in topics):
        yield from ((topic.name, template) for template in topic.templates)
        for voice in voices():
            yield from ((topic.name, each.text) for each in voice.section(topic.name))


def is_about(text: str, topic: str) -> bool:
    """Whether the words of a request speak of a topic."""
    told = telling_words().get(topic, frozenset())
    return any(word.lower().removesuffix("'s") in told for word in _WORD.findall(text))


def is_riddle_of(text: str, nouns: Iterable[str]) -> bool:
    """Whether a request has half of the words of a riddle about one of these things."""
    asked = {word.lower() for word in _WORD.findall(text)}
    riddles = (riddle for noun in nouns for riddle in RIDDLES.get(noun, ()))
    told = ({word.lower() for word in _WORD.findall(riddle)} - _in_many_riddles() for riddle in riddles)
    return any(len(words & asked) * 2 >= len(words) for words in told)


@cache
def _in_many_riddles() -> frozenset[str]:
    riddles = [riddle for riddles in RIDDLES.values() for riddle in riddles]
    found = Counter(word for riddle in riddles for word in {each.lower() for each in _WORD.findall(riddle)})
    return frozenset(word for word, times in found.items() if times > len(riddles) / 20)


# Mistyped words


def corrections(text: str, *, with_pictures: bool = True) -> dict[str, str]:
    """Unknown words that are one known word mistyped, and that word."""
    found = {}
    for each in unknown_words(text, with_pictures=with_pictures)[:_MOST_TYPOS]:
        if each.word.isupper() and not text.isupper():  # "CPR" is no mistyped car
            continue
        if not each.nearest and len(each.word) <= _LONGEST_WORD and (right := _meant(each.word.lower())):
            found[each.word] = right.capitalize() if each.word[0].isupper() else right
    return found


def corrected(text: str, found: dict[str, str]) -> str:
    for wrong, right in found.items():
        text = re.sub(rf"(?<![\w'’-]){re.escape(wrong)}(?![\w'’-])", right, text)
    return text


@cache
def _meant(word: str) -> str | None:
    """The one known word that this one is mistyped from; things and colours go before other words."""
    if right := misspelt_words().get(word):
        return right
    if len(word) < _SHORTEST_TYPO:
        return None
    drawable = thing_words() | set(COLOURS) | _place_words()
    for distance in (1, 2) if len(word) >= _LONG_WORD else (1,):
        for words in (drawable, vocabulary()):
            close = [
                known for known in words if len(known) >= _SHORTEST_TYPO and _within(word, known, distance)
            ]
            if len(word) == _SHORTEST_TYPO:  # many words are one letter away: letters swapped come first
                close = [known for known in close if sorted(known) == sorted(word)] or close
            if len({_one_of_them(known) for known in close}) == 1:  # singular and plural of one word
                return next((known for known in close if known[-1] == word[-1]), close[0])
            if harmless := harmless_words().intersection(close):  # whichever was meant, it changes nothing
                return min(harmless)
            if close:
                return None
    return None


def _one_of_them(word: str) -> str:
    return _singular_things().get(word, _singular(word))


@cache
def _singular_things() -> dict[str, str]:
    return {plural(noun): noun for noun in (*NOUNS, *NOUN_SYNONYMS)}


@cache
def _place_words() -> frozenset[str]:
    """The nouns of places: "grass", "beach"."""
    nouns = [noun for nouns in PLACE_NOUNS.values() for noun in nouns]
    return frozenset(noun.split()[-1] for noun in nouns)


def _within(word: str, other: str, distance: int) -> bool:
    """Whether two words differ by so many letters: left out, put in, changed, or two swapped."""
    swapped = word[1:2] + word[:1] + word[2:] == other  # "hte"
    if abs(len(word) - len(other)) > distance or word[0] != other[0]:
        return swapped
    above, now = [], list(range(len(other) + 1))
    for row, letter in enumerate(word, start=1):
        above, before, now = now, above, [row]
        for column, wanted in enumerate(other, start=1):
            cost = min(above[column] + 1, now[-1] + 1, above[column - 1] + (letter != wanted))
            if row > 1 and column > 1 and letter == other[column - 2] and word[row - 2] == wanted:
                cost = min(cost, before[column - 2] + 1)
            now.append(cost)
    return now[-1] <= distance


# Other languages


def other_language(text: str) -> str | None:
    """The language of a text that is not English, as far as it is known; None for English."""
    words = [word.lower() for word in _WORD.findall(text)]
    strange = [word for word in words if not is_known(word)]
    if not words or len(strange) / len(words) < _FOREIGN_SHARE:
        return None
    if sum(ord(letter) > 0x24F for word in strange for letter in word) > len("".join(strange)) / 2:
        return "another language"
    hits = {language: sum(word in known for word in words) for language, known in foreign_words().items()}
    best = max(hits, key=lambda language: hits[language])
    return best if hits[best] >= max(2, len(words) // 4) else None

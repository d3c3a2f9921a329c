"""The words of requests: known words, typing errors, and words for things the world lacks.

They stand in `weights/language.json`, beside the models that were trained on them: `interleave mini language`
writes it from the grammar of the research package, and nothing here knows that grammar.
"""

from __future__ import annotations

import gzip
import json
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from interleave_mini import WEIGHTS
from interleave_mini.language.words import NUMBERS, UNCOUNTABLE, one_of, plural
from interleave_mini.world.wider import ALL_COLOURS, ALL_KINDS, ALL_NOUNS

FILE = WEIGHTS / "language.json"
ENGLISH = Path(__file__).parent / "english.txt.gz"
"""Words of SCOWL up to size 60, with their inflected forms; its licence is in `english.LICENSE`."""
WORD = re.compile(r"\b[^\W\d_]+(?:['’-][^\W\d_]+)*")
_NEAR = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*|['’]s\b|[.,:;!?\n]|\d+")
"""Words and marks beside a noun."""
_MARKS = frozenset(".,:;!?\n^$")
_GIVEN_STEP = re.compile(r"^step \d+:.*$", re.IGNORECASE | re.MULTILINE)
"""Captions the user gives, which may contain any words."""
_NAMED = re.compile(r"\b(?:named|called)\s+([^\W\d_]+)", re.IGNORECASE)
_SPEAKER = re.compile(r"\b(?:i['’]?m|i am|we are|we['’]re) (?:an? |the )?([^\W\d_]+)", re.IGNORECASE)
"""Statements of people about themselves: "I'm a baker" asks for no baker."""
_COMPARED = re.compile(r"(?<=\w{3})(?:er|est|ly)$")
_PHRASE_START, _PHRASE_END = re.compile(r"\bin $"), re.compile(r" (?:of|for)\b")
"""Words that make a phrase of a noun: "in a line", "a pot of paint"."""
_SHORTEST_TYPO, _LONG_WORD = 3, 7
"""Minimum length of a corrected word; long words may have two wrong letters."""
_PRONOUNS = frozenset(("he", "she", "it", "they", "i", "we", "you", "who", "that", "which", "everyone"))
_TITLE = re.compile(r"\b(?:Mr|Mrs|Ms|Dr|Prof|St)\.$")
_BEFORE_ADJECTIVES = frozenset(
    (
        "is",
        "are",
        "was",
        "were",
        "be",
        "get",
        "gets",
        "got",
        "all",
        "so",
        "very",
        "too",
        "really",
        "quite",
        "feels",
    )
)
_VARIANTS = frozenset(("til", "thru", "tho", "shew", "wot", "pix", "lite"))
"""Words of the dictionary that are other spellings of words the planner has learned."""
_DETERMINERS = frozenset(("a", "an", "the", "this", "that", "my", "your", "it", "of", "to", "me", "us"))
_SHORTEST_BASE = 3
_MOST_TYPOS, _LONGEST_WORD = 6, 40
"""Maximum number and length of unknown words that are examined."""
_FOREIGN_SHARE = 0.4
"""Minimum share of unknown words in a text of another language."""


@dataclass(frozen=True)
class Example:
    """A plain request of a topic, and the number of its wordings that have each word."""

    text: str
    wordings: int
    counts: Mapping[str, int]

    def is_about(self, word: str) -> bool:
        """Return whether a quarter of the wordings have a word."""
        return self.counts.get(word, 0) * 4 >= self.wordings


@dataclass(frozen=True)
class Effect:
    """What shows that a thing is or does what a word says (`effects`): one of these is enough."""

    shown: frozenset[str]
    of: frozenset[str]
    """The kinds that can show it; empty if that does not depend on the kind."""


class Language:
    """The content of `language.json`, in which a set of words is one string."""

    def __init__(self, said: Mapping[str, Any]) -> None:
        self.harmless = _set(said["harmless"])
        """Words that change nothing in any request."""
        self.trained = _set(said["trained"]) | self.harmless
        """Words of the planner's training requests."""
        self.english = _set(said["everyday"]) | self.trained
        self.misspelt: dict[str, str] = said["misspelt"]
        self.foreign = {language: _set(words) for language, words in said["foreign"].items()}
        self.neighbours = {word: tuple(line["nearest"]) for line in said["lacking"] for word in line["words"]}
        """Things the world lacks → what it has instead."""
        self.replaceable = frozenset(
            word for line in said["lacking"] if line["replaceable"] for word in line["words"]
        )
        """Things the world lacks whose replacement still makes sense in a request."""
        self.spoken_of = frozenset((word, as_thing) for word, as_thing in said["spoken_of"])
        """Words for lacking things that some wording uses literally, as a thing or otherwise."""
        self.riddle_contexts = frozenset(said["riddle_contexts"])
        self.riddles = {noun: tuple(map(_set, riddles)) for noun, riddles in said["riddles"].items()}
        """The words of each riddle about a thing, without those of many riddles."""
        self.riddle_topics = frozenset(said["riddle_topics"])
        self.telling = {topic: _set(words) for topic, words in said["telling"].items()}
        """By topic: words that few other topics have."""
        self.examples = tuple(
            Example(
                each["text"],
                each["wordings"],
                {word: int(count) for count, words in each["counts"].items() for word in words.split()},
            )
            for each in said["examples"]
        )
        self.nouns: dict[str, str] = said["nouns"]
        """Nouns of requests → nouns of the world; the same for colours and sizes."""
        self.drawn_as = frozenset(said["drawn_as"])
        """Those of these nouns for which something is drawn that looks different."""
        self.colours: dict[str, str] = said["colours"]
        self.sizes: dict[str, list[str]] = said["sizes"]
        self.adjectives: list[str] = said["adjectives"]
        """Harmless words before a noun."""
        self.place_phrases: dict[str, list[str]] = said["place_phrases"]
        """Backgrounds by the phrases of requests, besides those of the world; one may mean several."""
        self.unmeant = frozenset(said["unmeant"])
        """Contexts in which a noun asks for no thing (`contexts_of_noun`)."""
        self.vague_places = frozenset(said["vague_places"])
        """Phrases for places that often do not name the scene of a story."""
        self.place_nouns: dict[str, list[str]] = said["place_nouns"]
        self.empty_places: dict[str, str] = said["empty_places"]
        """Nouns after "an empty" → the background."""
        self.related: dict[str, int] = said["related"]
        """Words for a relation → the cell of the first thing; the other is in the middle."""
        self.effects = {
            word: Effect(frozenset(each["shown"]), frozenset(each["of"]))
            for each in said["effects"]
            for word in each["words"].split()
        }
        """Words for what happens → what shows it."""
        self.otherwise = frozenset(said["otherwise"])
        """Such words with the word after them that mean something else: "break out"."""

    @cached_property
    def things(self) -> frozenset[str]:
        """Every noun for a thing, singular and plural."""
        nouns = (*ALL_NOUNS, *self.nouns)
        return frozenset((*nouns, *map(plural, nouns)))

    @cached_property
    def kind_of(self) -> dict[str, str]:
        """Every noun for a thing, singular and plural → its kind."""
        kinds = {noun: kind for noun, (kind, _) in ALL_NOUNS.items()}
        return {**self.kind_of_many, **kinds, **{word: kinds[noun] for word, noun in self.nouns.items()}}

    @cached_property
    def kind_of_many(self) -> dict[str, str]:
        """Every plural of a noun for a thing → its kind."""
        nouns = {noun: noun for noun in ALL_NOUNS} | self.nouns
        plurals = {
            form: ALL_NOUNS[noun][0]
            for word, noun in nouns.items()
            if word not in UNCOUNTABLE
            for form in (f"{word}s", plural(word))  # "strawberrys"
        }
        return plurals | {"fishes": "fish", "cacti": "cactus"}

    @cached_property
    def thing(self) -> re.Pattern[str]:
        """Any noun for a thing."""
        return re.compile(rf"\b{one_of(self.kind_of)}\b", re.IGNORECASE)

    def may_be(self, noun: str, kinds: Collection[str]) -> bool:
        """Return whether one of these kinds can be what a noun of a request names."""
        kind = self.kind_of[noun]
        if kind in kinds:
            return True
        if noun in ("egg", "eggs"):
            return not {"hen", "butterfly", "frog"}.isdisjoint(kinds)
        if kind == "hat" and "snowman" in kinds:  # it is drawn with one
            return True
        if ALL_KINDS[kind].category != "person" or noun in self.kinds_own_nouns:
            return False
        living = ("person",) if noun in self.drawn_as else ("person", "animal")  # a hen's child is a chick
        return any(ALL_KINDS[each].category in living for each in kinds)

    @cached_property
    def kinds_own_nouns(self) -> frozenset[str]:
        """The world's own nouns, singular and plural."""
        return frozenset((*ALL_NOUNS, *map(plural, ALL_NOUNS)))

    def is_meant(self, found: re.Match[str]) -> bool:
        """Return whether a noun in a text asks for its thing: not in "a book about", "my child's"."""
        return self.unmeant.isdisjoint(contexts_of_noun(found, self.kind_of))

    def kinds_in(self, text: str) -> frozenset[str]:
        """Return the kinds of all things that a text names."""
        return frozenset(self.kind_of[found[0].lower()] for found in self.thing.finditer(text))

    @cached_property
    def known_phrases(self) -> re.Pattern[str]:
        """Things and places of more than one word."""
        places = (
            words
            for said in (self.place_phrases, self.place_nouns)
            for each in said.values()
            for words in each
        )
        phrases = [words for words in (*self.things, *places) if " " in words or "-" in words]
        return re.compile(rf"\b{one_of(phrases)}\b", re.IGNORECASE)

    @cached_property
    def wanted_colour(self) -> re.Pattern[str]:
        """ "make it white": a request for a colour that the world lacks."""
        colours = [word for word, known in self.neighbours.items() if ALL_COLOURS.keys() >= set(known)]
        made = "(?:make|paint|colou?r|turn) (?:it|them|him|her|everything)(?: all)?"
        return re.compile(rf"\b{made} (?P<word>{one_of(colours)})\b", re.IGNORECASE)

    @cached_property
    def asked_for(self) -> re.Pattern[str]:
        """ "a red dragon": a request for what the world lacks."""
        words = [word for word in self.neighbours if word not in self.things and word not in ALL_COLOURS]
        sizes = (word for words in self.sizes.values() for word in words)
        before = one_of((*self.adjectives, *ALL_COLOURS, *self.colours, *sizes))
        number = one_of((*NUMBERS[2:], *map(str, range(2, 10))))
        return re.compile(
            rf"(?<!for )(?<!like )(?<!as )\b(?:(?P<one>an?|one|{number})|draw|show|paint|and|with) "
            rf"(?:{before} )*"
            rf"(?P<word>{one_of((*words, *map(plural, words)))})\b",
            re.IGNORECASE,
        )

    def is_in_passing(self, found: re.Match[str]) -> bool:
        """Return whether a lacking thing belongs to no topic: a cat's hat, but not a snowman's."""
        word, is_thing = self.mention(found)
        is_phrase = _PHRASE_END.match(found.string, found.end()) or _PHRASE_START.search(
            found.string[: found.start()]
        )
        if not is_thing or is_phrase or any(word in words for words in self.telling.values()):
            return False
        said = self.things.intersection(each.lower() for each in WORD.findall(found.string))
        return not any(each.is_about(word) and any(map(each.is_about, said)) for each in self.examples)

    @cached_property
    def singulars(self) -> dict[str, str]:
        return {plural(word): word for word in self.neighbours}

    def singular(self, word: str) -> str:
        word = word.lower()
        return self.singulars.get(word, word)

    def mention(self, found: re.Match[str]) -> tuple[str, bool]:
        """A word for what the world lacks, and whether an article or a number makes it a thing.

        "Trees grow up and bear apples" says nothing of "a bear".
        """
        return self.singular(found["word"]), found["one"] is not None


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


@cache
def language() -> Language:
    return Language(json.loads(FILE.read_text("utf-8")))


def contexts(found: re.Match[str], text: str) -> tuple[str, str]:
    """A requested word with the two words before it and the one after it."""
    before = WORD.findall(text[: found.start("word")])[-2:]
    after = WORD.findall(text[found.end() :])[:1]
    return " ".join([*before, found["word"], ">"]).lower(), " ".join([found["word"], *after, "<"]).lower()


def contexts_of_noun(found: re.Match[str], kinds: Mapping[str, str]) -> list[str]:
    """Return a noun with the words beside it, also with `_` for any noun, and with `@` for any person."""
    noun = found[0].lower()
    before = [word.lower() for word in _NEAR.findall(found.string[: found.start()])[-2:]]
    after = [word.lower() for word in _NEAR.findall(found.string[found.end() :])[:2]]
    last, following = (before or ["^"])[-1], (after or ["$"])[0]
    around = [f"{last} _", f"_ {following}", " ".join([*before, "_"]), " ".join(["_", *after])]
    around = [each for each in around if _MARKS.isdisjoint(each)]
    is_person = ALL_KINDS[kinds[noun]].category == "person"
    anybody = [each.replace("_", "@") for each in around if is_person]
    return [*(each.replace("_", noun) for each in around), *around, *anybody]


# Unknown words


@dataclass(frozen=True)
class Unknown:
    """A word of a request for something the world lacks, and its replacements."""

    word: str
    nearest: tuple[str, ...] = ()
    """Nearest in meaning; empty if the meaning is unknown."""
    replaceable: bool = False
    """Whether the request makes sense with the nearest word instead."""


def unknown_words(text: str, *, with_images: bool = True, in_passing: bool = False) -> list[Unknown]:
    """Return words that name things the world lacks, and words that are not English.

    Each once, in order. Other English words are no reason to refuse a request: the planner reads past them.
    With images, lines such as "Step 1: …" are their captions; without, they are steps that are asked for.
    With `in_passing`, also lacking things that some request of the training names, such as a snowman's hat.
    """
    asked = asked_text(text) if with_images else text
    speakers = {found.start(1) for found in _SPEAKER.finditer(asked)}
    found = {each.start(): each for each in (*_lacking(asked, in_passing=in_passing), *_never_seen(asked))}
    words = dict.fromkeys(found[start][0] for start in sorted(found) if start not in speakers)
    singulars = ((word, language().singular(word)) for word in words)
    return [
        Unknown(word, language().neighbours.get(one, ()), one in language().replaceable)
        for word, one in singulars
    ]


def asked_text(text: str) -> str:
    """Return the words of a request without the captions of its images."""
    return _GIVEN_STEP.sub("", text)


def _never_seen(text: str) -> Iterator[re.Match[str]]:
    for found in _words_but_names(text):
        if not is_known(found[0]) and not _describes(found, text):
            yield found


def _words_but_names(text: str) -> Iterator[re.Match[str]]:
    named = {found.start(1) for found in _NAMED.finditer(text)}
    names = {_owner(found[0]) for found in WORD.finditer(text) if _is_name(found, text)}
    for found in WORD.finditer(text):
        if found.start() not in named and _owner(found[0]) not in names:
            yield found


def _owner(word: str) -> str:
    return word.removesuffix("'s").removesuffix("’s")


def _describes(found: re.Match[str], text: str) -> bool:
    """Return whether an English word tells what a thing is like or does: "the apple rots", "a drowsy cat"."""
    word = found[0].lower()
    if not is_english(word) or language().singular(word) in language().neighbours:
        return False
    before = [each.lower() for each in WORD.findall(text[: found.start()])[-1:]]
    after = [each.lower() for each in WORD.findall(text[found.end() :])[:1]]
    return (
        word.endswith("ly")
        or any(
            each in language().things or each in _PRONOUNS or each in _BEFORE_ADJECTIVES for each in before
        )
        or any(each in language().things for each in after)
    )


def left_out(text: str) -> list[str]:
    """Return the English words of a request that the planner has not learned, each once, in order."""
    text = language().known_phrases.sub(lambda found: "_" * len(found[0]), text)
    speakers = {found.start(1) for found in _SPEAKER.finditer(text)}
    lacking = {found.start() for found in _lacking(text, in_passing=True)}
    words = (
        found[0]
        for found in _words_but_names(text)
        if found.start() in lacking or (found.start() not in speakers and not _is_trained(found[0]))
    )
    return list({word.lower(): word for word in words if len(word) > 1}.values())


def _is_trained(word: str) -> bool:
    """Return whether the planner has learned a word, or another form of it."""
    word = word.lower().replace("’", "'")
    if word in language().trained:
        return True
    word = _COMPARED.sub("", word.removesuffix("'s").removesuffix("'"))
    return all(not _trained_forms().isdisjoint((part, *_base_forms(part))) for part in word.split("-"))


@cache
def _trained_forms() -> frozenset[str]:
    trained = language().trained | language().things
    return trained | {form for word in trained for form in _base_forms(word)}


@cache
def dictionary() -> frozenset[str]:
    """Return words of English, in all their forms."""
    return _set(gzip.decompress(ENGLISH.read_bytes()).decode())


def is_english(word: str) -> bool:
    """Return whether a word, in any inflected form, is in a dictionary of English."""
    bare = word.lower().replace("’", "'").removesuffix("'s").removesuffix("'")
    return all(part in dictionary() or part in language().english for part in bare.split("-") if part)


def is_known(word: str) -> bool:
    """Return whether a word belongs to the world or everyday English, or is made of such words."""
    word = word.lower().replace("’", "'")
    known = language().english
    bare = word.removesuffix("'s").removesuffix("'")
    is_lacking = language().singular(bare) in language().neighbours
    if is_lacking and language().trained.isdisjoint((word, bare)):
        return False
    parts = bare.split("-")
    if len(parts) > 1 and all(part in known for part in parts):
        return True
    return word in known or bare in known or any(form in known for form in _base_forms(bare))


def _base_forms(word: str) -> list[str]:
    """Return possible stems of a verb: "ripens", "ripened" and "ripening" come from "ripen"."""
    endings = {"s": ("",), "es": ("", "e"), "ies": ("y",), "ed": ("", "e"), "ied": ("y",), "ing": ("", "e")}
    return [
        word.removesuffix(ending) + base
        for ending, bases in endings.items()
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST_BASE
        for base in bases
    ]


@cache
def forms_of(word: str) -> tuple[str, ...]:
    """Return a word in lower case, and the words of English of which it may be a form."""
    word = word.lower().replace("’", "'")
    return (word, *(base for base in _base_forms(word) if base in dictionary()))


def _is_name(found: re.Match[str], text: str) -> bool:
    """Return whether a word is capitalized as a name, in a sentence that is not all capitals."""
    word = found[0]
    if not (word[0].isupper() and word[1:].islower()) or language().singular(word) in language().neighbours:
        return False
    before = text[: found.start()].rstrip(" \t\"'“‘(")
    if before and (before[-1] not in ".!?:…\n" or _TITLE.search(before)):
        return True
    after = [each.lower() for each in WORD.findall(text[found.end() :])[:2]]
    if not _DETERMINERS.isdisjoint(after[:1]):  # "Swapp the cat and the dog", but "Lucia the rabbit"
        is_somebody = after[0] == "the" and not language().things.isdisjoint(after[1:])
        if not is_somebody or _meant(word.lower()):
            return False
    return not is_english(word) and not _is_like_a_thing(word.lower())  # "Mia has a dog"


def _lacking(text: str, *, in_passing: bool = False) -> Iterator[re.Match[str]]:
    """Return requested things the world lacks: "a dragon", but not "my teacher"."""
    said = language()
    text = said.known_phrases.sub(lambda found: "_" * len(found[0]), text)  # "an ice cream" asks for no ice
    in_passing = in_passing and any(word.lower() in said.things for word in WORD.findall(text))  # no riddle
    asked_for = (
        found
        for found in said.asked_for.finditer(text)
        if (in_passing and said.is_in_passing(found))
        or (
            said.mention(found) not in said.spoken_of
            and said.riddle_contexts.isdisjoint(contexts(found, text))
        )
    )
    for found in (*asked_for, *said.wanted_colour.finditer(text)):
        word = re.compile(re.escape(found["word"]))
        yield from word.finditer(text, found.start("word"), found.end("word"))


def is_plural(word: str) -> bool:
    """Return whether a word for a lacking thing is plural."""
    return word.lower() in language().singulars


# The topic of a request


def is_about(text: str, topic: str) -> bool:
    """Return whether the words of a request name a topic."""
    told = language().telling.get(topic, frozenset())
    return any(word.lower().removesuffix("'s") in told for word in WORD.findall(text))


def is_riddle_of(text: str, nouns: Iterable[str]) -> bool:
    """Return whether a request has half the words of a riddle about one of these things."""
    asked = {word.lower() for word in WORD.findall(text)}
    told = (words for noun in nouns for words in language().riddles.get(noun, ()))
    return any(len(words & asked) * 2 >= len(words) for words in told)


# Mistyped words


def corrections(text: str, *, with_images: bool = True) -> dict[str, str]:
    """Return mistyped words and the known word each stands for."""
    found = {}
    for each in unknown_words(text, with_images=with_images)[:_MOST_TYPOS]:
        if each.word.isupper() and not text.isupper():  # "CPR" is no "car"
            continue
        if is_english(each.word) and each.word.lower() not in _VARIANTS:
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
    """Return the known word that this one is a typing error of; things and colours come first."""
    if right := language().misspelt.get(word):
        return right
    if len(word) < _SHORTEST_TYPO:
        return None
    if len(word) == _SHORTEST_TYPO:  # many words are one letter away: letters swapped come first
        swapped = {known for words in _meant_words() for known in words if sorted(known) == sorted(word)}
        if len(near := [known for known in swapped if _within(word, known, 1)]) == 1:
            return near[0]
    doubled = [known for known in _meant_words()[0] if _once(known) == _once(word)]
    if len(doubled) == 1:  # "balon"
        return doubled[0]
    for distance in (1, 2) if len(word) >= _LONG_WORD else (1,):
        for words in _meant_words():
            close = [known for known in words if _within(word, known, distance)]
            close = [known for known in close if _once(known) == _once(word)] or close  # "aple": no ape
            if len({_one_of_them(known) for known in close}) == 1:  # "dogs" and "dog", "dino" and "dinosaur"
                return next((known for known in close if known[-1] == word[-1]), close[0])
            if harmless := language().harmless.intersection(close):  # whichever was meant changes nothing
                return min(harmless)
            if close:
                return None
    return None


def _is_like_a_thing(word: str) -> bool:
    """Return whether a word may be a mistyped thing, colour or place instead of a name."""
    if word in language().misspelt:
        return True
    return len(word) > _SHORTEST_TYPO and any(_within(word, known, 1) for known in _meant_words()[0])


@cache
def _meant_words() -> tuple[tuple[str, ...], ...]:
    """Return drawable words, then all words, each sorted so that corrections are reproducible."""
    places = {noun.split()[-1] for nouns in language().place_nouns.values() for noun in nouns}
    drawable = language().things | ALL_COLOURS.keys() | places
    return tuple(
        tuple(sorted(word for word in words if len(word) >= _SHORTEST_TYPO))
        for words in (drawable, language().trained)
    )


def _once(word: str) -> str:
    """Return a word with doubled letters written once."""
    return re.sub(r"(.)\1", r"\1", word)


def _one_of_them(word: str) -> str:
    """Return the kind of thing that a word names, or else its singular."""
    noun = _singular_things().get(word, word)
    return language().kind_of.get(noun) or language().singular(noun)


@cache
def _singular_things() -> dict[str, str]:
    return {plural(noun): noun for noun in (*ALL_NOUNS, *language().nouns)}


def _within(word: str, other: str, distance: int) -> bool:
    """Return whether two words are that close: letters left out, put in, changed, or two swapped."""
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
    """Return the language of a text that is not English, if known; `None` for English."""
    words = [word.lower() for word in WORD.findall(text)]
    strange = [word for word in words if not is_known(word)]
    if not words or len(strange) / len(words) < _FOREIGN_SHARE:
        return None
    if sum(ord(letter) > 0x24F for word in strange for letter in word) > len("".join(strange)) / 2:
        return "another language"
    hits = {name: sum(word in known for word in words) for name, known in language().foreign.items()}
    best = max(hits, key=lambda name: hits[name])
    return best if hits[best] >= max(2, len(words) // 4) else None

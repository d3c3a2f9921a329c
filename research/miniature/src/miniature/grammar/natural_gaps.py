"""The gaps of a request as people write them: synonyms, sizes, digits, harmless adjectives, names.

`gaps.py` has the values and the formal wording of each gap. This module samples, writes and parses a value in
the phrasings of the voices, and has its default if a person leaves it out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import cache
from random import Random
from typing import Any

from interleave_mini.language.words import NUMBERS, PLACES, UNCOUNTABLE, plural
from interleave_mini.world.kinds import COLOURS, KINDS, NOUNS
from interleave_mini.world.scene import Size, Thing
from miniature.grammar.gaps import (
    AColour,
    ANumber,
    APlace,
    AThing,
    AWord,
    Gap,
    ManyThings,
    Maybe,
    SomeThings,
    either,
    usual,
)
from miniature.grammar.group_gaps import MOST, APair, MoreAndMore, SomeGroups, sample_counts
from miniature.grammar.placed_gaps import (
    Placed,
    SomeColours,
    SomePlaced,
    SomePlaces,
    around_the_middle,
    placed_in_words,
    placed_pattern,
    read_placed,
)
from miniature.grammar.synonyms import (
    ADJECTIVES,
    COLOUR_SYNONYMS,
    NAMES,
    NOUN_SYNONYMS,
    PLACE_NOUNS,
    PLACE_PHRASES,
    SIZE_WORDS,
)

USUAL_COLOUR = 0.55
"""Share of things sampled in their usual colour; most people name no colour."""
SAYS_USUAL_COLOUR = 0.2
SMALL, SAYS_LARGE = 0.06, 0.04
WITH_ADJECTIVE, WITH_NAME = 0.08, 0.02
WITH_SYNONYM, WITH_DIGIT, SAYS_ONE = 0.25, 0.4, 0.3
COLOUR_AFTER_NOUN = 0.07
WITHOUT_MIDDLE = 0.6
"""Share of placed images whose request leaves out the position of the thing in the middle."""
GROUPS_ALIKE = 0.25
TWO_ALIKE = 0.1
"""Share of images of several things with two of one kind, in different colours or sizes."""

_ARTICLES = r"(?:an?|some|one|1|the|my|our|this|that|his|her|their)"
_SIZES = {word: size for size, words in SIZE_WORDS.items() for word in words}
_COLOUR_OF = {**{colour: colour for colour in COLOURS}, **COLOUR_SYNONYMS}
_BEFORE_NOUN = rf"(?:{either((*ADJECTIVES, *_SIZES, *_COLOUR_OF))} )*"
_COLOUR_AFTER = ("that is", "which is", "that's", "in")
_AFTER_NOUN = (
    rf"(?: (?:named|called) {either(NAMES)}| {either(_COLOUR_AFTER)} (?P<{{group}}>{either(_COLOUR_OF)}))?"
)
_NAMED = _AFTER_NOUN.replace("(?P<{group}>", "(?:")
_LIST = re.compile(r",?(?: and)? then |, and | and |, | with ", re.IGNORECASE)
IN_TURN = "turn"
"""Form of things that come one after the other: "a cat, then a dog"."""
_SINGULAR_OF = {plural(noun): noun for noun in (*NOUNS, *NOUN_SYNONYMS) if noun not in UNCOUNTABLE}


@cache
def synonyms_of(noun: str) -> tuple[str, ...]:
    return tuple(word for word, meant in NOUN_SYNONYMS.items() if meant == noun)


# Sampling


def sample(gap: Gap, rng: Random) -> Any:
    """Return a random value, in the proportions in which people ask."""
    match gap:
        case Maybe():
            return sample(gap.gap, rng)
        case AThing() | ManyThings():
            return _sample_thing(rng.choice(gap.kinds), rng)
        case SomeThings():
            kinds = rng.sample(gap.kinds, rng.randint(gap.least, gap.most))
            if gap.least == 1 and len(kinds) > 1 and rng.random() < TWO_ALIKE:
                kinds[1] = kinds[0]
            return tuple(_sample_thing(kind, rng) for kind in kinds)
        case SomeGroups():
            counts = sample_counts(rng)
            kinds = rng.sample(gap.kinds, len(counts))
            if rng.random() < GROUPS_ALIKE:  # "two red balls and one blue ball"
                kinds = [kinds[0]] * len(kinds)
            return tuple((count, _sample_thing(kind, rng)) for count, kind in zip(counts, kinds, strict=True))
        case MoreAndMore():
            thing = _sample_thing(rng.choice(gap.kinds), rng)
            return rng.randint(3, MOST - 1), replace(thing, size=Size.LARGE)
        case SomePlaced():
            kinds = rng.sample(gap.kinds, rng.choice((1, 2, 2, 3, 3, 4)))
            return gap.spread([_sample_thing(kind, rng) for kind in kinds], rng)
        case APair():
            first = _sample_thing(rng.choice(gap.kinds), rng)
            return first, first if rng.random() < 0.5 else _sample_thing(rng.choice(gap.kinds), rng)
    return gap.sample(rng)


def _sample_thing(kind: str, rng: Random) -> Thing:
    colour = None if rng.random() < USUAL_COLOUR else rng.choice(list(COLOURS))
    size = Size.SMALL if rng.random() < SMALL else Size.LARGE
    return replace(usual(kind, colour), size=size)


def default(gap: Gap, place: int) -> Any:
    """Return the default of a gap; `place` counts the gaps of this type, so that two differ."""
    match gap:
        case Maybe():
            return gap.otherwise
        case AThing() | ManyThings():
            return usual(gap.kinds[place % len(gap.kinds)])
        case SomeThings():
            return tuple(usual(kind) for kind in gap.kinds[place + 1 :][: max(gap.least, 2)])
        case SomeGroups():
            return (3, usual(gap.kinds[0])), (2, usual(gap.kinds[1]))
        case MoreAndMore():
            return 3, usual(gap.kinds[0])
        case SomePlaced():
            return ((0, usual("sun")), (4, usual("house")))
        case SomePlaces() | SomeColours():
            return gap.among[: gap.least + 1]
        case APair():
            return usual("tree"), usual("tree")
        case APlace():
            return gap.among[place % len(gap.among)]
        case AColour():
            return [each for each in ("red", "blue", "yellow", "green") if each in gap.among][place]
        case ANumber():
            return min(max(3, gap.least), gap.most)
        case AWord():
            return next(iter(gap.meanings.values()))
    raise AssertionError(f"no default for {gap}")


# Writing


def write(gap: Gap, value: Any, form: str, rng: Random) -> str:
    match gap:
        case Maybe():
            return write(gap.gap, value, form, rng)
        case AThing():
            return thing_in_words(value, form, rng)
        case ManyThings():
            return thing_in_words(value, "bare" if form == "one" else "many", rng)
        case SomeThings() if form == IN_TURN:
            then = rng.choice((", then ", " then ", ", and then ", " and then "))
            return then.join(thing_in_words(each, "", rng) for each in value)
        case SomeThings():
            return _list_in_words([thing_in_words(each, form, rng) for each in value], rng)
        case SomeGroups():
            return _list_in_words([_group_in_words(count, thing, rng) for count, thing in value], rng)
        case SomePlaced():
            around = around_the_middle(value)
            if around and rng.random() < WITHOUT_MIDDLE:
                first = thing_in_words(around[0], "", rng)
                return f"{first}{rng.choice((' with ', ' with ', ', with ', ', '))}{_placed(around[1], rng)}"
            return _placed(value, rng)
        case APair():
            first, second = value
            if first == second:
                return _group_in_words(2, first, rng)
            return f"{thing_in_words(first, '', rng)} and {thing_in_words(second, '', rng)}"
        case APlace():
            return place_in_words(value, form, rng)
        case ANumber():
            return number_in_words(value, rng)
        case AColour():
            others = [word for word, colour in COLOUR_SYNONYMS.items() if colour == value]
            return rng.choice(others) if others and rng.random() < 0.05 else str(value)
    return gap.write(value, rng)


def _placed(value: Placed, rng: Random) -> str:
    items = placed_in_words(value, lambda thing, form: thing_in_words(thing, form, rng), rng)
    return rng.choice(("; ", ", ")).join(items) if rng.random() < 0.3 else _joined(items, rng)


def thing_in_words(thing: Thing, form: str, rng: Random) -> str:
    others = synonyms_of(thing.noun)
    noun = rng.choice(others) if others and rng.random() < WITH_SYNONYM else thing.noun
    words = []
    if rng.random() < WITH_ADJECTIVE:
        words.append(rng.choice(ADJECTIVES))
    if thing.size is Size.SMALL:
        words.append(rng.choice(SIZE_WORDS["small"]))
    elif rng.random() < SAYS_LARGE:
        words.append(rng.choice(SIZE_WORDS["large"]))
    says_colour = thing.colour != KINDS[thing.kind].colour or rng.random() < SAYS_USUAL_COLOUR
    after_noun = says_colour and not form and rng.random() < COLOUR_AFTER_NOUN
    if says_colour and not after_noun:
        words.append(thing.colour)
    uncountable = noun in UNCOUNTABLE
    words.append(plural(noun) if form == "many" and not uncountable else noun)
    said = " ".join(words)
    if form == "the":
        return f"the {said}"
    if form:
        return said
    article = "some" if uncountable else "an" if said[0] in "aeiou" else "a"
    if after_noun:
        return f"{article} {said} {rng.choice(_COLOUR_AFTER)} {thing.colour}"
    named = f" {rng.choice(('named', 'called'))} {rng.choice(NAMES)}" if rng.random() < WITH_NAME else ""
    return f"{article} {said}{named}"


def _group_in_words(count: int, thing: Thing, rng: Random) -> str:
    if count == 1:
        says_one = rng.random() < SAYS_ONE
        return (
            f"{rng.choice(('one', '1'))} {thing_in_words(thing, 'bare', rng)}"
            if says_one
            else thing_in_words(thing, "", rng)
        )
    return f"{number_in_words(count, rng)} {thing_in_words(thing, 'many', rng)}"


def place_in_words(place: str, form: str, rng: Random) -> str:
    if form:
        return rng.choice(PLACE_NOUNS[place])
    words = PLACES[place]
    formal = rng.choice((words.within, words.within, *words.others))
    return formal if rng.random() < 0.6 else rng.choice(PLACE_PHRASES[place])


def number_in_words(number: int, rng: Random) -> str:
    return str(number) if rng.random() < WITH_DIGIT else NUMBERS[number]


def _joined(items: Sequence[str], rng: Random) -> str:
    """Join items that each have a place: none is "with" another."""
    ways = (", ".join(items), " and ".join(items), f"{', '.join(items[:-1])} and {items[-1]}")
    return rng.choice(ways) if len(items) > 1 else items[0]


def _list_in_words(items: Sequence[str], rng: Random) -> str:
    if len(items) < 2:
        return "".join(items)
    joined = ", ".join(items[:-1])
    ways = [
        f"{joined} and {items[-1]}",
        f"{joined}, and {items[-1]}",
        " and ".join(items),
        f"{joined} with {items[-1]}",
    ]
    return rng.choice((ways[0], ways[0], *ways, ", ".join(items)))


# Parsing


def pattern(gap: Gap, form: str) -> str:
    """Return a regular expression for what `write` may write."""
    match gap:
        case Maybe():
            return pattern(gap.gap, form)
        case AThing():
            return _thing_pattern(tuple(gap.kinds), form)
        case ManyThings():
            return _thing_pattern(tuple(gap.kinds), "bare" if form == "one" else "many")
        case SomeThings():
            one = _thing_pattern(tuple(gap.kinds), "" if form == IN_TURN else form)
            between = ",?(?: and)? then " if form == IN_TURN else ", and | and |, | with "
            return rf"{one}(?:(?:{between}){one}){{{gap.least - 1},{gap.most - 1}}}"
        case SomeGroups():
            one = rf"(?:{_counted_pattern(gap.kinds, MOST)}|{_thing_pattern(tuple(gap.kinds), '')})"
            return rf"{one}(?:(?:, and | and |, | with ){one}){{1,2}}"
        case SomePlaced():
            return placed_pattern(_thing_pattern(gap.kinds, ""), _thing_pattern(gap.kinds, "bare"), gap.most)
        case APair():
            one = _thing_pattern(tuple(gap.kinds), "")
            return rf"(?:{_counted_pattern(gap.kinds, 2)}|{one} and {one})"
        case APlace():
            return either(_phrases(gap.among, form))
        case ANumber():
            numbers = range(gap.least, gap.most + 1)
            return either([*map(str, numbers), *(NUMBERS[number] for number in numbers)])
        case AColour():
            return either(word for word, colour in _COLOUR_OF.items() if colour in gap.among)
    return gap.regex


@cache
def _thing_pattern(kinds: tuple[str, ...], form: str) -> str:
    nouns = [usual(kind).noun for kind in kinds]
    words = [*nouns, *(word for noun in nouns for word in synonyms_of(noun))]
    if form == "many":
        words = [word if word in UNCOUNTABLE else plural(word) for word in words]
    article = "the " if form == "the" else "" if form else f"{_ARTICLES} "
    return rf"{article}{_BEFORE_NOUN}{either(words)}{'' if form else _NAMED}"


def _counted_pattern(kinds: Sequence[str], most: int) -> str:
    numbers = either([*map(str, range(2, most + 1)), *NUMBERS[2 : most + 1]])
    return rf"{numbers} {_thing_pattern(tuple(kinds), 'many')}"


def _phrases(among: Iterable[str], form: str) -> dict[str, str]:
    if form:
        return {words: place for place in among for words in PLACE_NOUNS[place]}
    return {
        words: place
        for place in among
        for words in (PLACES[place].within, *PLACES[place].others, *PLACE_PHRASES[place])
    }


def read(gap: Gap, words: str, form: str) -> Any:
    """Parse the value of a gap from its words; the inverse of `write`."""
    match gap:
        case Maybe():
            return read(gap.gap, words, form)
        case AThing() | ManyThings():
            return thing_from_words(words)
        case SomeThings():
            return tuple(thing_from_words(each) for each in _LIST.split(words))
        case SomeGroups():
            return tuple(_group_from_words(each) for each in _LIST.split(words))
        case SomePlaced():
            return read_placed(words, thing_from_words)
        case APair():
            groups = [_group_from_words(each) for each in _LIST.split(words)]
            return groups[0][1], groups[-1][1]
        case APlace():
            return _phrases(gap.among, form)[words.lower()]
        case ANumber():
            return int(words) if words.isdigit() else NUMBERS.index(words.lower())
        case AColour():
            return _COLOUR_OF[words.lower()]
    return gap.read(words)


def _group_from_words(words: str) -> tuple[int, Thing]:
    number = words.split(" ", 1)[0].lower()
    count = int(number) if number.isdigit() else NUMBERS.index(number) if number in NUMBERS[2:] else 1
    return count, thing_from_words(words)


_NOUN_AT_END = re.compile(
    rf"\b(?P<noun>{either((*NOUNS, *NOUN_SYNONYMS, *_SINGULAR_OF))}){_AFTER_NOUN.format(group='colour')}$",
    re.IGNORECASE,
)


def thing_from_words(words: str) -> Thing:
    """Return the thing with this name, in its usual state or that of its noun."""
    found = _NOUN_AT_END.search(words)
    if found is None:
        raise ValueError(f"not a thing: {words!r}")
    noun = found["noun"].lower()
    noun = _SINGULAR_OF.get(noun, noun)
    kind, state = NOUNS[NOUN_SYNONYMS.get(noun, noun)]
    before = words[: found.start()].lower().split()
    colours = [_COLOUR_OF[word] for word in before if word in _COLOUR_OF]
    if found["colour"]:
        colours.append(_COLOUR_OF[found["colour"].lower()])
    sizes = [_SIZES[word] for word in before if word in _SIZES]
    size = Size(sizes[0]) if sizes else Size.LARGE
    return Thing(kind, colours[0] if colours else KINDS[kind].colour, size, state)

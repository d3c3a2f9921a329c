"""What a request says is not to be there: "a cat, not a dog", "two cats and no dogs", "without clouds"."""

from __future__ import annotations

import re
from collections.abc import Collection
from random import Random

from interleave_mini.language.natural_gaps import synonyms_of
from interleave_mini.language.synonyms import NOUN_SYNONYMS
from interleave_mini.language.words import UNCOUNTABLE, one_of, plural, with_article
from interleave_mini.world.kinds import COLOURS, KINDS, NOUNS

_NOUNS = tuple(noun for noun in (*NOUNS, *NOUN_SYNONYMS) if noun not in UNCOUNTABLE)
_ANY = one_of((*_NOUNS, *map(plural, _NOUNS)))
_BARE = rf"(?:(?:any|other|more) )?(?:{one_of(COLOURS)} )?{_ANY}"
_THING = rf"(?:(?:an?|the|one)(?: single)? )?{_BARE}"
NEGATED = re.compile(
    rf"\b(?:(?:not|without|never|except|instead of|leave out) {_THING}|leave {_THING} out"
    rf"|(?:no|zero|0) {_BARE})"
    rf"(?: (?:or|nor) {_THING}|,? (?:and )?no {_BARE})*\b",
    re.IGNORECASE,
)
"""Words that say what is not to be there; "Oh no, a cat" is none of them."""
TAKEN_BACK = re.compile(
    r"^.*\b(?:no,? wait|wait,? no|no no|no,? better|no, (?=an? )|no (?=an? \w+ one\b)"
    r"|i mean|i meant|meant to say|sorry|actually|or rather|or better"
    r"|scratch that|second thoughts?|correction|nay|ah no|oh no|but no(?=,)|wait,? it must)\b[,:.]?",
    re.IGNORECASE | re.DOTALL,
)
"""All up to the words with which people take back what they have said: "a red car, no wait, "."""
_AFTERWARDS = (
    ", not {one}",
    ", no {many}",
    " but no {many}",
    " without any {many}",
    " without {one}",
    " and no {many}",
    " and 0 {many}",
    " (no {many})",
    ". No {many} please",
    ", no {many} and no {more}",
    ", not {one} or {another}",
)
_BEFORE = ("No {many}, just ", "No {many}: ", "Not {one}. ", "0 {many}, ")
_MARK = re.compile(r"[.!?…]*$")


def with_negation(text: str, drawn: Collection[str], rng: Random) -> str:
    """The request, which also says that some kind is not wanted that is not among those drawn."""
    others = [kind for kind in KINDS if kind not in drawn and KINDS[kind].states[-1] in _NOUNS]
    first, second = (_noun(kind, rng) for kind in rng.sample(others, 2))
    words = {"many": plural(first), "more": plural(second)}
    words |= {"one": with_article(first), "another": with_article(second)}
    if rng.random() < 0.2:
        return rng.choice(_BEFORE).format(**words) + text[:1].lower() + text[1:]
    mark = _MARK.search(text)
    end = mark.start() if mark else len(text)
    return f"{text[:end]}{rng.choice(_AFTERWARDS).format(**words)}{text[end:]}"


def _noun(kind: str, rng: Random) -> str:
    noun = KINDS[kind].states[-1]
    return rng.choice((noun, noun, *(each for each in synonyms_of(noun) if each in _NOUNS)))

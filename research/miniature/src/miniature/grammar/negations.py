"""Requests that also exclude something, for training: "two cats and no dogs", "without clouds"."""

from __future__ import annotations

import re
from collections.abc import Collection
from random import Random

from interleave_mini.language.words import UNCOUNTABLE, plural, with_article
from interleave_mini.world.kinds import KINDS, NOUNS
from miniature.grammar.natural_gaps import synonyms_of
from miniature.grammar.synonyms import NOUN_SYNONYMS

_NOUNS = tuple(noun for noun in (*NOUNS, *NOUN_SYNONYMS) if noun not in UNCOUNTABLE)
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
    """Return the request with the exclusion of some kind that is not drawn."""
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

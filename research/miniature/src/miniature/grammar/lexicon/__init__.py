"""English words beyond the world: those that name what it lacks, and those that change nothing.

`neighbours.txt` has things and places that the world lacks, each line with those of the world that are
nearest in meaning. `harmless.txt` has words that may stand in any request, `everyday.txt` further
words of everyday English, which are no typing mistakes. `misspelt.txt` has words as people often misspell
them. `languages.txt` has common words of other languages, to tell them from English with unknown words.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files


@cache
def neighbours() -> dict[str, tuple[str, ...]]:
    """What the world lacks → what it has instead."""
    return {word: known for known, unknown, _ in neighbour_lines() for word in unknown}


@cache
def replaceable() -> frozenset[str]:
    """What the world lacks where a request makes sense with what it has instead."""
    return frozenset(word for _, unknown, alike in neighbour_lines() if alike for word in unknown)


def neighbour_lines() -> list[tuple[tuple[str, ...], tuple[str, ...], bool]]:
    parts = (re.split(r"([|=])", line) for line in _lines("neighbours.txt"))
    return [(_listed(known), _listed(unknown), sign == "=") for known, sign, unknown in parts]


@cache
def harmless_words() -> frozenset[str]:
    return frozenset(word for line in _lines("harmless.txt") for word in line.split())


@cache
def everyday_words() -> frozenset[str]:
    return frozenset(word for line in _lines("everyday.txt") for word in line.split())


@cache
def misspelt_words() -> dict[str, str]:
    """Words as people often write them → as they are written."""
    lines = (line.split("|") for line in _lines("misspelt.txt"))
    return {wrong: right.strip() for right, found in lines for wrong in found.split()}


@cache
def foreign_words() -> dict[str, frozenset[str]]:
    """Languages by name → common words of each."""
    found = {}
    for line in _lines("languages.txt"):
        language, _, words = line.partition("|")
        found[language.strip()] = frozenset(words.split())
    return found


def _lines(name: str) -> list[str]:
    text = (files(__package__) / name).read_text("utf-8")
    return [line for line in text.splitlines() if line.strip() and not line.startswith("#")]


def _listed(words: str) -> tuple[str, ...]:
    return tuple(word.strip() for word in words.split(",") if word.strip())

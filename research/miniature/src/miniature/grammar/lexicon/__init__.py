"""English words beyond the world: those that name what it lacks, and those that change nothing.

`neighbours.txt` has things and places that the world lacks, each line with those of the world that are
nearest in meaning. `harmless.txt` has words that may occur in any request. `everyday.txt` has further words
of everyday English, which are not typos. `misspelt.txt` has common misspellings. `languages.txt` has common
words of other languages, to tell them from English with unknown words.
"""

from __future__ import annotations

import re
from functools import cache
from importlib.resources import files


@cache
def neighbours() -> dict[str, tuple[str, ...]]:
    """Return the things that the world lacks, with its nearest ones."""
    return {word: known for known, unknown, _ in neighbour_lines() for word in unknown}


@cache
def replaceable() -> frozenset[str]:
    """Return the missing things that a request can replace by those of the world."""
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
    """Return common misspellings with the correct words."""
    lines = (line.split("|") for line in _lines("misspelt.txt"))
    return {wrong: right.strip() for right, found in lines for wrong in found.split()}


@cache
def foreign_words() -> dict[str, frozenset[str]]:
    """Return common words by the name of their language."""
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

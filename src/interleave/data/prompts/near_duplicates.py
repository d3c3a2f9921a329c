"""Requests that say almost the same: found exactly, without comparing each with each.

Two texts are near when the pairs of neighbouring words they share are at least a given part of all that
either has (Jaccard similarity). Case, punctuation and numbers do not count: "in four pictures" and "in five
pictures" are one wish. Texts as near as that must share one of their rarest pairs, so only those that do are
compared (prefix filtering, as in Bayardo, Ma and Srikant, "Scaling up all pairs similarity search", 2007).
Nothing is left to chance, and nothing is missed.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)*")
_EDGE = ""
_TEENS = "ten eleven twelve thirteen fourteen fifteen sixteen seventeen eighteen nineteen twenty"
_NUMBER_WORDS = frozenset(f"two three four five six seven eight nine {_TEENS}".split())
DEFAULT_THRESHOLD = 0.8
ROUNDING = 1e-9


def normalized(text: str) -> str:
    """A text as it counts for exact duplicates: case, spacing and punctuation do not matter."""
    return " ".join(_WORD.findall(text.casefold()))


def shingles(text: str) -> frozenset[str]:
    """The pairs of neighbouring words of a text, with its edges; all numbers are alike."""
    words = [_EDGE, *(_number_as_mark(word) for word in normalized(text).split()), _EDGE]
    return frozenset(f"{one} {two}" for one, two in pairwise(words))


def _number_as_mark(word: str) -> str:
    return "#" if word.isdecimal() or word in _NUMBER_WORDS else word


class NearDuplicates:
    """The texts kept so far; `add` keeps a new one, unless it says almost the same as one of them."""

    def __init__(self, threshold: float = DEFAULT_THRESHOLD, *, sample: Iterable[str] = ()) -> None:
        self.threshold = threshold
        self._common = Counter(pair for text in sample for pair in shingles(text))
        """How common a pair is, for speed alone: the rarer the pairs looked up, the fewer are compared."""
        self._kept: list[frozenset[str]] = []
        self._holding: defaultdict[str, list[int]] = defaultdict(list)

    def add(self, text: str) -> int | None:
        """The number of the first kept text that this one is near to; None where it is new, and now kept."""
        pairs = shingles(text)
        prefix = self._prefix(pairs)
        candidates = {number for pair in prefix for number in self._holding.get(pair, ())}
        near = [number for number in candidates if self._near(pairs, self._kept[number])]
        if near:
            return min(near)
        for pair in prefix:
            self._holding[pair].append(len(self._kept))
        self._kept.append(pairs)
        return None

    def _near(self, one: frozenset[str], other: frozenset[str]) -> bool:
        shared = len(one & other)
        return shared >= self.threshold * (len(one) + len(other) - shared)

    def _prefix(self, pairs: frozenset[str]) -> list[str]:
        """The rarest pairs: so many that two near texts must have one of them in common."""
        rarest = sorted(pairs, key=lambda pair: (self._common.get(pair, 0), pair))
        return rarest[: len(pairs) - math.ceil(self.threshold * len(pairs) - ROUNDING) + 1]

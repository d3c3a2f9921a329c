"""Near-duplicate detection, exact and without comparing all pairs.

Two texts are near-duplicates if the Jaccard similarity of their pairs of neighbouring words reaches a
threshold. Case, punctuation and numbers do not count: "in four images" and "in five images" are equal.
Texts that similar share one of their rarest pairs, so only texts that do are compared (prefix filtering:
Bayardo, Ma and Srikant, "Scaling up all pairs similarity search", 2007). No near-duplicate is missed.
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
    """Return a text without case, spacing and punctuation, for comparison."""
    return " ".join(_WORD.findall(text.casefold()))


def shingles(text: str) -> frozenset[str]:
    """Return the pairs of neighbouring words of a text, with start and end; all numbers are equal."""
    words = [_EDGE, *(_number_as_mark(word) for word in normalized(text).split()), _EDGE]
    return frozenset(f"{one} {two}" for one, two in pairwise(words))


def _number_as_mark(word: str) -> str:
    return "#" if word.isdecimal() or word in _NUMBER_WORDS else word


class NearDuplicates:
    """The texts kept so far; `add` keeps a new one unless it is a near-duplicate."""

    def __init__(self, threshold: float = DEFAULT_THRESHOLD, *, sample: Iterable[str] = ()) -> None:
        self.threshold = threshold
        self._common = Counter(pair for text in sample for pair in shingles(text))
        """Frequency of each pair, for speed only: rarer pairs have fewer texts to compare."""
        self._kept: list[frozenset[str]] = []
        self._holding: defaultdict[str, list[int]] = defaultdict(list)

    def add(self, text: str) -> int | None:
        """Return the number of the first kept text this one duplicates, or None if it is new and now kept."""
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
        """Return the rarest pairs, enough that two near-duplicates must share one."""
        rarest = sorted(pairs, key=lambda pair: (self._common.get(pair, 0), pair))
        return rarest[: len(pairs) - math.ceil(self.threshold * len(pairs) - ROUNDING) + 1]

"""A word diff of two prompts, in time linear in their length.

Myers, "An O(ND) difference algorithm and its variations" (1986): N words and D changes cost at most N·D
comparisons. D is bounded here, so a rewritten prompt is shown as removed and added as a whole, which is also
easier to read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

MOST_CHANGES = 128
"""Maximum number of words removed and added; a larger difference is shown as one change."""

_WORDS = re.compile(r"\S+\s*|\s+")

Pair = tuple[int, int]
"""Positions of a common word in the two prompts."""


@dataclass(frozen=True)
class Change:
    """A run of words that was kept, added or removed."""

    kind: str
    words: str


def prompt_changes(before: str, after: str) -> list[Change]:
    """Return the changes from one prompt to the next."""
    old, new = _WORDS.findall(before), _WORDS.findall(after)
    changes: list[Change] = []
    i = j = 0
    for start, end, there in _ranges(_kept(old, new), (len(old), len(new))):
        if start > i:
            changes.append(Change("removed", "".join(old[i:start])))
        if there > j:
            changes.append(Change("added", "".join(new[j:there])))
        if end > start:
            changes.append(Change("kept", "".join(old[start:end])))
        i, j = end, there + end - start
    return changes


def _kept(old: Sequence[str], new: Sequence[str]) -> Iterator[Pair]:
    """Yield the common words: the common start and end, and the ones that Myers finds between them."""
    shortest = min(len(old), len(new))
    head = next((place for place in range(shortest) if old[place] != new[place]), shortest)
    tail = next(
        (place for place in range(shortest - head) if old[-1 - place] != new[-1 - place]), shortest - head
    )
    yield from ((place, place) for place in range(head))
    numbers: dict[str, int] = {}  # comparing numbers is faster than comparing words
    a = [numbers.setdefault(word, len(numbers)) for word in old[head : len(old) - tail]]
    b = [numbers.setdefault(word, len(numbers)) for word in new[head : len(new) - tail]]
    yield from ((head + i, head + j) for i, j in common(a, b))
    yield from ((len(old) - place, len(new) - place) for place in range(tail, 0, -1))


def common(a: Sequence[int], b: Sequence[int], most: int = MOST_CHANGES) -> list[Pair]:
    """Return the longest common subsequence as pairs of positions; empty if more than `most` items differ."""
    furthest = {1: 0}
    rounds: list[dict[int, int]] = []
    for changed in range(min(most, len(a) + len(b)) + 1):
        rounds.append(furthest.copy())
        for diagonal in range(-changed, changed + 1, 2):
            before = _came_from(furthest, diagonal, changed)
            i = furthest[before] + (before < diagonal)
            while i < len(a) and i - diagonal < len(b) and a[i] == b[i - diagonal]:
                i += 1
            furthest[diagonal] = i
            if i >= len(a) and i - diagonal >= len(b):
                return _pairs(rounds, len(a), len(b))
    return []


def _came_from(furthest: dict[int, int], diagonal: int, changed: int) -> int:
    """Return the adjacent diagonal that reaches furthest: above for an added item, below for a removal."""
    if diagonal == -changed:
        return diagonal + 1
    if diagonal == changed or furthest[diagonal - 1] >= furthest[diagonal + 1]:
        return diagonal - 1
    return diagonal + 1


def _pairs(rounds: Sequence[dict[int, int]], i: int, j: int) -> list[Pair]:
    """Return the common items by backtracking from the end."""
    found: list[Pair] = []
    for changed in range(len(rounds) - 1, -1, -1):
        furthest = rounds[changed]
        diagonal = i - j
        before = _came_from(furthest, diagonal, changed) if changed else 0
        at = furthest[before] if changed else 0
        while i > at and j > at - before:
            i, j = i - 1, j - 1
            found.append((i, j))
        i, j = at, at - before
    return found[::-1]


def _ranges(kept: Iterator[Pair], end: Pair) -> Iterator[tuple[int, int, int]]:
    """Merge adjacent pairs into ranges: start, end, and start in the new prompt; an empty range last."""
    first = last = (0, 0)
    for pair in kept:
        if pair != last:
            if last != first:
                yield first[0], last[0], first[1]
            first = pair
        last = (pair[0] + 1, pair[1] + 1)
    if last != first:
        yield first[0], last[0], first[1]
    yield end[0], end[0], end[1]

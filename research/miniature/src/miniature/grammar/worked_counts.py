"""How many worked requests there are, by kind, and how many are near-duplicates of an earlier one.

    python -m miniature.grammar.worked_counts

Near-duplicates are the same words once nouns and colours are masked; the marks of a list do not count.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from functools import cache

from interleave_mini.language.vocabulary import language
from interleave_mini.language.words import plural
from interleave_mini.world.wider import ALL_COLOURS, ALL_NOUNS
from miniature.grammar.worked_examples import WorkedExample, worked_examples

_MARK = re.compile(r"(?:^|(?<=\s))(?:\(?\d[.)]|-)(?=\s)", re.MULTILINE)
_WHY = re.compile(r"\b(?:why|because|so that|that's why|how come|explain|since|therefore)\b", re.IGNORECASE)
_WORD = re.compile(r"[\w']+")
_LONGEST = 3
"""Words of the longest noun."""


@cache
def _nouns() -> frozenset[tuple[str, ...]]:
    singular = (*ALL_NOUNS, *language().nouns)
    return frozenset(tuple(noun.split()) for noun in (*singular, *map(plural, singular)))


def masked(request: str) -> str:
    """Return the words of a request with a sign for each noun; colours are left out."""
    colours = {*ALL_COLOURS, *language().colours}
    words = [word for word in _WORD.findall(_MARK.sub(" ", request).lower()) if word not in colours]
    found: list[str] = []
    while words:
        length = next((n for n in range(_LONGEST, 0, -1) if tuple(words[:n]) in _nouns()), 0)
        found.append("_" if length else words[0])
        del words[: length or 1]
    return " ".join(found)


def near_duplicates(requests: Iterable[str]) -> int:
    """Return how many of these say the same as an earlier one about other things."""
    return sum(count - 1 for count in Counter(map(masked, requests)).values())


def kind_of(example: WorkedExample, request: str) -> str:
    """Return what a request asks for."""
    if len(example.plan) == 1:
        return "one image"
    sentences = [" ".join(_WORD.findall(caption.lower())) for _, caption in example.plan]
    if " ".join(_WORD.findall(_MARK.sub(" ", request).lower())).endswith(" ".join(sentences)):
        return "own sentences"
    return "explanation" if _WHY.search(request) else "several images"


def main() -> None:
    requests = [(kind_of(each, text), text) for each in worked_examples() for text in each.requests]
    for kind, count in Counter(kind for kind, _ in requests).most_common():
        print(f"{count:7,} {kind}")
    print(f"{len(requests):7,} in all, with {len(worked_examples()):,} plans")
    share = near_duplicates(text for _, text in requests) / len(requests)
    print(f"{share:7.1%} near-duplicates")


if __name__ == "__main__":
    main()

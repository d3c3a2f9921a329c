"""Small liberties people take with a request, undone: "please", "step by step", "in four pictures"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from interleave_mini.language.words import NUMBERS

_POLITE = re.compile(
    r"^(?:please|kindly|can you|could you|i want you to|now)[, ]+(?:please )?", re.IGNORECASE
)
_TAIL = re.compile(
    rf",? (?:step by step|please|in (?P<n>{'|'.join(NUMBERS)}|\d) (?:pictures|steps|images|scenes))$",
    re.IGNORECASE,
)
LONGEST_TAIL = 40
"""Characters: no more are looked at for each, so that many tails cost no more than one long text."""
_OPENINGS = ("", "show me ", "show ", "tell ", "draw ")


@dataclass(frozen=True)
class Variant:
    """Another way to put a request; `steps` where it named their number."""

    text: str
    steps: int | None = None


def variants(text: str) -> Iterator[Variant]:
    """A normalised request as it is, then without its politeness and its tails, with usual openings."""
    yield Variant(text)
    bare, steps = _POLITE.sub("", text), None
    end = len(bare)
    while found := _TAIL.search(bare, max(0, end - LONGEST_TAIL), end):
        end = found.start()
        if said := found["n"]:
            steps = int(said) if said.isdigit() else NUMBERS.index(said.lower())
    bare = bare[:end]
    for opening in _OPENINGS:
        begun = bare if not opening else opening + bare[:1].lower() + bare[1:]
        yield Variant(begun, steps)

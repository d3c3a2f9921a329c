"""The variants of a request: with and without "please", "step by step", "in four images"."""

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
"""Characters searched per tail, so that many tails cost no more than one long text."""
_OPENINGS = ("", "show me ", "show ", "tell ", "draw ")


@dataclass(frozen=True)
class Variant:
    """A request in another wording; `steps` is the number of steps that it names, if any."""

    text: str
    steps: int | None = None


def variants(text: str) -> Iterator[Variant]:
    """Yield a normalised request unchanged, then without polite openings and tails, with usual openings."""
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

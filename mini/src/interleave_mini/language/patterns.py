"""Sentence patterns with gaps, which write sentences and parse them: "Add {thing} {where}"."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cached_property

from interleave import InputError

GAP = re.compile(r"{(\w+)}")
_SPACE = re.compile(r"\s+")


class NotUnderstood(InputError):
    """The words are known, but they match no sentence that can be carried out here."""


def normalised(text: str) -> str:
    """The text with single spaces between words and no full stop at the end."""
    return _SPACE.sub(" ", text).strip().rstrip(".!?").rstrip()


def filled(text: str, words: Mapping[str, str]) -> str:
    """A sentence with its gaps filled."""
    return GAP.sub(lambda gap: words[gap[1]], text)


class Pattern:
    """A sentence with gaps; the same object writes sentences and parses them."""

    def __init__(self, text: str, gaps: Mapping[str, str]) -> None:
        self.text = text
        self.names = tuple(GAP.findall(text))
        self._gaps = gaps

    @cached_property
    def _regex(self) -> re.Pattern[str]:  # compiled where a sentence is read: all of them take seconds
        pieces = GAP.split(self.text)
        fixed = [re.escape(piece) for piece in pieces[::2]]
        filled = [f"(?P<{name}>{self._gaps[name]})" for name in pieces[1::2]]
        whole = "".join(a + b for a, b in zip(fixed, [*filled, ""], strict=True))
        return re.compile(whole, re.IGNORECASE)

    def write(self, words: Mapping[str, str]) -> str:
        return filled(self.text, words)

    @cached_property
    def _fixed(self) -> tuple[str, ...]:
        return tuple(piece.lower() for piece in GAP.split(self.text)[::2])

    def read(self, text: str) -> dict[str, str] | None:
        """The text in each gap of a normalised sentence; None when it does not match."""
        lower = text.lower()
        if not all(piece in lower for piece in self._fixed):  # most are told apart without compiling them
            return None
        found = self._regex.fullmatch(text)
        return found.groupdict() if found else None

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"

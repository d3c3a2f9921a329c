"""Sentences with gaps, that can be written and read: "Add {thing} {where}"."""

from __future__ import annotations

import re
from collections.abc import Mapping

from interleave.errors import InputError

_GAP = re.compile(r"{(\w+)}")
_SPACE = re.compile(r"\s+")


class NotUnderstood(InputError):
    """These words are in the language, but they do not say anything that can be done here."""


def normalised(text: str) -> str:
    """One space between words, none around them, no stop at the end."""
    return _SPACE.sub(" ", text).strip().rstrip(".!?").rstrip()


def filled(text: str, words: Mapping[str, str]) -> str:
    """A sentence with its gaps filled."""
    return _GAP.sub(lambda gap: words[gap[1]], text)


class Pattern:
    """A sentence with gaps. The same object writes sentences and reads them back."""

    def __init__(self, text: str, gaps: Mapping[str, str]) -> None:
        self.text = text
        self.names = tuple(_GAP.findall(text))
        pieces = _GAP.split(text)
        fixed = [re.escape(piece) for piece in pieces[::2]]
        filled = [f"(?P<{name}>{gaps[name]})" for name in pieces[1::2]]
        whole = "".join(a + b for a, b in zip(fixed, [*filled, ""], strict=True))
        self._regex = re.compile(whole, re.IGNORECASE)

    def write(self, words: Mapping[str, str]) -> str:
        return filled(self.text, words)

    def read(self, text: str) -> dict[str, str] | None:
        """What stands in the gaps of a normalised text, if it is this sentence."""
        found = self._regex.fullmatch(text)
        return found.groupdict() if found else None

    def __repr__(self) -> str:
        return f"Pattern({self.text!r})"

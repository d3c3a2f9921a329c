"""Make text from outside safe to store and to show. Nothing is removed from stored text."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping
from typing import Any

MAX_REQUEST_CHARACTERS = 65_536
MAX_FIELD_CHARACTERS = 32_768

_SURROGATE = re.compile("[\ud800-\udfff]")
_UNSAFE = re.compile(
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]|\r(?!\n)"
)
"""Characters that control a terminal, reverse a line or cannot be encoded."""


def unusable(text: str) -> str | None:
    """Return why a text cannot be used, or `None` if it can."""
    if "\x00" in text:
        return "it contains a NUL character"
    if _SURROGATE.search(text):
        return "it contains half of a surrogate pair, which is not valid Unicode"
    return None


def storable(text: str) -> str:
    """Return the text with lone surrogates escaped, so that it can be encoded as UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def storable_in(value: Any) -> Any:
    """Return a JSON value with lone surrogates escaped in every text and key."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {storable_in(key): storable_in(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(storable_in, value))
    return value


def visible(text: str) -> str:
    """Return the text with control and direction-override characters escaped."""
    return _UNSAFE.sub(_escaped, text)


def one_line(text: str, width: int = 100) -> str:
    """Return the text on one line, shortened to `width` characters."""
    line = " ".join(visible(text).split())
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def count(number: int, noun: str) -> str:
    """Return a number with its noun: "1 step", "3 steps"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def time_left(seconds: float) -> str:
    """Return the remaining time in a suitable unit: "about 40 s left"."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"about {seconds / size:.{0 if seconds >= 9.5 * size else 1}f} {unit} left"
    return f"about {seconds:.0f} s left"


def slug(text: str, length: int = 40) -> str:
    """Return a short folder name: lower-case ASCII words joined by dashes, possibly empty."""
    ascii_only = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", ascii_only.lower())[:length].strip("-")


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)  # the Unicode control pictures: ␛ for escape, ␀ for NUL
    return f"⟨U+{code:04X}⟩"

"""Text from outside, made safe to store and safe to show. Nothing is ever removed from stored text."""

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
"""Characters that can control a terminal, reverse a line, or not be encoded at all."""


def unusable(text: str) -> str | None:
    """Why a text can be neither stored nor drawn, or None if it can."""
    if "\x00" in text:
        return "it contains a NUL character"
    if _SURROGATE.search(text):
        return "it contains half of a surrogate pair, which is not valid Unicode"
    return None


def storable(text: str) -> str:
    """The text as a UTF-8 file can hold it: half a surrogate pair is escaped."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def storable_in(value: Any) -> Any:
    """A JSON value with every text in it, keys included, as a UTF-8 file can hold it."""
    if isinstance(value, str):
        return storable(value)
    if isinstance(value, Mapping):
        return {storable_in(key): storable_in(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(storable_in, value))
    return value


def visible(text: str) -> str:
    """The text with control and direction-override characters escaped, safe to display."""
    return _UNSAFE.sub(_escaped, text)


def one_line(text: str, width: int = 100) -> str:
    """The text on one line, shortened to `width` characters, for progress lines and titles."""
    line = " ".join(visible(text).split())
    return line if len(line) <= width else line[: width - 1].rstrip() + "…"


def count(number: int, noun: str) -> str:
    """A number with its noun: "1 step", "3 steps"."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def time_left(seconds: float) -> str:
    """About how long, in the unit that fits: "about 40 s left"."""
    for unit, size in (("h", 3600.0), ("min", 60.0)):
        if seconds >= 1.5 * size:
            return f"about {seconds / size:.{0 if seconds >= 9.5 * size else 1}f} {unit} left"
    return f"about {seconds:.0f} s left"


def slug(text: str, length: int = 40) -> str:
    """A short, safe folder name: lower-case ASCII words joined by dashes, empty if there are none."""
    ascii_only = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^a-z0-9]+", "-", ascii_only.lower())[:length].strip("-")


def _escaped(match: re.Match[str]) -> str:
    code = ord(match.group())
    if code < 0x20:
        return chr(0x2400 + code)  # the Unicode control images: ␛ for escape, ␀ for NUL
    return f"⟨U+{code:04X}⟩"

"""Parsing a judge's replies. Nothing is guessed: every function raises `Unparsed` if the value is missing."""

from __future__ import annotations

import json
import math
import re
from typing import Any

from interleave.bench.base import Unparsed

_FENCE = re.compile(r"```(?:json)?[ \t]*\n(.*?)```", re.DOTALL | re.IGNORECASE)
_THINK = re.compile(r"\A.*</think>", re.DOTALL)
_DIGITS = r"[0-9]{1,6}+"
_RANGE = r"[\s*]{0,4}(?:[-–—,]|to\b|or\b|and\b)[\s*]{0,4}[0-9]"
MAX_REPLY_CHARACTERS = 200_000
TRUE = {"true", "yes", "y", "1"}
FALSE = {"false", "no", "n", "0", "not sure", "unsure", "unknown"}


def without_thoughts(reply: str) -> str:
    """Return the reply after its `</think>`, if any."""
    return _THINK.sub("", _bounded(reply), count=1)


def json_object(reply: str) -> dict[str, Any]:
    """Return the reply's only JSON object: in a fence, alone, or between the first and the last brace."""
    reply = _bounded(reply)
    candidates = [match[1] for match in _FENCE.finditer(reply)]
    first, last = reply.find("{"), reply.rfind("}")
    if 0 <= first < last:
        candidates.append(reply[first : last + 1])
    for text in candidates:
        found = _loaded(text)
        if isinstance(found, dict):
            return found
    raise Unparsed("no readable JSON object in the reply")


def _loaded(text: str) -> Any:
    for each in (text, text.replace("\\", "\\\\")):  # some judges write LaTeX into their reasons
        try:
            return json.loads(each, parse_constant=_refuse)
        except (ValueError, RecursionError):
            continue
    return None


def _refuse(name: str) -> Any:
    raise ValueError(name)


def score_after(label: str) -> re.Pattern[str]:
    """Compile a pattern for `labelled`: a number after a label, with markdown and a colon between them."""
    return re.compile(
        rf"\b(?:{label})\b[\s*_`:：=]{{0,20}}+({_DIGITS}(?:\.{_DIGITS})?+)(?:\s?/\s?({_DIGITS}))?+({_RANGE})?",
        re.IGNORECASE,
    )


def labelled(reply: str, pattern: re.Pattern[str], *, low: int, high: int) -> int:
    """Return the integer after a label. All occurrences must agree; a range such as 1-5 is rejected."""
    found = set()
    for match in pattern.finditer(_bounded(reply)):
        number, most, more = match.groups()
        if more is not None or (most is not None and int(most) != high):
            raise Unparsed(f"{match[0][:60]!r} is not a single number")
        found.add(int(number_of(number, low=low, high=high, whole=True)))
    if len(found) != 1:
        raise Unparsed("the reply has no score" if not found else f"the reply has the scores {sorted(found)}")
    return found.pop()


def number_of(value: Any, *, low: float, high: float, whole: bool = False) -> float:
    """Return a number within its bounds. Numeric strings are accepted, booleans are not."""
    if isinstance(value, str):
        try:
            value = float(value.strip())
        except ValueError:
            raise Unparsed(f"{value[:40]!r} is not a number") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Unparsed(f"{value!r:.40} is not a number")
    if not low <= value <= high:
        raise Unparsed(f"{value:g} is not between {low:g} and {high:g}")
    if whole and value != int(value):
        raise Unparsed(f"{value:g} is not a whole number")
    return float(value)


def truth_of(value: Any) -> bool:
    """Return whether a criterion is met. Uncertainty counts as no."""
    if isinstance(value, bool):
        return value
    said = str(value).strip().lower()
    if said in TRUE:
        return True
    if said in FALSE:
        return False
    raise Unparsed(f"{said[:40]!r} is neither yes nor no")


def field_of(found: dict[str, Any], name: str) -> Any:
    if name not in found:
        raise Unparsed(f"the reply has no {name!r}")
    return found[name]


def _bounded(reply: str) -> str:
    if len(reply) > MAX_REPLY_CHARACTERS:
        raise Unparsed(f"the reply has {len(reply):,} characters")
    return reply

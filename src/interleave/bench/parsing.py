"""Reading a judge's replies. What is not there is not invented: every function raises `Unparsed` instead."""

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
    """The reply after its `</think>`, where it has one."""
    return _THINK.sub("", _bounded(reply), count=1)


def json_object(reply: str) -> dict[str, Any]:
    """The one object of a reply: in a fence, alone, or between the first and the last brace."""
    reply = _bounded(reply)
    candidates = [match[1] for match in _FENCE.finditer(reply)]
    first, last = reply.find("{"), reply.rfind("}")
    if 0 <= first < last:
        candidates.append(reply[first : last + 1])
    for text in candidates:
        found = _loaded(text)
        if isinstance(found, dict):
            return found
    raise Unparsed("the reply holds no JSON object that can be read")


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
    """Finds numbers after a label, with markdown and a colon between them, for `labelled`."""
    return re.compile(
        rf"\b(?:{label})\b[\s*_`:：=]{{0,20}}+({_DIGITS}(?:\.{_DIGITS})?+)(?:\s?/\s?({_DIGITS}))?+({_RANGE})?",
        re.IGNORECASE,
    )


def labelled(reply: str, pattern: re.Pattern[str], *, low: int, high: int) -> int:
    """The whole number after a label, the same wherever the label stands; a range such as 1-5 is none."""
    found = set()
    for match in pattern.finditer(_bounded(reply)):
        number, most, more = match.groups()
        if more is not None or (most is not None and int(most) != high):
            raise Unparsed(f"{match[0][:60]!r} is not one number")
        found.add(int(number_of(number, low=low, high=high, whole=True)))
    if len(found) != 1:
        raise Unparsed("the reply has no score" if not found else f"the reply has the scores {sorted(found)}")
    return found.pop()


def number_of(value: Any, *, low: float, high: float, whole: bool = False) -> float:
    """A number within its bounds; texts of digits are read, truth values are not."""
    if isinstance(value, str):
        try:
            value = float(value.strip())
        except ValueError:
            raise Unparsed(f"{value[:40]!r} is no number") from None
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise Unparsed(f"{value!r:.40} is no number")
    if not low <= value <= high:
        raise Unparsed(f"{value:g} is not from {low:g} to {high:g}")
    if whole and value != int(value):
        raise Unparsed(f"{value:g} is not a whole number")
    return float(value)


def truth_of(value: Any) -> bool:
    """Whether a criterion is met; doubt is no."""
    if isinstance(value, bool):
        return value
    said = str(value).strip().lower()
    if said in TRUE:
        return True
    if said in FALSE:
        return False
    raise Unparsed(f"{said[:40]!r} says neither yes nor no")


def field_of(found: dict[str, Any], name: str) -> Any:
    if name not in found:
        raise Unparsed(f"the reply has no {name!r}")
    return found[name]


def _bounded(reply: str) -> str:
    if len(reply) > MAX_REPLY_CHARACTERS:
        raise Unparsed(f"the reply has {len(reply):,} characters")
    return reply

"""How many steps does a request ask for? Read only where the wording leaves no doubt."""

from __future__ import annotations

import re

# fmt: off
_WORDS = [
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen", "twenty",
]
# fmt: on
_NUMBER_WORDS = {word: value for value, word in enumerate(_WORDS, start=1)}
_NUMBER = rf"(\d{{1,4}}|{'|'.join(sorted(_WORDS, key=len, reverse=True))})"
_NOUN = r"(?:steps?|pictures?|images?|panels?|scenes?|stages?|frames?|illustrations?|drawings?|pages?)"
_QUALIFIER = r"(?:more|further|simple|easy|short|clear|small|different|single|consecutive)"
_LEAD = (
    r"(?:in|with|using|as|into|exactly|show|draw|give|write|make|create|paint|generate|next|another|plan"
    r"|remaining|want|need)"
)
_STEP_COUNT = re.compile(
    rf"\b{_LEAD}\s+(?:me\s+|us\s+|exactly\s+|just\s+|only\s+|the\s+next\s+|another\s+)*"
    rf"{_NUMBER}\s+(?:{_QUALIFIER}\s+)*{_NOUN}\b"
    rf"|\b{_NUMBER}[- ](?:step|picture|image|panel|scene|stage|frame|page)\b(?!s)",
    re.IGNORECASE,
)
_ANY_NUMBER = re.compile(rf"(?<![\w.,]){_NUMBER}(?![\w]|[.,]\d)", re.IGNORECASE)


def named_step_count(text: str) -> int | None:
    """The number of steps a request names ("in four pictures"), or None when it names none or several."""
    found = {_value(next(filter(None, match.groups()))) for match in _STEP_COUNT.finditer(text)}
    return found.pop() if len(found) == 1 else None


def first_number(text: str) -> int | None:
    """The first whole number or number word in a text, whatever it counts."""
    match = _ANY_NUMBER.search(text)
    return _value(match.group(1)) if match else None


def _value(number: str) -> int:
    return _NUMBER_WORDS.get(number.lower()) or int(number)

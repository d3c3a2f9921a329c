"""The number of steps that a request asks for, read only where the wording is unambiguous.

The planner sees the request in any case; a number read wrongly would refuse its correct plan. So "in four
pictures" counts, and "a room with four pictures" or "a staircase with twelve steps" does not.
"""

from __future__ import annotations

import re

# fmt: off
_WORDS = [
    "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
    "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen",
]
# fmt: on
_TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
_NUMBER_WORDS = {word: value for value, word in enumerate(_WORDS, start=1)} | {
    word: 10 * value for value, word in enumerate(_TENS, start=2)
}
_TEENS_FIRST = "|".join(reversed(_WORDS))  # "fourteen" before "four"
_NUMBER = rf"(\d{{1,6}}|(?:{'|'.join(_TENS)})(?:-(?:{'|'.join(_WORDS[:9])}))?|{_TEENS_FIRST})"

_PICTURES = r"(?:pictures?|images?|panels?|scenes?|illustrations?|drawings?)"
_PARTS = r"(?:steps?|stages?)"
_LOOKS = (
    r"(?:more|further|simple|easy|quick|short|clear|small|little|big|large|different|separate|single"
    r"|consecutive|successive|detailed|colou?r(?:ed|ful)?|black[- ]and[- ]white|comic|cartoon|step-by-step"
    r"|and)"
)
_COUNT = (
    r"\s+(?:(?:me|us|exactly|just|only|the\s+next|another|an?\s+(?:series|sequence|set|strip|total)\s+of)\s+){0,5}"
    rf"{_NUMBER}\s+(?:{_LOOKS}\s+){{0,8}}"
)
_NOT_A_SHARE = (
    r"\b(?!\s+(?:each|apiece|per|every|an?\b|(?:for|of)\s+(?:each|every)|or\s+(?:more|fewer|less|so)"
    r"|at\s+(?:the\s+)?(?:most|least)|max|min))"
)
_TELLING = r"(?:explain|tell|teach|illustrate|describe|story|comic|cartoon|guide|tutorial|storyboard)"
_DOCUMENT = (
    r"(?:comic|cartoon|strip|story|storyboard|guide|tutorial|walkthrough|manual|instructions?|recipe|lesson"
    r"|explanation|sequence|series|animation|booklet|picture\s+book)"
)

_ASKING = (
    r"(?:next|another|remaining|show|give|write|list|plan|use"
    r"|(?:i|we)(?:['’]d|\s+would)?\s+(?:want|need|like))"
)
_NAMED = [
    re.compile(pattern)
    for pattern in (
        rf"\b(?:in|into|(?<!many\s)as){_COUNT}(?:{_PICTURES}|{_PARTS}|frames?|pages?){_NOT_A_SHARE}",
        rf"\b{_ASKING}{_COUNT}(?:{_PICTURES}|{_PARTS}){_NOT_A_SHARE}",
        rf"\b(?:draw|paint|make|create|generate){_COUNT}{_PICTURES}{_NOT_A_SHARE}",
        rf"\b{_TELLING}\b[^.!?\n]{{0,200}}?\b(?:with|using){_COUNT}{_PICTURES}{_NOT_A_SHARE}",
        rf"(?<![-\w.,/]){_NUMBER}[- ](?:step|picture|image|panel|scene|stage|frame|page)"
        rf"\s+(?:[\w-]+\s+){{0,2}}{_DOCUMENT}\b",
    )
]
_ANY_NUMBER = re.compile(rf"(?<![\w.,]){_NUMBER}(?![\w]|[.,]\d)")
_YEARS = range(1900, 2100)


def named_step_count(text: str) -> int | None:
    """The number of steps a request names ("in four pictures"), or None when it names none or several."""
    folded = text.casefold()
    found = {_value(match.group(1)) for pattern in _NAMED for match in pattern.finditer(folded)}
    count = found.pop() if len(found) == 1 else 0
    return count if count and count not in _YEARS else None


def first_number(text: str) -> int | None:
    """The first whole number or number word in a text, whatever it counts."""
    match = _ANY_NUMBER.search(text.casefold())
    return _value(match.group(1)) if match else None


def _value(number: str) -> int:
    if number.isdecimal():
        return int(number)
    return sum(_NUMBER_WORDS[word] for word in number.split("-"))

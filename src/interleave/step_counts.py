"""The number of steps that a request asks for, read only where the wording is unambiguous.

The planner sees the request in any case; a number read wrongly would refuse its correct plan. So "in four
pictures" counts, and "a room with four pictures" or "a staircase with twelve steps" does not; nor does a
range ("3 to 5 steps"), a wish ("in four, if possible"), or a number of pictures beside something else that is
asked for ("one image of the whole, and then a step-by-step guide").
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

_CHAPTER_PLACE = re.compile(r"\bPlan chapter (\d{1,6}): at most (\d{1,6}) steps, numbered from (\d{1,7})\.")
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
    r"\b(?!\s+(?:each|apiece|per|every|an?\b|(?:for|of)\s+(?:each|every)|or\s+(?:more|fewer|less|so|there)"
    r"|at\s+(?:the\s+)?(?:most|least)|at\s+a\s+time|max|min|tops|give\s+or\s+take))"
)
_TELLING = r"(?:explain|tell|teach|illustrate|describe|story|comic|cartoon|guide|tutorial|storyboard)"
_DOCUMENT = (
    r"(?:comic|cartoon|strip|story|storyboard|guide|tutorial|walkthrough|manual|instructions?|recipe|lesson"
    r"|explanation|sequence|series|animation|booklet|picture\s+book)"
)

_ASKING = (
    r"(?:next|another|remaining|show|give|write|list|plan|use|continue\s+(?:with|for)"
    r"|(?:i|we)(?:['’]d|\s+would)?\s+(?:want|need|like))"
)
_NAMED = [
    re.compile(pattern)
    for pattern in (
        rf"\b(?:in|into|(?<!many\s)as){_COUNT}(?:{_PICTURES}|{_PARTS}|frames?|pages?){_NOT_A_SHARE}",
        rf"\b{_ASKING}{_COUNT}(?:{_PICTURES}|{_PARTS}){_NOT_A_SHARE}",
        rf"\b(?:draw|paint|make|create|generate){_COUNT}{_PICTURES}{_NOT_A_SHARE}",
        rf"\b{_TELLING}\b[^.!?\n]{{0,200}}?\b(?:with|using){_COUNT}{_PICTURES}{_NOT_A_SHARE}",
        rf"\((?:in )?{_NUMBER}\s+(?:{_LOOKS}\s+){{0,8}}{_PICTURES}\)",
        rf"(?<![-\w.,/]){_NUMBER}[- ](?:step|picture|image|panel|scene|stage|frame|page)"
        rf"\s+(?:[\w-]+\s+){{0,2}}{_DOCUMENT}\b",
    )
]
_INSTRUCTIONS = (
    r"(?:step[- ]by[- ]step|steps|stages|guide|tutorial|walkthrough|manual|instructions|recipe|lesson)"
)
_NOT_MEANT = re.compile(
    r"(?:\b(?:ideally|preferably|perhaps|maybe|possibly|not|never|without|instead\s+of|rather\s+than)|n['’]t)"
    r"[\s,]{1,3}\Z"
)
"""What makes of a number after it a wish or a denial."""
_BOUNDED = re.compile(
    r"(?:\b(?:to|or|and|than|least|most|about|around|roughly|nearly|almost|over|under|between)\s{1,3}"
    r"|[-–—~<>≤≥≈]\s{0,3})\Z"
)
"""What makes of a number after it a bound or the end of a range."""
_UNSURE = re.compile(
    r"\s+(?:if\s+(?:possible|you\s+can)|(?:that\s+)?(?:i|you|we)\b|above\b|below\b|attached\b|given\b"
    r"|(?:hanging\s+)?(?:on|onto|behind|beside|over)\s+(?:the|an?|my|his|her|their|its)\b)"
)
"""What makes of pictures before it a wish, pictures that are there already, or things in a picture."""
_AS_MATERIAL = re.compile(r"\s+(?:as|from|taken)\b")
_MORE_IS_ASKED = re.compile(
    r"\b(?:(?:then|followed\s+by|after\s+that|afterwards)[\s,]+"
    r"(?:show|give|write|list|explain|describe|teach|tell|draw|paint|create|generate)"
    r"|(?:and|plus|also)\s+(?:draw|paint|create|generate)(?!\s+(?:them|it|all|each|every|these|those)\b)"
    r"|(?:then|and|plus|also|besides|followed\s+by|as\s+well\s+as|(?:along|together)\s+with|after\s+that"
    r"|afterwards|in\s+addition)[\s,]+(?:to\s+)?(?:(?:the|an?|another|one|some|its|my)\s+)(?:[\w-]+\s+){0,3}?"
    rf"(?:{_PICTURES}|{_INSTRUCTIONS}|{_DOCUMENT}))\b"
)
"""A further thing that is asked for."""
_INSTRUCTIONS_AND = re.compile(rf"\b{_INSTRUCTIONS}\b[^.!?\n]{{0,80}}\b(?:and|then|also|plus)[\s,]+\Z")
_MENTIONED = re.compile(
    rf"(?<![-\w.,/]){_NUMBER}\s+(?:{_LOOKS}\s+){{0,8}}(?:{_PICTURES}|{_PARTS}){_NOT_A_SHARE}"
)
_GIVEN = re.compile(r"\b(?:these|those|the|my|your|our|all|this|both)\s+\Z")
_WINDOW = 160
"""Characters before and after a number that are looked at."""
_ANY_NUMBER = re.compile(rf"(?<![\w.,]){_NUMBER}(?![\w]|[.,]\d)")
_YEARS = range(1900, 2100)


def asking_text(texts: Sequence[str | None]) -> str:
    """The text that says what is asked for: that after the last picture, all of it where there is none.

    In `texts` a picture is None.
    """
    last = len(texts) - texts[::-1].index(None) if None in texts else 0
    after_pictures = "\n".join(text for text in texts[last:] if text)
    return after_pictures if after_pictures.strip() else "\n".join(text for text in texts if text)


def named_step_count(text: str) -> int | None:
    """The number of steps a request names ("in four pictures"), or None when it names none or several."""
    folded = text.casefold()
    matches = [match for pattern in _NAMED for match in pattern.finditer(folded)]
    counts = {_value(match.group(1)) for match in matches}
    count = counts.pop() if len(counts) == 1 else 0
    if not count or count in _YEARS or any(_is_doubtful(folded, match) for match in matches):
        return None
    return count if all(other == count for other in _mentioned(folded)) else None


def _is_doubtful(text: str, match: re.Match[str]) -> bool:
    """Whether what stands around a number leaves open how many steps are asked for."""
    before = text[max(0, match.start() - _WINDOW) : match.start()]
    after = text[match.end() : match.end() + _WINDOW]
    asks = match.start() < match.start(1)  # "show 4 pictures", not "4-panel comic"
    if _NOT_MEANT.search(before) or (not asks and _BOUNDED.search(before)):
        return True
    if _UNSURE.match(after) or (match.group().startswith("use") and _AS_MATERIAL.match(after)):
        return True
    if asks and (_INSTRUCTIONS_AND.search(before) or _is_one_beside_steps(text, match)):
        return True
    return _MORE_IS_ASKED.search(after) is not None


def _is_one_beside_steps(text: str, match: re.Match[str]) -> bool:
    """Whether "show one picture" stands in a request that also speaks of steps."""
    near = text[max(0, match.start() - _WINDOW) : match.start()] + text[match.end() : match.end() + _WINDOW]
    within = match.group().startswith(("in", "as"))  # "step by step, in one picture"
    return _value(match.group(1)) == 1 and not within and bool(re.search(rf"\b{_INSTRUCTIONS}\b", near))


def _mentioned(text: str) -> Iterator[int]:
    """Every number of pictures or steps, but for those of pictures that are there already."""
    for match in _MENTIONED.finditer(text):
        if not _GIVEN.search(text[max(0, match.start() - 8) : match.start()]):
            yield _value(match.group(1))


def first_number(text: str) -> int | None:
    """The first whole number or number word in a text, whatever it counts."""
    match = _ANY_NUMBER.search(text.casefold())
    return _value(match.group(1)) if match else None


def _value(number: str) -> int:
    if number.isdecimal():
        return int(number)
    return sum(_NUMBER_WORDS[word] for word in number.split("-"))


def chapter_place(chapter: int, first: int, most: int) -> str:
    """Which chapter of a plan a planner is asked for, in words that `read_chapter_place` finds again."""
    return f"Plan chapter {chapter}: at most {most} steps, numbered from {first}."


def read_chapter_place(text: str) -> tuple[int, int, int] | None:
    """The chapter, its first step and the most steps that it may have, where a text says so."""
    found = _CHAPTER_PLACE.search(text)
    return (int(found[1]), int(found[3]), int(found[2])) if found else None

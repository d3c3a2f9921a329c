"""Number of steps that a request asks for, if the wording is unambiguous.

The planner receives the request in any case, and a misread number would refuse its correct plan. So "in four
pictures" counts, but "a room with four pictures" and "a staircase with twelve steps" do not. Nor does a range
("3 to 5 steps"), a wish ("in four, if possible"), or a number of images with another thing requested ("one
image of the whole, and then a step-by-step guide").
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
"""Words that make the number after them a wish or a denial."""
_BOUNDED = re.compile(
    r"(?:\b(?:to|or|and|than|least|most|about|around|roughly|nearly|almost|over|under|between)\s{1,3}"
    r"|[-–—~<>≤≥≈]\s{0,3})\Z"
)
"""Words that make the number after them a bound or the end of a range."""
_UNSURE = re.compile(
    r"\s+(?:if\s+(?:possible|you\s+can)|(?:that\s+)?(?:i|you|we)\b|above\b|below\b|attached\b|given\b"
    r"|(?:hanging\s+)?(?:on|onto|behind|beside|over)\s+(?:the|an?|my|his|her|their|its)\b)"
)
"""Words that make the images before them a wish, existing images, or things in an image."""
_AS_MATERIAL = re.compile(r"\s+(?:as|from|taken)\b")
_MORE_IS_ASKED = re.compile(
    r"\b(?:(?:then|followed\s+by|after\s+that|afterwards)[\s,]+"
    r"(?:show|give|write|list|explain|describe|teach|tell|draw|paint|create|generate)"
    r"|(?:and|plus|also)\s+(?:draw|paint|create|generate)(?!\s+(?:them|it|all|each|every|these|those)\b)"
    r"|(?:then|and|plus|also|besides|followed\s+by|as\s+well\s+as|(?:along|together)\s+with|after\s+that"
    r"|afterwards|in\s+addition)[\s,]+(?:to\s+)?(?:(?:the|an?|another|one|some|its|my)\s+)(?:[\w-]+\s+){0,3}?"
    rf"(?:{_PICTURES}|{_INSTRUCTIONS}|{_DOCUMENT}))\b"
)
"""Another requested thing."""
_INSTRUCTIONS_AND = re.compile(rf"\b{_INSTRUCTIONS}\b[^.!?\n]{{0,80}}\b(?:and|then|also|plus)[\s,]+\Z")
_MENTIONED = re.compile(
    rf"(?<![-\w.,/]){_NUMBER}\s+(?:{_LOOKS}\s+){{0,8}}(?:{_PICTURES}|{_PARTS}){_NOT_A_SHARE}"
)
_GIVEN = re.compile(r"\b(?:these|those|the|my|your|our|all|this|both)\s+\Z")
_WINDOW = 160
"""Characters to examine before and after a number."""
_ANY_NUMBER = re.compile(rf"(?<![\w.,]){_NUMBER}(?![\w]|[.,]\d)")
_YEARS = range(1900, 2100)


def asking_text(texts: Sequence[str | None]) -> str:
    """Return the text with the request: the text after the last image, or all text if there is none.

    In `texts` an image is `None`.
    """
    last = len(texts) - texts[::-1].index(None) if None in texts else 0
    after_pictures = "\n".join(text for text in texts[last:] if text)
    return after_pictures if after_pictures.strip() else "\n".join(text for text in texts if text)


def named_step_count(text: str) -> int | None:
    """Return the number of steps a request names ("in four pictures"). `None` if it names none or several."""
    folded = text.casefold()
    matches = [match for pattern in _NAMED for match in pattern.finditer(folded)]
    counts = {_value(match.group(1)) for match in matches}
    count = counts.pop() if len(counts) == 1 else 0
    if not count or count in _YEARS or any(_is_doubtful(folded, match) for match in matches):
        return None
    return count if all(other == count for other in _mentioned(folded)) else None


def _is_doubtful(text: str, match: re.Match[str]) -> bool:
    """Return whether the context of a number makes the requested number of steps uncertain."""
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
    """Return whether a request with "show one picture" also mentions steps."""
    near = text[max(0, match.start() - _WINDOW) : match.start()] + text[match.end() : match.end() + _WINDOW]
    within = match.group().startswith(("in", "as"))  # "step by step, in one picture"
    return _value(match.group(1)) == 1 and not within and bool(re.search(rf"\b{_INSTRUCTIONS}\b", near))


def _mentioned(text: str) -> Iterator[int]:
    """Return every number of images or steps, except for existing images."""
    for match in _MENTIONED.finditer(text):
        if not _GIVEN.search(text[max(0, match.start() - 8) : match.start()]):
            yield _value(match.group(1))


def first_number(text: str) -> int | None:
    """Return the first whole number or number word in a text, whatever it counts."""
    match = _ANY_NUMBER.search(text.casefold())
    return _value(match.group(1)) if match else None


def _value(number: str) -> int:
    if number.isdecimal():
        return int(number)
    return sum(_NUMBER_WORDS[word] for word in number.split("-"))


def chapter_place(chapter: int, first: int, most: int) -> str:
    """Return the text that asks a planner for a chapter, which `read_chapter_place` parses."""
    return f"Plan chapter {chapter}: at most {most} steps, numbered from {first}."


def read_chapter_place(text: str) -> tuple[int, int, int] | None:
    """Return the chapter, its first step and its maximum steps in a text, else `None`."""
    found = _CHAPTER_PLACE.search(text)
    return (int(found[1]), int(found[3]), int(found[2])) if found else None

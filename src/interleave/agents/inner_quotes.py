"""Quotes inside quoted text that a model forgot to escape: 'the cat's hat', "a sign that says "OPEN" in red".

What is text and what is syntax is decided by the keys: a value goes from the colon after its key to the last
quote of its kind before the next key. That is believed only where every quote in between is an apostrophe or
one of a pair around words. Nothing is added, removed or closed: an object that was cut off stays cut off.
"""

from __future__ import annotations

import re

_KEY = re.compile(r"(?<=[{,])\s{0,40}([\"'])[A-Za-z_]\w{0,60}\1\s{0,9}:")
_END = re.compile(r"\s*(?:```\s*)?(?:<\s*/\s*answer\s*>\s*)?\Z", re.IGNORECASE)
_STRUCTURE = frozenset(" \t\r\n,{}]")
_QUOTES = {quote: re.compile(rf"\\.|{quote}", re.DOTALL) for quote in "\"'"}
_BEFORE_A_QUOTATION = frozenset("([-–—:/")


def escape_inner_quotes(text: str, start: int) -> str | None:
    """The object from `start` to the end of a reply, its inner quotes escaped; None where that is a guess."""
    opening, end = text.find("{", start), text.rfind("}") + 1
    if not start <= opening < end or not _END.match(text, end):
        return None
    keys = list(_KEY.finditer(text, opening, end))
    ends = [*(key.start() for key in keys[1:]), end]
    written = [text[opening : keys[0].end()]] if keys else []
    for key, following, after in zip(keys, [*keys[1:], None], ends, strict=True):
        value = _escaped(text[key.end() : after])
        if value is None:
            return None
        written += [value, following.group() if following else ""]
    return "".join(written)


def _escaped(value: str) -> str | None:
    """One value with what follows it up to the next key."""
    stripped = value.lstrip()
    quote = stripped[:1]
    if quote not in _QUOTES:  # a number, null, a list…
        return value
    closing = stripped.rfind(quote)
    body, rest = stripped[1:closing], stripped[closing + 1 :]
    if not closing or not _STRUCTURE.issuperset(rest):
        return None
    marks = [mark.start() for mark in _QUOTES[quote].finditer(body) if mark.group() == quote]
    if not _are_text(body, marks):
        return None
    escaped = _QUOTES[quote].sub(lambda mark: f"\\{quote}" if mark.group() == quote else mark.group(), body)
    return f"{quote}{escaped}{quote}{rest}"


def _are_text(body: str, marks: list[int]) -> bool:
    """Whether these quotes can only be apostrophes, or pairs around words."""
    quoting = False
    for mark in marks:
        before, after = body[max(0, mark - 1) : mark], body[mark + 1 : mark + 2]
        starts = not before or before.isspace() or before in _BEFORE_A_QUOTATION
        if _is_word(before) and _is_word(after):
            continue  # the cat's
        if quoting and before and not before.isspace():
            quoting = False
        elif not quoting and starts and _is_word(after):
            quoting = True
        elif not (_is_word(before) and after.isspace()):  # the cats' bowl
            return False
    return not quoting


def _is_word(character: str) -> bool:
    return character.isalnum()

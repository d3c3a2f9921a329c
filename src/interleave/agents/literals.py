"""Objects in the text of a model, read as JSON or Python literals without guessing.

Models write JSON, Python literals (single quotes, None), or a mix, surrounded by prose, fences and tags. This
module finds matching brackets, rewrites their content as JSON and parses it with `json`, so that no other
syntax of Python (comments, prefixes, implicit concatenation, expressions) is accepted. An unclosed object was
cut off and is not used. All work is bounded: the depth, the number of objects, the digits of a number. The
caller bounds the length of the text.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator
from typing import Any, NoReturn

from interleave.errors import UnreadableLiteral

MAX_CHARACTERS = 262_144
MAX_DEPTH = 16
MAX_OBJECTS = 32
MAX_DIGITS = 18

_STRING = r""""[^"\\]*(?:\\.[^"\\]*)*"|'[^'\\]*(?:\\.[^'\\]*)*'"""
_MARK = re.compile(rf"{_STRING}|[\"'{{}}\[\]]", re.DOTALL)
_BRACKET = re.compile(r"[{}\[\]]")
_QUOTES = frozenset("\"'")
_PAIRS = {"}": "{", "]": "["}

_PYTHON = re.compile(
    rf"{_STRING}|\b(?:None|True|False)\b|(?<=[\"'\w}}\]]),(?=\s*[}}\]])",  # the last is a trailing comma
    re.DOTALL,
)
_SPELLINGS = {"None": "null", "True": "true", "False": "false", ",": ""}
_ESCAPE = re.compile(r"\\(?:x([0-9a-fA-F]{2})|U00((?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})|\r\n|.)|\"", re.DOTALL)
_KNOWN_ESCAPES = frozenset('"\\/bfnrtu') | frozenset("01234567aNUvx")
"""Escapes of JSON, and those of Python only, which `json` refuses."""


def find_objects(text: str, start: int = 0) -> Iterator[str]:
    """Yield the outermost {…} and […] of a text. Raises `UnreadableLiteral` if brackets do not match."""
    for _ in range(MAX_OBJECTS):
        bracket = _BRACKET.search(text, start)
        if bracket is None:
            return
        end = _closing(text, bracket.start())
        yield text[bracket.start() : end]
        start = end
    if _BRACKET.search(text, start):
        raise UnreadableLiteral(f"there are more than {MAX_OBJECTS} stretches of text in brackets")


def read_literal(text: str) -> Any:
    """Return the value of a JSON or Python literal. Raises `UnreadableLiteral`."""
    try:
        return json.loads(
            _PYTHON.sub(_in_json, text),
            strict=False,
            object_pairs_hook=_unique_keys,
            parse_constant=_refuse_constant,
            parse_float=_finite,
            parse_int=_whole,
        )
    except json.JSONDecodeError as error:
        raise UnreadableLiteral(f"it is neither JSON nor a Python literal ({error.msg})") from None
    except RecursionError:
        raise UnreadableLiteral("it is nested too deeply") from None


def _closing(text: str, opening: int) -> int:
    """Return the position after the bracket that closes the one at `opening`."""
    stack: list[str] = []
    for mark in _MARK.finditer(text, opening):
        symbol = mark.group()
        if symbol in _QUOTES:
            raise UnreadableLiteral("a quoted text is never closed: the reply looks cut off")
        if symbol in _PAIRS:
            if not stack or stack.pop() != _PAIRS[symbol]:
                raise UnreadableLiteral(f"a {symbol!r} closes nothing")
            if not stack:
                return mark.end()
        elif symbol in _PAIRS.values():
            stack.append(symbol)
            if len(stack) > MAX_DEPTH:
                raise UnreadableLiteral(f"brackets are nested deeper than {MAX_DEPTH}")
    raise UnreadableLiteral(f"a {stack[-1]!r} is never closed: the reply looks cut off")


def _in_json(token: re.Match[str]) -> str:
    symbol = token.group()
    if symbol in _SPELLINGS:
        return _SPELLINGS[symbol]
    return f'"{_ESCAPE.sub(_escape_in_json, symbol[1:-1])}"'


def _escape_in_json(escape: re.Match[str]) -> str:
    symbol = escape.group()
    if symbol == '"':  # unescaped, so the string is in single quotes
        return '\\"'
    if code := escape[1] or escape[2]:
        return json.dumps(chr(int(code, 16)))[1:-1]
    if symbol[1] == "'":
        return "'"
    if symbol[1] in "\r\n":  # Python joins the lines
        return ""
    return symbol if symbol[1] in _KNOWN_ESCAPES else f"\\{symbol}"  # Python keeps the backslash of \d


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise UnreadableLiteral("an object has the same key twice")
    return value


def _whole(digits: str) -> int:
    if len(digits) > MAX_DIGITS:
        raise UnreadableLiteral(f"a number has {len(digits):,} digits")
    return int(digits)


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise UnreadableLiteral(f"the number {digits:.40} is not finite")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise UnreadableLiteral(f"{name} is not a number")


_KEY = re.compile(r"(?<=[{,])\s{0,40}([\"'])[A-Za-z_]\w{0,60}\1\s{0,9}:")
_END = re.compile(r"\s*(?:```\s*)?(?:<\s*/\s*answer\s*>\s*)?\Z", re.IGNORECASE)
_STRUCTURE = frozenset(" \t\r\n,{}]")
_INNER_QUOTES = {quote: re.compile(rf"\\.|{quote}", re.DOTALL) for quote in "\"'"}
_BEFORE_A_QUOTATION = frozenset("([-–—:/")


def escape_inner_quotes(text: str, start: int) -> str | None:
    """Return the object from `start` to the end of a reply with inner quotes escaped. `None` if ambiguous.

    Models forget to escape quotes inside quoted text: 'the cat's hat', "a sign that says "OPEN" in red". The
    keys separate text from syntax: a value extends from the colon after its key to the last quote of its kind
    before the next key. This is accepted only if every quote in between is an apostrophe or one of a pair
    around words. Nothing is added, removed or closed: a truncated object stays truncated.
    """
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
    """Return one value, and the syntax up to the next key, with inner quotes escaped."""
    stripped = value.lstrip()
    quote = stripped[:1]
    if quote not in _INNER_QUOTES:  # a number, null, a list…
        return value
    closing = stripped.rfind(quote)
    body, rest = stripped[1:closing], stripped[closing + 1 :]
    if not closing or not _STRUCTURE.issuperset(rest):
        return None
    marks = [mark.start() for mark in _INNER_QUOTES[quote].finditer(body) if mark.group() == quote]
    if not _are_text(body, marks):
        return None
    escaped = _INNER_QUOTES[quote].sub(
        lambda mark: f"\\{quote}" if mark.group() == quote else mark.group(), body
    )
    return f"{quote}{escaped}{quote}{rest}"


def _are_text(body: str, marks: list[int]) -> bool:
    """Return whether these quotes can only be apostrophes or pairs around words."""
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

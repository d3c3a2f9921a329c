"""Objects inside model text: found without guessing, read as JSON or as a Python literal, never repaired.

Models write JSON, Python literals (single quotes, None), or a mix; with prose, fences and tags around. This
module finds the brackets that belong together and reads what is between them. What is not closed was cut
off, and nothing in it is believed. All work is bounded: the text's length, the depth, the number of objects.
"""

from __future__ import annotations

import ast
import json
import math
import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NoReturn

MAX_CHARACTERS = 262_144
MAX_DEPTH = 16
MAX_OBJECTS = 32

_MARKS = re.compile(r"[\"'{}\[\]]")
_STRING = {
    '"': re.compile(r'"(?:[^"\\]|\\.)*"', re.DOTALL),
    "'": re.compile(r"'(?:[^'\\]|\\.)*'", re.DOTALL),
}
_ANY_STRING = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', re.DOTALL)
_PAIRS = {"}": "{", "]": "["}
_NAMES = {"true": True, "false": False, "null": None}


class UnreadableLiteral(ValueError):
    """This stretch of text is not an object we can read; the message says why."""


@dataclass(frozen=True)
class Found:
    """A stretch of text between brackets that belong together."""

    text: str
    end: int


def find_objects(text: str, start: int = 0) -> Iterator[Found]:
    """The outermost {…} and […] of a text, in order; raises `UnreadableLiteral` where one never closes."""
    for _ in range(MAX_OBJECTS):
        opening = _next_opening(text, start)
        if opening is None:
            return
        end = _closing(text, opening)
        yield Found(text[opening:end], end)
        start = end


def read_literal(text: str) -> Any:
    """The value of a JSON or Python literal; raises `UnreadableLiteral`."""
    try:
        return json.loads(
            text,
            strict=False,
            object_pairs_hook=_unique_keys,
            parse_constant=_refuse_constant,
            parse_float=_finite,
        )
    except (json.JSONDecodeError, RecursionError):
        return _read_python(text)
    except UnreadableLiteral:
        raise
    except ValueError as error:  # a number of thousands of digits
        raise UnreadableLiteral(str(error)) from None


def _next_opening(text: str, start: int) -> int | None:
    places = [place for place in (text.find("{", start), text.find("[", start)) if place >= 0]
    return min(places, default=None)


def _closing(text: str, opening: int) -> int:
    stack: list[str] = []
    position = opening
    while mark := _MARKS.search(text, position):
        symbol, position = mark.group(), mark.end()
        if symbol in _STRING:
            string = _STRING[symbol].match(text, mark.start())
            if string is None:
                raise UnreadableLiteral("a quoted text is never closed: the reply looks cut off")
            position = string.end()
        elif symbol in _PAIRS:
            if not stack or stack.pop() != _PAIRS[symbol]:
                raise UnreadableLiteral(f"a {symbol!r} closes nothing")
            if not stack:
                return position
        else:
            stack.append(symbol)
            if len(stack) > MAX_DEPTH:
                raise UnreadableLiteral(f"brackets are nested deeper than {MAX_DEPTH}")
    raise UnreadableLiteral(f"a {stack[-1]!r} is never closed: the reply looks cut off")


def _read_python(text: str) -> Any:
    # Newlines are legal inside the strings that models write, but not inside Python's.
    source = _ANY_STRING.sub(lambda string: string.group().replace("\n", "\\n").replace("\r", "\\r"), text)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # unknown escapes such as \d: Python keeps the backslash
            tree = ast.parse(source, mode="eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = getattr(error, "msg", None) or str(error)
        raise UnreadableLiteral(f"it is neither JSON nor a Python literal ({reason})") from None
    return _value(tree.body)


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Constant(value=str() | bool() | int() | None):
            return node.value
        case ast.Constant(value=float() as number):
            return _finite(number)
        case ast.Name(id=name) if name in _NAMES:
            return _NAMES[name]
        case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
            return -_finite(number)
        case ast.List(elts=items) | ast.Tuple(elts=items):
            return [_value(item) for item in items]
        case ast.Dict(keys=keys, values=values) if None not in keys:
            return _unique_keys([(_key(key), _value(value)) for key, value in zip(keys, values, strict=True)])
    raise UnreadableLiteral(f"it contains something that is not a plain value ({type(node).__name__})")


def _key(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise UnreadableLiteral("a key is not a quoted text")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise UnreadableLiteral("an object has the same key twice")
    return value


def _finite(number: str | float) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise UnreadableLiteral(f"the number {number} is not finite")
    return value


def _refuse_constant(name: str) -> NoReturn:
    raise UnreadableLiteral(f"{name} is not a number")

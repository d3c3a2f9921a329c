"""Validation errors of pydantic as short messages for users."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

_WANTED = {
    "int": "a whole number",
    "float": "a number",
    "finite_number": "a number",
    "bool": "true or false",
    "string_type": "a text",
    "tuple": "a list",
    "model": "a table of settings",
}
_LIMITS = {
    "greater_than": "more than {gt:g}",
    "greater_than_equal": "at least {ge:g}",
    "less_than": "less than {lt:g}",
    "less_than_equal": "at most {le:g}",
}


def problem_with(error: ErrorDetails) -> str:
    """The problem without its location: `must be a whole number, not 'abc'`."""
    kind, context = error["type"], error.get("ctx", {})
    shown = f"{error['input']!r:.80}"
    if kind in _LIMITS:
        return f"must be {_LIMITS[kind].format(**context)}, not {shown}"
    if kind == "literal_error":
        return f"must be {context['expected']}, not {shown}"
    if kind == "value_error":
        return str(context["error"])
    for start, wanted in _WANTED.items():
        if kind.startswith(start):
            return f"must be {wanted}, not {shown}"
    return error["msg"][:1].lower() + error["msg"][1:]


def first_problem(error: ValidationError) -> str:
    """The first problem, with its location."""
    first = error.errors()[0]
    place = ".".join(str(piece) for piece in first["loc"])
    return f"{f'{place}: ' if place else ''}{problem_with(first)}"

"""JSON schemas as the various services take them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def without_string_bounds(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without `maxLength`, which the services of OpenAI and Google do not take."""
    return {name: _without(value) for name, value in schema.items() if name != "maxLength"}


def _without(value: Any) -> Any:
    if isinstance(value, Mapping):
        return without_string_bounds(value)
    return [_without(each) for each in value] if isinstance(value, list) else value

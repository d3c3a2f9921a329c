"""The options that all remote backends share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from interleave import Sampling
from interleave.plugin import BackendOptions
from interleave.remote.keys import usual_variable

FIRST_CONCURRENCY = 4
"""Calls in flight to a server of one's own until it is known to take more: many do one thing at a time."""


class RemoteOptions(BackendOptions):
    """Options of a model behind a network."""

    key: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")
    """The environment variable that holds the key; never the key itself."""

    def seconds(self, default: float) -> float:
        """How long one attempt may take."""
        return self.timeout or default

    def deadline(self, default: float) -> float | None:
        """How long all attempts together may take, if that is longer than the default."""
        return self.timeout if self.timeout is not None and self.timeout > default else None

    def first_concurrency(self, url: str) -> int | None:
        """How many calls are made at once at first; a vendor's service takes any number."""
        if self.concurrency is not None or usual_variable(url) is not None:
            return None
        return FIRST_CONCURRENCY


def max_tokens_for(sampling: Sampling, chosen: int | None) -> int:
    """How many tokens a reply may have: the spec's option replaces the default, but no other limit."""
    is_default = sampling.max_tokens == Sampling.max_tokens
    return chosen if chosen is not None and is_default else sampling.max_tokens


def without_string_bounds(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The schema without `maxLength`, which the services of OpenAI and Google do not take."""
    return {name: _without(value) for name, value in schema.items() if name != "maxLength"}


def _without(value: Any) -> Any:
    if isinstance(value, Mapping):
        return without_string_bounds(value)
    return [_without(each) for each in value] if isinstance(value, list) else value

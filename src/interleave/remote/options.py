"""Options shared by all remote backends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field

from interleave import Sampling
from interleave.plugin import BackendOptions
from interleave.remote.keys import usual_variable

FIRST_CONCURRENCY = 4
"""Initial limit of calls in flight to a self-hosted server: many process one request at a time."""


class RemoteOptions(BackendOptions):
    """Options of a remote model."""

    key: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")
    """The environment variable that holds the key; never the key itself."""

    def seconds(self, default: float) -> float:
        """Return the timeout of one attempt in seconds."""
        return self.timeout or default

    def deadline(self, default: float) -> float | None:
        """Return the deadline for all attempts together in seconds, if it is longer than `default`."""
        return self.timeout if self.timeout is not None and self.timeout > default else None

    def first_concurrency(self, url: str) -> int | None:
        """Return the initial number of concurrent calls; None for a vendor's service, which has no limit."""
        if self.concurrency is not None or usual_variable(url) is not None:
            return None
        return FIRST_CONCURRENCY


def max_tokens_for(sampling: Sampling, chosen: int | None) -> int:
    """Return the token limit of a reply: the spec's option replaces the default, but no explicit limit."""
    is_default = sampling.max_tokens == Sampling.max_tokens
    return chosen if chosen is not None and is_default else sampling.max_tokens


def without_string_bounds(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema without `maxLength`, which OpenAI's and Google's services reject."""
    return {name: _without(value) for name, value in schema.items() if name != "maxLength"}


def _without(value: Any) -> Any:
    if isinstance(value, Mapping):
        return without_string_bounds(value)
    return [_without(each) for each in value] if isinstance(value, list) else value

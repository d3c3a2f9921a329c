"""The options that all remote backends share."""

from __future__ import annotations

from pydantic import Field

from interleave.backends.protocols import Sampling
from interleave.config.specs import BackendOptions


class RemoteOptions(BackendOptions):
    """Options of a model behind a network."""

    timeout: float | None = Field(default=None, gt=0, le=86_400)
    """Seconds for one attempt, from the first byte sent to the last one read."""
    key: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")
    """The environment variable that holds the key; never the key itself."""

    def seconds(self, default: float) -> float:
        """How long one attempt may take."""
        return self.timeout or default

    def deadline(self, default: float) -> float | None:
        """How long all attempts together may take, if that is longer than the default."""
        return self.timeout if self.timeout is not None and self.timeout > default else None


def max_tokens_for(sampling: Sampling, chosen: int | None) -> int:
    """How many tokens a reply may have: the spec's option replaces the default, but no other limit."""
    is_default = sampling.max_tokens == Sampling.max_tokens
    return chosen if chosen is not None and is_default else sampling.max_tokens

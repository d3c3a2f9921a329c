"""What every remote backend can be told in its spec."""

from __future__ import annotations

from pydantic import Field

from interleave.backends.protocols import Sampling
from interleave.config.specs import BackendOptions


class RemoteOptions(BackendOptions):
    """Options that all remote backends have."""

    timeout: float | None = Field(default=None, gt=0, le=86_400)
    """Seconds for one try, from the first byte sent to the last one read."""
    key: str | None = Field(default=None, pattern=r"^[A-Za-z_][A-Za-z0-9_]{0,99}$")
    """The environment variable that holds the key; never the key itself."""

    def seconds(self, usual: float) -> float:
        """How long one try may take."""
        return self.timeout or usual

    def deadline(self, usual: float) -> float | None:
        """How long all tries together may take, where that is longer than usual."""
        return self.timeout if self.timeout is not None and self.timeout > usual else None


def room_for(sampling: Sampling, chosen: int | None) -> int:
    """How many tokens an answer may have: the user's choice in place of the usual, never of another limit."""
    is_usual = sampling.max_tokens == Sampling.max_tokens
    return chosen if chosen is not None and is_usual else sampling.max_tokens

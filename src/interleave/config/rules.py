"""The rules of the loop: how often a step is drawn, from which seed, and from which pictures it starts."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from interleave.errors import ConfigurationError


class SourceRule(StrEnum):
    """Where a step starts when its plan does not say."""

    PREVIOUS = "previous"
    """From the picture before it."""
    HISTORY = "history"
    """From all pictures so far, the user's first; the latest ones when the generator cannot take all."""


@dataclass(frozen=True)
class Rules:
    """What decides how a run comes out, besides its models and prompts."""

    max_attempts: int = 5
    seed: int = 0
    sources: SourceRule = SourceRule.PREVIOUS

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ConfigurationError("max_attempts must be at least 1: a step is drawn before it is judged")

"""One of several equal parts of a work: disjoint and complete, whoever does them, wherever, in any order."""

from __future__ import annotations

import re
from dataclasses import dataclass

from interleave.batches.assignment import fraction
from interleave.errors import ConfigurationError

MOST_SHARDS = 10_000


@dataclass(frozen=True)
class Shard:
    """The n-th of so many parts. The default is the whole."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str | None) -> Shard:
        """A shard as a user writes it: `2/8`; None is the whole."""
        if text is None:
            return cls()
        match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip())
        number, of = (int(match[1]), int(match[2])) if match else (0, 0)
        if not 1 <= number <= of <= MOST_SHARDS:
            raise ConfigurationError(
                f"--shard {text!r} is not one: write which of how many, from --shard 1/4 to --shard 4/4"
            )
        return cls(number, of)

    @property
    def label(self) -> str:
        """What the files of this shard have in their names; nothing for the whole."""
        return f".{self.number}-of-{self.of}" if self.of > 1 else ""

    def has(self, identity: str) -> bool:
        """Whether this is its part; decided by the id alone, so that a file may grow between two shards."""
        return int(fraction("shard", identity) * self.of) == self.number - 1


WHOLE = Shard()

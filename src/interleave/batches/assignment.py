"""Assignment of a generator, a seed and a shard to each request of a batch.

The seed and the shard of a request depend only on its id. Generators are assigned over all requests of a
batch together, so that each gets its share to within one request. Every process that works on part of the
requests, now or after a crash, on this machine or another, computes the same assignment.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from pydantic import Field

from interleave.config.run_config import RoleConfig, RunConfig, differences
from interleave.errors import ConfigurationError
from interleave.types import Value

MOST_SHARDS = 10_000


class Share(Value):
    """A generator of a mixture and its weight."""

    generator: RoleConfig
    weight: float = Field(gt=0, allow_inf_nan=False)


class Assignment(Value):
    """The configuration of every request of a batch."""

    config: RunConfig
    mixture: tuple[Share, ...] = ()
    """Generators that share the requests; if empty, the generator of `config` draws them all."""
    own_seeds: bool = False
    """Whether every request gets its own seed, derived from that of `config`. For training data, where equal
    requests with equal seeds would give the same example twice."""

    @property
    def configs(self) -> tuple[RunConfig, ...]:
        """One configuration per generator."""
        if not self.mixture:
            return (self.config,)
        return tuple(self.config.model_copy(update={"generator": share.generator}) for share in self.mixture)

    def config_for(self, id_: str, generator: str) -> RunConfig:
        """Return the configuration of the request with this id and generator."""
        config = next(each for each in self.configs if each.generator.identity == generator)
        return config.model_copy(update={"seed": self._seed_of(id_)}) if self.own_seeds else config

    def assign(self, ids: Iterable[str]) -> dict[str, str]:
        """Return the generator of every id: ids are sorted by hash and split in proportion to the weights.

        The order of `ids` does not matter. Adding a few ids reassigns only those near a split.
        """
        key = f"generator/{self.config.seed}"
        shuffled = sorted(set(ids), key=lambda id_: (hash_fraction(key, id_), id_))
        names = [config.generator.identity for config in self.configs]
        return {
            id_: names[self._share_at((position + 0.5) / len(shuffled))]
            for position, id_ in enumerate(shuffled)
        }

    def _share_at(self, fraction: float) -> int:
        """Return the index of the generator whose share contains this fraction of all requests."""
        weights = [share.weight for share in self.mixture] or [1.0]
        left = fraction * sum(weights)
        for index, weight in enumerate(weights):
            left -= weight
            if left < 0:
                return index
        return len(weights) - 1  # rounding: the weights do not add up exactly

    def _seed_of(self, id_: str) -> int:
        return int(hash_fraction(f"seed/{self.config.seed}", id_) * 2**53)


def assignment_differences(ours: Assignment, theirs: Assignment) -> list[str]:
    """Describe the differences between two assignments, for an error message."""
    here, there = _generators(ours), _generators(theirs)
    before = theirs.config
    if ours.mixture or theirs.mixture:  # then the generators are compared as mixtures
        before = before.model_copy(update={"generator": ours.config.generator})
    different = differences(ours.config, before)
    if here != there:
        different.append(f"the generators are {there} there and {here} here")
    if ours.own_seeds != theirs.own_seeds:
        different.append("the seeds of its runs are derived differently")
    return different


def _generators(assignment: Assignment) -> str:
    shares = [f"{share.generator.identity!r} ×{share.weight:g}" for share in assignment.mixture]
    return " and ".join(shares) or f"{assignment.config.generator.identity!r} alone"


@dataclass(frozen=True)
class Shard:
    """One of several disjoint parts of a batch. The default is the whole batch."""

    number: int = 1
    of: int = 1

    @classmethod
    def parse(cls, text: str | None) -> Shard:
        """Parse a shard such as `2/8`; `None` is the whole batch."""
        if text is None:
            return cls()
        match = re.fullmatch(r"(\d{1,6})/(\d{1,6})", text.strip())
        number, of = (int(match[1]), int(match[2])) if match else (0, 0)
        if not 1 <= number <= of <= MOST_SHARDS:
            raise ConfigurationError(
                f"--shard {text!r} is not a shard: write NUMBER/TOTAL, such as --shard 1/4"
            )
        return cls(number, of)

    @property
    def label(self) -> str:
        """Part of a file name that identifies the shard; empty for the whole batch."""
        return f".{self.number}-of-{self.of}" if self.of > 1 else ""

    def has(self, id_: str) -> bool:
        """Return whether the shard has this id; only the id matters, so the file may grow between shards."""
        return int(hash_fraction("shard", id_) * self.of) == self.number - 1


WHOLE = Shard()


def hash_fraction(purpose: str, id_: str) -> float:
    """Return a number in [0, 1) from the hash of an id: uniform over ids, the same in every process."""
    digest = hashlib.sha256(f"{purpose}\x00{id_}".encode("utf-8", "surrogatepass")).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53

"""Who does what in a work of many requests: one configuration for all, or a mixture of generators.

The seed of a request depends on the configuration's and on its id alone. Generators are dealt over all
requests of a work at once, so that each gets its share to within one. Either way every process that works on
a part of the requests, now or after a crash, on this machine or another, comes to the same.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

from pydantic import Field

from interleave.config.run_config import RoleConfig, RunConfig, differences
from interleave.types import Value


class Share(Value):
    """A generator of a mixture, and its weight among the others."""

    generator: RoleConfig
    weight: float = Field(gt=0, allow_inf_nan=False)


class Casting(Value):
    """The configuration of every request of a work."""

    config: RunConfig
    mixture: tuple[Share, ...] = ()
    """The generators that share the requests; none: that of the configuration draws them all."""
    own_seeds: bool = False
    """Whether every request has a seed of its own, drawn from the configuration's: for data, where equal
    requests with equal seeds would teach the same thing twice."""

    @property
    def configs(self) -> tuple[RunConfig, ...]:
        """A configuration for every generator there is."""
        if not self.mixture:
            return (self.config,)
        return tuple(self.config.model_copy(update={"generator": share.generator}) for share in self.mixture)

    def config_for(self, identity: str, generator: str) -> RunConfig:
        """The configuration of the request with this id, drawn by this generator."""
        config = next(each for each in self.configs if each.generator.identity == generator)
        return config.model_copy(update={"seed": self._seed_of(identity)}) if self.own_seeds else config

    def deal(self, identities: Iterable[str]) -> dict[str, str]:
        """Which generator draws which request: in an order as good as random, the first ones by the first.

        Whatever the order in which they are given, these ids are dealt alike. A few more ids move only those
        near a border.
        """
        key = f"generator/{self.config.seed}"
        shuffled = sorted(set(identities), key=lambda identity: (fraction(key, identity), identity))
        names = [config.generator.identity for config in self.configs]
        return {
            identity: names[self._place_of((turn + 0.5) / len(shuffled))]
            for turn, identity in enumerate(shuffled)
        }

    def _place_of(self, part: float) -> int:
        """Whose share of the whole this part of it lies in."""
        weights = [share.weight for share in self.mixture] or [1.0]
        left = part * sum(weights)
        for place, weight in enumerate(weights):
            left -= weight
            if left < 0:
                return place
        return len(weights) - 1  # the weights do not add up exactly

    def _seed_of(self, identity: str) -> int:
        return int(fraction(f"seed/{self.config.seed}", identity) * 2**53)


def casting_differences(ours: Casting, theirs: Casting) -> list[str]:
    """What differs between two castings, in words, for a person."""
    here, there = _mixed(ours), _mixed(theirs)
    before = theirs.config
    if ours.mixture or theirs.mixture:  # then the generators are compared as mixtures
        before = before.model_copy(update={"generator": ours.config.generator})
    different = differences(ours.config, before)
    if here != there:
        different.append(f"the generators are {there} there and {here} here")
    if ours.own_seeds != theirs.own_seeds:
        different.append("the seeds of its runs are drawn in another way")
    return different


def _mixed(casting: Casting) -> str:
    shares = [f"{share.generator.identity!r} ×{share.weight:g}" for share in casting.mixture]
    return " and ".join(shares) or f"{casting.config.generator.identity!r} alone"


def fraction(purpose: str, identity: str) -> float:
    """A number from 0 to below 1 that is as good as random, and the same whenever it is asked for."""
    digest = hashlib.sha256(f"{purpose}\x00{identity}".encode("utf-8", "surrogatepass")).digest()
    return (int.from_bytes(digest[:8], "big") >> 11) / 2**53

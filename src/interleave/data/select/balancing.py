"""Judgements made even: as many acceptances as refusals, part by part and iteration by iteration.

Later attempts are refused more often, and first ones accepted more often. A critic trained on that learns to
look at the number of the attempt, or to accept everything. So within each part and iteration the rarer
judgement is repeated, up to a number of copies, and the surplus of the other is left out.

Steps that vary were refused at first, every one of them. A critic that tries on those alone finds out that
first attempts are to be refused, and refuses them all. So copying lends first acceptances it has too many of
to RL. Iterations that still know one judgement only are weighed against each other.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

from interleave.data.select.rules import RL, SFT

SURPLUS = "surplus in balancing"
MAX_COPIES = 4


@dataclass(frozen=True, slots=True)
class Candidate:
    """An attempt that is to be a row."""

    key: str
    """Names the attempt; with the seed it decides by lot, whatever the order."""
    part: str
    iteration: int
    accepted: bool


def with_lent(candidates: Sequence[Candidate], *, seed: int) -> list[Candidate]:
    """The same candidates, some acceptances of SFT now of RL: in iterations where RL knows refusals only, as
    many as there are of those, no more than SFT has above its own refusals, and never the larger half."""
    judged: dict[tuple[str, int, bool], list[int]] = defaultdict(list)
    for position, each in enumerate(candidates):
        judged[each.part, each.iteration, each.accepted].append(position)
    lent = list(candidates)
    for part, iteration, accepted in list(judged):
        if (part, accepted) != (RL, False) or judged[RL, iteration, True]:
            continue
        own = len(judged[SFT, iteration, True])
        spare = min(own - len(judged[SFT, iteration, False]), own // 2)
        wanted = len(judged[RL, iteration, False])
        lots = sorted(judged[SFT, iteration, True], key=lambda position: _lot(candidates[position].key, seed))
        for position in lots[: max(0, min(spare, wanted))]:
            lent[position] = replace(candidates[position], part=RL)
    return lent


def copies_of(candidates: Sequence[Candidate], *, seed: int, max_copies: int = MAX_COPIES) -> list[int]:
    """How often each candidate is taken, 0 for the surplus."""
    groups = _groups(candidates)
    copies = [1] * len(candidates)
    for refused, accepted in groups:
        rarer, other = sorted((refused, accepted), key=len)
        if not rarer:
            continue  # nothing to weigh it against: it stays as it is
        even = min(len(other), len(rarer) * max_copies)
        for positions in (rarer, other):
            share, left = divmod(even, len(positions))
            lots = sorted(positions, key=lambda position: _lot(candidates[position].key, seed))
            for place, position in enumerate(lots):
                copies[position] = share + (place < left)
    return copies


def _groups(candidates: Sequence[Candidate]) -> list[tuple[list[int], list[int]]]:
    """The positions of refusals and acceptances that are weighed against each other."""
    by_iteration: dict[tuple[str, int], tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    for position, each in enumerate(candidates):
        by_iteration[each.part, each.iteration][each.accepted].append(position)
    one_sided: dict[str, tuple[list[int], list[int]]] = defaultdict(lambda: ([], []))
    mixed = []
    for (part, _), (refused, accepted) in by_iteration.items():
        if refused and accepted:
            mixed.append((refused, accepted))
        else:
            one_sided[part][0].extend(refused)
            one_sided[part][1].extend(accepted)
    return mixed + list(one_sided.values())


def _lot(key: str, seed: int) -> bytes:
    return hashlib.sha256(f"{seed}/{key}".encode()).digest()

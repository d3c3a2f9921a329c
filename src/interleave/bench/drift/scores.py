"""Shares and means of a measurement at its marks, with 95 % intervals over chains."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from interleave.bench.drift.run import DriftSettings, StepLine, by_cell
from interleave.bench.intervals import wilson
from interleave.plugin import Value

WINDOW = 5
"""A mark stands for the last so many steps up to it: a remedy that acts every few steps must not gain from
being looked at just after it has acted."""
_RESAMPLES = 2000


class Estimate(Value):
    mean: float
    low: float
    high: float


class MarkScore(Value):
    """One cell at one mark."""

    step: int
    chains: int
    right: Estimate | None
    """The share of right pictures in the window."""
    mixed_up: Estimate | None
    """The share of pictures in the window in which one asset stands where another should."""
    all_right: Estimate | None
    """The share of chains whose every picture was right up to this step."""
    outside: Estimate
    """The mean difference outside of the changes in the window, in levels of 255."""
    from_first: Estimate | None
    """The difference from the first picture, for pictures that should equal it."""


class CellScore(Value):
    """One protocol under one set of remedies."""

    key: str
    protocol: str
    name: str
    marks: tuple[MarkScore, ...]
    calls: int
    pictures: int
    seconds_per_picture: float


def score(settings: DriftSettings, lines: Sequence[StepLine]) -> list[CellScore]:
    """The scores of every cell, at the marks that all of its chains have reached."""
    found = by_cell(lines)
    scores = []
    for cell in settings.cells:
        steps = found.get(cell.key, {})
        own = [line for at in steps.values() for line in at]
        lengths: dict[str, int] = defaultdict(int)
        for line in own:
            lengths[line.chain] = max(lengths[line.chain], line.step)
        reached = [mark for mark in settings.marks if len(steps.get(mark, ())) >= max(1, len(lengths))]
        scores.append(
            CellScore(
                key=cell.key,
                protocol=cell.protocol,
                name=cell.name,
                marks=tuple(_at(mark, own) for mark in reached),
                calls=sum(line.calls for line in own),
                pictures=len(own),
                seconds_per_picture=round(sum(line.seconds for line in own) / max(1, len(own)), 3),
            )
        )
    return scores


def _at(mark: int, lines: Sequence[StepLine]) -> MarkScore:
    window = [line for line in lines if mark - WINDOW < line.step <= mark]
    chains = sorted({line.chain for line in window})
    judged = [line for line in window if line.right is not None]
    same = [line for line in window if line.equals_start]
    so_far = {
        chain: all(line.right for line in lines if line.chain == chain and line.step <= mark)
        for chain in chains
    }
    return MarkScore(
        step=mark,
        chains=len(chains),
        right=_over_chains([(line.chain, float(bool(line.right))) for line in judged]) if judged else None,
        mixed_up=_over_chains([(line.chain, float(line.mixed_up)) for line in judged]) if judged else None,
        all_right=_share([so_far[chain] for chain in chains]) if judged else None,
        outside=_over_chains([(line.chain, line.drift.outside) for line in window]),
        from_first=_over_chains([(line.chain, line.from_first) for line in same]) if same else None,
    )


def _share(values: Sequence[bool]) -> Estimate:
    mean = sum(values) / len(values)
    low, high = wilson(mean, len(values))
    return Estimate(mean=round(mean, 4), low=round(low, 4), high=round(high, 4))


def _over_chains(values: Sequence[tuple[str, float]]) -> Estimate:
    """The mean, with an interval by resampling whole chains: pictures of one chain are not independent.

    Where all chains agree Wilson's interval for as many chains is used, which is never empty.
    """
    grouped: dict[str, list[float]] = defaultdict(list)
    for chain, value in values:
        grouped[chain].append(value)
    means = np.array([sum(each) / len(each) for each in grouped.values()])
    if set(means.tolist()) <= {0.0, 1.0}:
        low, high = wilson(float(means.mean()), len(means))
    else:
        picks = np.random.default_rng(0).integers(0, len(means), size=(_RESAMPLES, len(means)))
        low, high = np.quantile(means[picks].mean(axis=1), (0.025, 0.975))
    return Estimate(mean=round(float(means.mean()), 4), low=round(float(low), 4), high=round(float(high), 4))

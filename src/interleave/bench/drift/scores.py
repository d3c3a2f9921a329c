"""Shares and means of a measurement at its marks, with 95 % intervals over chains."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from interleave.bench.drift.run import DriftSettings, StepLine, by_cell
from interleave.bench.statistics import Estimate, cluster_mean
from interleave.plugin import Value

WINDOW = 5
"""Steps averaged for a mark, up to and including it. Drift control that acts every few steps must not gain
from a measurement just after it acted."""


class MarkScore(Value):
    """One cell at one mark."""

    step: int
    chains: int
    right: Estimate | None
    """Share of right images in the window."""
    mixed_up: Estimate | None
    """Share of images in the window with one asset in another's place."""
    all_right: Estimate | None
    """Share of chains with only right images up to this step."""
    outside: Estimate
    """Mean difference outside the edited regions in the window, in levels of 255."""
    from_first: Estimate | None
    """Difference from the first image, over images that should equal it."""


class CellScore(Value):
    """One protocol under one drift control."""

    key: str
    protocol: str
    name: str
    marks: tuple[MarkScore, ...]
    calls: int
    pictures: int
    seconds_per_picture: float


def score(settings: DriftSettings, lines: Sequence[StepLine]) -> list[CellScore]:
    """Return the scores of every cell, at the marks that all of its chains have reached."""
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
        right=cluster_mean([(line.chain, float(bool(line.right))) for line in judged]) if judged else None,
        mixed_up=cluster_mean([(line.chain, float(line.mixed_up)) for line in judged]) if judged else None,
        all_right=cluster_mean([(chain, float(so_far[chain])) for chain in chains]) if judged else None,
        outside=cluster_mean([(line.chain, line.drift.outside) for line in window]),
        from_first=cluster_mean([(line.chain, line.from_first) for line in same]) if same else None,
    )

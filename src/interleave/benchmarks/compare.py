"""Two systems on the same items of a benchmark: paired differences, wins and losses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from interleave.benchmarks.numbers import Gap, paired
from interleave.benchmarks.stages import Scored, read_scored
from interleave.benchmarks.table import find_benchmark
from interleave.errors import InputError
from interleave.files import write_atomic
from interleave.render.html import page_template
from interleave.types import Value


class Comparison(Value):
    """What a comparison came to."""

    benchmark: str
    gaps: tuple[Gap, ...]
    wins: tuple[str, ...]
    """Items where A has more of what the headline number is made of; the largest difference first."""
    losses: tuple[str, ...]
    ties: int
    notes: tuple[str, ...] = ()


def compare_folders(ours: Path, theirs: Path) -> Comparison:
    """Compare the newest scores of two folders that have the same judge and wording."""
    mine, yours = read_scored(ours), read_scored(theirs)
    for a in mine:
        for b in yours:
            if (a.judge, a.prompts, a.outcome.missing) == (b.judge, b.prompts, b.outcome.missing):
                return compare_scored(a, b)
    return compare_scored(mine[0], yours[0])


def compare_scored(ours: Scored, theirs: Scored) -> Comparison:
    name = ours.description.benchmark
    if name != theirs.description.benchmark:
        raise InputError(f"A is {name} and B is {theirs.description.benchmark}: compare the same benchmark")
    benchmark = find_benchmark(name)
    a, b = ours.outcome.measures, theirs.outcome.measures
    shared = [item for item in ours.groups if item in a and item in b]
    if not shared:
        raise InputError("A and B have no item in common")
    headline = benchmark.numbers()[0].measures
    differences = {item: _mean(a[item], headline) - _mean(b[item], headline) for item in shared}
    ranked = sorted(differences, key=lambda item: -abs(differences[item]))
    return Comparison(
        benchmark=name,
        gaps=tuple(paired(number, ours.groups, a, b) for number in benchmark.numbers()),
        wins=tuple(item for item in ranked if differences[item] > 0),
        losses=tuple(item for item in ranked if differences[item] < 0),
        ties=sum(difference == 0 for difference in differences.values()),
        notes=tuple(_notes(ours, theirs, len(shared))),
    )


def _mean(measures: Mapping[str, float | None], names: Sequence[str]) -> float:
    """Of the measures of the headline number; what an item lacks counts as nothing."""
    return sum(measures[name] or 0.0 for name in names) / len(names)


def _notes(ours: Scored, theirs: Scored, shared: int) -> list[str]:
    notes = []
    for what in ("judge", "prompts"):
        if getattr(ours, what) != getattr(theirs, what):
            notes.append(
                f"A and B have another {what} ({getattr(ours, what)} and {getattr(theirs, what)}): "
                "the difference is not that of the systems alone"
            )
    if shared < max(len(ours.groups), len(theirs.groups)):
        notes.append(f"only the {shared:,} items that both have are compared")
    return notes


def write_comparison(comparison: Comparison, ours: Path, theirs: Path) -> Path:
    path = ours / f"compare-{theirs.name}.html"
    page = page_template("compare.html.j2", package="interleave.benchmarks").render(
        comparison=comparison, ours=ours, theirs=theirs
    )
    write_atomic(path, page.encode())
    return path

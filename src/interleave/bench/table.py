"""The registered benchmarks, one row each, imported on use. Packages add theirs by entry points."""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING

from interleave import ConfigurationError
from interleave.plugin import did_you_mean, entry_points

if TYPE_CHECKING:
    from interleave.bench.base import Benchmark

TABLE = {
    "comm-continue": "interleave.bench.benchmarks.comm:CoMMContinue",
    "comm-document": "interleave.bench.benchmarks.comm:CoMMDocument",
    "editreward-bench": "interleave.bench.benchmarks.editreward_bench:EditRewardBench",
    "editreward-bench-critic": "interleave.bench.benchmarks.editreward_bench:EditRewardBenchCritic",
    "editscore-bench": "interleave.bench.benchmarks.editscore_bench:EditScoreBench",
    "editscore-bench-critic": "interleave.bench.benchmarks.editscore_bench:EditScoreBenchCritic",
    "gedit": "interleave.bench.benchmarks.gedit:GEdit",
    "imgedit": "interleave.bench.benchmarks.imgedit:ImgEdit",
    "kris": "interleave.bench.benchmarks.kris:KRIS",
    "mmrb2-edit": "interleave.bench.benchmarks.mmrb2:Mmrb2Edit",
    "mmrb2-edit-critic": "interleave.bench.benchmarks.mmrb2:Mmrb2EditCritic",
    "mmrb2-interleaved": "interleave.bench.benchmarks.mmrb2:Mmrb2Interleaved",
    "opening": "interleave.bench.benchmarks.opening:OpenING",
    "opening-pairs": "interleave.bench.benchmarks.opening_pairs:OpenINGPairs",
    "rise": "interleave.bench.benchmarks.rise:Rise",
    "rise64": "interleave.bench.benchmarks.rise:Rise64",
    "ueval": "interleave.bench.benchmarks.ueval:UEval",
    "viescore": "interleave.bench.benchmarks.viescore:VIEScore",
    "vistorybench": "interleave.bench.benchmarks.vistorybench:ViStoryBench",
    "wise": "interleave.bench.benchmarks.wise:WiseLegacy",
    "wise-verified": "interleave.bench.benchmarks.wise:WiseVerified",
}


def find_benchmark(name: str) -> Benchmark:
    """Return the benchmark of a name. Raises `ConfigurationError` with the nearest name if unknown."""
    if name in TABLE:
        found = pkgutil.resolve_name(TABLE[name])
    elif (point := entry_points.installed("benchmarks").get(name)) is not None:
        found = entry_points.load(point, f"the benchmark {name!r}")
    else:
        known = [*TABLE, *entry_points.installed("benchmarks")]
        raise ConfigurationError(f"no benchmark {name!r}. {did_you_mean(name, known)}")
    if not is_benchmark(found):
        raise ConfigurationError(f"{name!r} is a command, not a benchmark: use `interleave bench {name}`")
    benchmark: Benchmark = found() if isinstance(found, type) else found
    if benchmark.name != name:  # folders and comparisons look it up under its own name
        raise ConfigurationError(
            f"the entry {name!r} names the benchmark {benchmark.name!r}: give both the same name"
        )
    return benchmark


def is_benchmark(found: object) -> bool:
    """Return whether a package's entry is a `Benchmark` or a subclass; otherwise it is a command."""
    from interleave.bench.base import Benchmark

    return isinstance(found, Benchmark) or (isinstance(found, type) and issubclass(found, Benchmark))

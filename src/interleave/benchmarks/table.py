"""The benchmarks there are: one row each, imported when used. Packages add theirs by entry points."""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING

from interleave import plugins
from interleave.errors import ConfigurationError, did_you_mean

if TYPE_CHECKING:
    from interleave.benchmarks.base import Benchmark

TABLE = {
    "comm-continue": "interleave.benchmarks.comm:CoMMContinue",
    "comm-document": "interleave.benchmarks.comm:CoMMDocument",
    "editreward-bench": "interleave.benchmarks.editreward_bench:EditRewardBench",
    "editreward-bench-critic": "interleave.benchmarks.editreward_bench:EditRewardBenchCritic",
    "editscore-bench": "interleave.benchmarks.editscore_bench:EditScoreBench",
    "editscore-bench-critic": "interleave.benchmarks.editscore_bench:EditScoreBenchCritic",
    "gedit": "interleave.benchmarks.gedit:GEdit",
    "imgedit": "interleave.benchmarks.imgedit:ImgEdit",
    "kris": "interleave.benchmarks.kris:KRIS",
    "mmrb2-edit": "interleave.benchmarks.mmrb2:Mmrb2Edit",
    "mmrb2-edit-critic": "interleave.benchmarks.mmrb2:Mmrb2EditCritic",
    "mmrb2-interleaved": "interleave.benchmarks.mmrb2:Mmrb2Interleaved",
    "opening": "interleave.benchmarks.opening:OpenING",
    "opening-pairs": "interleave.benchmarks.opening_pairs:OpenINGPairs",
    "rise": "interleave.benchmarks.rise:Rise",
    "rise64": "interleave.benchmarks.rise:Rise64",
    "ueval": "interleave.benchmarks.ueval:UEval",
    "viescore": "interleave.benchmarks.viescore:VIEScore",
    "vistorybench": "interleave.benchmarks.vistorybench:ViStoryBench",
    "wise": "interleave.benchmarks.wise:WiseLegacy",
    "wise-verified": "interleave.benchmarks.wise:WiseVerified",
}


def find_benchmark(name: str) -> Benchmark:
    """The benchmark of a name; raises `ConfigurationError` with the nearest one where there is none."""
    if name in TABLE:
        found = pkgutil.resolve_name(TABLE[name])
    elif (point := plugins.installed("benchmarks").get(name)) is not None:
        found = plugins.load(point, f"the benchmark {name!r}")
    else:
        known = [*TABLE, *plugins.installed("benchmarks")]
        raise ConfigurationError(f"no benchmark named {name!r}. {did_you_mean(name, known)}")
    if not is_benchmark(found):
        raise ConfigurationError(f"{name!r} is a command of its own: `interleave bench {name}` is all it has")
    benchmark: Benchmark = found() if isinstance(found, type) else found
    if benchmark.name != name:  # folders and comparisons would look for it under the other name
        raise ConfigurationError(
            f"the entry {name!r} names the benchmark {benchmark.name!r}: give both the same name"
        )
    return benchmark


def is_benchmark(found: object) -> bool:
    """Whether a package's entry is a `Benchmark`, or the class of one; else it is a command of its own."""
    from interleave.benchmarks.base import Benchmark

    return isinstance(found, Benchmark) or (isinstance(found, type) and issubclass(found, Benchmark))

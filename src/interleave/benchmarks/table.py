"""The benchmarks there are: one row each, imported when used. Packages add theirs by entry points."""

from __future__ import annotations

import pkgutil

from interleave import plugins
from interleave.benchmarks.base import Benchmark
from interleave.errors import ConfigurationError, did_you_mean

TABLE = {
    "ueval": "interleave.benchmarks.ueval:UEval",
    "mmrb2-edit": "interleave.benchmarks.mmrb2:Mmrb2Edit",
    "mmrb2-edit-critic": "interleave.benchmarks.mmrb2:Mmrb2EditCritic",
    "mmrb2-interleaved": "interleave.benchmarks.mmrb2:Mmrb2Interleaved",
    "editscore-bench": "interleave.benchmarks.editscore_bench:EditScoreBench",
    "editscore-bench-critic": "interleave.benchmarks.editscore_bench:EditScoreBenchCritic",
    "editreward-bench": "interleave.benchmarks.editreward_bench:EditRewardBench",
    "editreward-bench-critic": "interleave.benchmarks.editreward_bench:EditRewardBenchCritic",
}


def find_benchmark(name: str) -> Benchmark:
    """The benchmark of a name; raises `ConfigurationError` with the nearest one where there is none."""
    if name in TABLE:
        made = pkgutil.resolve_name(TABLE[name])
        return made if isinstance(made, Benchmark) else made()
    known = [*TABLE, *plugins.installed("benchmarks")]
    raise ConfigurationError(f"no benchmark named {name!r}. {did_you_mean(name, known)}")

"""The benchmarks there are: one row each, imported when used. Packages add theirs by entry points."""

from __future__ import annotations

import pkgutil

from interleave import plugins
from interleave.benchmarks.base import Benchmark
from interleave.errors import ConfigurationError, did_you_mean

TABLE = {
    "comm-continue": "interleave.benchmarks.comm:CoMMContinue",
    "comm-document": "interleave.benchmarks.comm:CoMMDocument",
    "opening": "interleave.benchmarks.opening:OpenING",
    "opening-pairs": "interleave.benchmarks.opening:OpenINGPairs",
    "ueval": "interleave.benchmarks.ueval:UEval",
}


def find_benchmark(name: str) -> Benchmark:
    """The benchmark of a name; raises `ConfigurationError` with the nearest one where there is none."""
    if name in TABLE:
        made = pkgutil.resolve_name(TABLE[name])
        return made if isinstance(made, Benchmark) else made()
    known = [*TABLE, *plugins.installed("benchmarks")]
    raise ConfigurationError(f"no benchmark named {name!r}. {did_you_mean(name, known)}")

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
    "gedit": "interleave.benchmarks.gedit:GEdit",
    "imgedit": "interleave.benchmarks.imgedit:ImgEdit",
    "kris": "interleave.benchmarks.kris:KRIS",
    "opening": "interleave.benchmarks.opening:OpenING",
    "opening-pairs": "interleave.benchmarks.opening:OpenINGPairs",
    "rise": "interleave.benchmarks.rise:Rise",
    "rise64": "interleave.benchmarks.rise:Rise64",
    "ueval": "interleave.benchmarks.ueval:UEval",
    "viescore": "interleave.benchmarks.viescore:VIEScore",
    "wise": "interleave.benchmarks.wise:WiseLegacy",
    "wise-verified": "interleave.benchmarks.wise:WiseVerified",
}


def find_benchmark(name: str) -> Benchmark:
    """The benchmark of a name; raises `ConfigurationError` with the nearest one where there is none."""
    if name in TABLE:
        made = pkgutil.resolve_name(TABLE[name])
        benchmark: Benchmark = made() if isinstance(made, type) else made
        return benchmark
    known = [*TABLE, *plugins.installed("benchmarks")]
    raise ConfigurationError(f"no benchmark named {name!r}. {did_you_mean(name, known)}")

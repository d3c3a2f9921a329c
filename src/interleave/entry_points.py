"""Plugins: additions of installed packages, found by their entry points.

| group                      | an entry names                                                              |
|----------------------------|-----------------------------------------------------------------------------|
| interleave.generators      | a backend class, or a `BackendInfo` that describes one                      |
| interleave.vlms            | the same, for vision-language models                                        |
| interleave.agents          | the same, for planners, critics and scorers that compute                    |
| interleave.profiles        | a package whose folder holds profiles (`NAME.toml`)                         |
| interleave.prompt_packs    | a package whose folder holds prompt packs (`NAME/pack.toml`)                |
| interleave.recipes         | a package whose folder holds training recipes (`NAME.toml`)                 |
| interleave.request_sources | a `RequestSource` for `data prompts --source NAME`                          |
| interleave.benchmarks      | a `Benchmark` for `interleave bench run NAME`, or a command `bench NAME`    |
| interleave.exporters       | a `Format` for `interleave export RUN --to NAME`                            |
| interleave.safety          | a `SafetyCheck`, for `--safety NAME:…`                                      |
| interleave.signers         | a function that signs an export, for `--sign`                               |
| interleave.readers         | a reader of a generator's images, for `interleave book look`                |
| interleave.executors       | an executor of a batch on other machines, for `--engine NAME`               |
| interleave.commands        | a typer application, run by `interleave NAME`                               |
| interleave.routes          | a `Router` whose routes the document service adds to its own                |

Names are listed without importing anything. A package is imported when one of its names is used.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import EntryPoint, distributions
from pathlib import Path
from typing import Any

from interleave.errors import ConfigurationError, InterleaveError

PREFIX = "interleave."
DISTRIBUTION = "interleavethinker"


def installed(group: str) -> Mapping[str, EntryPoint]:
    """Return the entries of a group by name. If two share a name, ours wins, else the first on the path."""
    return everything().get(f"{PREFIX}{group}", {})


def everything() -> Mapping[str, Mapping[str, EntryPoint]]:
    """Return all entries of our groups, by group and name."""
    return _scan(tuple((folder, _changed_at(folder)) for folder in sys.path))


@lru_cache(maxsize=4)
def _scan(folders: tuple[tuple[str, int], ...]) -> Mapping[str, Mapping[str, EntryPoint]]:
    """Return every entry of our groups, by group and name.

    Cached until a package is added or removed, because scanning all packages takes longer than a short run.
    """
    found: dict[str, dict[str, EntryPoint]] = {}
    for package in distributions():
        for point in package.entry_points:
            if point.group.startswith(PREFIX):
                known = found.setdefault(point.group, {})
                if point.name not in known or package.name == DISTRIBUTION:
                    known[point.name] = point
    return found


def _changed_at(folder: str) -> int:
    """Return when an entry in a folder of the path was last added or removed."""
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0


def package_of(point: EntryPoint) -> str:
    """Return the name of the distribution that an entry belongs to."""
    return point.dist.name if point.dist else "unknown"


def load(point: EntryPoint, what: str) -> Any:
    """Return the object that an entry names. Any error on import becomes a `ConfigurationError`."""
    try:
        return point.load()
    except InterleaveError:
        raise
    except Exception as error:
        raise ConfigurationError(
            f"{what} of the package {package_of(point)} cannot be loaded from {point.value!r}: "
            f"{type(error).__name__}: {error}"
        ) from error


def is_importable(package: str) -> bool:
    """Return whether a package is installed."""
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # its parent package is not installed either
        return False


def folders(group: str) -> list[Path]:
    """Return the folders of the packages that a group names, without importing them."""
    return [folder for point in installed(group).values() for folder in _folders_of(point.value)]


def _folders_of(package: str) -> list[Path]:
    """Find the outermost package only, because finding an inner one would import its parents."""
    outer, *inner = package.split(".")
    try:
        spec = importlib.util.find_spec(outer)
    except (ImportError, ValueError):  # a module in memory without a file
        return []
    places = (spec.submodule_search_locations or ()) if spec else ()
    return [folder for place in places if (folder := Path(place, *inner)).is_dir()]

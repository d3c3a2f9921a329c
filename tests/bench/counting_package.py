"""The benchmark of the how-to, as a package that is built from the page and installed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from example_packages import example_package, put_on_path
from interleave.bench.base import Benchmark
from interleave.bench.table import find_benchmark

COUNTING = example_package("how-to/add-a-benchmark.md")


@pytest.fixture(scope="module")
def built_counting(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return COUNTING.build(tmp_path_factory.mktemp("counting"))


@pytest.fixture
def counting(built_counting: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Benchmark:
    """The benchmark, in a copy of its package that a test may spoil."""
    site = shutil.copytree(built_counting, tmp_path / "site")
    put_on_path(site, "counting_bench", monkeypatch)
    return find_benchmark("counting")

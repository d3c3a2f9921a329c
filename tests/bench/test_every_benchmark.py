"""What holds for every benchmark: those of the table, and the one of the how-to in a package of its own."""

from __future__ import annotations

from pathlib import Path

import pytest
from counting_package import built_counting, counting

from interleave.bench.base import Benchmark, Dataset
from interleave.bench.numbers import Number
from interleave.bench.stages import judge_prompts
from interleave.bench.table import TABLE, find_benchmark
from interleave.errors import ConfigurationError, InputError

__all__ = ["built_counting", "counting"]
EMPTY = Dataset((), "r", "tests")


@pytest.fixture(params=[*TABLE, "counting"])
def benchmark(request: pytest.FixtureRequest) -> Benchmark:
    if request.param == "counting":
        request.getfixturevalue("counting")  # puts it on the path
    return find_benchmark(request.param)


def test_it_says_what_it_is(benchmark: Benchmark) -> None:
    assert benchmark.title and benchmark.licence and benchmark.judge.spec
    assert all(isinstance(number, Number) and number.measures for number in benchmark.numbers())
    assert judge_prompts(benchmark, None).templates


def test_what_it_cannot_take_is_refused_with_a_sentence(benchmark: Benchmark, tmp_path: Path) -> None:
    (tmp_path / "empty.json").write_text("{}")
    for path in (tmp_path, tmp_path / "empty.json", tmp_path / "nothing"):
        with pytest.raises((InputError, ConfigurationError)):
            benchmark.read(path)
        for read in (benchmark.import_outputs, benchmark.import_judgements):
            try:
                assert list(read(EMPTY, path)) == []
            except (InputError, ConfigurationError):
                continue


def test_only_systems_have_outputs(benchmark: Benchmark, tmp_path: Path) -> None:
    if benchmark.tests == "systems":
        benchmark.export(EMPTY, {}, tmp_path, tmp_path / "official")
        return
    with pytest.raises(ConfigurationError, match="no outputs"):
        benchmark.export(EMPTY, {}, tmp_path, tmp_path / "official")
    with pytest.raises(ConfigurationError, match="no outputs"):
        benchmark.import_outputs(EMPTY, tmp_path)

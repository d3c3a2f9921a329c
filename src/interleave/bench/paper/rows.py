"""The rows of the paper's tables, from `paper.toml`, with the numbers it prints for them."""

from __future__ import annotations

import tomllib
from functools import cache
from pathlib import Path

from pydantic import Field

from interleave import ConfigurationError
from interleave.bench.published import PublishedRow, published_rows
from interleave.bench.table import find_benchmark
from interleave.plugin import Value

WORK = "work/paper"
"""The folder of all rows in the commands; each row has a folder named after it."""
FILE = Path(__file__).parent / "paper.toml"


class Size(Value):
    """The size of a benchmark, and estimates of what a row costs."""

    items: int
    questions: int
    usd: float
    """US dollars for the official judge."""
    gpu_hours: float
    repository: str
    """The repository with the judge's own prompts."""
    data: str = ""
    """The folder of its data, if it is not read from the Hub."""
    is_stated: bool = True
    """Whether the benchmark states its number of items."""

    @property
    def checkout(self) -> str:
        return f"checkouts/{self.repository.rsplit('/', 1)[-1]}"


class Row(Value):
    """One row of a table."""

    id: str
    system: str
    options: str = ""
    """Options of `bench run` for a system that runs here."""
    outputs: str = ""
    """The path of answers made elsewhere."""
    of: str = ""
    """The row whose run this one is."""
    attempts: int | None = None
    """The attempt limit of the outputs, if not the run's own."""
    needs: str = ""
    before: tuple[str, ...] = ()
    """Commands that make what the row needs."""


class PaperTable(Value):
    """One table of the paper; all its rows are on one benchmark."""

    id: str
    title: str
    benchmark: str
    numbers: tuple[str, ...]
    rows: tuple[Row, ...]

    def commands(self, row: Row) -> tuple[str, ...]:
        """Return the commands that measure a row, judged in the benchmark's own words."""
        size = paper().benchmarks[self.benchmark]
        data = f"--data {size.data} " if size.data else ""
        out = f"{data}--judge-prompts {size.checkout} --out {WORK}/{row.of or row.id}"
        if row.attempts is not None:
            return tuple(
                f"interleave bench {stage} {self.benchmark} --attempts {row.attempts} {out}"
                for stage in ("judge", "score")
            )
        if row.of:
            return (f"interleave bench score {self.benchmark} {out}",)
        chosen = f"--import {row.outputs}" if row.outputs else row.options
        return (f"interleave bench run {self.benchmark} {chosen} {out}",)

    def needs(self, row: Row) -> str:
        if row.of:
            return f"the run of {row.of}"
        return row.needs or "its answers in the official layout"

    def printed(self, row: Row) -> PublishedRow:
        """Return the published row: the paper's own, else another source's."""
        folders = find_benchmark(self.benchmark).package_folders
        found = [each for each in published_rows(self.benchmark, folders) if each.system == row.system]
        if not found:
            raise ConfigurationError(f"{row.id}: {self.benchmark} has no published row of {row.system!r}")
        return next((each for each in found if each.source == paper().source), found[0])


class Figure(Value):
    """A figure, and the command that makes one like it."""

    id: str
    shows: str
    command: str


class Paper(Value):
    """The whole of `paper.toml`."""

    source: str
    benchmarks: dict[str, Size]
    tables: tuple[PaperTable, ...] = Field(min_length=1)
    figures: tuple[Figure, ...]


@cache
def paper() -> Paper:
    return Paper.model_validate(tomllib.loads(FILE.read_text("utf-8")))

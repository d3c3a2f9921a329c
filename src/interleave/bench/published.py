"""Published numbers of other systems, with their sources and conditions, to compare with ours."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from pathlib import Path

from pydantic import Field, ValidationError

from interleave import ConfigurationError
from interleave.bench.base import Benchmark
from interleave.bench.prompts import OURS, REWORDED, file_of
from interleave.bench.stages import Scored, judge_name
from interleave.plugin import Value, files, first_problem


class PublishedRow(Value):
    """One system on one benchmark."""

    system: str
    numbers: dict[str, float]
    """Values by the names of our numbers."""
    groups: dict[str, float] = Field(default_factory=dict)
    """The headline of each group, if published."""
    source: str
    """The publication."""
    judge: str = ""
    """The judge; the benchmark's own if empty."""
    note: str = ""
    """A caveat for readers: another rule, an error in the source."""


class PublishedFile(Value):
    """The `published/NAME.toml` of a benchmark."""

    rows: tuple[PublishedRow, ...]


def published_rows(benchmark: str, folders: Sequence[Path] = OURS) -> tuple[PublishedRow, ...]:
    """Return the rows of a benchmark from the first folder that has them; empty if none is stored."""
    path = file_of(benchmark, "published", folders)
    if path is None:
        return ()
    try:
        return PublishedFile.model_validate(tomllib.loads(path.read_text("utf-8"))).rows
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"cannot read {path} ({files.why(error)})") from None
    except ValidationError as error:
        raise ConfigurationError(f"{path}: {first_problem(error)}") from None


def measured_name(benchmark: Benchmark, scored: Scored) -> str:
    """Return the name of what was measured: a system, or the judge itself for benchmarks of critics."""
    return judge_name(scored.judge) if benchmark.tests == "critics" else scored.description.system


def differs_in(benchmark: Benchmark, scored: Scored, row: PublishedRow) -> tuple[str, ...]:
    """Return the conditions in which a published row differs from ours: `judge`, `prompts`, `items`."""
    found = []
    if benchmark.tests == "systems" and judge_name(scored.judge) != (row.judge or benchmark.judge.name):
        found.append("judge")
    if scored.prompts.startswith(REWORDED):
        found.append("prompts")
    if is_sample(scored):
        found.append("items")
    return tuple(found)


def is_sample(scored: Scored) -> bool:
    """Return whether only some items of the data were used."""
    return "+first" in scored.description.revision


def differences_from_published(benchmark: Benchmark, scored: Scored) -> list[str]:
    """Return the reasons not to compare our numbers with the published ones."""
    found = []
    if benchmark.tests == "systems" and judge_name(scored.judge) != benchmark.judge.name:
        found.append(
            f"not comparable: published numbers were judged by {benchmark.judge.name}, "
            f"these by {judge_name(scored.judge)}"
        )
    if scored.prompts.startswith(REWORDED):
        found.append("the judge used our prompts, not the benchmark's: small differences mean nothing")
    if is_sample(scored):
        found.append(f"only {scored.outcome.items:,} items were used; published numbers use all")
    if scored.outcome.coverage < 1 and scored.outcome.missing != "official":
        found.append(
            f"{1 - scored.outcome.coverage:.1%} of the items lack an answer of the judge, counted as "
            f"{scored.outcome.missing!r} and not as in upstream's script"
        )
    return found

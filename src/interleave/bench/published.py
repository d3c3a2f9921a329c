"""Numbers that others have published, to stand beside ours, with where they stand and how they were made."""

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
    """By the names that our numbers have."""
    groups: dict[str, float] = Field(default_factory=dict)
    """The headline of each group, where it is published."""
    source: str
    """Where it stands."""
    judge: str = ""
    """The benchmark's own judge where nothing is said."""
    note: str = ""
    """What a reader must know: another rule, a slip."""


class PublishedFile(Value):
    """The `published/NAME.toml` of a benchmark."""

    rows: tuple[PublishedRow, ...]


def published_rows(benchmark: str, folders: Sequence[Path] = OURS) -> tuple[PublishedRow, ...]:
    """The rows of a benchmark, from the first folder that has them; none where nothing is stored."""
    path = file_of(benchmark, "published", folders)
    if path is None:
        return ()
    try:
        return PublishedFile.model_validate(tomllib.loads(path.read_text("utf-8"))).rows
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{path} cannot be read ({files.why(error)})") from None
    except ValidationError as error:
        raise ConfigurationError(f"{path}: {first_problem(error)}") from None


def measured_name(benchmark: Benchmark, scored: Scored) -> str:
    """What was measured: a system, or the judge itself where critics are tested."""
    return judge_name(scored.judge) if benchmark.tests == "critics" else scored.description.system


def differs_in(benchmark: Benchmark, scored: Scored, row: PublishedRow) -> tuple[str, ...]:
    """In what a published row was made otherwise than ours: `judge`, `prompts`, `items`."""
    found = []
    if benchmark.tests == "systems" and judge_name(scored.judge) != (row.judge or benchmark.judge.name):
        found.append("judge")
    if scored.prompts.startswith(REWORDED):
        found.append("prompts")
    if is_sample(scored):
        found.append("items")
    return tuple(found)


def is_sample(scored: Scored) -> bool:
    """Whether only some items of the data were taken."""
    return "+first" in scored.description.revision


def differences_from_published(benchmark: Benchmark, scored: Scored) -> list[str]:
    """Why our numbers must not be read beside the published ones, where they must not."""
    found = []
    if benchmark.tests == "systems" and judge_name(scored.judge) != benchmark.judge.name:
        found.append(
            f"published numbers were judged by {benchmark.judge.name}, these by {judge_name(scored.judge)}: "
            "they cannot be compared"
        )
    if scored.prompts.startswith(REWORDED):
        found.append("the judge was asked in our words, not the benchmark's: small differences mean nothing")
    if is_sample(scored):
        found.append(f"only {scored.outcome.items:,} items were taken; published numbers are of all")
    if scored.outcome.coverage < 1 and scored.outcome.missing != "official":
        found.append(
            f"{1 - scored.outcome.coverage:.1%} of the items lack an answer of the judge, which counts as "
            f"{scored.outcome.missing!r} and not as upstream's script counts it"
        )
    return found

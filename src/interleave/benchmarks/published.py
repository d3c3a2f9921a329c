"""Numbers that others have published, to stand beside ours, with where they stand and how they were made."""

from __future__ import annotations

import tomllib
from importlib import resources

from pydantic import Field

from interleave.types import Value


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


def published_rows(benchmark: str) -> tuple[PublishedRow, ...]:
    """The rows of a benchmark; none where nothing is stored."""
    path = resources.files("interleave.benchmarks") / "published" / f"{benchmark}.toml"
    if not path.is_file():
        return ()
    stored = tomllib.loads(path.read_text("utf-8"))
    return tuple(PublishedRow.model_validate(row) for row in stored["rows"])

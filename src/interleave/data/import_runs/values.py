"""A foreign run, read and checked, before it becomes a run folder."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from interleave.types import Plan, Verdict

UNKNOWN_PROMPT = "(the prompt was not recorded)"


@dataclass(frozen=True)
class ImportedAttempt:
    """A picture, the prompt that made it, and what was said about it."""

    step: int
    prompt: str
    picture: Path
    verdict: Verdict | None = None
    seed: int = 0


@dataclass(frozen=True)
class ImportedRun:
    """One record of the reference."""

    source: str
    """Where it stands, relative to what was imported; for result files with the item's number."""
    request: tuple[str | Path, ...]
    plan: Plan
    attempts: tuple[ImportedAttempt, ...]
    warnings: tuple[str, ...] = ()
    time: float = 0.0


@dataclass
class Notes:
    """What is odd about a record, gathered while it is read."""

    said: dict[str, None] = field(default_factory=dict)
    """Each once, in their order: a record may have thousands."""

    def add(self, note: str) -> None:
        self.said[note] = None

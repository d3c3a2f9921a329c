"""The judge's records on disk: append-only, one file per judge and prompts; the last record counts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from pydantic import ValidationError

from interleave.bench.base import JudgeRecord
from interleave.plugin import files, slug

FOLDER = "judge"
MAX_FILE_BYTES = 4_000_000_000
MAX_LINE_BYTES = 4_000_000

Known = dict[tuple[str, str, str], JudgeRecord]
"""Records by item, digest of the output, and key."""


def record_file(judge: str, prompts: str) -> str:
    """Return the file name for a judge and its prompts."""
    return f"{slug(judge, 60)}-{prompts}.jsonl"


def read_records(path: Path) -> Known:
    """Return the last record of every question."""
    return {(record.item, record.output, record.key): record for record in _records(path)}


def spent(path: Path) -> tuple[int, float]:
    """Return calls and US dollars of all records in a file, including repeated questions."""
    calls, cost = 0, 0.0
    for record in _records(path):
        calls += record.tries
        cost += max(0.0, record.cost or 0.0)
    return calls, cost


def _records(path: Path) -> Iterator[JudgeRecord]:
    """Yield all records of a file, skipping truncated and foreign lines."""
    if not path.exists():
        return
    for _, _, line in files.read_lines(path, most_bytes=MAX_FILE_BYTES, most_in_a_line=MAX_LINE_BYTES):
        with suppress(ValidationError):
            yield JudgeRecord.model_validate_json(line)


def by_item(records: Iterable[JudgeRecord]) -> dict[str, dict[str, JudgeRecord]]:
    found: dict[str, dict[str, JudgeRecord]] = {}
    for record in records:
        found.setdefault(record.item, {})[record.key] = record
    return found

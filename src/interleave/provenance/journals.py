"""The journal of a run as evidence: a signed digest of its bytes so far, which later lines do not change."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from interleave.plugin import files, runs


def journal_digest(folder: Path) -> dict[str, Any]:
    """Return how long the journal of a run is, and the SHA-256 of these bytes."""
    data = _bytes_of(folder)
    return {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}


def journal_matches(folder: Path, stated: dict[str, Any]) -> bool:
    """Return whether the journal of a run begins with the bytes that were signed."""
    length = stated.get("bytes")
    if not isinstance(length, int) or length < 1:
        return False
    data = _bytes_of(folder)[:length]
    return len(data) == length and hashlib.sha256(data).hexdigest() == stated.get("sha256")


def _bytes_of(folder: Path) -> bytes:
    try:
        return files.read_from(runs.journal_path(folder))
    except OSError:
        return b""

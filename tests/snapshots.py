"""What is on disk, to the byte: for tests of commands that must leave everything as it was."""

from __future__ import annotations

from pathlib import Path


def snapshot(folder: Path) -> dict[str, tuple[int, bytes]]:
    """When each file and folder below this one was changed last, and what is in it."""
    return {
        str(path): (path.stat().st_mtime_ns, path.read_bytes() if path.is_file() else b"")
        for path in sorted(folder.rglob("*"))
    }

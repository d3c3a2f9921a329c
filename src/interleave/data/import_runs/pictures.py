"""Finding the pictures a foreign record names, without ever leaving the folder that is imported."""

from __future__ import annotations

from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

from interleave.errors import InputError

WHITE = "white"
"""The name, without its ending, of the canvas that the reference's critic sees before the first picture."""


def find_picture(named: Any, beside: Path, root: Path) -> Path:
    """The file of a picture; raises `InputError` when it is missing or lies outside.

    Records carry paths of the machine that made them, so a picture is also looked for under its bare name.
    """
    if not isinstance(named, str) or not named.strip() or "\x00" in named:
        raise InputError(f"{named!r:.80} is not the path of a picture")
    if "://" in named:
        raise InputError(f"{named[:80]!r} is an address: nothing is fetched from the web")
    outside = False
    for candidate in (beside / named, root / named, beside / bare_name(named)):
        try:
            if not candidate.resolve().is_relative_to(root.resolve()):
                outside = outside or candidate.exists()
            elif candidate.is_file():
                return candidate
        except (OSError, ValueError):
            continue
    if outside:
        raise InputError(f"the picture {named[:80]!r} lies outside {root}, and is not read")
    raise InputError(f"the picture {named[:80]!r} is missing")


def bare_name(named: str) -> str:
    """The last part of a path of any system."""
    return PureWindowsPath(PurePosixPath(named).name).name


def is_white_canvas(named: Any) -> bool:
    """Whether a source means that there was none."""
    if named is None or named == "":
        return True
    return isinstance(named, str) and bare_name(named).lower().partition(".")[0] == WHITE

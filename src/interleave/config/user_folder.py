"""Where a user's own configuration lies: profiles and prompt packs."""

from __future__ import annotations

import os
from pathlib import Path


def config_folder() -> Path | None:
    """`$INTERLEAVE_CONFIG`, else `interleave` in the platform's configuration folder; None without a home."""
    if own := os.environ.get("INTERLEAVE_CONFIG"):
        return Path(own)
    if xdg := os.environ.get("XDG_CONFIG_HOME"):
        return Path(xdg) / "interleave"
    try:
        return Path.home() / ".config" / "interleave"
    except RuntimeError:
        return None

"""The README as package indexes show it: they resolve no relative link and show no image of a repository."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from hatchling.metadata.plugin.interface import MetadataHookInterface

_ELSEWHERE = r"(?!https?://|mailto:|#)"
_IMAGE = re.compile(rf"!\[[^\]]*\]\({_ELSEWHERE}[^)]*\)\n*")
_LINK = re.compile(rf"\[([^\]]+)\]\({_ELSEWHERE}[^)]*\)")


class ReadmeForIndexes(MetadataHookInterface):
    """Relative links become their text, and images of the repository are left out."""

    def update(self, metadata: dict[str, Any]) -> None:
        text = Path(self.root, "README.md").read_text("utf-8")
        metadata["readme"] = {
            "content-type": "text/markdown",
            "text": _LINK.sub(r"\1", _IMAGE.sub("", text)),
        }

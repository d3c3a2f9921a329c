"""Rows for LLaMA-Factory: sharegpt messages with `<image>` marks, and a `dataset_info.json`.

It has no GRPO, so there are no rows for reinforcement learning.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interleave.data.export.image_slots import conversation
from interleave.data.export.images import Shelf
from interleave.data.export.rows import Row

_TAGS = {
    "role_tag": "role",
    "content_tag": "content",
    "user_tag": "user",
    "assistant_tag": "assistant",
    "system_tag": "system",
}


def encode(row: Row, shelf: Shelf) -> dict[str, Any]:
    return {
        "messages": conversation(row),
        "images": [shelf.path(exhibit) for exhibit in row.pictures],
    }


def write_dataset_info(folder: Path, files: Mapping[str, Path]) -> None:
    """One entry for each file: `interleave_critic_sft`, `interleave_critic_sft_validation`, …"""
    entries = {
        f"interleave_{name}": {
            "file_name": path.relative_to(folder).as_posix(),
            "formatting": "sharegpt",
            "columns": {"messages": "messages", "images": "images"},
            "tags": _TAGS,
        }
        for name, path in sorted(files.items())
    }
    (folder / "dataset_info.json").write_text(json.dumps(entries, indent=2) + "\n", "utf-8")

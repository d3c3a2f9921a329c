"""Rows for ms-swift: messages with `<image>` marks; for GRPO every further column reaches the reward.

The columns keep clear of the names that it rewrites (prompt, query, answer, solution and their like).
"""

from __future__ import annotations

from typing import Any

from interleave.data.export.image_slots import conversation
from interleave.data.export.images import Shelf
from interleave.data.export.rows import Row


def encode(row: Row, shelf: Shelf) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "id": row.id,
        "messages": conversation(row),
        "images": [shelf.path(exhibit) for exhibit in row.pictures],
    }
    if (baseline := row.baseline) is not None:
        columns |= {
            "planned_prompt": baseline.planned_prompt,
            "used_prompt": baseline.used_prompt,
            "sources": [shelf.path(exhibit) for exhibit in baseline.sources],
            "success": baseline.success,
            "semantics": baseline.semantics,
            "quality": baseline.quality,
        }
    return columns

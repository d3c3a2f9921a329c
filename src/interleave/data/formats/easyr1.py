"""Rows for EasyR1: `problem`, `images`, `answer`. It has one turn, and passes a reward the answer only.

So the system's words stand before the user's in `problem`, and what a reward needs is JSON in `answer`.
"""

from __future__ import annotations

import json
from typing import Any

from interleave.data.export.image_slots import conversation
from interleave.data.export.images import Shelf
from interleave.data.export.rows import Row
from interleave.errors import ConfigurationError


def encode(row: Row, shelf: Shelf) -> dict[str, Any]:
    if (baseline := row.baseline) is None:
        raise ConfigurationError("EasyR1 trains by reinforcement only: it takes no supervised rows")
    answer = {
        "id": row.id,
        "planned_prompt": baseline.planned_prompt,
        "used_prompt": baseline.used_prompt,
        "before": shelf.path(baseline.before),
        "sources": [shelf.path(exhibit) for exhibit in baseline.sources],
        "success": baseline.success,
        "semantics": baseline.semantics,
        "quality": baseline.quality,
    }
    return {
        "problem": "\n\n".join(message["content"] for message in conversation(row)),
        "images": [shelf.path(exhibit) for exhibit in row.pictures],
        "answer": json.dumps(answer, ensure_ascii=False),
    }

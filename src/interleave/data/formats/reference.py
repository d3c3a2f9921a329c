"""The `critic_rl.jsonl` of the reference's own trainer, which fills its own prompt from these fields.

It opens paths as they stand, so they are absolute. It knows text-to-image by the words
`data/interleave/white.png` in the path of the first picture, so a white canvas lies under just that name.
"""

from __future__ import annotations

from typing import Any

from interleave.data.export.images import FOLDER, Exhibit, Shelf
from interleave.data.export.rows import Row
from interleave.errors import ConfigurationError

WHITE = "data/interleave/white.png"


def encode(row: Row, shelf: Shelf) -> dict[str, Any]:
    if (baseline := row.baseline) is None:
        raise ConfigurationError("the reference's critic_rl.jsonl has no supervised rows")
    before = (
        shelf.path(baseline.before, absolute=True) if baseline.sources else _white(baseline.before, shelf)
    )
    return {
        "origin_prompt": baseline.planned_prompt,
        "rewritten_prompt": baseline.used_prompt,
        "origin_image_path": before,
        "edited_image_path": shelf.path(baseline.after, absolute=True),
        "evaluation": {
            "semantics": baseline.semantics,
            "quality": baseline.quality,
            "success": baseline.success,
        },
    }


def _white(canvas: Exhibit, shelf: Shelf) -> str:
    width, height = canvas.size
    place = f"{FOLDER}/{width}x{height}/{WHITE}"
    shelf.keep(canvas, place)
    return str(shelf.final / place)

"""Converts rows exported for verl to rows for TRL, so that a verl training can be checked before it runs.

verl marks images with `<image>` in the text and keeps the inputs of the reward in `reward_model` and
`extra_info`. In an export no other text contains that mark.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow

IMAGE_MARK = "<image>"
"""verl's mark of an image in a text."""
_TEXT = pyarrow.string()
_IMAGES = pyarrow.list_(pyarrow.struct([("bytes", pyarrow.binary()), ("path", _TEXT)]))
_PARTS = pyarrow.list_(pyarrow.struct([("type", _TEXT), ("text", _TEXT)]))
SCHEMA = pyarrow.schema(
    [
        ("id", _TEXT),
        ("prompt", pyarrow.list_(pyarrow.struct([("role", _TEXT), ("content", _PARTS)]))),
        ("images", _IMAGES),
        ("planned_prompt", _TEXT),
        ("used_prompt", _TEXT),
        ("sources", _IMAGES),
        ("success", pyarrow.bool_()),
        ("semantics", pyarrow.float64()),
        ("quality", pyarrow.float64()),
    ]
)


def is_for_verl(schema: pyarrow.Schema) -> bool:
    """Return whether these are rows for GRPO by verl."""
    return {"prompt", "images", "reward_model", "extra_info"} <= set(schema.names)


def as_trl_rows(table: pyarrow.Table) -> pyarrow.Table:
    """Return the same rows with the columns of an export for TRL."""
    batches = [
        pyarrow.RecordBatch.from_pylist([_row(each) for each in batch.to_pylist()], schema=SCHEMA)
        for batch in table.to_batches(max_chunksize=256)
    ]
    return pyarrow.Table.from_batches(batches, schema=SCHEMA)


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    extra, truth = row["extra_info"] or {}, (row["reward_model"] or {}).get("ground_truth") or {}
    return {
        "id": extra.get("id"),
        "prompt": [
            {"role": message["role"], "content": _parts(message["content"])} for message in row["prompt"]
        ],
        "images": [_image(each) for each in row["images"] or ()],
        "planned_prompt": extra.get("planned_prompt"),
        "used_prompt": extra.get("used_prompt"),
        "sources": [_image(each) for each in extra.get("sources") or ()],
        **{name: truth.get(name) for name in ("success", "semantics", "quality")},
    }


def _parts(content: str) -> list[dict[str, Any]]:
    parts: list[dict[str, Any]] = []
    for place, text in enumerate(content.split(IMAGE_MARK)):
        if place:
            parts.append({"type": "image", "text": None})
        if text:
            parts.append({"type": "text", "text": text})
    return parts


def _image(stored: Mapping[str, Any]) -> dict[str, Any]:
    return {"bytes": stored.get("bytes"), "path": stored.get("image") or stored.get("path")}

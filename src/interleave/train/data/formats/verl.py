"""verl: parquet with `<image>` marks; the reward reads its data from `reward_model` and `extra_info`.

An image is a record with either bytes or a path: verl rejects a record that has both.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any

from interleave import MissingDependency
from interleave.train.data.export.images import ImageForm, ImageRef, ImageWriter
from interleave.train.data.export.rows import CRITIC_RL, Kind, TrainingRow, conversation

if TYPE_CHECKING:
    import pyarrow

DATA_SOURCE = "interleave_critic"


def encode(row: TrainingRow, writer: ImageWriter) -> dict[str, Any]:
    messages = conversation(row)
    images = [_image(ref, writer) for ref in row.images]
    if (baseline := row.baseline) is None:
        return {"id": row.id, "messages": messages, "images": images}
    return {
        "data_source": DATA_SOURCE,
        "prompt": messages,
        "images": images,
        "ability": "critic",
        "reward_model": {
            "style": "rule",
            "ground_truth": {
                "success": baseline.success,
                "semantics": baseline.semantics,
                "quality": baseline.quality,
            },
        },
        "extra_info": {
            "split": row.split,
            "index": int.from_bytes(hashlib.sha256(row.id.encode()).digest()[:6], "big"),
            "id": row.id,
            "planned_prompt": baseline.planned_prompt,
            "used_prompt": baseline.used_prompt,
            "before": _image(baseline.before, writer),
            "sources": [_image(ref, writer) for ref in baseline.sources],
        },
    }


def _image(ref: ImageRef, writer: ImageWriter) -> dict[str, Any]:
    if writer.mode is ImageForm.REFERENCED:
        return {"image": writer.path(ref)}
    return {"bytes": ref.read()}


def schema(kind: Kind, form: ImageForm) -> pyarrow.Schema:
    try:
        import pyarrow as pa
    except ImportError:
        raise MissingDependency(
            "the export for verl needs the package 'pyarrow', which is not installed. "
            "Install it with: pip install 'interleavethinker[train]'"
        ) from None

    text = pa.string()
    image = pa.struct([("image", text)] if form is ImageForm.REFERENCED else [("bytes", pa.binary())])
    messages = pa.list_(pa.struct([("role", text), ("content", text)]))
    if kind != CRITIC_RL:
        return pa.schema([("id", text), ("messages", messages), ("images", pa.list_(image))])
    truth = pa.struct([("success", pa.bool_()), ("semantics", pa.float64()), ("quality", pa.float64())])
    extra = [
        ("split", text),
        ("index", pa.int64()),
        ("id", text),
        ("planned_prompt", text),
        ("used_prompt", text),
        ("before", image),
        ("sources", pa.list_(image)),
    ]
    return pa.schema(
        [
            ("data_source", text),
            ("prompt", messages),
            ("images", pa.list_(image)),
            ("ability", text),
            ("reward_model", pa.struct([("style", text), ("ground_truth", truth)])),
            ("extra_info", pa.struct(extra)),
        ]
    )

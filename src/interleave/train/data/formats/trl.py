"""TRL's SFT and GRPO trainers: parquet with typed parts and the Image feature of `datasets`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interleave import Message, MissingDependency, Text
from interleave.train.data.export.images import ImageForm, ImageWriter
from interleave.train.data.export.rows import CRITIC_RL, Kind, TrainingRow, escape_control_tokens

if TYPE_CHECKING:
    import pyarrow


def encode(row: TrainingRow, writer: ImageWriter) -> dict[str, Any]:
    """Encode the prompt, the completion or the columns of the reward, and the images in order."""
    columns: dict[str, Any] = {
        "id": row.id,
        "prompt": [_message(message) for message in row.prompt],
        "images": [writer.struct(ref) for ref in row.images],
    }
    if row.completion is not None:
        text = {"type": "text", "text": escape_control_tokens(row.completion)}
        columns["completion"] = [{"role": "assistant", "content": [text]}]
    if row.baseline is not None:
        columns |= row.baseline.columns(writer.struct)
    return columns


def _message(message: Message) -> dict[str, Any]:
    return {
        "role": message.role,
        "content": [
            {"type": "text", "text": escape_control_tokens(part.text)}
            if isinstance(part, Text)
            else {"type": "image", "text": None}
            for part in message.parts
        ],
    }


def schema(kind: Kind, form: ImageForm) -> pyarrow.Schema:
    """Return the columns, with the metadata by which `datasets` recognizes images."""
    try:
        from datasets import Features, Image, List, Value
    except ImportError:
        raise MissingDependency(
            "the export for TRL needs the package 'datasets', which is not installed. "
            "Install it with: pip install 'interleavethinker[train]'"
        ) from None

    messages = List(
        {
            "role": Value("string"),
            "content": List({"type": Value("string"), "text": Value("string")}),
        }
    )
    columns: dict[str, Any] = {"id": Value("string"), "prompt": messages}
    if kind == CRITIC_RL:
        columns |= {
            "images": List(Image()),
            "planned_prompt": Value("string"),
            "used_prompt": Value("string"),
            "sources": List(Image()),
            "success": Value("bool"),
            "semantics": Value("float64"),
            "quality": Value("float64"),
        }
    else:
        columns |= {"completion": messages, "images": List(Image())}
    return Features(columns).arrow_schema

"""JSON rows for LLaMA-Factory, ms-swift, EasyR1 and the reference's own trainer.

LLaMA-Factory: sharegpt messages with `<image>` marks and a `dataset_info.json`; no GRPO, so no RL rows.

ms-swift: messages with `<image>` marks; in GRPO every further column reaches the reward. The columns avoid
the names that it rewrites (prompt, query, answer, solution and the like).

EasyR1: `problem`, `images`, `answer`. It has one turn and passes only the answer to the reward, so the system
message precedes the user's in `problem`, and `answer` is JSON with everything a reward needs.

The reference: its `critic_rl.jsonl`, from which its trainer fills its own prompt. It opens paths unchanged,
so they are absolute. It recognizes text-to-image by `data/interleave/white.png` in the path of the first
image, so a white canvas has that name.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from interleave import ConfigurationError
from interleave.train.data.export.images import FOLDER, ImageRef, ImageWriter
from interleave.train.data.export.rows import TrainingRow, conversation

_TAGS = {
    "role_tag": "role",
    "content_tag": "content",
    "user_tag": "user",
    "assistant_tag": "assistant",
    "system_tag": "system",
}
WHITE = "data/interleave/white.png"


def encode_llamafactory(row: TrainingRow, writer: ImageWriter) -> dict[str, Any]:
    return {
        "messages": conversation(row),
        "images": [writer.path(ref) for ref in row.images],
    }


def write_dataset_info(folder: Path, files: Mapping[str, Path]) -> None:
    """Write one entry per file: `interleave_critic_sft`, `interleave_critic_sft_validation`, …"""
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


def encode_swift(row: TrainingRow, writer: ImageWriter) -> dict[str, Any]:
    columns: dict[str, Any] = {
        "id": row.id,
        "messages": conversation(row),
        "images": [writer.path(ref) for ref in row.images],
    }
    if row.baseline is not None:
        columns |= row.baseline.columns(writer.path)
    return columns


def encode_easyr1(row: TrainingRow, writer: ImageWriter) -> dict[str, Any]:
    if (baseline := row.baseline) is None:
        raise ConfigurationError("EasyR1 supports only reinforcement learning, not supervised rows")
    answer = {
        "id": row.id,
        "planned_prompt": baseline.planned_prompt,
        "used_prompt": baseline.used_prompt,
        "before": writer.path(baseline.before),
        "sources": [writer.path(ref) for ref in baseline.sources],
        "success": baseline.success,
        "semantics": baseline.semantics,
        "quality": baseline.quality,
    }
    return {
        "problem": "\n\n".join(message["content"] for message in conversation(row)),
        "images": [writer.path(ref) for ref in row.images],
        "answer": json.dumps(answer, ensure_ascii=False),
    }


def encode_reference(row: TrainingRow, writer: ImageWriter) -> dict[str, Any]:
    if (baseline := row.baseline) is None:
        raise ConfigurationError("the reference's critic_rl.jsonl has no supervised rows")
    before = (
        writer.path(baseline.before, absolute=True)
        if baseline.sources
        else _white_canvas(baseline.before, writer)
    )
    return {
        "origin_prompt": baseline.planned_prompt,
        "rewritten_prompt": baseline.used_prompt,
        "origin_image_path": before,
        "edited_image_path": writer.path(baseline.after, absolute=True),
        "evaluation": {
            "semantics": baseline.semantics,
            "quality": baseline.quality,
            "success": baseline.success,
        },
    }


def _white_canvas(canvas: ImageRef, writer: ImageWriter) -> str:
    width, height = canvas.size
    place = f"{FOLDER}/{width}x{height}/{WHITE}"
    writer.store(canvas, place)
    return str(writer.destination / place)

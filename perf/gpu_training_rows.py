"""Writes full-size critic rows for SFT and GRPO: two images, the unchanged prompt, a long answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
from gpu_bench import PROMPT, Bench
from random_models import refusals, said_with

from interleave.agents.critic import critic_input, critic_messages
from interleave.agents.prompts import load_pack
from interleave.images import encode_png
from interleave.types import ImagePart

KINDS = 256
"""Number of answers that differ in one word."""
DIFFERENT_IMAGES = 16


def write_critic_rows(
    bench: Bench, folder: Path, count: int, answers: int = KINDS, wrong: int | None = None
) -> None:
    """Write `critic_sft.parquet` and `critic_rl.parquet`, of which the first `wrong` images are wrong."""
    drawn = [bench.image(number) for number in range(DIFFERENT_IMAGES)]
    stored = {id(image): {"bytes": encode_png(image), "path": None} for image in drawn}
    pieces = refusals(bench.tokens, KINDS)
    sft, rl = [], []
    for number in range(count):
        before, after = (drawn[(number + shift) % DIFFERENT_IMAGES] for shift in (0, 5))
        seen = critic_input(f"{PROMPT} ({number})", PROMPT, (before,), after)
        prompt = [
            {
                "role": message.role,
                "content": [
                    {"type": "image", "text": None}
                    if isinstance(part, ImagePart)
                    else {"type": "text", "text": part.text}
                    for part in message.parts
                ],
            }
            for message in critic_messages(seen, load_pack("default"))
        ]
        images = [stored[id(before)], stored[id(after)]]
        said = said_with(pieces, number % answers)
        completion = [{"role": "assistant", "content": [{"type": "text", "text": said}]}]
        sft.append({"id": f"row/{number}", "prompt": prompt, "completion": completion, "images": images})
        rl.append(
            {
                "id": f"row/{number}",
                "prompt": prompt,
                "images": images,
                "planned_prompt": seen.planned_prompt,
                "used_prompt": seen.prompt,
                "sources": [stored[id(before)]],
                "success": wrong is not None and number >= wrong,
                "semantics": 5.0,
                "quality": 5.0,
            }
        )
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("critic_sft", sft), ("critic_rl", rl)):
        _write(folder / f"{name}.parquet", rows)


def _write(path: Path, rows: list[dict[str, Any]]) -> None:
    image = pyarrow.struct([("bytes", pyarrow.binary()), ("path", pyarrow.string())])
    part = pyarrow.struct([("type", pyarrow.string()), ("text", pyarrow.string())])
    message = pyarrow.struct([("role", pyarrow.string()), ("content", pyarrow.list_(part))])
    kinds = {
        **dict.fromkeys(("id", "planned_prompt", "used_prompt"), pyarrow.string()),
        **dict.fromkeys(("prompt", "completion"), pyarrow.list_(message)),
        **dict.fromkeys(("images", "sources"), pyarrow.list_(image)),
        **dict.fromkeys(("semantics", "quality"), pyarrow.float64()),
        "success": pyarrow.bool_(),
    }
    schema = pyarrow.schema([(name, kinds[name]) for name in rows[0]])
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(rows, schema=schema), path)

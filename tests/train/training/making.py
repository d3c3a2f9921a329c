"""Small real rows in the schema of an export, made from the miniature's own tasks."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from PIL import Image

from interleave.agents.critic import critic_input, critic_messages
from interleave.agents.planner import planner_messages
from interleave.agents.prompts import PromptPack, load_pack
from interleave.agents.replies import render_plan, render_verdict
from interleave.backends.protocols import Message
from interleave.images import encode_png
from interleave.types import ImagePart, Request, Text
from interleave_mini.oracle import judge_attempt, score_attempt
from interleave_mini.world.drawing import draw
from interleave_mini.world.mistakes import with_mistake
from miniature.grammar.tasks import sample_task

SHORT = PromptPack(
    load_pack().description,
    {
        **load_pack().texts,
        "critic": "{{before}}{{after}}{{planned_prompt}} | {{prompt}}",
        "planner_text": "plan: {{request}}",
    },
)
"""A pack of a few words: toy models read slowly."""


def stored(image: Image.Image) -> dict[str, Any]:
    return {"bytes": encode_png(image), "path": None}


def parts_of(messages: Sequence[Message]) -> tuple[list[dict[str, Any]], list[Image.Image]]:
    """Messages and their images as an export writes them."""
    rows = [
        {
            "role": message.role,
            "content": [
                {"type": "image"} if isinstance(part, ImagePart) else {"type": "text", "text": part.text}
                for part in message.parts
            ],
        }
        for message in messages
    ]
    images = [part.image for message in messages for part in message.parts if isinstance(part, ImagePart)]
    return rows, images


def answer(text: str) -> list[dict[str, Any]]:
    return [{"role": "assistant", "content": [{"type": "text", "text": text}]}]


def attempts(count: int, *, seed: int = 0, side: int = 256) -> list[dict[str, Any]]:
    """Attempts of the first step of stories, every other one spoiled, judged and scored by the oracle."""
    rng, made = Random(seed), []
    while len(made) < count:
        task = sample_task("story", rng)
        step = task.plan().steps[0]
        scene = task.steps[0].scene
        right = len(made) % 2 == 0
        after = draw(scene if right else with_mistake(scene, rng))
        seen = critic_input(step.prompt or "", step.prompt or "", (), after)
        verdict = judge_attempt(seen)
        if verdict.accepted is not right:
            continue  # a spoiled scene may read as right
        made.append({"seen": seen, "verdict": verdict, "scores": score_attempt(seen), "side": side})
    return made


def critic_sft_rows(count: int, *, pack: PromptPack = SHORT, side: int = 256) -> list[dict[str, Any]]:
    rows = []
    for index, attempt in enumerate(attempts(count)):
        prompt, images = parts_of(critic_messages(attempt["seen"], pack))
        rows.append(
            {
                "id": f"critic/{index}",
                "prompt": prompt,
                "completion": answer(render_verdict(attempt["verdict"])),
                "images": [stored(image.resize((side, side))) for image in images],
            }
        )
    return rows


def planner_sft_rows(count: int, *, pack: PromptPack = SHORT) -> list[dict[str, Any]]:
    rng, rows = Random(1), []
    for index in range(count):
        task = sample_task("story", rng)
        prompt, images = parts_of(planner_messages(Request((Text(task.text),)), pack))
        rows.append(
            {
                "id": f"planner/{index}",
                "prompt": prompt,
                "completion": answer(render_plan(task.plan())),
                "images": [stored(image) for image in images],
            }
        )
    return rows


def critic_rl_rows(count: int, *, pack: PromptPack = SHORT, side: int = 256) -> list[dict[str, Any]]:
    rows = []
    for index, attempt in enumerate(attempts(count)):
        seen, scores = attempt["seen"], attempt["scores"]
        prompt, images = parts_of(critic_messages(seen, pack))
        rows.append(
            {
                "id": f"rl/{index}",
                "prompt": prompt,
                "images": [stored(image.resize((side, side))) for image in images],
                "planned_prompt": seen.planned_prompt,
                "used_prompt": seen.prompt,
                "sources": [],
                "success": attempt["verdict"].accepted,
                "semantics": scores.semantics,
                "quality": scores.quality,
            }
        )
    return rows


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    """Write rows as an export does."""
    import pyarrow as pa
    import pyarrow.parquet

    image = pa.struct([("bytes", pa.binary()), ("path", pa.string())])
    part = pa.struct([("type", pa.string()), ("text", pa.string())])
    message = pa.struct([("role", pa.string()), ("content", pa.list_(part))])
    kinds = {
        "id": pa.string(),
        "prompt": pa.list_(message),
        "completion": pa.list_(message),
        "images": pa.list_(image),
        "sources": pa.list_(image),
        "planned_prompt": pa.string(),
        "used_prompt": pa.string(),
        "success": pa.bool_(),
        "semantics": pa.float64(),
        "quality": pa.float64(),
    }
    schema = pa.schema([(name, kinds[name]) for name in rows[0]])
    path.parent.mkdir(parents=True, exist_ok=True)
    pyarrow.parquet.write_table(pa.Table.from_pylist(rows, schema=schema), path)
    return path

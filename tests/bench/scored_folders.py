"""Judged folders made without a run or a judge: outputs, records and numbers of UEval as they come out."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from interleave.bench.base import JudgeRecord
from interleave.bench.benchmarks.ueval import UEval
from interleave.bench.judge import NO_OUTPUT, Judged
from interleave.bench.outputs import Output, OutputPart, write_outputs
from interleave.bench.prompts import JudgePrompts, reworded_prompts
from interleave.bench.scoring import Missing
from interleave.bench.stages import Scored, Workspace, open_workspace

TASKS = ("space", "textbook", "diagram", "paper", "art", "life", "tech", "exercise")
Says = Callable[[int, str], Any]
"""The verdict about an item (by number) and a key: a value, or a status in a text."""


@dataclass(frozen=True)
class Made:
    """A folder with its numbers."""

    workspace: Workspace
    judged: Judged
    scored: Scored


def write_data(folder: Path, count: int, *, prompt: str = "How is a kite built, in {} steps?") -> Path:
    rows = [
        {
            "id": f"item {number}" if number == 1 else str(number),
            "task": TASKS[number % len(TASKS)],
            "prompt": prompt.format(number + 2),
            "image_rubrics": ["The frame is a cross of two sticks", "The tail has at least three bows"],
            "text_rubrics": ["It names the paper and the string", "It says how the tail is tied"],
        }
        for number in range(count)
    ]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "test.json").write_text(json.dumps(rows))
    return folder


def draw(path: Path, number: int, size: int = 256) -> None:
    image = Image.new("RGB", (size, size * 3 // 4 if number % 3 else size), (235, 240, 230))
    pen = ImageDraw.Draw(image)
    across, down = image.size
    colour = ((number * 67) % 200, (number * 31) % 200, (number * 97) % 200)
    shape = ((0.5, 0.05), (0.85, 0.4), (0.5, 0.8), (0.15, 0.4))
    middle = [(across * x, down * y) for x, y in shape]
    pen.polygon(middle, fill=colour, outline=(20, 20, 20))
    pen.line([middle[0], middle[2]], fill=(20, 20, 20), width=3)
    pen.line([middle[1], middle[3]], fill=(20, 20, 20), width=3)
    path.parent.mkdir(parents=True, exist_ok=True)
    image.save(path)


def make(
    folder: Path,
    data: Path,
    says: Says,
    *,
    judge: str = "openai:judge",
    prompts: JudgePrompts | None = None,
    missing: Missing = "zero",
    system: str = "full",
    without: Sequence[int] = (),
    text: str = "Step {}: cut two sticks, tie them into a cross and pull the string around the ends.",
    steps: int = 2,
    size: int = 16,
    items: int | None = None,
) -> Made:
    """A judged folder; items of `without` have no output."""
    workspace = open_workspace(UEval(), folder, data, items)
    workspace.describe(system, {"generator": "solid"})
    outputs = {}
    for number, item in enumerate(workspace.dataset.items):
        if number in without:
            continue
        parts: list[OutputPart] = []
        for step in range(steps):
            name = f"images/{number}-{step}.png"
            draw(folder / name, number * 5 + step, size)
            parts += [OutputPart(text=text.format(step + 1)), OutputPart(image=name)]
        outputs[item.id] = Output(item=item.id, parts=tuple(parts))
    write_outputs(folder / "outputs" / "attempts-3.jsonl", outputs.values())
    judged = workspace.judged("attempts-3", judge, prompts or reworded_prompts("ueval"))
    judged.path.parent.mkdir(parents=True, exist_ok=True)
    with judged.path.open("w") as file:
        for number, item in enumerate(workspace.dataset.items):
            for key in judged.keys(item):
                record = _record(judged, item.id, key, judged.digest(item), says(number, key))
                file.write(record.model_dump_json() + "\n")
    return Made(workspace, judged, workspace.score("attempts-3", judged, missing))


def _record(judged: Judged, item: str, key: str, digest: str, said: Any) -> JudgeRecord:
    base = JudgeRecord(
        item=item,
        key=key,
        output=digest,
        status="ok",
        tries=1,
        cost=0.01,
        judge=judged.judge,
        prompts=judged.prompts.identity,
    )
    if digest == NO_OUTPUT:
        return base.model_copy(update={"status": "missing_output", "reason": "no output", "tries": 0})
    if isinstance(said, str):
        return base.model_copy(
            update={"status": said, "reason": "not to be read", "reply": "I think <b>so</b>"}
        )
    reason = "Two sticks cross in the middle of every image." if said else "No bow can be seen on the tail."
    return base.model_copy(
        update={"value": said, "reply": json.dumps({"criteria_met": said, "reason": reason})}
    )

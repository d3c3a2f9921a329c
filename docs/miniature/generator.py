"""Makes the table, the curves and the sample sheet of the generator in docs/explanation/miniature-results.md.

The log and the evaluation are those of the shipped weights; the sample sheet is drawn again.
Run with: python docs/miniature/generator.py
"""

from __future__ import annotations

import asyncio
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from chart import Series, chart
from PIL import Image

from interleave.backends.protocols import ImageRequest
from interleave.backends.registry import load_generator
from interleave_mini.bench.random_scenes import random_operations, random_scene
from interleave_mini.language.prompts import edit_prompt, scene_prompt
from interleave_mini.world.drawing import draw

FOLDER = Path(__file__).parent
LOG, EVALUATION = FOLDER / "generator-log.jsonl", FOLDER / "generator-evaluation.json"
OPERATIONS = {
    "add": "add a thing",
    "remove": "remove",
    "recolour": "paint",
    "resize": "make larger, smaller",
    "changestate": "change the state",
    "replace": "replace",
    "move": "move",
    "swap": "let two change places",
    "changebackground": "change the background",
    "pick": "the gripper picks up",
    "place": "the gripper puts down",
    "all": "**all**",
}
INKS = {"text": "#2b5c8a", "edit": "#a2442f", "short": "#c8811a", "exact": "#2f6b46"}


def table() -> str:
    """Return the evaluation at the end of training as a table."""
    found = json.loads(EVALUATION.read_text("utf-8"))
    rows = ["| from text | right | | edits | short prompt | exact prompt |", "|---|---:|---|---|---:|---:|"]
    texts = [(f"{n} thing{'s' * (n > 1)}", f"text, {n} things") for n in range(1, 7)]
    texts.append(("a kind in a colour never trained", "text, unseen pair"))
    texts.append(("**edits of edits**, all right after", ""))
    texts += [(f"{n} edit{'s' * (n > 1)}", f"chain of {n}, all right") for n in (1, 3, 5, 10)]
    for (label, key), (operation, said) in zip(texts, OPERATIONS.items(), strict=True):
        share = _share(found[key]) if key else ""
        short, exact = (_share(found[f"edit, {operation}, {manner}"]) for manner in ("short", "exact"))
        rows.append(f"| {label} | {share} | | {said} | {short} | {exact} |")
    rows.append(f"| | | | short, shown an earlier image too | {_share(found['edit, two pictures'])} | |")
    return "\n".join(rows)


def _share(estimate: dict[str, float]) -> str:
    mean, low, high = (100 * estimate[key] for key in ("mean", "low", "high"))
    return f"{mean:.1f} ({low:.1f}–{high:.1f})"


def curves() -> str:
    """Plot loss and shares of right images over the minutes of the flow's training, as SVG."""
    lines = [json.loads(line) for line in LOG.read_text("utf-8").splitlines()]
    flow = [line for line in lines if line["stage"] == "flow" and "text" in line and "edit" in line]
    glances = [line for line in lines if line["stage"] == "glance"]

    def over(found: Sequence[dict[str, float]], name: str) -> list[tuple[float, float]]:
        return [(line["seconds"] / 60, line[name]) for line in found]

    series = (
        Series("loss, from text", over(flow, "text"), INKS["text"], 1.5),
        Series("loss, edits", over(flow, "edit"), INKS["edit"], 1.5),
        Series("right: three things from text", over(glances, "text"), INKS["text"], 2.5, dashed=True),
        Series("right: edits, short prompt", over(glances, "short"), INKS["short"], 2.5, dashed=True),
        Series("right: edits, exact prompt", over(glances, "exact"), INKS["exact"], 2.5, dashed=True),
    )
    return chart(series, across="minutes", every=3)


def samples() -> Image.Image:
    """Draw eight scenes, below them the same from text, and edited by a short prompt, without selection."""
    generator = load_generator("mini")
    rng = Random("samples")
    scenes = [random_scene(rng, 1 + number % 5) for number in range(8)]
    sheet = Image.new("RGB", (8 * 260 - 4, 3 * 260 - 4), "white")
    for column, scene in enumerate(scenes):
        operations = random_operations(scene, rng) or ()
        drawn = _draw(generator, scene_prompt(scene), ())
        edited = _draw(generator, edit_prompt(operations, scene), (drawn,))
        for row, image in enumerate((draw(scene), drawn, edited)):
            sheet.paste(image, (column * 260, row * 260))
        print(f"{column + 1}. {scene_prompt(scene)} → {edit_prompt(operations, scene)}")
    return sheet


def _draw(generator: Any, prompt: str, sources: tuple[Image.Image, ...]) -> Image.Image:
    image: Image.Image = asyncio.run(generator.generate(ImageRequest(prompt, 1, sources)))
    return image


def main() -> int:
    page = FOLDER.parent / "explanation" / "miniature-results.md"
    begin, end = "<!-- made by miniature/generator.py -->\n", "<!-- end -->"
    inside = re.compile(f"({re.escape(begin)}).*?({re.escape(end)})", re.DOTALL)
    page.write_text(
        inside.sub(lambda found: f"{found[1]}{table()}\n{found[2]}", page.read_text("utf-8")), "utf-8"
    )
    (FOLDER / "generator-curves.svg").write_text(curves(), "utf-8")
    samples().save(FOLDER / "generator-samples.webp", quality=90, method=6)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""ImgEdit-Bench (Basic): 737 edits of nine types, each with three scores from 1 to 5.

The judge is told that the second and third score must not exceed the first, and often breaks the rule;
upstream's scripts do not check. `overall` follows them, `overall_capped` enforces the rule. Upstream prints
the nine types and no overall: papers report the mean of the nine, some the mean over items.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from interleave import ImagePart, InputError, Message, Text, read_image
from interleave.bench.base import (
    Answers,
    Benchmark,
    Context,
    Dataset,
    Item,
    Judge,
    JudgeRecord,
    Question,
    Unparsed,
)
from interleave.bench.benchmarks.image_files import edited_image, export_edits, import_edits
from interleave.bench.datasets import digest_of, field, read_object
from interleave.bench.judge import NO_OUTPUT
from interleave.bench.numbers import Number, group_mean, item_mean
from interleave.bench.outputs import Output
from interleave.bench.parsing import without_thoughts
from interleave.bench.prompts import Constant

LABELS = {
    "add": ("Prompt Compliance", "Visual Naturalness", "Physical & Detail Coherence"),
    "adjust": ("Prompt Compliance", "Visual Seamlessness", "Physical & Detail Fidelity"),
    "extract": ("Object Identity", "Mask Precision", "Visual Quality"),
    "replace": ("Prompt Compliance", "Visual Naturalness", "Physical & Detail Integrity"),
    "remove": ("Prompt Compliance", "Visual Naturalness", "Physical & Detail Integrity"),
    "background": ("Instruction Compliance", "Visual Seamlessness", "Physical Consistency"),
    "style": ("Style Fidelity", "Content Preservation", "Rendering Quality"),
    "compose": ("Instruction Compliance", "Visual Naturalness", "Physical Consistency & Fine Detail"),
    "action": ("Action Fidelity", "Identity Preservation", "Visual & Anatomical Coherence"),
}
"""The nine types, and the names of their three scores."""
COUNTS = {
    "add": 95,
    "adjust": 94,
    "extract": 117,
    "replace": 92,
    "remove": 86,
    "background": 94,
    "style": 100,
    "compose": 23,
    "action": 36,
}
PLACES = {
    kind: Constant("Benchmark/Basic/prompts.json", kind, {"<edit_prompt>": "instruction"}) for kind in LABELS
}
LISTS = ("basic_edit.json", "singleturn.json")
"""The list of items, by its names in the repository and in the image archive."""
SCORES = "scores"
REASONING = "brief reasoning"
_LINE = re.compile(
    r"^[\s\d.)*_#-]*([A-Za-z][A-Za-z&,/ -]{2,60}?)[\s*_]*:[\s*_]*([0-9])[\s*_.]*(?:/\s*5[\s*_.]*)?$"
)


class ImgEdit(Benchmark):
    """One question per edit."""

    name = "imgedit"
    title = "ImgEdit-Bench (Basic)"
    licence = "none given"
    judge = Judge("gpt-4o", "openai:gpt-4o")
    full_marks = 5.0
    official_prompts = PLACES
    about = (
        "overall is the mean of nine edit types, 1 to 5, item_avg the mean over items: upstream's script "
        "prints no total, published ones are either; the paper's judge is GPT-4.1, the script's GPT-4o"
    )

    def read(self, folder: Path) -> Dataset:
        lists = [path for name in LISTS for path in sorted(folder.rglob(name))]
        path = folder if folder.is_file() else next(iter(lists), None)
        if path is None:
            raise InputError(
                f"{folder} has no {LISTS[0]}: give a folder with it and the images of Benchmark.tar"
            )
        rows = read_object(path)
        if not rows:
            raise InputError(f"{path} has no items")
        items = [_item(key, row, f"{path}: {key!r}") for key, row in rows.items()]
        root = _root(folder if folder.is_dir() else path.parent, [item.facts["file"] for item in items])
        placed = tuple(_placed(item, root) for item in items)
        there = {kind: sum(item.group == kind for item in items) for kind in LABELS}
        notes = [f"{len(items):,} items of {sum(count > 0 for count in there.values())} types"]
        if there != COUNTS:
            notes.append(f"the whole benchmark has {sum(COUNTS.values())} items of {len(COUNTS)} types")
        if missing := sum(not item.facts["source"].is_file() for item in placed):
            notes.append(f"{missing:,} source images are not below {folder}")
        return Dataset(placed, digest_of([path]), str(folder), tuple(notes))

    def keys(self, item: Item, output: Output | None) -> Sequence[str]:
        return (SCORES,)

    def question(self, key: str, item: Item, output: Output | None, context: Context) -> Question:
        asked = context.prompts.fill(item.group, instruction=item.facts["instruction"])
        images = [read_image(item.facts["source"]), edited_image(output, context.folder)]
        message = Message("user", (Text(asked), *map(ImagePart, images)))
        return Question((message,), lambda reply: read_three(reply, LABELS[item.group]))

    def worst(self, key: str) -> Any:
        return [1, 1, 1]

    def measures(self, item: Item, answers: Answers) -> Mapping[str, float | None]:
        scores = answers[SCORES]
        if not scores:
            return {"score": None, "capped": None, "rule_kept": None}
        first = scores[0]
        return {
            "score": round(sum(scores) / len(scores), 2),
            "capped": sum(min(first, score) for score in scores) / len(scores),
            "rule_kept": float(all(score <= first for score in scores)),
        }

    def numbers(self) -> Sequence[Number]:
        return [
            group_mean("overall", "score", most=self.full_marks),
            item_mean("item_avg", "score", most=self.full_marks),
            group_mean("overall_capped", "capped", most=self.full_marks),
            item_mean("rule_kept", "rule_kept", scale=100, digits=1),
        ]

    def export(self, dataset: Dataset, outputs: Mapping[str, Output], base: Path, folder: Path) -> None:
        export_edits(dataset, outputs, base, lambda item: folder / f"{item.id}.png")

    def import_outputs(self, dataset: Dataset, folder: Path) -> Iterator[Output]:
        return import_edits(dataset, lambda item: [folder / f"{item.id}.png"])

    def import_judgements(self, dataset: Dataset, path: Path) -> Iterator[JudgeRecord]:
        """Read upstream's `result.json`: the judge's replies by item."""
        stored = read_object(path if path.is_file() else path / "result.json")
        for item in dataset.items:
            if item.id in stored:
                yield _imported(item, stored[item.id])


def read_three(reply: str, labels: Sequence[str]) -> list[float]:
    """Return the three scores of a reply, one per line. Raises `Unparsed` for more, fewer or others.

    Scores are ordered by their labels, or by line if the judge uses other labels.
    """
    found: dict[str, int] = {}
    for line in without_thoughts(reply).splitlines():
        match = _LINE.match(line[:200])
        if match is None:
            continue
        label, score = match[1].strip().lower(), int(match[2])
        if label == REASONING:
            continue
        if found.get(label, score) != score:
            raise Unparsed(f"the reply has two scores for {match[1].strip()!r}")
        found[label] = score
    if len(found) != 3:
        raise Unparsed(f"the reply has {len(found)} lines with a score, not 3")
    for label, score in found.items():
        if not 1 <= score <= 5:
            raise Unparsed(f"{label!r} is {score}, not between 1 and 5")
    named = [label.lower() for label in labels]
    order = named if set(named) == set(found) else list(found)
    return [float(found[label]) for label in order]


def official_scores(reply: str) -> list[float]:
    """Return what upstream's script parses: every line with one colon, a space and digits."""
    found = []
    for line in reply.splitlines():
        parts = line.strip().split(": ")
        if len(parts) == 2 and parts[1].isdigit():
            found.append(float(parts[1]))
    return found


def _imported(item: Item, reply: Any) -> JudgeRecord:
    record = JudgeRecord(item=item.id, key=SCORES, output=NO_OUTPUT, status="ok", judge="imported", tries=1)
    if not isinstance(reply, str):
        reason = str(reply.get("error", reply)) if isinstance(reply, dict) else str(reply)
        return record.model_copy(update={"status": "api_error", "reason": reason})
    scores = official_scores(reply)
    if not scores:
        update = {"status": "unparsed", "reply": reply, "reason": "no line has a score"}
        return record.model_copy(update=update)
    return record.model_copy(update={"value": scores, "reply": reply})


def _item(key: str, row: Any, where: str) -> Item:
    if not isinstance(row, Mapping):
        raise InputError(f"{where} is not an object")
    kind = field(row, "edit_type", str, where)
    if kind not in LABELS:
        raise InputError(f"{where}: ImgEdit-Bench has no type {kind!r}")
    instruction = field(row, "prompt", str, where)
    return Item(key, kind, (instruction,), {"instruction": instruction, "file": field(row, "id", str, where)})


def _root(folder: Path, files: Sequence[str]) -> Path:
    """Return the folder that image names are relative to."""
    if files:
        wanted = Path(files[0])
        for path in sorted(folder.rglob(wanted.name)):
            if path.parts[-len(wanted.parts) :] == wanted.parts:
                return path.parents[len(wanted.parts) - 1]
    return folder


def _placed(item: Item, root: Path) -> Item:
    source = root / item.facts["file"]
    return Item(item.id, item.group, (*item.parts, source), {**item.facts, "source": source})

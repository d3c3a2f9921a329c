"""UEval: 1,000 prompts in eight tasks that need text and images, judged criterion by criterion.

The leaderboard's average is the mean of the eight tasks (`macro_avg`). The official script prints the mean of
the text rate and the image rate over all items (`item_avg`). They differ by up to two points: never mix them.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from interleave import ImagePart, InputError, Message, Text
from interleave.bench.base import (
    Answers,
    Benchmark,
    Context,
    Dataset,
    Item,
    Judge,
    JudgeRecord,
    MissingOutput,
    Policy,
    Question,
    Status,
    Unparsed,
)
from interleave.bench.datasets import HubData, digest_of, field, read_object, read_rows, rows_of
from interleave.bench.numbers import Number, Table, item_mean, mean_of
from interleave.bench.outputs import Output, OutputPart
from interleave.bench.parsing import field_of, json_object, truth_of
from interleave.bench.prompts import Constant
from interleave.plugin import write_atomic

CLOSED = ("space", "textbook", "diagram", "paper")
OPEN = ("art", "life", "tech", "exercise")
ANSWER_HINT = " both visually and textually"
"""A phrase in many prompts about how to answer, not what; the paper leaves it out."""
GAPS = {"<<question>>": "question", "<<text_answer>>": "answer", "<<rubric_item>>": "criterion"}
PLACES = {
    ours: Constant("ueval_eval.py", theirs, GAPS)
    for ours, theirs in (
        ("system", "SYSTEM_INSTRUCTION"),
        ("text", "TEXT_TEMPLATE"),
        ("text_criterion", "TEXT_RUBRIC_TEMPLATE"),
        ("image_open", "IMAGE_TEMPLATE_OPEN"),
        ("image_closed", "IMAGE_TEMPLATE_CLOSED"),
        ("image_criterion", "IMAGE_RUBRIC_TEMPLATE"),
    )
}


class UEval(Benchmark):
    """One question per criterion."""

    name = "ueval"
    title = "UEval"
    licence = "MIT"
    judge = Judge("gemini-2.5-pro", "gemini:gemini-2.5-pro")
    official_prompts = PLACES
    hub = HubData("zlab-princeton/UEval", files=("*.parquet", "data/*.parquet", "*.json*"))
    about = "macro_avg is the leaderboard's mean of eight tasks; item_avg is what the official script prints"

    def read(self, folder: Path) -> Dataset:
        columns = ("id", "task", "task_type", "prompt", "image_rubrics", "text_rubrics")
        items = tuple(
            _item(row, number) for number, row in enumerate(rows_of(folder, columns=columns), start=1)
        )
        unknown = sorted({item.group for item in items} - {*CLOSED, *OPEN})
        if unknown:
            raise InputError(f"{folder}: unknown task {unknown[0]!r}")
        criteria = sum(len(item.facts["text"]) + len(item.facts["image"]) for item in items)
        notes = [f"{len(items):,} items, {criteria:,} criteria"]
        if len(items) != 1000:
            notes.append("the whole benchmark has 1,000 items")
        return Dataset(items, _revision(folder), str(folder), tuple(notes))

    def keys(self, item: Item, output: Output | None) -> Sequence[str]:
        return [f"{kind}/{number}" for kind in ("text", "image") for number in range(len(item.facts[kind]))]

    def question(self, key: str, item: Item, output: Output | None, context: Context) -> Question:
        if output is None:
            raise MissingOutput("no output")
        kind, number = key.split("/")
        template = "text" if kind == "text" else "image_closed" if item.group in CLOSED else "image_open"
        gaps = {
            "question": item.facts["question"],
            "answer": "\n".join(output.texts),
            "criterion": item.facts[kind][int(number)],
        }
        asked = "\n\n".join(context.prompts.fill(name, **gaps) for name in (template, f"{kind}_criterion"))
        images = output.load_images(context.folder) if kind == "image" else []
        return Question(
            (
                Message("system", (Text(context.prompts.templates["system"]),)),
                Message("user", (*map(ImagePart, images), Text(asked))),  # images first, as upstream
            ),
            lambda reply: truth_of(field_of(json_object(reply), "criteria_met")),
        )

    def criterion(self, key: str, item: Item) -> str:
        kind, number = key.split("/")
        return f"{kind}: {item.facts[kind][int(number)]}"

    def worst(self, key: str) -> Any:
        return False

    def official(self, measure: str, key: str, status: Status) -> Policy:
        return "zero" if status in ("missing_output", "refused") else "stop"

    def measures(self, item: Item, answers: Answers) -> Mapping[str, float | None]:
        return {kind: _rate(answers, kind, len(item.facts[kind])) for kind in ("text", "image")}

    def numbers(self) -> Sequence[Number]:
        text = item_mean("text_avg_rate", "text", scale=100, digits=1)
        image = item_mean("image_avg_rate", "image", scale=100, digits=1)
        macro = Number("macro_avg", _macro, 100, 1, ("text", "image"))
        return [macro, mean_of("item_avg", text, image), text, image]

    def export(self, dataset: Dataset, outputs: Mapping[str, Output], base: Path, folder: Path) -> None:
        rows = [
            {
                "id": item.id,
                "text_answer": "\n".join(output.texts),
                "image_answer": [os.path.relpath(base / name, folder) for name in output.images],
            }
            for item in dataset.items
            if (output := outputs.get(item.id)) is not None
        ]
        folder.mkdir(parents=True, exist_ok=True)
        write_atomic(folder / "outputs.json", json.dumps(rows, ensure_ascii=False, indent=1).encode())

    def import_outputs(self, dataset: Dataset, folder: Path) -> Iterator[Output]:
        path = folder if folder.is_file() else folder / "outputs.json"
        known = {item.id for item in dataset.items}
        for number, row in enumerate(read_rows(path), start=1):
            identity = str(row.get("id"))
            if identity not in known:
                raise InputError(f"{path}: row {number} answers an unknown item {identity!r}")
            text = field(row, "text_answer", str, f"{path}: row {number}")
            images = field(row, "image_answer", list, f"{path}: row {number}")
            parts = [OutputPart(text=text)] if text else []
            parts += [OutputPart(image=str((path.parent / str(name)).resolve())) for name in images]
            yield Output(item=identity, parts=tuple(parts))

    def import_judgements(self, dataset: Dataset, path: Path) -> Iterator[JudgeRecord]:
        """Read the result file of upstream's script."""
        known = {item.id: item for item in dataset.items}
        for row in field(read_object(path), "items", list, str(path)):
            item = known.get(str(row.get("id"))) if isinstance(row, dict) else None
            if item is None:
                raise InputError(f"{path} has judgements of an unknown item {row!r:.60}")
            for kind in ("text", "image"):
                results = field(row, f"{kind}_results", list, f"{path}: item {item.id}")
                if len(results) > len(item.facts[kind]):
                    raise InputError(f"{path}: item {item.id} has more {kind} results than criteria")
                for number, result in enumerate(results):
                    yield _judgement(item.id, f"{kind}/{number}", result)


def _judgement(item: str, key: str, result: Any) -> JudgeRecord:
    found = result if isinstance(result, dict) else {}
    record = JudgeRecord(item=item, key=key, output="", status="ok", reply=json.dumps(found))
    try:
        return record.model_copy(update={"value": truth_of(field_of(found, "criteria_met"))})
    except Unparsed as error:
        return record.model_copy(update={"status": "unparsed", "reason": str(error)})


def _item(row: Mapping[str, Any], number: int) -> Item:
    where = f"row {number}"
    prompt = field(row, "prompt", str, where)
    task = row.get("task") or row.get("task_type")
    if not isinstance(task, str):
        raise InputError(f"{where}: 'task' is {task!r:.60}, which is not valid here")
    return Item(
        str(row.get("id")),
        task.lower(),
        (prompt.replace(ANSWER_HINT, ""),),
        {
            "question": prompt,
            "text": _criteria(row, "text_rubrics", where),
            "image": _criteria(row, "image_rubrics", where),
        },
    )


def _criteria(row: Mapping[str, Any], name: str, where: str) -> tuple[str, ...]:
    """Return the criteria. Older mirrors have an object for each."""
    found = []
    for each in row.get(name) or ():
        text = each.get("criterion") if isinstance(each, dict) else each
        if not isinstance(text, str):
            raise InputError(f"{where}: a criterion of {name!r} is {each!r:.60}")
        found.append(text)
    return tuple(found)


def _revision(folder: Path) -> str:
    files = [folder] if folder.is_file() else [path for path in folder.rglob("*") if path.is_file()]
    return digest_of(files)


def _rate(answers: Answers, kind: str, count: int) -> float | None:
    met = [value for number in range(count) if (value := answers[f"{kind}/{number}"]) is not None]
    return sum(met) / len(met) if met else None


def _macro(table: Table) -> float:
    texts, images = table.group_means("text"), table.group_means("image")
    tasks = [(texts[name] + images[name]) / 2 for name in table.names]
    there = [mean for mean in tasks if mean == mean]
    return sum(there) / len(there) if there else float("nan")

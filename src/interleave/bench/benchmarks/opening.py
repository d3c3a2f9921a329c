"""OpenING: open requests for documents of text and images, marked from 0 to 10 by seven criteria.

This module also reads the benchmark's document files, for `opening_pairs.py`, the test of critics.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from interleave import ImagePart, InputError, Message, Sampling, Text, read_image
from interleave.bench.base import (
    Answers,
    Benchmark,
    Context,
    Dataset,
    Item,
    Judge,
    JudgeRecord,
    MissingOutput,
    Question,
    Unparsed,
)
from interleave.bench.benchmarks.image_files import as_jpeg, below, copy_image, file_name, within
from interleave.bench.datasets import digest_of, field, read_object, read_rows
from interleave.bench.numbers import Number, Table
from interleave.bench.outputs import Output, OutputPart
from interleave.bench.parsing import field_of, json_object, number_of, without_thoughts
from interleave.bench.prompts import OFFICIAL, Constant, on_lines
from interleave.plugin import Part, make_folder, write_atomic

CRITERIA = {
    "correctness": "Correctness",
    "image_text_coherency": "Image-Text Coherency",
    "multi_step_consistency": "Multi-step Consistency",
    "content_quality": "Content Quality",
    "human_preference_alignment": "Human Preference Alignment",
    "completeness": "Completeness",
    "content_richness": "Content Richness",
}
"""Our names of the criteria, and those in the judge's replies."""
SCORES, CLOSING = "scores", "closing"
SCHEMA = {
    "type": "object",
    "properties": {
        name: {
            "type": "object",
            "properties": {"Score": {"type": "integer"}, "Justification": {"type": "string"}},
            "required": ["Score", "Justification"],
            "additionalProperties": False,
        }
        for name in CRITERIA.values()
    },
    "required": list(CRITERIA.values()),
    "additionalProperties": False,
}
"""The form of a reply that upstream's script demands of its judge."""
MOST = 10.0
SIZE = (512, 512)
"""Upstream resizes every image to a square, whatever its shape."""
ITEMS = 2160
DATA_FILE = "test_data.jsonl"
PLACES = (".", "OpenING-benchmark", "OpenING-Benchmark", "Interleaved_Arena")
"""Locations of the data and the verdicts in a checkout."""
ENDING = "_output"
MODEL = "InterleaveThinker"
NO_LICENCE = "none stated"


@dataclass(frozen=True)
class Document:
    """Texts and images in order, as in the files of the benchmark and of systems."""

    steps: tuple[tuple[str, Path | None], ...]
    """Pairs of a text, which may be empty, and the image after it."""

    @property
    def images(self) -> list[Path]:
        return [path for _, path in self.steps if path is not None]


class OpenING(Benchmark):
    """One call per item, seven marks."""

    name = "opening"
    title = "OpenING"
    licence = NO_LICENCE
    judge = Judge("gpt-4o", "openai:gpt-4o")
    full_marks = MOST
    official_prompts: ClassVar[Mapping[str, Constant]] = {
        SCORES: Constant("prompts/detailed_score_system.txt"),
        CLOSING: Constant("GPT_score_A.py", "get_gpt4answer", text=0),
    }
    about = "criteria are rounded to .01 before they are averaged, as in upstream"

    def read(self, folder: Path) -> Dataset:
        path = find_file(folder, DATA_FILE)
        items, missing = [], 0
        for number, row in enumerate(read_rows(path), start=1):
            item, lost = _item(row, number, path.parent)
            items.append(item)
            missing += lost
        notes = [f"{len(items):,} items in {len({item.group for item in items})} tasks"]
        if len(items) != ITEMS:
            notes.append(f"the test set has {ITEMS:,} items")
        if missing:
            notes.append(
                f"{missing:,} input images are not in the folder: items that need them cannot be run"
            )
        return Dataset(tuple(items), digest_of([path]), str(folder), tuple(notes))

    def keys(self, item: Item, output: Output | None) -> Sequence[str]:
        return (SCORES,)

    def question(self, key: str, item: Item, output: Output | None, context: Context) -> Question:
        if output is None:
            raise MissingOutput("no output")
        asked = complete(item.facts["input"])
        shown = [
            *shown_parts(asked, "INPUT:", 0),
            *shown_parts(_of_output(output, context.folder), "OUTPUT:", len(asked.images)),
            Text(context.prompts.templates[CLOSING]),
        ]
        sampling = Sampling(schema=SCHEMA) if context.prompts.label == OFFICIAL else Sampling()
        return Question(
            (Message("system", (Text(context.prompts.templates[SCORES]),)), Message("user", on_lines(shown))),
            _scores,
            sampling,
        )

    def worst(self, key: str) -> Any:
        return dict.fromkeys(CRITERIA, 0.0)

    def measures(self, item: Item, answers: Answers) -> Mapping[str, float | None]:
        scores = answers[SCORES]
        return dict.fromkeys(CRITERIA) if scores is None else {name: scores[name] for name in CRITERIA}

    def numbers(self) -> Sequence[Number]:
        return [
            Number("overall", _overall, measures=tuple(CRITERIA), most=MOST),
            *(Number(name, _rounded(name), measures=(name,), most=MOST) for name in CRITERIA),
        ]

    def export(self, dataset: Dataset, outputs: Mapping[str, Output], base: Path, folder: Path) -> None:
        target = folder / f"{MODEL}{ENDING}"
        make_folder(target)
        for item in dataset.items:
            if (output := outputs.get(item.id)) is None:
                continue
            stem = file_name(item.id)
            steps: list[dict[str, str | None]] = []
            for text, image in _of_output(output, base).steps:
                name = None
                if image is not None:
                    name = f"{stem}-o-{len(steps)}{image.suffix}"
                    copy_image(image, target / name)
                steps.append({"text": text, "image": name})
            row = {
                **item.facts["row"],
                "conversations": [item.facts["row"]["conversations"][0], {"output": steps}],
            }
            write_atomic(target / f"{stem}.json", json.dumps(row, ensure_ascii=False, indent=4).encode())

    def import_outputs(self, dataset: Dataset, folder: Path) -> Iterator[Output]:
        folder = _one_system(folder)
        known = {file_name(item.id): item.id for item in dataset.items}
        for path in sorted(path for path in folder.iterdir() if path.suffix in (".json", ".jsonl")):
            if path.stem not in known:
                raise InputError(f"{path} answers an unknown item {path.stem!r}")
            yield Output(item=known[path.stem], parts=tuple(_output_parts(read_document(path))))

    def judge_of_import(self, path: Path) -> str:
        return self.judge.name if path.name.startswith("gpt-score") else path.name.split(".")[0]

    def import_judgements(self, dataset: Dataset, path: Path) -> Iterator[JudgeRecord]:
        """Read the file of scores; FILE#MODEL selects one model of several."""
        wanted = None
        if not path.exists() and "#" in path.name:
            name, wanted = path.name.rsplit("#", 1)
            path = path.with_name(name)
        rows = list(read_rows(path))
        models = sorted({_model(row, path) for row in rows})
        if wanted is None and len(models) > 1:
            raise InputError(f"{path} has scores of {', '.join(models)}: choose one as {path}#{models[0]}")
        if wanted is not None and wanted not in models:
            raise InputError(f"{path} has no scores of {wanted!r}, only of {', '.join(models)}")
        known = {item.id for item in dataset.items}
        for row in rows:
            if _model(row, path) != (wanted or models[0]):
                continue
            identity = str(row.get("data_id") or row.get("instance_id"))
            if identity not in known:
                raise InputError(f"{path} has scores of an unknown item {identity!r}")
            record = JudgeRecord(item=identity, key=SCORES, output="", status="ok")
            try:
                yield record.model_copy(update={"value": _of_scores(row.get("score"))})
            except Unparsed as error:
                yield record.model_copy(update={"status": "unparsed", "reason": str(error)})


# marks


def _scores(reply: str) -> dict[str, float]:
    return _of_scores(json_object(without_thoughts(reply)))


def _of_scores(found: Any) -> dict[str, float]:
    """Return the seven marks. A null mark leaves the item without any, as in upstream."""
    if isinstance(found, dict) and isinstance(found.get("scores"), dict):
        found = found["scores"]
    if not isinstance(found, dict):
        raise Unparsed(f"{found!r:.40} has no marks")
    marks = {}
    for name, theirs in CRITERIA.items():
        mark = field_of(found, theirs)
        if not isinstance(mark, dict):
            raise Unparsed(f"{theirs} is {mark!r:.40}")
        marks[name] = number_of(field_of(mark, "Score"), low=0, high=10)
    return marks


def _rounded(measure: str) -> Callable[[Table], float]:
    return lambda table: round(table.mean(measure), 2)


def _overall(table: Table) -> float:
    return round(sum(round(table.mean(name), 2) for name in CRITERIA) / len(CRITERIA), 2)


# files


def find_file(folder: Path, name: str) -> Path:
    if folder.is_file():
        return folder
    for place in PLACES:
        if (path := folder / place / name).is_file():
            return path
    raise InputError(f"{folder} has no {name}: give a checkout of the benchmark, or its data folder")


def root_of(folder: Path, path: Path) -> Path:
    """Return the checkout that contains a file of the arena."""
    start = path.parent if folder.is_file() else folder
    return start.parent if start.name == "Interleaved_Arena" else start


def _item(row: dict[str, Any], number: int, folder: Path) -> tuple[Item, int]:
    where = f"row {number}"
    identity, group = field(row, "total_uid", str, where), field(row, "meta_task_name", str, where)
    turns = turns_of(row, where)
    asked = read_steps(turns[0], "input", lambda name: below(folder, name), where)
    parts: list[str | Path] = []
    for text, image in asked.steps:
        parts += [text] if text else []
        parts += [image] if image is not None else []
    lost = sum(not path.is_file() for path in asked.images)
    return Item(identity, group, tuple(parts), {"input": asked, "row": row}), lost


def turns_of(row: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = field(row, "conversations", list, where)
    if len(turns) != 2 or not all(isinstance(turn, dict) for turn in turns):
        raise InputError(f"{where}: 'conversations' must hold an input and an output")
    return turns


def read_steps(
    turn: Mapping[str, Any], name: str, place: Callable[[str], Path | None], where: str
) -> Document:
    steps = []
    for step in field(turn, name, list, where):
        match step:
            case {"text": str(text), "image": str() | None as image}:
                cleaned = text.replace("<BEGIN>", "").replace("<image>", "").strip()
                steps.append((cleaned, place(image) if image else None))
            case _:
                raise InputError(f"{where}: {name!r} has {step!r:.60}")
    return Document(tuple(steps))


def complete(asked: Document) -> Document:
    """Check that all images of a request exist: without them an answer cannot be judged."""
    if lost := [path for path in asked.images if not path.is_file()]:
        raise MissingOutput(f"image {lost[0]} of the request is missing")
    return asked


def read_document(path: Path) -> Document:
    """Read a system's answer. Missing images are left out, as in upstream."""
    return read_steps(
        turns_of(read_object(path), str(path))[1],
        "output",
        lambda name: within(path.parent, name.rsplit("/", 1)[-1]),
        str(path),
    )


def _one_system(folder: Path) -> Path:
    """Return the folder of one system's answers: this one, or its only subfolder."""
    systems = sorted(path for path in folder.glob(f"*{ENDING}") if path.is_dir())
    if len(systems) > 1:
        raise InputError(f"{folder} has answers of {len(systems)} systems: choose one, such as {systems[0]}")
    if not systems and not folder.is_dir():
        raise InputError(f"{folder} is not a folder of answers")
    return systems[0] if systems else folder


def _output_parts(document: Document) -> Iterator[OutputPart]:
    for text, image in document.steps:
        if text:
            yield OutputPart(text=text)
        if image is not None:
            yield OutputPart(image=str(image))


def _of_output(output: Output, base: Path) -> Document:
    """Pair each text with the image after it. A second image has no text."""
    steps: list[tuple[str, Path | None]] = []
    for part in output.parts:
        if part.image is None:
            steps.append((part.text or "", None))
        elif steps and steps[-1][1] is None:
            steps[-1] = (steps[-1][0], base / part.image)
        else:
            steps.append(("", base / part.image))
    return Document(tuple(steps))


def shown_parts(document: Document, label: str, first: int) -> list[Part]:
    """Return a document as the judge sees it, with its image numbers continued from `before`."""
    parts: list[Part] = []
    number = first
    for place, (text, path) in enumerate(document.steps or (("", None),)):
        said = f"{label} {text}" if place == 0 else text
        if path is None:
            parts += [Text(said)] if said else []
            continue
        image = as_jpeg(read_image(path), SIZE)
        parts += [Text(f"{said} <IMG_{number}></IMG_{number}>".strip()), ImagePart(image)]
        number += 1
    return parts


def _model(row: Mapping[str, Any], path: Path) -> str:
    model = row.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("name"), str):
        raise InputError(f"{path}: {model!r:.60} is not the name of a model")
    return str(model["name"])

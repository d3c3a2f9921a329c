"""KRIS-Bench: 1,267 edits in 20 categories that need knowledge, each with scores from 1 to 5.

The scores are visual consistency (VC), visual quality (VQ) and instruction following (IF). Categories of
knowledge and logic add plausibility (KP), asked together with IF. Upstream has no script for the total. The
one in use, of BAGEL's repository, takes (score - 1) × 25 and the flat mean of all scores: items with KP
count more.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from interleave import ImagePart, InputError, Message, Sampling, Text, read_image
from interleave.bench.base import (
    Answers,
    Benchmark,
    Context,
    Dataset,
    Item,
    Judge,
    JudgeRecord,
    Question,
    Status,
    Unparsed,
)
from interleave.bench.benchmarks.image_files import edited_image, export_edits, import_edits
from interleave.bench.datasets import HubData, digest_of, field, read_object
from interleave.bench.judge import NO_OUTPUT
from interleave.bench.numbers import Number, Table
from interleave.bench.outputs import Output
from interleave.bench.parsing import json_object, number_of, without_thoughts
from interleave.bench.prompts import Constant, on_lines

if TYPE_CHECKING:
    from PIL.Image import Image

COUNTS = {
    "count_change": 50,
    "color_change": 50,
    "size_adjustment": 50,
    "part_completion": 50,
    "anomaly_correction": 75,
    "viewpoint_change": 50,
    "position_movement": 50,
    "temporal_prediction": 74,
    "humanities": 75,
    "practical_knowledge": 50,
    "biology": 68,
    "chemistry": 75,
    "geography": 75,
    "medicine": 50,
    "mathematics": 50,
    "physics": 75,
    "abstract_reasoning": 75,
    "rule-based_reasoning": 75,
    "multi-element_composition": 75,
    "multi-instruction_execution": 75,
}
LEVELS = {
    "factual": tuple(COUNTS)[:8],
    "conceptual": tuple(COUNTS)[8:16],
    "procedural": tuple(COUNTS)[16:],
}
DIMENSIONS = {
    "attribute_perception": tuple(COUNTS)[:5],
    "spatial_perception": tuple(COUNTS)[5:7],
    "temporal_perception": tuple(COUNTS)[7:8],
    "social_science": tuple(COUNTS)[8:10],
    "natural_science": tuple(COUNTS)[10:16],
    "logical_reasoning": tuple(COUNTS)[16:18],
    "instruction_decomposition": tuple(COUNTS)[18:],
}
"""The paper's seven dimensions of reasoning, by categories."""
KNOWLEDGE = tuple(COUNTS)[8:18]
"""Categories with KP: social and natural science, and logic."""
TEMPORAL, COMPOSED, VIEW = "temporal_prediction", "multi-element_composition", "viewpoint_change"
MEASURES = {"VC": "consistency", "VQ": "quality", "IF": "instruction", "KP": "knowledge"}
"""The scores, by the prefix of upstream's fields."""
ENDINGS = (".jpg", ".jpeg", ".png")
FRAMES = 4
FULL_MARKS = 100.0
SAMPLING = Sampling(max_tokens=1000)


def _template(name: str, *, formatted: bool = True) -> Constant:
    return Constant("utils/prompts.py", name, formatted=formatted)


PLACES = {
    "vc": _template("prompt_consist"),
    "vc_temporal": _template("prompt_consist_temporal"),
    "vc_composed": _template("prompt_consist_multi"),
    "vq": _template("prompt_quality", formatted=False),
    "if": _template("prompt_instruction_following"),
    "if_temporal": _template("prompt_instruction_temporal"),
    "if_composed": _template("prompt_instruction_multi"),
    "if_view": _template("prompt_view_instruction_following"),
    "if_kp": _template("prompt_dual_evaluation"),
}


class KRIS(Benchmark):
    """Three questions per edit."""

    name = "kris"
    title = "KRIS-Bench"
    licence = "Apache-2.0"
    judge = Judge("gpt-4o", "openai:gpt-4o")
    full_marks = FULL_MARKS
    hub = HubData("Liang0223/KRIS_Bench")
    official_prompts = PLACES
    about = (
        "(score - 1) × 25, the flat mean of all scores as in BAGEL's script; upstream's special question for "
        "anomalies is never asked, there or here, because its category has another name"
    )

    def read(self, folder: Path) -> Dataset:
        lists = {path.parent.name: path for path in sorted(folder.rglob("annotation.json"))}
        unknown = sorted(set(lists) - set(COUNTS))
        if unknown or not lists:
            what = f"unknown category {unknown[0]!r}" if unknown else "no CATEGORY/annotation.json"
            raise InputError(f"{folder}: {what}")
        items = [
            _item(category, key, row, lists[category].parent)
            for category in COUNTS
            if category in lists
            for key, row in read_object(lists[category]).items()
        ]
        notes = [f"{len(items):,} items in {len(lists)} categories"]
        if {name: sum(item.group == name for item in items) for name in COUNTS} != COUNTS:
            notes.append(
                f"the whole benchmark has {sum(COUNTS.values()):,} items in {len(COUNTS)} categories"
            )
        if missing := sum(not path.is_file() for item in items for path in item.facts["sources"]):
            notes.append(f"{missing:,} source images are missing")
        return Dataset(tuple(items), digest_of(lists.values()), str(folder), tuple(notes))

    def keys(self, item: Item, output: Output | None) -> Sequence[str]:
        return ("vc", "vq", "if_kp" if item.group in KNOWLEDGE else "if")

    def question(self, key: str, item: Item, output: Output | None, context: Context) -> Question:
        edit = edited_image(output, context.folder)
        template = f"{key}{_variant(key, item.group)}"
        asked = context.prompts.fill(
            template,
            instruct=item.facts["instruction"],
            explanation=item.facts["explanation"],
            N=item.facts["frame"],
        )
        shown = [("The edited image:", edit)] if key == "vq" else _shown(item, edit)
        if template == "if_view":
            if item.facts["truth"] is None:
                raise InputError(f"{item.id}: 'gt_img' does not name an image")
            shown.append(("The true image:", read_image(item.facts["truth"])))
        parts = [part for said, image in shown for part in (Text(said), ImagePart(image))]
        return Question((Message("user", on_lines([Text(asked), *parts])),), _reader(key), SAMPLING)

    def worst(self, key: str) -> Any:
        return dict.fromkeys(_measured(key), 1)

    def measures(self, item: Item, answers: Answers) -> Mapping[str, float | None]:
        found: dict[str, float | None] = dict.fromkeys(MEASURES)
        for key in self.keys(item, None):
            for measure, score in (answers[key] or {}).items():
                found[measure] = None if score is None else (score - 1) * 25
        return found

    def numbers(self) -> Sequence[Number]:
        return [
            _number("overall", MEASURES),
            *(_number(name, MEASURES, groups) for name, groups in {**LEVELS, **DIMENSIONS}.items()),
            *(_number(measure, [measure]) for measure in MEASURES),
        ]

    def export(self, dataset: Dataset, outputs: Mapping[str, Output], base: Path, folder: Path) -> None:
        export_edits(dataset, outputs, base, lambda item: folder / f"{item.id}.jpg")

    def import_outputs(self, dataset: Dataset, folder: Path) -> Iterator[Output]:
        return import_edits(dataset, lambda item: [folder / f"{item.id}{ending}" for ending in ENDINGS])

    def import_judgements(self, dataset: Dataset, path: Path) -> Iterator[JudgeRecord]:
        """Read upstream's CATEGORY/metrics.json files."""
        files = {name: path / name / "metrics.json" for name in COUNTS}
        stored = {name: read_object(file) for name, file in files.items() if file.exists()}
        if not stored:
            raise InputError(f"{path} has no CATEGORY/metrics.json")
        for item in dataset.items:
            row = stored.get(item.group, {}).get(item.id.split("/")[1])
            if isinstance(row, Mapping):
                for key in self.keys(item, None):
                    yield _imported(item, key, row)


def _item(category: str, key: str, row: Any, folder: Path) -> Item:
    where = f"{folder.name}/{key}"
    if not isinstance(row, Mapping):
        raise InputError(f"{where} is not an object")
    names = field(row, "ori_img", (str, list), where)
    sources = tuple(folder / str(name) for name in ([names] if isinstance(names, str) else names))
    instruction = field(row, "ins_en", str, where)
    truth = row.get("gt_img")
    return Item(
        f"{category}/{key}",
        category,
        (instruction, *sources),
        {
            "instruction": instruction,
            "explanation": str(row.get("explain_en") or ""),
            "sources": sources,
            "truth": folder / truth if isinstance(truth, str) and truth else None,
            "frames": tuple(_frame(path) for path in sources),
            "frame": _missing_frame(sources),
        },
    )


def _frame(path: Path) -> int | None:
    """Return the number of a frame, a suffix of its name."""
    last = path.stem.rpartition("-")[2]
    return int(last) if last.isdecimal() and last != path.stem else None


def _missing_frame(sources: Sequence[Path]) -> int:
    """Return the frame to predict: the one of four that is not shown."""
    shown = {number for path in sources if (number := _frame(path)) is not None}
    left = set(range(1, FRAMES + 1)) - shown
    return left.pop() if len(left) == 1 else max(shown, default=0) + 1


def _variant(key: str, category: str) -> str:
    if key not in ("vc", "if"):
        return ""
    variants = {TEMPORAL: "_temporal", COMPOSED: "_composed"}
    if key == "if":
        variants[VIEW] = "_view"
    return variants.get(category, "")


def _shown(item: Item, edit: Image) -> list[tuple[str, Image]]:
    """Return sources and edit, each image with its caption; frames in order."""
    images = [read_image(path) for path in item.facts["sources"]]
    if item.group == TEMPORAL:
        made = item.facts["frame"]
        frames = [*zip(item.facts["frames"], images, strict=True), (made, edit)]
        frames.sort(key=lambda pair: pair[0] or 0)
        said = {True: "generated", False: "reference"}
        return [(f"Frame {number} ({said[number == made]}):", image) for number, image in frames]
    if item.group == COMPOSED:
        named = [f"Reference image {number}:" for number in range(1, len(images) + 1)]
        return [*zip(named, images, strict=True), ("The predicted image:", edit)]
    return [*(("The original image:", image) for image in images), ("The edited image:", edit)]


def _measured(key: str) -> tuple[str, ...]:
    return ("IF", "KP") if key == "if_kp" else (key.upper(),)


def _reader(key: str) -> Callable[[str], dict[str, float]]:
    return lambda reply: read_scores(reply, _measured(key))


def read_scores(reply: str, measures: Sequence[str]) -> dict[str, float]:
    """Return the scores of a reply by measure, from 1 to 5. Raises `Unparsed` if one is missing or repeated.

    If upstream cannot parse a reply it takes the first digit from 1 to 5 anywhere. This function never does.
    """
    reply = without_thoughts(reply)
    return {measure: _score(reply, f"{MEASURES[measure]}_score") for measure in measures}


def _score(reply: str, name: str) -> float:
    try:
        found: Any = json_object(reply).get(name)
    except Unparsed:
        found = None
    if found is None:
        pattern = rf'"?{name.replace("_", "[_ ]")}"?[*_ ]{{0,4}}[:：][*_ ]{{0,4}}"?(\d+(?:\.\d+)?)'
        said = set(re.findall(pattern, reply, re.IGNORECASE))
        if len(said) != 1:
            raise Unparsed(f"the reply has {'several values' if said else 'no value'} of {name!r}")
        found = said.pop()
    return number_of(found, low=1, high=5, whole=True)


def _imported(item: Item, key: str, row: Mapping[str, Any]) -> JudgeRecord:
    value: dict[str, float | None] = {}
    for measure in _measured(key):
        score = row.get(f"{MEASURES[measure]}_score")
        try:
            value[measure] = None if score is None else number_of(score, low=1, high=5)
        except Unparsed:  # upstream writes 0 if its judge left a score out
            value[measure] = None
    status: Status = "ok" if any(score is not None for score in value.values()) else "unparsed"
    reasons = {name: row[name] for name in row if name.endswith("_reasoning") and row[name]}
    return JudgeRecord(
        item=item.id,
        key=key,
        output=NO_OUTPUT,
        status=status,
        value=value if status == "ok" else None,
        reply=json.dumps(reasons, ensure_ascii=False) if reasons else "",
        reason="" if status == "ok" else "upstream has no score",
        judge="imported",
    )


def _number(name: str, measures: Iterable[str], groups: Sequence[str] | None = None) -> Number:
    used = tuple(measures)
    return Number(name, _flat(used, groups), digits=2, measures=used, most=FULL_MARKS)


def _flat(measures: Iterable[str], groups: Sequence[str] | None = None) -> Callable[[Table], float]:
    """Return the mean of all scores, whatever item and measure they belong to."""
    chosen = tuple(measures)

    def aggregate(table: Table) -> float:
        import numpy as np

        rows = np.ones(len(table), dtype=bool)
        if groups is not None:
            places = [place for place, name in enumerate(table.names) if name in groups]
            rows = np.isin(table.groups, places)
        values = np.concatenate([table.columns[measure][rows] for measure in chosen])
        there = values[~np.isnan(values)]
        return float(there.mean()) if len(there) else float("nan")

    return aggregate

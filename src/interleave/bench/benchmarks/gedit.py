"""GEdit-Bench: 606 user requests to edit an image, in English and in Chinese, of eleven types.

It uses VIEScore's questions. The judge sees the edit at the size of its source. The score of a language is
the mean of the eleven types' means of sqrt(SC × PQ). Upstream silently leaves out missing images.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from interleave import InputError, read_image
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
from interleave.bench.benchmarks import vie
from interleave.bench.benchmarks.image_files import (
    edited_image,
    export_edits,
    import_edits,
    save_image,
)
from interleave.bench.datasets import HubData, digest_of, field, read_cells, read_rows
from interleave.bench.judge import NO_OUTPUT
from interleave.bench.numbers import Number, group_mean
from interleave.bench.outputs import Output
from interleave.plugin import make_folder, write_atomic

TYPES = (
    "background_change",
    "color_alter",
    "material_alter",
    "motion_change",
    "ps_human",
    "style_change",
    "subject-add",
    "subject-remove",
    "subject-replace",
    "text_change",
    "tone_transfer",
)
LANGUAGES = ("en", "cn")
ITEMS = 1212
COLUMNS = (
    "key",
    "task_type",
    "instruction",
    "instruction_language",
    "Intersection_exist",
    "input_image",
)


class GEdit(Benchmark):
    """Two questions per edit."""

    name = "gedit"
    title = "GEdit-Bench"
    licence = "MIT"
    judge = Judge("gpt-4.1", "openai:gpt-4.1")
    full_marks = 10.0
    hub = HubData("stepfun-ai/GEdit-Bench", files=("*.parquet", "data/*.parquet"))
    official_prompts = vie.official_places("GEdit-Bench/viescore/vie_prompts.py", ("tie",))
    about = (
        "means of eleven edit types, 0 to 10; O is the mean of sqrt(SC × PQ), not the root of the means; "
        "…_intersection has only the items that all systems of the paper answered"
    )

    def read(self, folder: Path) -> Dataset:
        files = _files(folder)
        revision = digest_of(files)
        cache = _cache_folder(f"{self.name}-{revision}")
        items = []
        for path in files:
            for number, row in enumerate(read_rows(path, columns=COLUMNS), start=1):
                items.append(_item(row, path, cache, f"{path}: row {number}"))
        counts = [sum(item.facts["language"] == language for item in items) for language in LANGUAGES]
        notes = [f"{len(items):,} items, {counts[0]:,} in English and {counts[1]:,} in Chinese"]
        if len(items) != ITEMS:
            notes.append(f"the whole benchmark has {ITEMS:,} items")
        return Dataset(tuple(items), revision, str(folder), tuple(notes))

    def keys(self, item: Item, output: Output | None) -> Sequence[str]:
        return vie.KEYS

    def question(self, key: str, item: Item, output: Output | None, context: Context) -> Question:
        source = read_image(item.facts["source"])
        edit = edited_image(output, context.folder)
        edit = edit if edit.size == source.size else edit.resize(source.size)
        if key == vie.PQ:
            return vie.pq_question(context.prompts, edit)
        return vie.sc_question(context.prompts, "tie", item.facts["instruction"], [source, edit])

    def worst(self, key: str) -> Any:
        return [0]

    def measures(self, item: Item, answers: Answers) -> Mapping[str, float | None]:
        scores = vie.three_scores(answers[vie.SC], answers[vie.PQ])
        found: dict[str, float | None] = {}
        for language in LANGUAGES:
            for name in ("O", "SC", "PQ"):
                score = scores[name] if language == item.facts["language"] else None
                found[f"{name}_{language}"] = score
                found[f"{name}_{language}_intersection"] = score if item.facts["intersection"] else None
        return found

    def numbers(self) -> Sequence[Number]:
        return [
            group_mean(f"{name}_{language}{part}", f"{name}_{language}{part}", digits=3, most=self.full_marks)
            for language in LANGUAGES
            for part in ("", "_intersection")
            for name in ("O", "SC", "PQ")
        ]

    def export(self, dataset: Dataset, outputs: Mapping[str, Output], base: Path, folder: Path) -> None:
        export_edits(dataset, outputs, base, lambda item: _official(item, folder))
        for item in dataset.items:
            if _official(item, folder).exists():
                save_image(read_image(item.facts["source"]), _official(item, folder, "_SRCIMG"))

    def import_outputs(self, dataset: Dataset, folder: Path) -> Iterator[Output]:
        root = folder if (folder / "fullset").is_dir() or folder.name != "fullset" else folder.parent
        return import_edits(dataset, lambda item: [_official(item, root)])

    def import_judgements(self, dataset: Dataset, path: Path) -> Iterator[JudgeRecord]:
        """Read upstream's `…_gpt_score.csv` files, which hold the lowest score of each question."""
        known = {item.id: item for item in dataset.items}
        files = [path] if path.is_file() else _tables(path)
        for file in files:
            for number, row in enumerate(read_cells(file), start=2):
                where = f"{file}:{number}"
                *_, task, language, name = Path(field(row, "edited_image", str, where)).parts
                item = known.get(f"{task}/{language}/{Path(name).stem}")
                if item is None:
                    raise InputError(f"{where}: {row['edited_image']!r:.80} is an edit of an unknown item")
                for key, column in ((vie.SC, "sementics_score"), (vie.PQ, "quality_score")):
                    yield _imported(item, key, row.get(column), f"{where}: {column}")


def _files(folder: Path) -> list[Path]:
    if folder.is_file():
        return [folder]
    for ending in ("parquet", "jsonl", "json"):
        if found := sorted(path for path in folder.rglob(f"*.{ending}") if not path.name.startswith(".")):
            return found
    raise InputError(f"{folder} has no .parquet, .jsonl or .json file")


def _item(row: Mapping[str, Any], path: Path, cache: Path, where: str) -> Item:
    task = field(row, "task_type", str, where)
    language = field(row, "instruction_language", str, where)
    if task not in TYPES or language not in LANGUAGES:
        raise InputError(f"{where}: GEdit-Bench has no {task!r} in {language!r}")
    instruction = field(row, "instruction", str, where)
    source = _image_path(row.get("input_image"), path, cache, where)
    return Item(
        f"{task}/{language}/{field(row, 'key', str, where)}",
        task,
        (instruction, source),
        {
            "instruction": instruction,
            "language": language,
            "intersection": field(row, "Intersection_exist", bool, where),
            "source": source,
        },
    )


def _official(item: Item, folder: Path, ending: str = "") -> Path:
    task, language, key = item.id.split("/")
    return folder / "fullset" / task / language / f"{key}{ending}.png"


def _tables(folder: Path) -> list[Path]:
    found = sorted(folder.rglob("*_gpt_score.csv"))
    if not found:
        raise InputError(f"{folder} has no …_gpt_score.csv")
    whole = [path for path in found if path.name.endswith("_combined_gpt_score.csv")]
    return whole or found


def _imported(item: Item, key: str, cell: Any, where: str) -> JudgeRecord:
    try:
        value = vie.scores_of(cell)
    except Unparsed as error:
        raise InputError(f"{where}: {error}") from None
    return JudgeRecord(item=item.id, key=key, output=NO_OUTPUT, status="ok", value=value, judge="imported")


def _cache_folder(name: str) -> Path:
    """Return the folder for image files extracted from tables."""
    root = os.environ.get("XDG_CACHE_HOME")
    return (Path(root) if root else Path.home() / ".cache") / "interleave" / "benchmarks" / name


def _kept_image(data: bytes, folder: Path) -> Path:
    """Write these bytes once, to a file named by their digest."""
    path = folder / f"{hashlib.sha256(data).hexdigest()[:24]}.img"
    if not path.exists():
        make_folder(folder)
        write_atomic(path, data)
    return path


def _image_path(value: Any, row_file: Path, cache: Path, where: str) -> Path:
    """Return an image of a row: bytes in a table, or the name of a file next to it."""
    if isinstance(value, Mapping) and isinstance(value.get("bytes"), bytes):
        return _kept_image(value["bytes"], cache)
    if isinstance(value, bytes):
        return _kept_image(value, cache)
    if isinstance(value, str) and value:
        return row_file.parent / value
    raise InputError(f"{where}: {value!r:.60} is not an image")

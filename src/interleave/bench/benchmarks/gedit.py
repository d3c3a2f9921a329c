"""GEdit-Bench: 606 real requests to edit a picture, in English and in Chinese, in eleven types.

VIEScore's questions are asked; the judge sees the edit in the size of its source. The score of a language is
the mean of the eleven types' means of sqrt(SC × PQ). Upstream silently leaves out pictures that are missing.
"""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from interleave import InputError, read_picture
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
from interleave.bench.benchmarks.edits import (
    MAX_FILE_BYTES,
    cache_folder,
    edited_picture,
    outputs_of,
    picture_path,
    resized_to,
    save_picture,
)
from interleave.bench.datasets import HubData, digest_of, field, read_rows
from interleave.bench.judge import NO_OUTPUT
from interleave.bench.numbers import Number, group_mean
from interleave.bench.outputs import Output
from interleave.plugin import files

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
    """Two questions about every edit."""

    name = "gedit"
    title = "GEdit-Bench"
    licence = "MIT"
    judge = Judge("gpt-4.1", "openai:gpt-4.1")
    full_marks = 10.0
    hub = HubData("stepfun-ai/GEdit-Bench", files=("*.parquet", "data/*.parquet"))
    official_prompts = vie.official_places("GEdit-Bench/viescore/vie_prompts.py", ("tie",))
    about = (
        "means of eleven edit types, 0 to 10; O is the mean of sqrt(SC × PQ), not the root of the means; "
        "…_intersection has only what all systems of the paper answered"
    )

    def read(self, folder: Path) -> Dataset:
        files = _files(folder)
        revision = digest_of(files)
        cache = cache_folder(f"{self.name}-{revision}")
        items = []
        for path in files:
            for number, row in enumerate(read_rows(path, columns=COLUMNS), start=1):
                items.append(_item(row, path, cache, f"{path}: row {number}"))
        if len({item.id for item in items}) < len(items):
            raise InputError(f"{folder}: a key stands there twice")
        counts = [sum(item.facts["language"] == language for item in items) for language in LANGUAGES]
        notes = [f"{len(items):,} items, {counts[0]:,} in English and {counts[1]:,} in Chinese"]
        if len(items) != ITEMS:
            notes.append(f"the whole benchmark has {ITEMS:,} items")
        return Dataset(tuple(items), revision, str(folder), tuple(notes))

    def keys(self, item: Item, output: Output | None) -> Sequence[str]:
        return vie.KEYS

    def question(self, key: str, item: Item, output: Output | None, context: Context) -> Question:
        source = read_picture(item.facts["source"])
        edit = resized_to(edited_picture(output, context.folder), source)
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
            group_mean(f"{name}_{language}{part}", f"{name}_{language}{part}", digits=3)
            for language in LANGUAGES
            for part in ("", "_intersection")
            for name in ("O", "SC", "PQ")
        ]

    def export(self, dataset: Dataset, outputs: Mapping[str, Output], base: Path, folder: Path) -> None:
        for item in dataset.items:
            output = outputs.get(item.id)
            if output is not None and output.images:
                save_picture(edited_picture(output, base), _official(item, folder))
                save_picture(read_picture(item.facts["source"]), _official(item, folder, "_SRCIMG"))

    def import_outputs(self, dataset: Dataset, folder: Path) -> Iterator[Output]:
        root = folder if (folder / "fullset").is_dir() or folder.name != "fullset" else folder.parent
        return outputs_of(dataset, lambda item: _official(item, root))

    def import_judgements(self, dataset: Dataset, path: Path) -> Iterator[JudgeRecord]:
        """Read upstream's `…_gpt_score.csv` files, which hold the lowest score of each question."""
        known = {item.id: item for item in dataset.items}
        files = [path] if path.is_file() else _tables(path)
        for file in files:
            for number, row in enumerate(_rows(file), start=2):
                where = f"{file}:{number}"
                *_, task, language, name = Path(field(row, "edited_image", str, where)).parts
                item = known.get(f"{task}/{language}/{Path(name).stem}")
                if item is None:
                    raise InputError(f"{where}: {row['edited_image']!r:.80} is the edit of no item")
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
    source = picture_path(row.get("input_image"), path, cache, where)
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


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        text = files.read_bytes(path, most_bytes=MAX_FILE_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read ({files.why(error)})") from None
    yield from csv.DictReader(io.StringIO(text))


def _imported(item: Item, key: str, cell: Any, where: str) -> JudgeRecord:
    try:
        value = vie.scores_of(cell)
    except Unparsed as error:
        raise InputError(f"{where}: {error}") from None
    return JudgeRecord(item=item.id, key=key, output=NO_OUTPUT, status="ok", value=value, judge="imported")

"""RISEBench: images edited by reasoning about time, cause, space and logic; 360 items, or 64 of them.

An item is solved if all its marks are the highest. Upstream changed that rule in April 2026:
`risebench_acc_v1` never counts the items that have no mark for consistency, `risebench_acc_v2` does. Boards
and papers before that date show the first. If the data has the column `consistency_free`, upstream's mean
score leaves out consistency for all but the logical items, because NaN is true in Python: `rise_score` is the
intended number, `rise_score_compat` the one its script prints.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path, PurePosixPath
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

from interleave import ImagePart, InputError, Message, Text, read_image
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
from interleave.bench.benchmarks.image_files import export_edits, import_edits
from interleave.bench.datasets import HubData, digest_of, field, read_rows
from interleave.bench.numbers import Number, item_mean
from interleave.bench.outputs import Output
from interleave.bench.parsing import labelled, number_of, score_after, without_thoughts
from interleave.bench.prompts import Constant
from interleave.bench.xlsx import read_sheet
from interleave.plugin import files, images, write_atomic

if TYPE_CHECKING:
    from PIL.Image import Image

GROUPS = ("temporal", "causal", "spatial", "logical")
BEST = 5
SIDE = 768
"""Maximum side in pixels of the JPEG images that the judge sees."""
SUFFIXES = ("png", "jpg", "jpeg")
LOGICAL = "logical_"
"""Keys of questions answered with 0 or 1; the others with 1 to 5."""
COLUMNS = {"consistency": "ApprConsistency", "reasoning": "Reasoning", "quality": "VisualPlausibility"}
"""Columns of the marks in upstream's table."""
REPLIES = {"consistency": "judge_cons", "reasoning": "judge_reas", "quality": "judge_qua"}
ARCHIVE = "data.zip"
MAX_IMAGE_BYTES = 100_000_000
_FINAL = score_after("final scores?")
_GAPS = {"{instruct}": "instruction"}


class Asked(NamedTuple):
    """The form of a question: its template, and whether it shows the source image or the solution too."""

    template: str
    shows_reference: bool


class Rise(Benchmark):
    """Up to three questions per item: consistency, reasoning, quality."""

    name = "rise"
    title = "RISEBench (360)"
    licence = "none stated"
    judge = Judge("gpt-4.1-2025-04-14", "openai:gpt-4.1-2025-04-14?detail=high")
    hub: ClassVar[HubData | None] = HubData(
        "PhoenixZ/RISEBench", files=("datav2_total_w_subtask.json", ARCHIVE)
    )
    about = (
        "boards before April 2026 show v1, later ones v2; with 360 items an accuracy near 30 has a standard "
        "error of 2.4 points; the board does not separate systems that rewrite the instruction first"
    )
    official_prompts: ClassVar[Mapping[str, Constant]] = {
        ours: Constant("utils.py", theirs, gaps=_GAPS)
        for ours, theirs in {
            "consistency": "prompt_consist",
            "consistency_spatial": "prompt_spatial_cons",
            "consistency_logical_text": "prompt_logical_cons_ans",
            "consistency_logical_image": "prompt_logical_cons",
            "reasoning": "prompt_reasoning",
            "reasoning_with_input": "prompt_reasoning_w_input",
            "reasoning_spatial": "prompt_spatial_ref",
            "reasoning_spatial_with_input": "prompt_spatial_ref_w_input",
            "reasoning_spatial_image": "prompt_spatial_ref_img",
            "reasoning_logical_text": "prompt_logical_txt",
            "reasoning_logical_image": "prompt_logical_img",
            "reasoning_logical_image_alone": "prompt_logical_img_wo_q",
            "quality": "prompt_generation",
            "quality_spatial": "prompt_spatial_qual",
        }.items()
    }
    file: ClassVar[str] = "datav2_total_w_subtask.json"
    counts: ClassVar[tuple[int, ...]] = (85, 90, 100, 85)

    # data

    def read(self, folder: Path) -> Dataset:
        path = next(
            (each for each in (folder / self.file, folder / "data" / self.file) if each.exists()), None
        )
        if path is None:
            raise InputError(f"{folder} has no {self.file}")
        rows = list(read_rows(path))
        column = any("consistency_free" in row for row in rows)
        images = _image_folder(folder, path, rows)
        items = tuple(_item(row, number, images, column) for number, row in enumerate(rows, start=1))
        seen = [each for item in items for each in (item.facts["image"], item.facts["solution"]) if each]
        gone = [each for each in seen if not each.exists()]
        notes = [self._counted(items), "the data states no licence"]
        if gone and len(gone) < len(seen):
            raise InputError(f"{gone[0]} is missing, and {len(gone) - 1:,} more images")
        if gone:
            notes.append("the data has no images: only judgements made elsewhere can be scored")
        return Dataset(
            items, digest_of([path, *(each for each in seen if each not in gone)]), str(folder), (*notes,)
        )

    def _counted(self, items: Sequence[Item]) -> str:
        counts = Counter(item.group for item in items)
        free = sum(item.facts["free"] for item in items)
        said = ", ".join(f"{counts[name]} {name}" for name in GROUPS)
        whole = (
            ""
            if tuple(counts[name] for name in GROUPS) == self.counts
            else f"; the whole benchmark has {sum(self.counts)}"
        )
        return f"{len(items)} items ({said}), {free} of them without a mark for consistency{whole}"

    # judging

    def keys(self, item: Item, output: Output | None) -> Sequence[str]:
        if item.group == "logical":
            return [f"{LOGICAL}consistency", f"{LOGICAL}reasoning"]
        return ["reasoning", "quality"] if item.facts["free"] else ["consistency", "reasoning", "quality"]

    def question(self, key: str, item: Item, output: Output | None, context: Context) -> Question:
        if output is None or not output.images:
            raise MissingOutput("the output has no image")
        asked = asked_of(item, key.removeprefix(LOGICAL))
        text = context.prompts.fill(
            asked.template,
            instruction=item.facts["instruction"],
            reference=item.facts["reference"] or "",
        )
        # if the solution is an image, upstream compares with it and not with the source image
        paths = [item.facts["solution"] or item.facts["image"]] if asked.shows_reference else []
        paths.append(context.folder / output.images[-1])
        images = [ImagePart(as_sent(read_image(path))) for path in paths]
        low, high = (0, 1) if key.startswith(LOGICAL) else (1, BEST)
        return Question(
            (Message("user", (Text(text), *images)),),
            lambda reply: labelled(without_thoughts(reply), _FINAL, low=low, high=high),
        )

    # numbers

    def worst(self, key: str) -> Any:
        return 0 if key.startswith(LOGICAL) else 1

    def official(self, measure: str, key: str, status: Status) -> Policy:
        if status == "missing_output":
            return "stop"
        return "zero" if measure.startswith("acc") else "drop"

    def measures(self, item: Item, answers: Answers) -> Mapping[str, float | None]:
        said = {key.removeprefix(LOGICAL): answers[key] for key in self.keys(item, None)}
        there = {kind: mark for kind, mark in said.items() if mark is not None}
        if len(there) < len(said):
            return dict.fromkeys(("acc_v1", "acc_v2", "score", "score_compat", *COLUMNS))
        logical = item.group == "logical"
        marks = {kind: 4.0 * mark + 1 if logical else float(mark) for kind, mark in there.items()}
        solved = all(mark == BEST for mark in marks.values())
        return {
            "acc_v1": float(solved and "consistency" in marks),
            "acc_v2": float(solved),
            "score": percent(score(marks)),
            "score_compat": percent(score(marks, ignoring=not logical and item.facts["column"])),
            **{kind: percent(marks[kind]) if kind in marks else None for kind in COLUMNS},
        }

    def numbers(self) -> Sequence[Number]:
        return [
            item_mean("risebench_acc_v2", "acc_v2", scale=100, digits=1),
            item_mean("risebench_acc_v1", "acc_v1", scale=100, digits=1),
            item_mean("rise_score", "score", digits=1, most=100),
            item_mean("rise_score_compat", "score_compat", digits=1, most=100),
            *(item_mean(kind, kind, digits=1, most=100) for kind in COLUMNS),
        ]

    # the official layout

    def export(self, dataset: Dataset, outputs: Mapping[str, Output], base: Path, folder: Path) -> None:
        images = folder / "images"
        export_edits(
            dataset, outputs, base, lambda item: images / f"{item.group}_reasoning" / f"{item.id}.png"
        )

    def import_outputs(self, dataset: Dataset, folder: Path) -> Iterator[Output]:
        images = folder / "images" if (folder / "images").is_dir() else folder
        return import_edits(
            dataset,
            lambda item: [images / f"{item.group}_reasoning" / f"{item.id}.{suffix}" for suffix in SUFFIXES],
        )

    def import_judgements(self, dataset: Dataset, path: Path) -> Iterator[JudgeRecord]:
        """Read marks and replies from `…_judge.xlsx`. Upstream's pickled file is never opened."""
        files = sorted(path.glob("*_judge.xlsx")) if path.is_dir() else [path]
        if len(files) != 1 or files[0].suffix != ".xlsx":
            raise InputError(f"{path}: give the …_judge.xlsx that upstream's script wrote")
        items = {item.id: item for item in dataset.items}
        for number, row in enumerate(read_sheet(files[0]), start=2):
            item = items.get(str(row.get("index")))
            if item is None:
                raise InputError(f"{files[0]}: row {number} judges an unknown item {row.get('index')!r}")
            for key in self.keys(item, None):
                yield _imported(item, key, row)


class Rise64(Rise):
    """The repository's 64 items, which upstream's current script cannot read."""

    name = "rise64"
    title = "RISEBench-64"
    hub = None
    checkout = "RISEBench"
    asks_as = "rise"
    about = "64 items: an accuracy near 30 has a standard error of 5.7 points; boards use the 360"
    file = "data_total.json"
    counts = (16, 16, 16, 16)


def score(marks: Mapping[str, float], *, ignoring: bool = False) -> float:
    """Return an item's score from 1 to 5, halved if its reasoning has the lowest mark."""
    reasoning, consistency, quality = (marks.get(kind) for kind in ("reasoning", "consistency", "quality"))
    if reasoning is None:
        raise ValueError("an item without a mark for reasoning")
    if quality is None:
        found = 0.3 * (consistency or 0) + 0.7 * reasoning
    elif consistency is None or ignoring:
        found = 0.8 * reasoning + 0.2 * quality
    else:
        found = 0.3 * consistency + 0.5 * reasoning + 0.2 * quality
    return max(1.0, found / 2) if reasoning == 1 else found


def percent(mark: float) -> float:
    """Convert a mark from 1 to 5 to a scale from 0 to 100."""
    return 25 * (mark - 1)


def asked_of(item: Item, kind: str) -> Asked:
    """Return the form of a question about an item."""
    facts = item.facts
    match item.group, kind:
        case "logical", _:
            form = "text" if facts["reference"] is not None else "image"
            # upstream asks every logical item this way as soon as one row of the data has the flag
            alone = "_alone" if kind == "reasoning" and form == "image" and facts["alone"] else ""
            return Asked(f"{kind}_logical_{form}{alone}", kind == "consistency" or form == "image")
        case "spatial", "reasoning" if facts["solution"] is not None:
            return Asked("reasoning_spatial_image", True)
        case group, "reasoning":
            template = "reasoning_spatial" if group == "spatial" else "reasoning"
            return Asked(f"{template}_with_input" if facts["with_input"] else template, facts["with_input"])
        case group, _:
            return Asked(f"{kind}_spatial" if group == "spatial" else kind, kind == "consistency")


def as_sent(image: Image) -> Image:
    """Encode an image as upstream's script sends it to the judge."""
    smaller = image.copy()
    smaller.thumbnail((SIDE, SIDE))
    coded = io.BytesIO()
    smaller.save(coded, format="JPEG")
    return images.decode_image(coded.getvalue())


def _item(row: Mapping[str, Any], number: int, images: Path, column: bool) -> Item:
    where = f"row {number}"
    index, category = field(row, "index", str, where), field(row, "category", str, where)
    group = category.removesuffix("_reasoning")
    if group not in GROUPS:
        raise InputError(f"{where}: unknown category {category!r}")
    if PurePosixPath(index).name != index:
        raise InputError(f"{where}: the index {index!r:.60} is not a valid file name")
    instruction = field(row, "instruction", str, where)
    text = row.get("reference_txt" if group == "logical" else "reference")
    reference = text if isinstance(text, str) else None
    image = images / _inside(field(row, "image", str, where), where)
    solution = row.get("reference_img")
    # of two solutions upstream uses the text for logical items, the image for spatial ones
    drawn = (
        images / _inside(solution, where)
        if isinstance(solution, str) and (group == "spatial" or (group == "logical" and reference is None))
        else None
    )
    if reference is None and drawn is None:
        raise InputError(f"{where}: {index} has no reference to compare with")
    facts = {
        "instruction": instruction,
        "subtask": row.get("subtask"),
        "reference": reference,
        "image": image,
        "solution": drawn,
        "with_input": _is_set(row.get("reasoning_img")),
        "alone": _is_set(row.get("reasoning_wo_ins")),
        "free": group != "logical" and _is_set(row.get("consistency_free")),
        "column": column,
    }
    return Item(index, group, (instruction, image), facts)


def _is_set(value: Any) -> bool:
    """Return whether a flag is set. Tables made with pandas hold NaN for a missing one."""
    return bool(value) and value == value


def _inside(name: str, where: str) -> PurePosixPath:
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise InputError(f"{where}: {name!r:.60} is outside the data folder")
    return path


def _image_folder(folder: Path, data: Path, rows: Sequence[Mapping[str, Any]]) -> Path:
    """Return the base folder of the rows' paths, unpacking the Hub's archive if needed."""
    first = _inside(field(rows[0], "image", str, "row 1"), "row 1") if rows else PurePosixPath(".")
    places = (folder / "data", data.parent)
    for place in places:
        if (place / first).exists():
            return place
    if (folder / ARCHIVE).exists():
        _unpack(folder / ARCHIVE, folder / "data")
    return places[0] if places[0].is_dir() else places[1]


def _unpack(archive: Path, target: Path) -> None:
    """Extract the images of an archive and nothing else; all of them or none."""
    try:
        making = Path(mkdtemp(prefix=".data-", dir=target.parent))
    except OSError as error:
        raise InputError(
            f"cannot unpack {archive} here ({files.why(error)}): unpack it and give --data"
        ) from None
    try:
        with zipfile.ZipFile(archive) as packed:
            for entry in packed.infolist():
                path = PurePosixPath(entry.filename)
                if entry.is_dir() or path.suffix[1:].lower() not in SUFFIXES or "__MACOSX" in path.parts:
                    continue
                if entry.file_size > MAX_IMAGE_BYTES:
                    raise InputError(f"{archive}: {path} is too large ({entry.file_size:,} bytes)")
                parts = path.parts[1:] if path.parts[0] == target.name else path.parts
                goal = making / _inside("/".join(parts), str(archive))
                goal.parent.mkdir(parents=True, exist_ok=True)
                write_atomic(goal, packed.read(entry))
        making.rename(target)
    except (OSError, RuntimeError, zipfile.BadZipFile, zlib.error) as error:
        raise InputError(f"cannot unpack {archive} ({error}): unpack it and give --data") from None
    finally:
        rmtree(making, ignore_errors=True)


def _imported(item: Item, key: str, row: Mapping[str, Any]) -> JudgeRecord:
    """Convert one mark of a row. A row that upstream could not read has none."""
    kind = key.removeprefix(LOGICAL)
    reply = row.get(REPLIES[kind])
    record = JudgeRecord(
        item=item.id, key=key, output="", status="ok", tries=1, reply=reply if isinstance(reply, str) else ""
    )
    try:
        mark = number_of(row.get(COLUMNS[kind]), low=1, high=BEST, whole=True)
        if key.startswith(LOGICAL) and mark not in (1, BEST):
            raise Unparsed(f"{mark:g} is not a mark of a logical item")
    except Unparsed as error:
        return record.model_copy(update={"status": "unparsed", "reason": f"upstream's table: {error}"})
    value = int(mark == BEST) if key.startswith(LOGICAL) else int(mark)
    return record.model_copy(update={"value": value})

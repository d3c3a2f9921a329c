"""Multimodal RewardBench 2: pairs of edits and of interleaved documents, with the choice of three experts.

Every pair is judged in both orders; the accuracy is the share of right answers. Our critic can also judge
edits as in a run, each image alone. It cannot judge documents in that way, because their images have no
prompts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar

from interleave import ImagePart, InputError, Message, Text, read_image
from interleave.bench.base import (
    Answers,
    Benchmark,
    Context,
    Dataset,
    Item,
    JudgeRecord,
    Question,
    Unparsed,
)
from interleave.bench.benchmarks.critics import (
    OUR_CRITIC,
    WRONG,
    LoopCriticMixin,
    critic_numbers,
    critic_question,
    pair_measures,
    ratio,
    showing,
)
from interleave.bench.datasets import HubData, field, read_object
from interleave.bench.image_tables import TableRow, revision_of, table_files, text_rows
from interleave.bench.judge import NO_OUTPUT
from interleave.bench.numbers import Number
from interleave.bench.outputs import Output
from interleave.bench.parsing import field_of, json_object
from interleave.bench.prompts import Constant, on_lines
from interleave.plugin import Part

ORDERS = ("forward", "reverse")
SIDES = ("a", "b")
OTHER = {"A": "B", "B": "A"}
ASKED, FIRST, SECOND = "[ORIGINAL PROMPT TO MODEL:]", "[RESPONSE A:]", "[RESPONSE B:]"
"""Headings before each part of a question; upstream's judge prompts refer to them."""
WHOLE = 1000
MAX_FILE_BYTES = 200_000_000
PROMPTS_FILE = "evaluate/generate_judgements/evaluator_apis/llm_judges/evaluation_prompts.py"
COLUMNS = (
    "pair_id",
    "prompt_text",
    "response_a_text",
    "response_b_text",
    "response_a_model",
    "response_b_model",
    "chosen",
    "prompt_source",
)
_IMAGE = re.compile(r"<image_\d+>")


@dataclass(frozen=True)
class Listed:
    """A prompt or an answer as upstream's files list it: texts, and images below a folder."""

    content: tuple[tuple[str, str], ...]
    folder: Path

    @property
    def text(self) -> str:
        return "\n".join(value for kind, value in self.content if kind == "text")

    @property
    def images(self) -> int:
        return sum(kind == "image" for kind, _ in self.content)

    def parts(self) -> list[Part]:
        return [
            Text(value) if kind == "text" else ImagePart(read_image(self.folder / value))
            for kind, value in self.content
        ]


@dataclass(frozen=True)
class Tabled:
    """The same in a row of the Hub's tables: a text with placeholders for the images of a column."""

    text: str
    row: TableRow
    column: str

    @property
    def images(self) -> int:
        """Images by their placeholders; without placeholders, all come last, and one is assumed."""
        return len(_IMAGE.findall(self.text)) or 1

    def parts(self) -> list[Part]:
        """Return images in the order of their placeholders, ignoring their numbers; the rest come last."""
        images = iter(self.row.images(self.column))
        parts: list[Part] = []
        for place, piece in enumerate(_IMAGE.split(self.text)):
            if place and (image := next(images, None)) is not None:
                parts.append(ImagePart(image))
            if piece.strip():
                parts.append(Text(piece.strip()))
        if not _IMAGE.search(self.text):  # upstream drops images beyond the placeholders, if there are any
            parts += map(ImagePart, images)
        return parts


class Mmrb2(Benchmark):
    """Two questions per pair, one for each order."""

    task: ClassVar[str]
    licence = "CC BY-NC 4.0, for benchmarking only"
    judge = OUR_CRITIC
    tests = "critics"
    about = "accuracy over the answers in both orders; a judge that always picks the first has 50"

    def read(self, folder: Path) -> Dataset:
        items = tuple(self._items(folder))
        notes = [f"{len(items):,} pairs from {len({item.group for item in items})} sources", self.licence]
        if len(items) != WHOLE:
            notes.append(f"the whole task has {WHOLE:,} pairs")
        if without := sum(item.facts["prompt"] is None for item in items):
            notes.append(f"{without:,} pairs have no prompt here: their judgements can only be imported")
        labels = ((item.id, item.group, item.facts["chosen"], item.prompt) for item in items)
        return Dataset(items, revision_of(labels), str(folder), tuple(notes))

    def _items(self, folder: Path) -> Iterator[Item]:
        if (built := self._file(folder, f"{self.task}.json")) is not None:
            yield from _listed_items(built)
        elif tables := self._tables(folder):
            yield from _tabled_items(tables)
        elif (labels := self._file(folder, f"{self.task}_response_only.json")) is not None:
            yield from _listed_items(labels)
        else:
            raise InputError(
                f"{folder} has neither {self.task}.json nor parquet files of {self.task!r}: build MMRB2 with "
                "its build_from_hf.py, or download its tables from the Hub"
            )

    def _tables(self, folder: Path) -> list[Path]:
        """Return the tables of this task, from a folder of all tasks or of one."""
        if self.task in folder.name:
            return table_files(folder)
        return [path for path in table_files(folder) if self.task in path.relative_to(folder).as_posix()]

    def _file(self, folder: Path, name: str) -> Path | None:
        if folder.is_file():
            return folder if folder.name == name else None
        return next((path for path in (folder / name, folder / "benchmark" / name) if path.is_file()), None)

    def keys(self, item: Item, output: Output | None) -> Sequence[str]:
        return ORDERS

    def question(self, key: str, item: Item, output: Output | None, context: Context) -> Question:
        _refuse_without_prompt(item)
        first, second = SIDES if key == "forward" else SIDES[::-1]
        with showing():
            parts = (
                Text(context.prompts.templates["ask"]),
                Text(ASKED),
                *item.facts["prompt"].parts(),
                Text(FIRST),
                *item.facts[first].parts(),
                Text(SECOND),
                *item.facts[second].parts(),
            )
        return Question((Message("user", on_lines(parts)),), _letter)

    def worst(self, key: str) -> Any:
        return WRONG

    def measures(self, item: Item, answers: Answers) -> Mapping[str, float | None]:
        said = {key: answers[key] for key in ORDERS}
        given = {key: value for key, value in said.items() if value is not None}
        if not given:
            return dict.fromkeys(("right", "answered", "both", "forward", "reverse", "first"))
        right = {key: float(_upright(key, value) == item.facts["chosen"]) for key, value in given.items()}
        return {
            "right": sum(right.values()),
            "answered": float(len(given)),
            "both": min(right.values()) if len(given) == len(ORDERS) else None,
            "forward": right.get("forward"),
            "reverse": right.get("reverse"),
            "first": float(sum(value == "A" for value in given.values())),
        }

    def numbers(self) -> Sequence[Number]:
        return [
            ratio("accuracy", "right", "answered"),
            Number("right_in_both_orders", lambda table: table.mean("both"), 100, 1, ("both",)),
            Number("forward_accuracy", lambda table: table.mean("forward"), 100, 1, ("forward",)),
            Number("reverse_accuracy", lambda table: table.mean("reverse"), 100, 1, ("reverse",)),
            ratio("names_the_first", "first", "answered"),
        ]

    def import_judgements(self, dataset: Dataset, path: Path) -> Iterator[JudgeRecord]:
        found = read_object(path)
        known = [item.id for item in dataset.items if item.id in found]
        if not known:
            raise InputError(f"{path} has no judgements of pairs of {dataset.source}")
        for identity in known:
            for key in ORDERS:
                yield _imported(identity, key, found[identity], path)


class Mmrb2Edit(Mmrb2):
    """Edited images."""

    name = "mmrb2-edit"
    title = "MMRB2 edit"
    task = "edit"
    # the Hub's commit is not known here: number ids have a digest of the labels instead
    hub = HubData("rl-research/multimodal-rewardbench-2", "main", ("*edit*.parquet",))
    official_prompts: ClassVar[Mapping[str, Constant]] = {
        "ask": Constant(PROMPTS_FILE, "get_image_edit_prompt")
    }

    def measures(self, item: Item, answers: Answers) -> Mapping[str, float | None]:
        return _with_single(item, super().measures(item, answers), ("right", "answered"))

    def numbers(self) -> Sequence[Number]:
        first, *rest = super().numbers()
        return [first, ratio("accuracy_single_source", "single_right", "single_answered"), *rest]


class Mmrb2Interleaved(Mmrb2):
    """Documents of text and images."""

    name = "mmrb2-interleaved"
    title = "MMRB2 interleaved"
    task = "interleaved"
    hub = HubData("rl-research/multimodal-rewardbench-2", "main", ("*interleaved*.parquet",))
    official_prompts: ClassVar[Mapping[str, Constant]] = {
        "ask": Constant(PROMPTS_FILE, "get_interleaved_prompt")
    }


class Mmrb2EditCritic(LoopCriticMixin, Mmrb2Edit):
    """The same edits, each judged alone by a critic as in a run."""

    name = "mmrb2-edit-critic"
    title = "MMRB2 edit, asked as the critic of a run"
    data_as = "mmrb2-edit"
    about = (
        "each image is judged alone; pair_acc compares acceptance probabilities, a tie is wrong; "
        "the critic sees only the last source: …_single_source is over prompts with a single one"
    )

    def keys(self, item: Item, output: Output | None) -> Sequence[str]:
        return SIDES

    def question(self, key: str, item: Item, output: Output | None, context: Context) -> Question:
        _refuse_without_prompt(item)
        with showing():
            sources = _images(item.facts["prompt"].parts())
            made = _images(item.facts[key].parts())
        if not made:
            raise Unparsed("the answer has no image")
        return critic_question(item.prompt, sources, made[-1], context)

    def measures(self, item: Item, answers: Answers) -> Mapping[str, float | None]:
        chosen = item.facts["chosen"].lower()
        found = pair_measures([(answers[chosen], answers[OTHER[chosen.upper()].lower()])])
        return _with_single(item, found, ("right", "pairs"))

    def numbers(self) -> Sequence[Number]:
        first, *rest = critic_numbers()
        return [first, ratio("pair_acc_single_source", "single_right", "single_pairs"), *rest]


def _with_single(
    item: Item, measures: Mapping[str, float | None], names: Sequence[str]
) -> dict[str, float | None]:
    """Repeat some measures for prompts with a single image: scorers of edits see only one."""
    prompt = item.facts["prompt"]
    alone = prompt is not None and prompt.images == 1
    return {**measures, **{f"single_{name}": measures[name] if alone else None for name in names}}


def _listed_items(path: Path) -> Iterator[Item]:
    pairs = read_object(path).get("pairs")
    if not isinstance(pairs, list) or not all(isinstance(pair, dict) for pair in pairs):
        raise InputError(f"{path} has no list of pairs")
    for number, pair in enumerate(pairs, start=1):
        where = f"{path}: pair {number}"
        prompt = None
        if "prompt_content" in pair:
            prompt = _listed(pair["prompt_content"], path.parent, where)
        sides = {}
        for side in SIDES:
            answer = field(pair, f"response_{side}", dict, where)
            sides[side] = _listed(answer.get("response_content"), path.parent, where)
        yield _item(field(pair, "id", str, where), pair, prompt, sides, where)


def _tabled_items(paths: Iterable[Path]) -> Iterator[Item]:
    for values, row in text_rows(paths, COLUMNS):
        where = f"{row.path}: row {row.row}"
        prompt = Tabled(values.get("prompt_text") or "", row, "prompt_images")
        sides = {
            side: Tabled(values.get(f"response_{side}_text") or "", row, f"response_{side}_images")
            for side in SIDES
        }
        yield _item(field(values, "pair_id", str, where), values, prompt, sides, where)


def _item(
    identity: str,
    values: Mapping[str, Any],
    prompt: Listed | Tabled | None,
    sides: Mapping[str, Listed | Tabled],
    where: str,
) -> Item:
    chosen = str(values.get("chosen")).upper()
    if chosen not in OTHER:
        raise InputError(f"{where}: 'chosen' is {values.get('chosen')!r:.60}, neither A nor B")
    asked = "" if prompt is None else " ".join(_IMAGE.sub(" ", prompt.text).split())
    group = str(values.get("prompt_source") or "unknown")
    return Item(identity, group, (asked,), {"chosen": chosen, "prompt": prompt, **sides})


def _listed(content: Any, folder: Path, where: str) -> Listed:
    """Return texts and images in order. An image must be below the file's folder."""
    parts = []
    if not isinstance(content, list):
        raise InputError(f"{where}: the content {content!r:.60} is not a list")
    for part in content:
        match part:
            case ["text", str(text)]:
                parts.append(("text", text))
            case ["image", str(name)] if (
                not name.startswith(("/", "\\")) and ".." not in PurePosixPath(name).parts
            ):
                parts.append(("image", name))
            case _:
                raise InputError(f"{where}: {part!r:.60} is neither a text nor an image below {folder}")
    return Listed(tuple(part for part in parts if part[1].strip()), folder)


def _images(parts: Iterable[Part]) -> list[Any]:
    return [part.image for part in parts if isinstance(part, ImagePart)]


def _refuse_without_prompt(item: Item) -> None:
    if item.facts["prompt"] is None:
        raise InputError(
            f"{item.id}: the data has answers but no prompt. Build MMRB2 with its "
            "build_from_hf.py, or import judgements"
        )


def _letter(reply: str) -> str:
    said = field_of(json_object(reply), "better_response")
    letter = said.strip().upper() if isinstance(said, str) else ""
    if letter not in OTHER:
        raise Unparsed(f"{said!r:.40} is neither A nor B")
    return letter


def _upright(order: str, said: str) -> str:
    """Return the named side, corrected for the order shown."""
    return said if order == "forward" else OTHER.get(said, said)


def _imported(identity: str, key: str, predicted: Any, path: Path) -> JudgeRecord:
    """Convert upstream's first judgement. Upstream counts anything but A or B as a wrong answer."""
    all_said = (predicted.get(key) if isinstance(predicted, dict) else None) or []
    if not isinstance(all_said, list):
        raise InputError(f"{path}: {identity!r} has no list under {key!r}")
    said = all_said[0].get("judgement") if all_said and isinstance(all_said[0], dict) else None
    base = JudgeRecord(item=identity, key=key, output=NO_OUTPUT, status="api_error")
    if not said:
        return base.model_copy(update={"reason": "upstream's file has no judgement"})
    return base.model_copy(update={"status": "ok", "value": str(said), "reply": json.dumps(all_said[0])})

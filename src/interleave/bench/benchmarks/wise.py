"""WISE: 1,000 prompts that need world knowledge, one image each, in two versions.

`wise` is the first release (three marks from 0 to 2 by GPT-4o), used by most papers. `wise-verified` is what
upstream recommends since 2026 (one bit by an open judge, other prompts and id ranges). Their numbers are not
comparable. In both, the weights of the categories are their shares of the 1,000 prompts.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
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
    Policy,
    Question,
    Status,
    Unparsed,
)
from interleave.bench.benchmarks.image_files import export_edits, import_edits
from interleave.bench.datasets import digest_of, field, read_rows
from interleave.bench.numbers import Number, group_mean, item_mean
from interleave.bench.outputs import Output
from interleave.bench.parsing import labelled, number_of, score_after, without_thoughts
from interleave.bench.prompts import Constant

WHOLE = 1000
KEY = "score"
FULL = "*results.json"
"""Files in which upstream keeps the judge's replies."""
CATEGORIES = {
    "culture": "cultural knowledge",
    "time": "time",
    "space": "space",
    "biology": "biology",
    "physics": "physical knowledge",
    "chemistry": "chemistry",
}
"""Our names of the categories, and those of the data in lower case."""
MARKS = {
    "consistency": score_after("consistency"),
    "realism": score_after("realism"),
    "aesthetic_quality": score_after(r"aesthetic\s?quality"),
}
_SCORE = score_after("score")
_BARE = re.compile(r"^[ \t]{0,9}([0-9])[ \t]{0,9}$", re.MULTILINE)
_GAPS = {"{prompt_data['Prompt']}": "prompt", "{prompt_data['Explanation']}": "explanation"}


class _Wise(Benchmark):
    """Base of both versions."""

    licence = "none stated"
    checkout = "WISE"
    folders: ClassVar[tuple[str, ...]]
    """Folders of the data in a checkout."""
    files: ClassVar[tuple[str, ...]]
    ends: ClassVar[Mapping[str, int]]
    """The last id of each category, in order."""
    weights: ClassVar[Mapping[str, float]]
    room: ClassVar[int]
    """Maximum tokens of the judge's reply."""

    # data

    def read(self, folder: Path) -> Dataset:
        paths = self._paths(folder)
        items = tuple(
            self._item(row, f"{path.name}: row {number}")
            for path in paths
            for number, row in enumerate(read_rows(path), start=1)
        )
        notes = [f"{len(items):,} prompts; the data states no licence"]
        if len(items) != WHOLE:
            notes.append(f"the whole benchmark has {WHOLE:,} prompts: its scripts give no overall for fewer")
        return Dataset(items, digest_of(paths), str(folder), tuple(notes))

    def _paths(self, folder: Path) -> list[Path]:
        for place in (*self.folders, "."):
            paths = [folder / place / name for name in self.files]
            if any(path.exists() for path in paths):
                if gone := [path for path in paths if not path.exists()]:
                    raise InputError(f"{gone[0]} is missing")
                return paths
        raise InputError(
            f"{folder} has none of {', '.join(self.files)}: give a checkout of PKU-YuanGroup/WISE, or its "
            f"folder {self.folders[0]}"
        )

    def _item(self, row: Mapping[str, Any], where: str) -> Item:
        number = field(row, "prompt_id", int, where)
        group = self.category(number)
        said = field(row, "Category", str, where).strip().lower()
        if group is None or said != CATEGORIES[group]:
            raise InputError(
                f"{where}: {self.name} has no id {number} of {said!r}: is this the other version of WISE?"
            )
        prompt = field(row, "Prompt", str, where)
        explanation = field(row, "Explanation", str, where)
        return Item(str(number), group, (prompt,), {"prompt": prompt, "explanation": explanation})

    def category(self, number: int) -> str | None:
        """Return the category of an id."""
        return next((name for name, end in self.ends.items() if 1 <= number <= end), None)

    # judging

    def keys(self, item: Item, output: Output | None) -> Sequence[str]:
        return [KEY]

    def question(self, key: str, item: Item, output: Output | None, context: Context) -> Question:
        if output is None or not output.images:
            raise MissingOutput("the output has no image")
        asked = context.prompts.fill(
            "user", prompt=item.facts["prompt"], explanation=item.facts["explanation"]
        )
        image = read_image(context.folder / output.images[-1])
        return Question(
            (
                Message("system", (Text(context.prompts.templates["system"]),)),
                Message("user", (Text(asked), ImagePart(image))),
            ),
            self.parse,
            Sampling(max_tokens=self.room),
        )

    @abstractmethod
    def parse(self, reply: str) -> Any:
        """Return the value of a reply."""

    # numbers

    def official(self, measure: str, key: str, status: Status) -> Policy:
        return "stop"

    # the official layout

    def export(self, dataset: Dataset, outputs: Mapping[str, Output], base: Path, folder: Path) -> None:
        export_edits(dataset, outputs, base, lambda item: folder / f"{item.id}.png")

    def import_outputs(self, dataset: Dataset, folder: Path) -> Iterator[Output]:
        return import_edits(dataset, lambda item: [folder / f"{item.id}.png"])

    def import_judgements(self, dataset: Dataset, path: Path) -> Iterator[JudgeRecord]:
        """Read the rows of `…_results.jsonl`, and the replies in JSON files next to them, if any."""
        known = {item.id for item in dataset.items}
        files = [path] if path.is_file() else sorted(path.rglob("*.jsonl"))
        if not files:
            raise InputError(f"{path} has no .jsonl file of scores")
        replies = _replies(path.rglob(FULL) if path.is_dir() else path.parent.glob(FULL))
        for file in files:
            for line, row in enumerate(read_rows(file), start=1):
                identity = str(field(row, "prompt_id", int, f"{file}:{line}"))
                if identity not in known:
                    raise InputError(f"{file}:{line}: unknown prompt {identity} of {self.name}")
                record = JudgeRecord(item=identity, key=KEY, output="", status="ok", tries=1)
                made: dict[str, Any] = {"reply": replies.get(identity, "")}
                try:
                    made["value"] = self.value(row)
                except Unparsed as error:
                    made |= {"status": "unparsed", "reason": str(error)}
                yield record.model_copy(update=made)

    @abstractmethod
    def value(self, row: Mapping[str, Any]) -> Any:
        """Return the value of a row of upstream's scores."""


class WiseLegacy(_Wise):
    """Three marks from 0 to 2, of which consistency counts most."""

    name = "wise"
    title = "WISE (first release)"
    judge = Judge("gpt-4o-2024-05-13", "openai:gpt-4o-2024-05-13")
    about = (
        "wise_legacy weights the six categories by their share of the prompts; another GPT-4o shifts it by "
        "up to 0.08; unweighted_compat is the plain mean of categories that scripts copied from BAGEL print"
    )
    official_prompts: ClassVar[Mapping[str, Constant]] = {
        "system": Constant("WISE_legacy/gpt_eval.py", "build_evaluation_messages", text=0),
        "user": Constant("WISE_legacy/gpt_eval.py", "build_evaluation_messages", _GAPS, text=1),
    }
    folders = ("WISE_legacy/data", "data")
    files = ("cultural_common_sense.json", "spatio-temporal_reasoning.json", "natural_science.json")
    ends: ClassVar[Mapping[str, int]] = {
        "culture": 400,
        "time": 567,
        "space": 700,
        "biology": 800,
        "physics": 900,
        "chemistry": 1000,
    }
    weights: ClassVar[Mapping[str, float]] = {
        "culture": 0.4,
        "time": 0.167,
        "space": 0.133,
        "biology": 0.1,
        "physics": 0.1,
        "chemistry": 0.1,
    }
    room = 2000

    def parse(self, reply: str) -> dict[str, int]:
        reply = without_thoughts(reply)
        if not any(pattern.search(reply) for pattern in MARKS.values()):
            bare = _BARE.findall(reply)  # some judges omit the labels
            if len(bare) != len(MARKS):
                raise Unparsed("the reply has no scores")
            return {name: int(_mark(mark)) for name, mark in zip(MARKS, bare, strict=True)}
        return {name: labelled(reply, pattern, low=0, high=2) for name, pattern in MARKS.items()}

    def value(self, row: Mapping[str, Any]) -> dict[str, int]:
        return {name: int(_mark(row.get(name))) for name in MARKS}

    def worst(self, key: str) -> Any:
        return dict.fromkeys(MARKS, 0)

    def measures(self, item: Item, answers: Answers) -> Mapping[str, float | None]:
        marks = answers[KEY]
        if marks is None:
            return dict.fromkeys(("wiscore", *MARKS))
        return {"wiscore": wiscore(**marks), **{name: float(marks[name]) for name in MARKS}}

    def numbers(self) -> Sequence[Number]:
        return [
            group_mean("wise_legacy", "wiscore", weights=self.weights, digits=4),
            item_mean("item_mean", "wiscore", digits=4),
            group_mean("unweighted_compat", "wiscore", digits=4),
            *(item_mean(name, name, digits=3, most=2) for name in MARKS),
        ]


class WiseVerified(_Wise):
    """One bit: the image shows what the explanation says."""

    name = "wise-verified"
    title = "WISE_Verified"
    judge = Judge("Qwen3.5-35B-A3B", "openai:Qwen3.5-35B-A3B@http://127.0.0.1:8000/v1")
    about = "the judge is an open model: serve it with thinking off, as upstream does"
    official_prompts: ClassVar[Mapping[str, Constant]] = {
        "system": Constant("vllm_eval.py", "build_evaluation_messages", text=0),
        "user": Constant("vllm_eval.py", "build_evaluation_messages", _GAPS, text=1),
    }
    folders = ("data_verified",)
    files = (
        "cultural_common_sense_verified.json",
        "spatio-temporal_reasoning_verified.json",
        "natural_science_verified.json",
    )
    ends: ClassVar[Mapping[str, int]] = {
        "culture": 400,
        "time": 520,
        "space": 640,
        "biology": 760,
        "physics": 880,
        "chemistry": 1000,
    }
    weights: ClassVar[Mapping[str, float]] = {"culture": 0.4} | dict.fromkeys(
        ("time", "space", "biology", "physics", "chemistry"), 0.12
    )
    room = 500

    def parse(self, reply: str) -> int:
        reply = without_thoughts(reply)
        if _SCORE.search(reply) is None and len(bare := _BARE.findall(reply)) == 1:
            return int(number_of(bare[0], low=0, high=1))
        return labelled(reply, _SCORE, low=0, high=1)

    def value(self, row: Mapping[str, Any]) -> int:
        return int(number_of(row.get("score"), low=0, high=1, whole=True))

    def measures(self, item: Item, answers: Answers) -> Mapping[str, float | None]:
        return {"score": None if (bit := answers[KEY]) is None else float(bit)}

    def numbers(self) -> Sequence[Number]:
        return [
            group_mean("wise_verified", "score", weights=self.weights, digits=4),
            item_mean("item_mean", "score", digits=4),
        ]


def wiscore(consistency: float, realism: float, aesthetic_quality: float) -> float:
    """Return the score of an image of the first release, from 0 to 1."""
    return (0.7 * consistency + 0.2 * realism + 0.1 * aesthetic_quality) / 2


def _mark(value: Any) -> float:
    return number_of(value, low=0, high=2, whole=True)


def _replies(paths: Iterable[Path]) -> dict[str, str]:
    """Return the judge's replies by id, from the files that have them."""
    return {
        str(row["prompt_id"]): str(row["evaluation"])
        for path in sorted(paths)
        for row in read_rows(path)
        if "prompt_id" in row and "evaluation" in row
    }

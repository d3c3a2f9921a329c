"""OpenING: open requests for documents of text and pictures, marked alone or compared in pairs.

`opening` marks a system's documents by seven criteria from 0 to 10. `opening-pairs` tests critics: 4,302
pairs of documents that people have compared, each shown to the judge in both orders. Upstream asks in one
order only, and GPT-4o preferred the first document in 64 % of the pairs: numbers of that order end in
`_forward`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from interleave.backends.protocols import Message, Sampling
from interleave.benchmarks.agreement import spearman
from interleave.benchmarks.base import (
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
from interleave.benchmarks.datasets import digest_of, field, read_object, read_rows
from interleave.benchmarks.interleaved import as_jpeg, below, copy_picture, file_name, within
from interleave.benchmarks.numbers import Number, Table, item_mean
from interleave.benchmarks.outputs import Output, OutputPart
from interleave.benchmarks.parsing import field_of, json_object, number_of, without_thoughts
from interleave.benchmarks.prompts import Constant
from interleave.errors import InputError
from interleave.files import make_folder, write_atomic
from interleave.pictures import read_picture
from interleave.types import Part, Picture, Text

if TYPE_CHECKING:
    from interleave.benchmarks.agreement import Array

CRITERIA = {
    "correctness": "Correctness",
    "image_text_coherency": "Image-Text Coherency",
    "multi_step_consistency": "Multi-step Consistency",
    "content_quality": "Content Quality",
    "human_preference_alignment": "Human Preference Alignment",
    "completeness": "Completeness",
    "content_richness": "Content Richness",
}
"""Our names of the criteria, and those of the judge's replies."""
SCORES = "scores"
SIZE = (512, 512)
"""Upstream forces every picture into a square, whatever its shape."""
ITEMS, PAIRS = 2160, 4302
DATA_FILE, PAIRS_FILE = "test_data.jsonl", "judge_modelAB_results.json"
PLACES = (".", "OpenING-benchmark", "OpenING-Benchmark", "Interleaved_Arena")
"""Where a checkout has the data and the verdicts."""
ENDING = "_output"
MODEL = "InterleaveThinker"
HUMAN = "Human"
UNSEEN = ("anole", "GPT-4+DALL-E3", "SEED-LLaMA", "NExT-GPT")
"""Upstream's list of models that its own judge was not trained on; the data does not know the second."""
FORWARD, REVERSE = "ab", "ba"
VERDICTS = ("A", "B", "Tie(A)", "Tie(B)")
RULES = ("fdt", "no_tie", "tie_0", "tie_half")
"""What a tie is worth: a win of the side it leans to, nothing played, no win, half a win for both."""
_CLEAR = re.compile(r"\b([AB]) is better\b")
_TIE = re.compile(r"\b[Tt][Ii][Ee]\s?\(\s?([AB])\b")
_NO_LICENCE = "none stated"


@dataclass(frozen=True)
class Document:
    """Texts and pictures in order, as the files of the benchmark and of systems have them."""

    steps: tuple[tuple[str, Path | None], ...]
    """A text, which may be empty, and the picture behind it."""

    @property
    def pictures(self) -> list[Path]:
        return [path for _, path in self.steps if path is not None]


class OpenING(Benchmark):
    """One call an item, seven marks."""

    name = "opening"
    title = "OpenING"
    licence = _NO_LICENCE
    judge = Judge("gpt-4o", "openai:gpt-4o")
    full_marks = 10.0
    official_prompts: ClassVar[Mapping[str, Constant]] = {
        SCORES: Constant("prompts/detailed_score_system.txt")
    }
    about = "criteria are rounded to .01 before they are averaged, as upstream does"

    def read(self, folder: Path) -> Dataset:
        path = _find(folder, DATA_FILE)
        items, missing = [], 0
        for number, row in enumerate(read_rows(path), start=1):
            item, lost = _item(row, number, path.parent)
            items.append(item)
            missing += lost
        if len({item.id for item in items}) < len(items):
            raise InputError(f"{path}: a total_uid stands there twice")
        notes = [f"{len(items):,} items in {len({item.group for item in items})} tasks"]
        if len(items) != ITEMS:
            notes.append(f"the test set has {ITEMS:,} items")
        if missing:
            notes.append(
                f"{missing:,} input pictures are not in the folder: items that need them cannot be run"
            )
        return Dataset(tuple(items), digest_of([path]), str(folder), tuple(notes))

    def keys(self, item: Item, output: Output | None) -> Sequence[str]:
        return (SCORES,)

    def question(self, key: str, item: Item, output: Output | None, context: Context) -> Question:
        if output is None:
            raise MissingOutput("there is no output")
        asked = _complete(item.facts["input"])
        shown = [
            *_parts(asked, "INPUT:", 0),
            *_parts(_of_output(output, context.folder), "OUTPUT:", len(asked.pictures)),
            Text("Reply with the JSON object alone."),
        ]
        return Question(
            (Message("system", (Text(context.prompts.templates[SCORES]),)), Message("user", tuple(shown))),
            _scores,
        )

    def worst(self, key: str) -> Any:
        return dict.fromkeys(CRITERIA, 0.0)

    def measures(self, item: Item, answers: Answers) -> Mapping[str, float | None]:
        scores = answers[SCORES]
        return dict.fromkeys(CRITERIA) if scores is None else {name: scores[name] for name in CRITERIA}

    def numbers(self) -> Sequence[Number]:
        return [
            Number("overall", _overall, measures=tuple(CRITERIA)),
            *(Number(name, _rounded(name), measures=(name,)) for name in CRITERIA),
        ]

    def export(self, dataset: Dataset, outputs: Mapping[str, Output], base: Path, folder: Path) -> None:
        target = folder / f"{MODEL}{ENDING}"
        make_folder(target)
        for item in dataset.items:
            if (output := outputs.get(item.id)) is None:
                continue
            stem = file_name(item.id)
            steps: list[dict[str, str | None]] = []
            for text, picture in _of_output(output, base).steps:
                name = None
                if picture is not None:
                    name = f"{stem}-o-{len(steps)}{picture.suffix}"
                    copy_picture(picture, target / name)
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
                raise InputError(f"{path} answers {path.stem!r}, which is no item")
            yield Output(item=known[path.stem], parts=tuple(_output_parts(_document(path))))

    def import_judgements(self, dataset: Dataset, path: Path) -> Iterator[JudgeRecord]:
        """The file of scores; FILE#MODEL where it has those of several models."""
        wanted = None
        if not path.exists() and "#" in path.name:
            name, wanted = path.name.rsplit("#", 1)
            path = path.with_name(name)
        rows = list(read_rows(path))
        models = sorted({_model(row, path) for row in rows})
        if wanted is None and len(models) > 1:
            raise InputError(f"{path} has scores of {', '.join(models)}: give one as {path}#{models[0]}")
        if wanted is not None and wanted not in models:
            raise InputError(f"{path} has no scores of {wanted!r}, but of {', '.join(models)}")
        known = {item.id for item in dataset.items}
        for row in rows:
            if _model(row, path) != (wanted or models[0]):
                continue
            identity = str(row.get("data_id") or row.get("instance_id"))
            if identity not in known:
                raise InputError(f"{path} has scores of {identity!r}, which is no item")
            record = JudgeRecord(item=identity, key=SCORES, output="", status="ok")
            try:
                yield record.model_copy(update={"value": _of_scores(row.get("score"))})
            except Unparsed as error:
                yield record.model_copy(update={"status": "unparsed", "reason": str(error)})


class OpenINGPairs(Benchmark):
    """Two calls a pair, one in each order."""

    name = "opening-pairs"
    title = "OpenING, pairs that people compared"
    licence = _NO_LICENCE
    tests = "critics"
    judge = Judge("gpt-4o", "openai:gpt-4o")
    official_prompts: ClassVar[Mapping[str, Constant]] = {"pair": Constant("prompts/judge_system.txt")}
    about = (
        "upstream asks in one order only: compare its numbers with those that end in _forward. It draws a "
        "side at random where a reply names none; here such a reply has no value"
    )

    def read(self, folder: Path) -> Dataset:
        path = _find(folder, PAIRS_FILE)
        root = _root(folder, path)
        rows = list(read_rows(path))
        models = sorted({_name(row, side, path) for row in rows for side in ("model_A", "model_B")})
        documents = _Documents.of(root, models)
        items = tuple(_pair(row, number, path, models, documents) for number, row in enumerate(rows, start=1))
        if len({item.id for item in items}) < len(items):
            raise InputError(f"{path}: a pair stands there twice")
        there = sum(documents.has(item) for item in items)
        ties = sum(item.facts["human"].startswith("Tie") for item in items)
        notes = [f"{len(items):,} pairs of {len(models)} models, {ties:,} of them ties"]
        if len(items) != PAIRS:
            notes.append(f"upstream has {PAIRS:,} pairs")
        if there < len(items):
            notes.append(
                f"both documents of {there:,} pairs are in {root / 'gen_outputs'}: only those can be judged"
            )
        return Dataset(items, digest_of([path, *documents.files.values()]), str(folder), tuple(notes))

    def keys(self, item: Item, output: Output | None) -> Sequence[str]:
        return (FORWARD, REVERSE)

    def question(self, key: str, item: Item, output: Output | None, context: Context) -> Question:
        documents: _Documents = item.facts["documents"]
        first, second = [documents.find(item.facts[side], item.facts["item"]) for side in key]
        asked = documents.asked(item.facts["item"])
        shown = [
            *_parts(asked, "<INPUT>:", 0),
            *_parts(first, "<OUTPUT_A>:", len(asked.pictures)),
            *_parts(second, "<OUTPUT_B>:", len(asked.pictures) + len(first.pictures)),
            Text("Say only which of the two is better."),
        ]
        return Question(
            (Message("system", (Text(context.prompts.templates["pair"]),)), Message("user", tuple(shown))),
            verdict_of if key == FORWARD else lambda reply: swapped(verdict_of(reply)),
            Sampling(max_tokens=1024),
        )

    def worst(self, key: str) -> Any:
        return ""

    def measures(self, item: Item, answers: Answers) -> Mapping[str, float | None]:
        human = item.facts["human"]
        forward, reverse = answers[FORWARD], answers[REVERSE]
        both = [verdict for verdict in (forward, reverse) if verdict is not None]
        found: dict[str, float | None] = {}
        for name, agrees in AGREEMENTS.items():
            found[name] = _mean([agrees(human, verdict) for verdict in both])
            found[f"{name}_forward"] = None if forward is None else agrees(human, forward)
        found["order_consistency"] = (
            None if forward is None or reverse is None else float(side_of(forward) == side_of(reverse) != "")
        )
        found["first_preferred"] = _mean(
            [
                float(side_of(verdict) == first)
                for verdict, first in ((forward, "A"), (reverse, "B"))
                if verdict in VERDICTS
            ]
        )
        codes = {"human": human, "forward": forward, "reverse": reverse}
        return {
            **found,
            "model_a": item.facts["index_a"],
            "model_b": item.facts["index_b"],
            **{
                name: float(VERDICTS.index(said)) if said in VERDICTS else None
                for name, said in codes.items()
            },
        }

    def numbers(self) -> Sequence[Number]:
        names = [
            *AGREEMENTS,
            *(f"{name}_forward" for name in AGREEMENTS),
            "order_consistency",
            "first_preferred",
        ]
        return [
            *(item_mean(name, name, scale=100) for name in names),
            *(
                Number(f"win_rate_rank_{rule}", _rank_number(rule), digits=3, measures=("forward", "reverse"))
                for rule in RULES
            ),
        ]

    def import_judgements(self, dataset: Dataset, path: Path) -> Iterator[JudgeRecord]:
        known = {item.id for item in dataset.items}
        for number, row in enumerate(read_rows(path), start=1):
            identity = _pair_id(row, path, number)
            if identity not in known:
                continue  # upstream's judges were asked about pairs that people have not compared
            record = JudgeRecord(item=identity, key=FORWARD, output="", status="ok", value=row.get("winner"))
            if record.value not in VERDICTS:
                reason = f"{row.get('winner')!r:.40} is no verdict"
                record = record.model_copy(update={"status": "unparsed", "value": None, "reason": reason})
            yield record


# verdicts


def verdict_of(reply: str) -> str:
    """One of the four verdicts; raises `Unparsed` where a reply has none, or several."""
    said = without_thoughts(reply).replace("*", "").replace('"', "").replace("`", "")
    if (bare := said.strip().rstrip(".")) in ("A", "B"):
        return bare
    found = {f"Tie({side})" for side in _TIE.findall(said)} | set(_CLEAR.findall(said))
    if len(found) != 1:
        raise Unparsed(
            "the reply says neither A nor B" if not found else f"the reply says {' and '.join(sorted(found))}"
        )
    return str(found.pop())


def swapped(verdict: str) -> str:
    """The verdict on the same pair in the other order."""
    return verdict.translate({ord("A"): "B", ord("B"): "A"})


def side_of(verdict: str) -> str:
    """The side that wins where ties go to the one they lean to."""
    return verdict.removeprefix("Tie(").removesuffix(")")


def _without_side(verdict: str) -> str:
    return "Tie" if verdict.startswith("Tie") else verdict


def _agrees_fdt(human: str, verdict: str) -> float | None:
    return float(side_of(human) == side_of(verdict))


def _agrees_with_ties(human: str, verdict: str) -> float | None:
    return float(_without_side(human) == _without_side(verdict))


def _agrees_no_ties(human: str, verdict: str) -> float | None:
    if human.startswith("Tie") or verdict.startswith("Tie"):
        return None
    return float(human == verdict)


AGREEMENTS: dict[str, Callable[[str, str], float | None]] = {
    "agreement_fdt": _agrees_fdt,
    "agreement_with_ties": _agrees_with_ties,
    "agreement_no_ties": _agrees_no_ties,
}
"""With ties forced to a side, with ties as a third verdict, and over pairs that neither calls a tie."""


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None


POINTS = {
    "fdt": ((1, 0, 1, 0), (0, 1, 0, 1)),
    "no_tie": ((1, 0, None, None), (0, 1, None, None)),
    "tie_0": ((1, 0, 0, 0), (0, 1, 0, 0)),
    "tie_half": ((1, 0, 0.5, 0.5), (0, 1, 0.5, 0.5)),
}
"""By rule: what each verdict is worth to the first side and to the second; None where it was not played."""


def win_rates(first: Array, second: Array, verdicts: Sequence[Array], rule: str, models: int) -> Array:
    """The share of its pairs that each model wins, NaN where it has none; each set of verdicts counts alike.

    Models and verdicts are given by their numbers, verdicts that are missing as NaN.
    """
    import numpy as np

    wins, played = np.zeros(models), np.zeros(models)
    for codes in verdicts:
        there = ~np.isnan(codes)
        known = codes[there].astype(np.int64)
        for side, worth in zip((first, second), POINTS[rule], strict=True):
            points = np.array([np.nan if each is None else each for each in worth])[known]
            counted = ~np.isnan(points)
            places = side[there].astype(np.int64)[counted]
            wins += np.bincount(places, weights=points[counted], minlength=models)
            played += np.bincount(places, minlength=models)
    with np.errstate(invalid="ignore"):
        rates: Array = wins / played
    return rates


def _rank_number(rule: str) -> Callable[[Table], float]:
    """Whether the judge ranks models by their win rates as people do, over the pairs it has judged."""

    def aggregate(table: Table) -> float:
        import numpy as np

        columns = table.columns
        judged = ~(np.isnan(columns["forward"]) & np.isnan(columns["reverse"]))
        first, second, human, forward, reverse = (
            columns[name][judged] for name in ("model_a", "model_b", "human", "forward", "reverse")
        )
        if not len(first):
            return float("nan")
        models = int(max(first.max(), second.max())) + 1
        ours = win_rates(first, second, (forward, reverse), rule, models)
        theirs = win_rates(first, second, (human,), rule, models)
        both = ~(np.isnan(ours) | np.isnan(theirs))
        return spearman(ours[both], theirs[both])

    return aggregate


# marks


def _scores(reply: str) -> dict[str, float]:
    return _of_scores(json_object(without_thoughts(reply)))


def _of_scores(found: Any) -> dict[str, float]:
    """The seven marks. One that is null leaves the item without any, as upstream does."""
    if isinstance(found, dict) and isinstance(found.get("scores"), dict):
        found = found["scores"]
    if not isinstance(found, dict):
        raise Unparsed(f"{found!r:.40} holds no marks")
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


def _find(folder: Path, name: str) -> Path:
    if folder.is_file():
        return folder
    for place in PLACES:
        if (path := folder / place / name).is_file():
            return path
    raise InputError(f"{folder} has no {name}: give a checkout of the benchmark, or its folder of data")


def _root(folder: Path, path: Path) -> Path:
    """The checkout that a file of the arena is in."""
    start = path.parent if folder.is_file() else folder
    return start.parent if start.name == "Interleaved_Arena" else start


def _item(row: dict[str, Any], number: int, folder: Path) -> tuple[Item, int]:
    where = f"row {number}"
    identity, group = field(row, "total_uid", str, where), field(row, "meta_task_name", str, where)
    turns = _turns(row, where)
    asked = _steps(turns[0], "input", lambda name: below(folder, name), where)
    parts: list[str | Path] = []
    for text, picture in asked.steps:
        parts += [text] if text else []
        parts += [picture] if picture is not None else []
    lost = sum(not path.is_file() for path in asked.pictures)
    return Item(identity, group, tuple(parts), {"input": asked, "row": row}), lost


def _turns(row: Mapping[str, Any], where: str) -> list[dict[str, Any]]:
    turns: list[dict[str, Any]] = field(row, "conversations", list, where)
    if len(turns) != 2 or not all(isinstance(turn, dict) for turn in turns):
        raise InputError(f"{where}: 'conversations' should hold an input and an output")
    return turns


def _steps(turn: Mapping[str, Any], name: str, place: Callable[[str], Path | None], where: str) -> Document:
    steps = []
    for step in field(turn, name, list, where):
        match step:
            case {"text": str(text), "image": str() | None as image}:
                cleaned = text.replace("<BEGIN>", "").replace("<image>", "").strip()
                steps.append((cleaned, place(image) if image else None))
            case _:
                raise InputError(f"{where}: {name!r} has {step!r:.60}")
    return Document(tuple(steps))


def _complete(asked: Document) -> Document:
    """A request of which all pictures are there: without them, an answer cannot be judged."""
    if lost := [path for path in asked.pictures if not path.is_file()]:
        raise MissingOutput(f"{lost[0]}, which the request shows, is not there")
    return asked


def _document(path: Path) -> Document:
    """A system's answer; a picture that is named but not there is left out, as upstream does."""
    return _steps(
        _turns(read_object(path), str(path))[1],
        "output",
        lambda name: within(path.parent, name.rsplit("/", 1)[-1]),
        str(path),
    )


def _one_system(folder: Path) -> Path:
    """The folder of one system's answers, or the only one in a folder of such folders."""
    systems = sorted(path for path in folder.glob(f"*{ENDING}") if path.is_dir())
    if len(systems) > 1:
        raise InputError(f"{folder} has answers of {len(systems)} systems: give one, such as {systems[0]}")
    if not systems and not folder.is_dir():
        raise InputError(f"{folder} is no folder of answers")
    return systems[0] if systems else folder


def _output_parts(document: Document) -> Iterator[OutputPart]:
    for text, picture in document.steps:
        if text:
            yield OutputPart(text=text)
        if picture is not None:
            yield OutputPart(image=str(picture))


def _of_output(output: Output, base: Path) -> Document:
    """Each text with the picture behind it; a second picture stands alone."""
    steps: list[tuple[str, Path | None]] = []
    for part in output.parts:
        if part.image is None:
            steps.append((part.text or "", None))
        elif steps and steps[-1][1] is None:
            steps[-1] = (steps[-1][0], base / part.image)
        else:
            steps.append(("", base / part.image))
    return Document(tuple(steps))


def _parts(document: Document, label: str, first: int) -> list[Part]:
    """A document as the judge sees it, its pictures numbered on from those before."""
    parts: list[Part] = []
    number = first
    for place, (text, picture) in enumerate(document.steps or (("", None),)):
        said = f"{label} {text}" if place == 0 else text
        if picture is None:
            parts += [Text(said)] if said else []
            continue
        image = as_jpeg(read_picture(picture), SIZE)
        parts += [Text(f"{said} <IMG_{number}></IMG_{number}>".strip()), Picture(image)]
        number += 1
    return parts


def _model(row: Mapping[str, Any], path: Path) -> str:
    model = row.get("model")
    if not isinstance(model, dict) or not isinstance(model.get("name"), str):
        raise InputError(f"{path}: {model!r:.60} names no model")
    return str(model["name"])


# pairs


@dataclass(frozen=True)
class _Documents:
    """The answers of all models that are in a folder."""

    root: Path
    files: Mapping[tuple[str, str], Path]
    """By model and item."""
    data: Mapping[str, dict[str, Any]]
    """The rows of the benchmark, whose own answers are those of the model named Human."""
    data_folder: Path

    @classmethod
    def of(cls, root: Path, models: Sequence[str]) -> _Documents:
        files: dict[tuple[str, str], Path] = {}
        for model in models:
            for place in (root / f"{model}{ENDING}", root / "gen_outputs" / f"{model}{ENDING}"):
                for path in sorted(place.glob("*.json*")):
                    files.setdefault((model, path.stem), path)
        try:
            path = _find(root, DATA_FILE)
        except InputError:
            return cls(root, files, {}, root)
        return cls(root, files, {str(row.get("total_uid")): row for row in read_rows(path)}, path.parent)

    def has(self, item: Item) -> bool:
        return all(
            (item.facts[side], item.facts["item"]) in self.files
            or (item.facts[side] == HUMAN and self._human(item.facts["item"]) is not None)
            for side in FORWARD
        )

    def find(self, model: str, item: str) -> Document:
        if (path := self.files.get((model, item))) is not None:
            return _document(path)
        if model == HUMAN and (document := self._human(item)) is not None:
            return document
        raise MissingOutput(f"the answer of {model} to {item} is not below {self.root}")

    def asked(self, item: str) -> Document:
        row = self.data.get(item)
        if row is None:
            raise MissingOutput(f"{DATA_FILE} with item {item} is not below {self.root}")
        turn = _turns(row, item)[0]
        return _complete(_steps(turn, "input", lambda name: below(self.data_folder, name), item))

    def _human(self, item: str) -> Document | None:
        if (row := self.data.get(item)) is None:
            return None
        document = _steps(_turns(row, item)[1], "output", lambda name: below(self.data_folder, name), item)
        return document if all(path.is_file() for path in document.pictures) else None


def _name(row: Mapping[str, Any], side: str, path: Path) -> str:
    model = row.get(side)
    if not isinstance(model, dict) or not isinstance(model.get("name"), str):
        raise InputError(f"{path}: {side!r} is {model!r:.60}, which names no model")
    return str(model["name"])


def _pair_id(row: Mapping[str, Any], path: Path, number: int) -> str:
    identity = field(row, "data_id", str, f"{path}: row {number}")
    return "/".join([identity, _name(row, "model_A", path), _name(row, "model_B", path)])


def _pair(
    row: Mapping[str, Any], number: int, path: Path, models: Sequence[str], documents: _Documents
) -> Item:
    human = field(row, "winner", str, f"{path}: row {number}")
    if human not in VERDICTS:
        raise InputError(f"{path}: row {number}: {human!r:.40} is no verdict")
    first, second = _name(row, "model_A", path), _name(row, "model_B", path)
    return Item(
        _pair_id(row, path, number),
        "unseen models" if {first, second} & set(UNSEEN) else "seen models",
        (),
        {
            "item": row["data_id"],
            "a": first,
            "b": second,
            "index_a": float(models.index(first)),
            "index_b": float(models.index(second)),
            "human": human,
            "documents": documents,
        },
    )

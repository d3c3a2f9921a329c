"""OpenING's human verdicts: 4,302 pairs of documents compared by people, as a test of critics.

The judge sees each pair in both orders. Upstream asks in one order only, in which GPT-4o preferred the first
document in 64 % of the pairs: numbers of that order end in `_forward`.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from interleave import InputError, Message, Sampling, Text
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
from interleave.bench.benchmarks.image_files import below
from interleave.bench.benchmarks.opening import (
    DATA_FILE,
    ENDING,
    NO_LICENCE,
    Document,
    complete,
    find_file,
    read_document,
    read_steps,
    root_of,
    shown_parts,
    turns_of,
)
from interleave.bench.datasets import digest_of, field, read_rows
from interleave.bench.numbers import Number, Table, item_mean
from interleave.bench.outputs import Output
from interleave.bench.parsing import without_thoughts
from interleave.bench.prompts import Constant, on_lines
from interleave.bench.statistics import spearman

if TYPE_CHECKING:
    from interleave.bench.statistics import Array

PAIRS = 4302
PAIRS_FILE = "judge_modelAB_results.json"
JUDGES = {"gpt-": "gpt-4o", "intjudge": "IntJudge", PAIRS_FILE: "people"}
"""The judges of upstream's files, by the start of their names."""
HUMAN = "Human"
UNSEEN = ("anole", "GPT-4+DALL-E3", "SEED-LLaMA", "NExT-GPT")
"""Upstream's list of models that its own judge was not trained on. The second is not in the data."""
FORWARD, REVERSE = "ab", "ba"
VERDICTS = ("A", "B", "Tie(A)", "Tie(B)")
RULES = ("fdt", "no_tie", "tie_0", "tie_half")
"""The value of a tie: a win of the side it leans to, not counted, no win, or half a win for both."""
_CLEAR = re.compile(r"\b([AB]) is better\b")
_TIE = re.compile(r"\b[Tt][Ii][Ee]\s?\(\s?([AB])\b")


class OpenINGPairs(Benchmark):
    """Two calls per pair, one in each order."""

    name = "opening-pairs"
    title = "OpenING, pairs that people compared"
    licence = NO_LICENCE
    tests = "critics"
    judge = Judge("gpt-4o", "openai:gpt-4o")
    official_prompts: ClassVar[Mapping[str, Constant]] = {"pair": Constant("prompts/judge_system.txt")}
    about = (
        "upstream asks in one order only: compare its numbers with those that end in _forward. It picks a "
        "random side if a reply names none; here such a reply has no value"
    )

    def read(self, folder: Path) -> Dataset:
        path = find_file(folder, PAIRS_FILE)
        root = root_of(folder, path)
        rows = list(read_rows(path))
        models = sorted({_name(row, side, path) for row in rows for side in ("model_A", "model_B")})
        documents = _Documents.of(root, models)
        items = tuple(_pair(row, number, path, models, documents) for number, row in enumerate(rows, start=1))
        there = sum(documents.has(item) for item in items)
        ties = sum(item.facts["human"].startswith("Tie") for item in items)
        notes = [f"{len(items):,} pairs of {len(models)} models, {ties:,} of them ties"]
        if len(items) != PAIRS:
            notes.append(f"upstream has {PAIRS:,} pairs")
        if there < len(items):
            notes.append(
                f"{there:,} pairs have both documents in {root / 'gen_outputs'}: only those can be judged"
            )
        return Dataset(items, digest_of([path, *documents.files.values()]), str(folder), tuple(notes))

    def keys(self, item: Item, output: Output | None) -> Sequence[str]:
        return (FORWARD, REVERSE)

    def question(self, key: str, item: Item, output: Output | None, context: Context) -> Question:
        documents: _Documents = item.facts["documents"]
        first, second = [documents.find(item.facts[side], item.facts["item"]) for side in key]
        asked = documents.asked(item.facts["item"])
        shown = [
            *shown_parts(asked, "<INPUT>:", 0),
            *shown_parts(first, "<OUTPUT_A>:", len(asked.images)),
            *shown_parts(second, "<OUTPUT_B>:", len(asked.images) + len(first.images)),
            Text("Say only which of the two is better."),
        ]
        return Question(
            (Message("system", (Text(context.prompts.templates["pair"]),)), Message("user", on_lines(shown))),
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
                continue  # upstream's judges also saw pairs without a human verdict
            record = JudgeRecord(item=identity, key=FORWARD, output="", status="ok", value=row.get("winner"))
            if record.value not in VERDICTS:
                reason = f"{row.get('winner')!r:.40} is not a verdict"
                record = record.model_copy(update={"status": "unparsed", "value": None, "reason": reason})
            yield record

    def judge_of_import(self, path: Path) -> str:
        return next((judge for start, judge in JUDGES.items() if path.name.startswith(start)), path.stem)

    def imported_keys(self, item: Item) -> Sequence[str]:
        return (FORWARD,)


# verdicts


def verdict_of(reply: str) -> str:
    """Return one of the four verdicts. Raises `Unparsed` if the reply has none, or several."""
    said = without_thoughts(reply).replace("*", "").replace('"', "").replace("`", "")
    if (bare := said.strip().rstrip(".")) in ("A", "B"):
        return bare
    found = {f"Tie({side})" for side in _TIE.findall(said)} | set(_CLEAR.findall(said))
    if len(found) != 1:
        raise Unparsed(
            "the reply names neither A nor B" if not found else f"it names {' and '.join(sorted(found))}"
        )
    return str(found.pop())


def swapped(verdict: str) -> str:
    """Return the verdict on the same pair in the other order."""
    return verdict.translate({ord("A"): "B", ord("B"): "A"})


def side_of(verdict: str) -> str:
    """Return the winning side; ties go to the side they lean to."""
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
"""With ties assigned to a side, with ties as a third verdict, and over pairs that neither calls a tie."""


def _mean(values: Sequence[float | None]) -> float | None:
    there = [value for value in values if value is not None]
    return sum(there) / len(there) if there else None


POINTS = {
    "fdt": ((1, 0, 1, 0), (0, 1, 0, 1)),
    "no_tie": ((1, 0, None, None), (0, 1, None, None)),
    "tie_0": ((1, 0, 0, 0), (0, 1, 0, 0)),
    "tie_half": ((1, 0, 0.5, 0.5), (0, 1, 0.5, 0.5)),
}
"""By rule, the value of each verdict to the first and the second side; `None` if not counted."""


def win_rates(first: Array, second: Array, verdicts: Sequence[Array], rule: str, models: int) -> Array:
    """Return the share of its pairs that each model wins, NaN if it has none. Sets of verdicts weigh equally.

    Models and verdicts are given as indices, missing verdicts as NaN.
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
    """Define the rank correlation of judge's and people's win rates, over the judged pairs."""

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


# pairs


@dataclass(frozen=True)
class _Documents:
    """The answers of all models in a folder."""

    root: Path
    files: Mapping[tuple[str, str], Path]
    """Answer files by model and item."""
    data: Mapping[str, dict[str, Any]]
    """The benchmark's rows. Its own answers are those of the model named Human."""
    data_folder: Path

    @classmethod
    def of(cls, root: Path, models: Sequence[str]) -> _Documents:
        files: dict[tuple[str, str], Path] = {}
        for model in models:
            for place in (root / f"{model}{ENDING}", root / "gen_outputs" / f"{model}{ENDING}"):
                for path in sorted(place.glob("*.json*")):
                    files.setdefault((model, path.stem), path)
        try:
            path = find_file(root, DATA_FILE)
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
            return read_document(path)
        if model == HUMAN and (document := self._human(item)) is not None:
            return document
        raise MissingOutput(f"no answer of {model} to {item} below {self.root}")

    def asked(self, item: str) -> Document:
        row = self.data.get(item)
        if row is None:
            raise MissingOutput(f"no {DATA_FILE} with item {item} below {self.root}")
        turn = turns_of(row, item)[0]
        return complete(read_steps(turn, "input", lambda name: below(self.data_folder, name), item))

    def _human(self, item: str) -> Document | None:
        if (row := self.data.get(item)) is None:
            return None
        document = read_steps(
            turns_of(row, item)[1], "output", lambda name: below(self.data_folder, name), item
        )
        return document if all(path.is_file() for path in document.images) else None


def _name(row: Mapping[str, Any], side: str, path: Path) -> str:
    model = row.get(side)
    if not isinstance(model, dict) or not isinstance(model.get("name"), str):
        raise InputError(f"{path}: {side!r} is {model!r:.60}, not the name of a model")
    return str(model["name"])


def _pair_id(row: Mapping[str, Any], path: Path, number: int) -> str:
    identity = field(row, "data_id", str, f"{path}: row {number}")
    return "/".join([identity, _name(row, "model_A", path), _name(row, "model_B", path)])


def _pair(
    row: Mapping[str, Any], number: int, path: Path, models: Sequence[str], documents: _Documents
) -> Item:
    human = field(row, "winner", str, f"{path}: row {number}")
    if human not in VERDICTS:
        raise InputError(f"{path}: row {number}: {human!r:.40} is not a verdict")
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

"""EditReward-Bench of TIGER-Lab: two, three or four edits of one image, ranked by people.

EditScore has another dataset of the same name (`editscore-bench`). A judge compares the edits pairwise. A
ranking is right if all its pairs are; published is the share of right rankings. Scorers are published with a
tie threshold chosen on the same labels: such numbers end in `_tuned` here.

Early versions of the data hold some pairs twice, a few with opposite labels. Each copy is a separate item,
and the notes count them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from interleave import ImagePart, InputError, Message, Text
from interleave.bench.base import (
    Answers,
    Benchmark,
    Context,
    Dataset,
    Item,
    JudgeRecord,
    Policy,
    Question,
    Status,
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
    scores_of,
    showing,
)
from interleave.bench.datasets import HubData, field, read_object
from interleave.bench.image_tables import TableRow, revision_of, table_files, text_rows
from interleave.bench.judge import NO_OUTPUT
from interleave.bench.numbers import Number, Table
from interleave.bench.outputs import Output
from interleave.bench.parsing import without_thoughts
from interleave.bench.prompts import Constant, JudgePrompts
from interleave.bench.statistics import DIGITS, tie_accuracy, tuned_ties
from interleave.plugin import Part

if TYPE_CHECKING:
    from PIL.Image import Image

    from interleave.bench.statistics import Array

SIZES = {"2pair": 2, "3pair": 3, "4pair": 4}
RANKINGS = {2: 186, 3: 150, 4: 148}
"""Number of rankings behind the published numbers."""
LETTERS = "ABCD"
COMPARISONS = tuple(f"{first}vs{second}" for first, second in combinations(LETTERS, 2))
COLUMNS = ("id", "instruction", "dataset", "ranking", "comparison_type", "model_1", "model_2")
TIES = ("A=B", "A=B=Good", "A=B=Bad")
TIE = "="
_TEMPLATES = "EditReward/evaluate/genaibench/templates/image_edition"
_GAPS = {
    "<instruct_prompt>": "instruction",
    "<source_image>": "source",
    "<left_output_image>": "first",
    "<right_output_image>": "second",
    "<comparison_type>": "comparison",
}
_IMAGE = re.compile(r"\{(source|first|second)\}")
_LABEL = re.compile(r"\[\[([^\[\]]{1,40})\]\]")


@dataclass(frozen=True)
class Compared:
    """Two edits of one image, and the human preference."""

    comparison: str
    sign: int
    """1 for the first, -1 for the second, 0 for neither."""
    row: TableRow

    @property
    def letters(self) -> tuple[str, str]:
        return self.comparison[0], self.comparison[-1]


class EditRewardBench(Benchmark):
    """One question about every pair of a ranking."""

    name = "editreward-bench"
    title = "EditReward-Bench (TIGER-Lab)"
    licence = "Apache-2.0"
    judge = OUR_CRITIC
    # later versions drop duplicate pairs; the published numbers are older
    hub = HubData(
        "TIGER-Lab/EditReward-Bench", "fb9aef9a4972d075e10f3dbedc9f967031da90c3", ("*pair/*.parquet",)
    )
    official_prompts: ClassVar[Mapping[str, Constant]] = {
        "with_tie": Constant(f"{_TEMPLATES}/pairwise_2pair.txt", None, _GAPS),
        "without_tie": Constant(f"{_TEMPLATES}/pairwise_3pair.txt", None, _GAPS),
    }
    tests = "critics"
    about = (
        "the share of rankings with all pairs right, over K = 2 (people may call a tie), 3 and 4; "
        "each pair is asked about in one order, as in upstream"
    )

    def read(self, folder: Path) -> Dataset:
        paths = table_files(folder)
        if not paths:
            raise InputError(f"{folder} has no .parquet or .arrow file")
        rows = list(text_rows(paths, COLUMNS))
        items, notes = _items(rows)
        counts = {size: sum(item.facts["size"] == size for item in items) for size in RANKINGS}
        said = [f"{count:,} with K = {size}" for size, count in counts.items()]
        notes = [f"{len(items):,} rankings ({', '.join(said)}), {len(rows):,} pairs", self.licence, *notes]
        if counts != RANKINGS:
            published = ", ".join(map(str, RANKINGS.values()))
            notes.append(f"published numbers use {published} rankings")
        return Dataset(
            tuple(items), revision_of((values for values, _ in rows), paths), str(folder), tuple(notes)
        )

    def keys(self, item: Item, output: Output | None) -> Sequence[str]:
        return [f"{item.facts['size']}/{pair.comparison}" for pair in item.facts["pairs"]]

    def question(self, key: str, item: Item, output: Output | None, context: Context) -> Question:
        comparison = key.split("/")[1]
        pair = next(pair for pair in item.facts["pairs"] if pair.comparison == comparison)
        ties = item.facts["size"] == 2
        with showing():
            images = {
                "source": pair.row.image("source_image"),
                "first": pair.row.image("candidate_1"),
                "second": pair.row.image("candidate_2"),
            }
        parts = _filled(
            context.prompts,
            "with_tie" if ties else "without_tie",
            {"instruction": item.prompt, "comparison": comparison},
            images,
        )
        return Question((Message("user", tuple(parts)),), lambda reply: _vote(reply, pair.letters, ties))

    def worst(self, key: str) -> Any:
        return WRONG

    def official(self, measure: str, key: str, status: Status) -> Policy:
        """Count a reply without a vote as wrong. Leave out a failed call, and count its ranking as wrong."""
        of_rankings = measure.startswith("rank") and not key.startswith("2/")
        if status in ("unparsed", "refused") or of_rankings:
            return "zero"
        return "drop"

    def measures(self, item: Item, answers: Answers) -> Mapping[str, float | None]:
        pairs: Sequence[Compared] = item.facts["pairs"]
        votes = [answers[key] for key in self.keys(item, None)]
        right = [vote == _expected(pair) for pair, vote in zip(pairs, votes, strict=True) if vote is not None]
        whole = None not in votes
        return {
            **_ranking(item, (item.facts["whole"] and all(right)) if whole else None),
            "right": float(sum(right)) if right else None,
            "pairs": float(len(right)) if right else None,
        }

    def numbers(self) -> Sequence[Number]:
        return [*_rankings(), ratio("pair_acc", "right", "pairs")]

    def import_judgements(self, dataset: Dataset, path: Path) -> Iterator[JudgeRecord]:
        """Read the results of upstream's `inference_Kpair_hf.py`: one file per K, or a folder of them."""
        waiting = _by_row(dataset)
        matched = False
        for result in _results(path):
            key = str(result.get("id")), str(result.get("comparison_type") or "AvsB")
            places = waiting.get(key)
            if not places:
                continue
            item, pair = places.pop(0)
            matched = True
            yield _imported(item, pair, result)
        if not matched:
            raise InputError(f"{path} has no votes on pairs of {dataset.source}")


class EditRewardBenchCritic(LoopCriticMixin, EditRewardBench):
    """The same edits, each judged alone by a critic as in a run."""

    name = "editreward-bench-critic"
    title = "EditReward-Bench (TIGER-Lab), asked as the critic of a run"
    data_as = "editreward-bench"
    about = (
        "edits are ranked by acceptance probability; equal ones are a tie. Numbers in _tuned "
        "call small differences a tie, by a threshold chosen on these same labels, as upstream does"
    )

    def keys(self, item: Item, output: Output | None) -> Sequence[str]:
        return _letters(item)

    def question(self, key: str, item: Item, output: Output | None, context: Context) -> Question:
        with showing():
            source, made = _shown(item, key)
        return critic_question(item.prompt, [source], made, context)

    def measures(self, item: Item, answers: Answers) -> Mapping[str, float | None]:
        pairs: Sequence[Compared] = item.facts["pairs"]
        said = {letter: answers[letter] for letter in _letters(item)}
        preferred = [
            (said[better], said[worse]) for pair in pairs if pair.sign for better, worse in [_ordered(pair)]
        ]
        return {**_ranked(item, said), **_gaps(item, said), **pair_measures(preferred)}

    def numbers(self) -> Sequence[Number]:
        used = tuple(f"{what}_{name}" for name in COMPARISONS for what in ("label", "gap"))
        return [
            *_rankings(),
            Number("ranking_acc_tuned", _tuned_rankings, 100, 2, ("ranked", *used)),
            Number("pair_acc_with_ties", _strict, 100, 2, used),
            Number("pair_acc_with_ties_tuned", _tuned, 100, 2, used),
            *critic_numbers(),
        ]


# data


def _items(rows: Sequence[tuple[dict[str, Any], TableRow]]) -> tuple[list[Item], list[str]]:
    """Build rankings from their pairs: pairs whose ids agree up to an underscore belong together."""
    copies: dict[tuple[str, str, int], dict[str, Compared]] = {}
    asked: dict[tuple[str, str, int], tuple[str, list[str]]] = {}
    repeated = opposite = 0
    for values, row in rows:
        where = f"{row.path}: row {row.row}"
        size = field(values, "dataset", str, where)
        if size not in SIZES:
            raise InputError(f"{where}: unknown part {size!r}")
        identity = field(values, "id", str, where)
        group = identity if size == "2pair" else identity.split("_")[0]
        pair = _compared(values, row, where)
        copy = 1
        while pair.comparison in copies.get((size, group, copy), {}):
            copy += 1
        if copy > 1:
            repeated += 1
            opposite += pair.sign != copies[(size, group, 1)][pair.comparison].sign
        copies.setdefault((size, group, copy), {})[pair.comparison] = pair
        instruction = field(values, "instruction", str, where)
        asked.setdefault((size, group, copy), (instruction, []))[1].append(identity)
    items = []
    for (size, group, copy), found in copies.items():
        count = SIZES[size]
        pairs = tuple(sorted(found.values(), key=lambda pair: pair.comparison))
        instruction, ids = asked[(size, group, copy)]
        facts = {
            "size": count,
            "pairs": pairs,
            "whole": [pair.comparison for pair in pairs] == _all_pairs(count),
            "ids": dict(zip(found, ids, strict=True)),
        }
        name = f"{size}/{group}" + (f"#{copy}" if copy > 1 else "")
        items.append(Item(name, f"K={count}", (instruction,), facts))
    notes = []
    if repeated:
        notes.append(f"duplicate pairs: {repeated:,}, of which with another label: {opposite:,}")
    if broken := sum(not item.facts["whole"] for item in items):
        notes.append(f"rankings that lack pairs: {broken:,}; they count as wrong, as in upstream")
    return items, notes


def _compared(values: Mapping[str, Any], row: TableRow, where: str) -> Compared:
    comparison = values.get("comparison_type") or "AvsB"
    if comparison not in COMPARISONS:
        raise InputError(f"{where}: unknown comparison {comparison!r:.40}")
    first, second = comparison[0], comparison[-1]
    ranking = field(values, "ranking", str, where).replace(" ", "")
    if ranking in TIES and comparison == "AvsB":
        sign = 0
    elif ranking in (f"{first}>{second}", f"{second}<{first}"):
        sign = 1
    elif ranking in (f"{second}>{first}", f"{first}<{second}"):
        sign = -1
    else:
        raise InputError(f"{where}: the ranking {ranking!r:.40} does not compare {first} with {second}")
    return Compared(comparison, sign, row)


def _all_pairs(count: int) -> list[str]:
    return [f"{first}vs{second}" for first, second in combinations(LETTERS[:count], 2)]


def _letters(item: Item) -> list[str]:
    return sorted({letter for pair in item.facts["pairs"] for letter in pair.letters})


def _shown(item: Item, letter: str) -> tuple[Image, Image]:
    pair: Compared = next(pair for pair in item.facts["pairs"] if letter in pair.letters)
    column = f"candidate_{pair.letters.index(letter) + 1}"
    return pair.row.image("source_image"), pair.row.image(column)


# asking


def _filled(
    prompts: JudgePrompts, name: str, gaps: Mapping[str, str], images: Mapping[str, Image]
) -> Iterator[Part]:
    """Fill a template with texts and images. Gaps in the filled-in instruction are not expanded."""
    for place, piece in enumerate(_IMAGE.split(prompts.templates[name])):
        if place % 2:
            yield ImagePart(images[piece])
        elif piece.strip():
            yield Text(JudgePrompts(prompts.label, {name: piece}).fill(name, **gaps))


def _vote(reply: str, letters: tuple[str, str], ties: bool) -> str:
    """Return the preferred letter, or `=`: the only label in double brackets."""
    first, second = letters
    meanings = {f"{first}>{second}": first, f"{second}>{first}": second}
    meanings |= {f"{second}<{first}": first, f"{first}<{second}": second}
    meanings |= {"LEFT>RIGHT": first, "RIGHT>LEFT": second}
    if ties:
        meanings[f"{first}={second}"] = TIE
    said = {"".join(label.split()).upper() for label in _LABEL.findall(without_thoughts(reply))}
    votes = {meanings[label] for label in said if label in meanings}
    if not said:
        raise Unparsed("no label in double brackets in the reply")
    if len(votes) != 1 or not said <= set(meanings):
        raise Unparsed(
            f"the labels {', '.join(sorted(said))!r:.80} are not a single vote on {first} and {second}"
        )
    return votes.pop()


def _expected(pair: Compared) -> str:
    return {1: pair.letters[0], -1: pair.letters[1], 0: TIE}[pair.sign]


# numbers


def _rankings() -> list[Number]:
    parts = ["", *(f"_k{size}" for size in RANKINGS)]
    return [ratio(f"ranking_acc{part}", f"ranked{part}", f"rankings{part}", digits=2) for part in parts]


def _ranking(item: Item, right: bool | None) -> dict[str, float | None]:
    """Return whether a ranking is right, among all and among those of its size; `None` if left out."""
    found: dict[str, float | None] = {}
    for part in ("", *(f"_k{size}" for size in RANKINGS)):
        counts = right is not None and part in ("", f"_k{item.facts['size']}")
        found |= {f"ranked{part}": float(bool(right)) if counts else None}
        found |= {f"rankings{part}": 1.0 if counts else None}
    return found


def _ordered(pair: Compared) -> tuple[str, str]:
    """Return the letters, the better one first."""
    first, second = pair.letters
    return (first, second) if pair.sign > 0 else (second, first)


def _ranked(item: Item, said: Mapping[str, Any]) -> dict[str, float | None]:
    """Return whether scores order all pairs as people do. Human ties, and only those, need equal scores."""
    if None in said.values():
        return _ranking(item, None)
    right = item.facts["whole"] and WRONG not in said.values()
    if right:
        scores = dict(zip(said, scores_of(list(said.values())), strict=True))
        right = all(
            _sign(scores[pair.letters[0]] - scores[pair.letters[1]]) == pair.sign
            for pair in item.facts["pairs"]
        )
    return _ranking(item, right)


def _gaps(item: Item, said: Mapping[str, Any]) -> dict[str, float | None]:
    """Return each pair's label and score difference. A wrong answer gets the largest wrong difference."""
    found: dict[str, float | None] = {}
    for name in COMPARISONS:
        found |= {f"label_{name}": None, f"gap_{name}": None}
    for pair in item.facts["pairs"]:
        both = [said[letter] for letter in pair.letters]
        if None in both:
            continue
        if WRONG in both:
            gap = -2.0 * pair.sign or 2.0
        else:
            first, second = scores_of(both)
            gap = first - second
        found |= {f"label_{pair.comparison}": float(pair.sign), f"gap_{pair.comparison}": gap}
    return found


def _sign(value: float) -> int:
    return (value > 0) - (value < 0)


def _columns(table: Table) -> tuple[Array, Array]:
    """Return the labels and differences of all pairs that have them."""
    import numpy as np

    labels = np.concatenate([table.columns[f"label_{name}"] for name in COMPARISONS])
    gaps = np.concatenate([table.columns[f"gap_{name}"] for name in COMPARISONS])
    there = ~np.isnan(labels)
    return labels[there], gaps[there]


def _strict(table: Table) -> float:
    labels, gaps = _columns(table)
    return tie_accuracy(labels.tolist(), gaps.tolist(), [0.0] * len(gaps), epsilon=0.0).with_ties


def _tuned(table: Table) -> float:
    return tuned_ties(*_columns(table))[0]


def _tuned_rankings(table: Table) -> float:
    """Return rankings in which a K = 2 tie is right if below the threshold tuned on K = 2."""
    import numpy as np

    ranked = table.columns["ranked"].copy()
    if "K=2" in table.names:
        pairs = table.groups == table.names.index("K=2")
        labels, gaps = table.columns["label_AvsB"], table.columns["gap_AvsB"]
        there = pairs & ~np.isnan(labels)
        if there.any():
            _, threshold = tuned_ties(labels[there], gaps[there])
            ties = there & (labels == 0)
            ranked[ties] = np.round(np.abs(gaps[ties]), DIGITS) <= threshold
    known = ~np.isnan(ranked)
    return float(ranked[known].mean()) if known.any() else float("nan")


# upstream's files


def _by_row(dataset: Dataset) -> dict[tuple[str, str], list[tuple[Item, Compared]]]:
    found: dict[tuple[str, str], list[tuple[Item, Compared]]] = {}
    for item in dataset.items:
        for pair in item.facts["pairs"]:
            key = item.facts["ids"][pair.comparison], pair.comparison
            found.setdefault(key, []).append((item, pair))
    return found


def _results(path: Path) -> Iterator[Mapping[str, Any]]:
    for file in sorted(path.glob("*.json")) if path.is_dir() else [path]:
        results = read_object(file).get("results")
        if not isinstance(results, list):
            raise InputError(f"{file} has no list of results")
        yield from (result for result in results if isinstance(result, dict))


def _imported(item: Item, pair: Compared, result: Mapping[str, Any]) -> JudgeRecord:
    first, second = pair.letters
    vote = str(result.get("model_vote"))
    votes = {f"{first}>{second}": first, f"{second}>{first}": second, f"{first}={second}": TIE}
    record = JudgeRecord(
        item=item.id,
        key=f"{item.facts['size']}/{pair.comparison}",
        output=NO_OUTPUT,
        status="unparsed",
        reply=str(result.get("model_response") or ""),
        reason=f"upstream found no vote ({vote})",
    )
    if vote in votes:
        return record.model_copy(update={"status": "ok", "value": votes[vote], "reason": ""})
    return record

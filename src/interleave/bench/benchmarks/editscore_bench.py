"""EditReward-Bench of EditScore: pairs of edits of 13 types, judged in three dimensions by experts.

TIGER-Lab has another dataset of the same name (`editreward-bench`). Here the critic marks each image alone. A
pair is right if the better image, which comes first, has strictly more. The accuracy is the mean over types.
Upstream invents a mark for an unreadable reply; here the mark is missing.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
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
    group_ratio,
    pair_measures,
    scores_of,
    showing,
)
from interleave.bench.datasets import HubData, field
from interleave.bench.image_tables import TableRow, revision_of, table_files, text_rows
from interleave.bench.judge import NO_OUTPUT
from interleave.bench.numbers import Number
from interleave.bench.outputs import Output
from interleave.bench.parsing import field_of, json_object, number_of
from interleave.bench.prompts import OFFICIAL, Constant, JudgePrompts
from interleave.plugin import files

if TYPE_CHECKING:
    from PIL.Image import Image

DIMENSIONS = ("overall", "prompt_following", "consistency")
CATEGORIES = {
    "subject": ("subject-add", "subject-remove", "subject-replace"),
    "appearance": ("color_alter", "material_alter", "style_change", "tone_transfer"),
    "scene": ("background_change", "extract"),
    "advanced": ("ps_human", "text_change", "motion_change", "compose"),
}
TYPES = tuple(name for names in CATEGORIES.values() for name in names)
HIGHEST = 25
SEMANTICS, QUALITY = "SC", "PQ"
COLUMNS = ("key", "instruction", "task_type", "dimension")
MAX_CACHE_BYTES = 500_000_000
_PROMPTS = "editscore/vie_prompts.py"


@dataclass(frozen=True)
class Edited:
    """One judged image, possibly in several pairs."""

    key: str
    instruction: str
    row: TableRow
    place: int

    def shown(self) -> tuple[Image, Image]:
        """Return the source and the edit."""
        return self.row.image("input_image"), self.row.image("output_images", self.place)


@dataclass(frozen=True)
class Pair:
    """The two compared images of an item, the better one first."""

    dimension: str
    better: int
    worse: int


class EditScoreBench(Benchmark):
    """Two questions per image: instruction following with preservation, and visual quality."""

    name = "editscore-bench"
    title = "EditReward-Bench (EditScore)"
    licence = "Apache-2.0"
    judge = OUR_CRITIC
    hub = HubData(
        "EditScore/EditReward-Bench",
        "7dc4a0ff83c143ea0476065b2bb5d35247af0fcf",
        ("*.arrow", "*.parquet"),
    )
    official_prompts: ClassVar[Mapping[str, Constant]] = {
        "context": Constant(_PROMPTS, "_context_no_delimit_reasoning_first"),
        "edit": Constant(_PROMPTS, "_prompts_0shot_two_image_edit_rule"),
        "semantics": Constant(_PROMPTS, "_prompts_0shot_tie_rule_SC", {"<instruction>": "instruction"}),
        "quality": Constant(_PROMPTS, "_prompts_0shot_rule_PQ"),
    }
    tests = "critics"
    about = (
        "the mean over 13 edit types of the share of pairs whose better edit has more marks; ties are wrong"
    )

    def read(self, folder: Path) -> Dataset:
        paths = table_files(folder)
        if not paths:
            raise InputError(f"{folder} has no .arrow or .parquet file")
        rows = list(text_rows(paths, COLUMNS))
        items = tuple(_items(rows))
        unknown = sorted({item.group for item in items} - set(TYPES))
        if unknown:
            raise InputError(f"{folder}: unknown edit type {unknown[0]!r}")
        images = sum(len(item.facts["pictures"]) for item in items)
        notes = [
            f"{len(rows):,} pairs of {images:,} images, {len({item.group for item in items})} edit types",
            self.licence,
        ]
        if missing := sorted(set(TYPES) - {item.group for item in items}):
            notes.append(f"no pair of {', '.join(missing)}")
        return Dataset(items, revision_of((values for values, _ in rows), paths), str(folder), tuple(notes))

    def keys(self, item: Item, output: Output | None) -> Sequence[str]:
        return [
            f"{place}/{kind}" for place in range(len(item.facts["pictures"])) for kind in (SEMANTICS, QUALITY)
        ]

    def question(self, key: str, item: Item, output: Output | None, context: Context) -> Question:
        place, kind = key.split("/")
        edited: Edited = item.facts["pictures"][int(place)]
        with showing():
            source, made = edited.shown()
        if made.size != source.size:  # as upstream shows it
            made = made.resize(source.size)
        shown = [source, made] if kind == SEMANTICS else [made]
        asked = _words(context.prompts, kind, edited.instruction)
        read = _semantics if kind == SEMANTICS else _quality
        return Question((Message("user", (Text(asked), *map(ImagePart, shown))),), read)

    def worst(self, key: str) -> Any:
        return WRONG

    def official(self, measure: str, key: str, status: Status) -> Policy:
        return "stop"  # upstream invents a mark, or fails

    def measures(self, item: Item, answers: Answers) -> Mapping[str, float | None]:
        marks = {
            place: (answers[f"{place}/{SEMANTICS}"], answers[f"{place}/{QUALITY}"])
            for place in range(len(item.facts["pictures"]))
        }
        found: dict[str, float | None] = {}
        for dimension in DIMENSIONS:
            pairs = [pair for pair in item.facts["pairs"] if pair.dimension == dimension]
            right = [
                is_right
                for pair in pairs
                if (is_right := _is_right(dimension, marks[pair.better], marks[pair.worse])) is not None
            ]
            found |= _counted(dimension, right)
        return found

    def numbers(self) -> Sequence[Number]:
        return _accuracies()

    def import_judgements(self, dataset: Dataset, path: Path) -> Iterator[JudgeRecord]:
        """Read the cache of upstream's script: the marks of every image by a hash of its key."""
        found = _cache(path)
        matched = False
        for item in dataset.items:
            for place, edited in enumerate(item.facts["pictures"]):
                result = found.get(hashlib.sha256(edited.key.encode()).hexdigest())
                if result is not None:
                    matched = True
                    yield from _imported(item.id, place, result, path)
        if not matched:
            raise InputError(f"{path} has no marks of images of {dataset.source}")


class EditScoreBenchCritic(LoopCriticMixin, EditScoreBench):
    """The same images, each judged by a critic as in a run."""

    name = "editscore-bench-critic"
    title = "EditReward-Bench (EditScore), asked as the critic of a run"
    data_as = "editscore-bench"
    about = (
        "one verdict per image serves all three dimensions; pairs are compared by acceptance "
        "probability, a tie is wrong; the other numbers are over the pairs of the dimension overall"
    )

    def keys(self, item: Item, output: Output | None) -> Sequence[str]:
        return [str(place) for place in range(len(item.facts["pictures"]))]

    def question(self, key: str, item: Item, output: Output | None, context: Context) -> Question:
        edited: Edited = item.facts["pictures"][int(key)]
        with showing():
            source, made = edited.shown()
        return critic_question(edited.instruction, [source], made, context)

    def measures(self, item: Item, answers: Answers) -> Mapping[str, float | None]:
        said = {key: answers[key] for key in self.keys(item, None)}
        found: dict[str, float | None] = {}
        for dimension in DIMENSIONS:
            pairs = [
                (said[str(pair.better)], said[str(pair.worse)])
                for pair in item.facts["pairs"]
                if pair.dimension == dimension
            ]
            there = [pair for pair in pairs if None not in pair]
            found |= _counted(dimension, [_is_preferred(*pair) for pair in there])
            if dimension == "overall":
                found |= pair_measures(pairs)
        return found

    def numbers(self) -> Sequence[Number]:
        return [*_accuracies(), *critic_numbers()]


def _items(rows: Sequence[tuple[dict[str, Any], TableRow]]) -> Iterator[Item]:
    """Build one item for all pairs that share images, so that each image is asked about once."""
    read = [_row(values, row) for values, row in rows]
    leader: dict[str, str] = {}

    def find(key: str) -> str:
        while leader.setdefault(key, key) != key:
            leader[key] = leader[leader[key]]
            key = leader[key]
        return key

    for _, _, (first, second) in read:
        leader[find(second.key)] = find(first.key)
    together: dict[str, list[tuple[str, str, tuple[Edited, Edited]]]] = {}
    for each in read:
        together.setdefault(find(each[2][0].key), []).append(each)
    for members in together.values():
        if len({group for group, _, _ in members}) > 1:
            raise InputError(f"the pairs of {members[0][2][0].key!r} have several edit types")
        images: dict[str, Edited] = {}
        for _, _, both in members:
            for edited in both:
                images.setdefault(edited.key, edited)
        places = {key: place for place, key in enumerate(images)}
        pairs = tuple(
            Pair(dimension, places[first.key], places[second.key])
            for _, dimension, (first, second) in members
        )
        first = members[0][2][0]
        facts = {"pictures": tuple(images.values()), "pairs": pairs}
        yield Item(first.key, members[0][0], (first.instruction,), facts)


def _row(values: Mapping[str, Any], row: TableRow) -> tuple[str, str, tuple[Edited, Edited]]:
    where = f"{row.path}: row {row.row}"
    instruction = field(values, "instruction", str, where)
    dimension = field(values, "dimension", str, where)
    if dimension not in DIMENSIONS:
        raise InputError(f"{where}: unknown dimension {dimension!r}")
    match values.get("key"):
        case [str(better), str(worse)] if better != worse:
            both = (Edited(better, instruction, row, 0), Edited(worse, instruction, row, 1))
            return field(values, "task_type", str, where), dimension, both
    raise InputError(f"{where}: 'key' is {values.get('key')!r:.60}, not two different names")


def _words(prompts: JudgePrompts, kind: str, instruction: str) -> str:
    if prompts.label != OFFICIAL:
        return prompts.fill("semantics" if kind == SEMANTICS else "quality", instruction=instruction)
    # upstream's templates mark out of 10; upstream replaces that by its own maximum before filling them
    pieces = ["context", "edit"] if kind == SEMANTICS else ["context"]
    rule = JudgePrompts(
        prompts.label,
        {
            "rule": prompts.templates["semantics" if kind == SEMANTICS else "quality"].replace(
                "10", str(HIGHEST)
            )
        },
    )
    return "\n".join(
        [*(prompts.templates[name] for name in pieces), rule.fill("rule", instruction=instruction)]
    )


def _semantics(reply: str) -> dict[str, float]:
    following, consistency = _two_marks(reply)
    return {"prompt_following": following, "consistency": consistency}


def _quality(reply: str) -> dict[str, float]:
    return {"quality": min(_two_marks(reply))}


def _two_marks(reply: str) -> tuple[float, float]:
    marks = field_of(json_object(reply), "score")
    if not isinstance(marks, list) or len(marks) != 2:
        raise Unparsed(f"{marks!r:.40} is not a list of two marks")
    first, second = (number_of(mark, low=0, high=HIGHEST) for mark in marks)
    return first, second


def _is_right(dimension: str, better: tuple[Any, Any], worse: tuple[Any, Any]) -> bool | None:
    """Return whether the better image has more marks; `None` if a needed answer is left out."""
    needed = [*better, *worse] if dimension == "overall" else [better[0], worse[0]]
    if None in needed:
        return None
    if WRONG in needed:
        return False
    return _mark(dimension, *better) > _mark(dimension, *worse)


def _mark(dimension: str, semantics: Mapping[str, float], quality: Mapping[str, float]) -> float:
    if dimension != "overall":
        return semantics[dimension]
    if (mean := quality.get("overall")) is not None:  # marks of several passes, as in upstream's cache
        return mean
    # the product, not its root: roots of equal products may differ in the last digit
    return min(semantics.values()) * quality["quality"]


def _is_preferred(better: Any, worse: Any) -> bool:
    if WRONG in (better, worse):
        return False
    first, second = scores_of([better, worse])
    return first > second


def _counted(dimension: str, right: Sequence[bool]) -> dict[str, float | None]:
    return {
        f"{dimension}_right": float(sum(right)) if right else None,
        f"{dimension}_pairs": float(len(right)) if right else None,
    }


def _accuracies() -> list[Number]:
    means = [group_ratio(name, f"{name}_right", f"{name}_pairs") for name in DIMENSIONS]
    return means + [
        group_ratio(f"{category}_{name}", f"{name}_right", f"{name}_pairs", groups=types)
        for category, types in CATEGORIES.items()
        for name in DIMENSIONS
    ]


def _cache(path: Path) -> dict[str, Any]:
    try:
        lines = files.read_bytes(path, most_bytes=MAX_CACHE_BYTES).splitlines()
    except OSError as error:
        raise InputError(f"cannot read {path} ({files.why(error)})") from None
    found: dict[str, Any] = {}
    for number, line in enumerate(lines, start=1):
        try:
            row = json.loads(line)
            found[row["key"]] = row["result"]
        except (ValueError, RecursionError, KeyError, TypeError):
            raise InputError(f"{path}:{number} is not a line of upstream's cache") from None
    return found


def _imported(item: str, place: int, result: Any, path: Path) -> Iterator[JudgeRecord]:
    """Convert upstream's marks, which are out of 10 and means over its passes."""
    scale = HIGHEST / 10
    try:
        following, consistency, quality, overall = (
            number_of(result[name], low=0, high=10)
            for name in ("prompt_following", "consistency", "perceptual_quality", "overall")
        )
    except (KeyError, TypeError, Unparsed) as error:
        raise InputError(f"{path}: the marks of image {place} of {item!r} are incomplete ({error})") from None
    values = {
        SEMANTICS: {"prompt_following": following * scale, "consistency": consistency * scale},
        QUALITY: {"quality": quality * scale, "overall": overall * scale},
    }
    for kind, value in values.items():
        yield JudgeRecord(item=item, key=f"{place}/{kind}", output=NO_OUTPUT, status="ok", value=value)

"""Two systems on the same items of a benchmark: paired differences, wins and losses side by side."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from interleave import InputError, InterleaveError
from interleave.bench.base import Benchmark, Item, JudgeRecord
from interleave.bench.numbers import Gap, paired
from interleave.bench.outputs import FOLDER as OUTPUTS
from interleave.bench.outputs import Output, read_outputs
from interleave.bench.records import FOLDER as JUDGE
from interleave.bench.records import read_records, record_file
from interleave.bench.report import Filter, group_classes, group_filters
from interleave.bench.scoring import item_scores
from interleave.bench.stages import SCORES, Scored, judge_name, open_workspace, read_scored
from interleave.bench.table import find_benchmark
from interleave.bench.views import AnswerView, ItemView, Pages, VerdictView, in_digits
from interleave.plugin import Value, render, slug, write_atomic


class Comparison(Value):
    """The result of a comparison."""

    benchmark: str
    gaps: tuple[Gap, ...]
    wins: tuple[str, ...]
    """Items on which A scores higher, largest difference first."""
    losses: tuple[str, ...]
    ties: int
    left_out: int = 0
    """Items for which one system has no value."""
    scores: dict[str, tuple[float, float]]
    """Scores of A and B by item, from the first number that has a value for both."""
    notes: tuple[str, ...] = ()
    """Reasons not to compare the two."""


@dataclass(frozen=True)
class Side:
    """One system: its numbers, and the folder with its outputs."""

    folder: Path
    scored: Scored

    @property
    def label(self) -> str:
        description = self.scored.description
        models = ", ".join(f"{role} {spec}" for role, spec in description.models.items())
        return " · ".join(filter(None, [description.system, self.scored.outputs, models]))

    def outputs(self, benchmark: Benchmark) -> dict[str, Output]:
        if benchmark.tests == "critics":
            return {}
        return read_outputs(self.folder / OUTPUTS / f"{self.scored.outputs}.jsonl")

    def records(self, outputs: Mapping[str, Output]) -> dict[str, dict[str, JudgeRecord]]:
        """Return the judge's records of the current outputs, by item and key."""
        found: dict[str, dict[str, JudgeRecord]] = {}
        known = read_records(self.folder / JUDGE / record_file(self.scored.judge, self.scored.prompts))
        for (item, digest, key), record in known.items():
            output = outputs.get(item)
            if output is None or not output.parts or output.digest == digest:
                found.setdefault(item, {})[key] = record
        return found


@dataclass(frozen=True)
class ComparedItem:
    """One item on the page."""

    item: ItemView
    won: bool
    difference: float
    scores: tuple[str, str]
    answers: tuple[AnswerView, AnswerView]
    verdicts: tuple[tuple[VerdictView, VerdictView], ...]
    group: str

    @property
    def disagreeing(self) -> tuple[tuple[VerdictView, VerdictView], ...]:
        return tuple(pair for pair in self.verdicts if pair[0].verdict != pair[1].verdict)

    @property
    def classes(self) -> str:
        return f"item {'win' if self.won else 'loss'} {self.group}"


def sides_of(ours: Path, theirs: Path) -> tuple[Side, Side]:
    """Return the newest scores of two folders with the same judge and prompts, or two score files."""
    mine, yours = _scores_of(ours), _scores_of(theirs)
    for a in mine:
        for b in yours:
            if (a.scored.judge, a.scored.prompts, a.scored.outcome.missing) == (
                b.scored.judge,
                b.scored.prompts,
                b.scored.outcome.missing,
            ):
                return a, b
    return mine[0], yours[0]


def _scores_of(path: Path) -> list[Side]:
    if not path.is_file():
        return [Side(path, scored) for scored in read_scored(path)]
    if path.parent.name != SCORES:
        raise InputError(f"{path} is neither a system's folder nor a file in its {SCORES}/")
    folder = path.parent.parent
    return [Side(folder, scored) for scored in read_scored(folder, path)]


def compare_folders(ours: Path, theirs: Path) -> Comparison:
    """Compare the newest scores of two folders with the same judge and prompts."""
    mine, yours = sides_of(ours, theirs)
    return compare_scored(mine.scored, yours.scored)


def compare_scored(ours: Scored, theirs: Scored) -> Comparison:
    name = ours.description.benchmark
    if name != theirs.description.benchmark:
        raise InputError(f"A is {name}, B is {theirs.description.benchmark}: compare the same benchmark")
    benchmark = find_benchmark(name)
    a, b = ours.outcome.measures, theirs.outcome.measures
    shared = [item for item in ours.groups if item in a and item in b]
    if not shared:
        raise InputError("A and B have no items in common")
    numbers = benchmark.numbers()
    scores = {
        item: (found[0], found[1])
        for item in shared
        if (found := item_scores(benchmark, numbers, ours.groups[item], a[item], b[item])) is not None
    }
    differences = {item: round(mine - yours, 9) for item, (mine, yours) in scores.items()}
    ranked = sorted(differences, key=lambda item: -abs(differences[item]))
    return Comparison(
        benchmark=name,
        gaps=tuple(paired(number, ours.groups, a, b) for number in numbers),
        wins=tuple(item for item in ranked if differences[item] > 0),
        losses=tuple(item for item in ranked if differences[item] < 0),
        ties=sum(difference == 0 for difference in differences.values()),
        left_out=len(shared) - len(differences),
        scores=scores,
        notes=tuple(_notes(ours, theirs, len(shared))),
    )


def _notes(ours: Scored, theirs: Scored, shared: int) -> list[str]:
    notes = []
    for what, a, b in (
        ("judge", ours.judge, theirs.judge),
        ("wording of the judge's prompts", ours.prompts, theirs.prompts),
        ("rule for missing answers", ours.outcome.missing, theirs.outcome.missing),
        ("revision of the data", ours.description.revision, theirs.description.revision),
        ("version of the numbers", ours.description.version, theirs.description.version),
    ):
        if a != b:
            notes.append(
                f"A and B differ in the {what} ({a} and {b}): the difference is not due to the systems alone"
            )
    if shared < max(len(ours.groups), len(theirs.groups)):
        notes.append(f"only the {shared:,} items in both are compared")
    return notes


def write_comparison(comparison: Comparison, ours: Path, theirs: Path, data: Path | None = None) -> Path:
    """Write the page into the folder of A; return its path."""
    mine, yours = sides_of(ours, theirs)
    other = slug("-".join([yours.folder.name, *([theirs.stem] if theirs.is_file() else [])]), 80) or "other"
    path = mine.folder / f"compare-{other}.html"
    write_atomic(path, render_comparison(comparison, mine, yours, path.parent, data).encode())
    return path


def render_comparison(
    comparison: Comparison, ours: Side, theirs: Side, page: Path, data: Path | None = None
) -> str:
    """Render the page as HTML. It has no script and loads only images of the two folders."""
    benchmark = find_benchmark(comparison.benchmark)
    items, notes = _items(benchmark, ours, data)
    compared = _compared_items(comparison, ours, theirs, items, Pages(benchmark, page))
    groups = dict.fromkeys(each.item.group for each in compared)
    return render.page_template("compare.html.j2", package="interleave.bench").render(
        title=f"{benchmark.title}: A against B",
        comparison=comparison,
        headline=comparison.gaps[0],
        sides=(ours, theirs),
        judges=[judge_name(side.scored.judge) for side in (ours, theirs)],
        values=[
            [in_digits(number.value, number.digits) for number in side.scored.outcome.numbers]
            for side in (ours, theirs)
        ],
        notes=notes,
        entries=compared,
        show_filters=[
            Filter("show-all", "wins and losses", "", len(compared)),
            Filter("show-wins", "wins of A", "win", len(comparison.wins)),
            Filter("show-losses", "losses of A", "loss", len(comparison.losses)),
        ],
        group_filters=group_filters([(each.item.group, each.group) for each in compared], list(groups)),
        in_digits=in_digits,
    )


def _items(benchmark: Benchmark, side: Side, data: Path | None) -> tuple[dict[str, Item], list[str]]:
    """Return the items with their prompts if the data is available, else with their ids only."""
    there = Path(side.scored.description.data)
    try:
        found = open_workspace(benchmark, side.folder, data or (there if there.exists() else None))
        return {item.id: item for item in found.dataset.items}, []
    except InterleaveError as error:
        return {}, [f"prompts are not shown because the data was not found ({error}): give it with --data"]


def _compared_items(
    comparison: Comparison, ours: Side, theirs: Side, items: Mapping[str, Item], pages: Pages
) -> list[ComparedItem]:
    benchmark = pages.benchmark
    outputs = [side.outputs(benchmark) for side in (ours, theirs)]
    records = [side.records(each) for side, each in zip((ours, theirs), outputs, strict=True)]
    classes = group_classes(ours.scored.groups.values())
    won = set(comparison.wins)
    compared = []
    differences = {item: mine - yours for item, (mine, yours) in comparison.scores.items()}
    for identity in sorted((*comparison.wins, *comparison.losses), key=lambda each: -abs(differences[each])):
        group = ours.scored.groups[identity]
        known = items.get(identity)
        item = known or Item(identity, group)
        found = [each.get(identity, {}) for each in records]
        keys = list(dict.fromkeys(key for each in found for key in each))
        measures = [side.scored.outcome.measures[identity] for side in (ours, theirs)]
        scores = [in_digits(score) for score in comparison.scores[identity]]
        answers = [
            pages.answer(item, each.get(identity), side.folder, said, measured, keys, known is not None)
            for side, each, said, measured in zip((ours, theirs), outputs, found, measures, strict=True)
        ]
        compared.append(
            ComparedItem(
                pages.item(item),
                identity in won,
                differences[identity],
                (scores[0], scores[1]),
                (answers[0], answers[1]),
                tuple(zip(answers[0].verdicts, answers[1].verdicts, strict=True)),
                classes[group],
            )
        )
    return compared

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
    """What a comparison came to."""

    benchmark: str
    gaps: tuple[Gap, ...]
    wins: tuple[str, ...]
    """Items where A has more; the largest difference first."""
    losses: tuple[str, ...]
    ties: int
    left_out: int = 0
    """Items that one of them has no value for."""
    scores: dict[str, tuple[float, float]]
    """Of A and B, by item: by the first number that has a value for both."""
    notes: tuple[str, ...] = ()
    """What is wrong with comparing the two."""


@dataclass(frozen=True)
class Side:
    """A system of a comparison: its numbers, and the folder that has its outputs."""

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
        """What the judge said of the outputs as they are now, by item and key."""
        found: dict[str, dict[str, JudgeRecord]] = {}
        known = read_records(self.folder / JUDGE / record_file(self.scored.judge, self.scored.prompts))
        for (item, digest, key), record in known.items():
            output = outputs.get(item)
            if output is None or not output.parts or output.digest == digest:
                found.setdefault(item, {})[key] = record
        return found


@dataclass(frozen=True)
class Duel:
    """An item of the page."""

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
    """The newest scores of two folders that have the same judge and wording; or two files of scores."""
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
        raise InputError(f"{path} is neither the folder of a system nor a file of its {SCORES}/")
    folder = path.parent.parent
    return [Side(folder, scored) for scored in read_scored(folder, path)]


def compare_folders(ours: Path, theirs: Path) -> Comparison:
    """Compare the newest scores of two folders that have the same judge and wording."""
    mine, yours = sides_of(ours, theirs)
    return compare_scored(mine.scored, yours.scored)


def compare_scored(ours: Scored, theirs: Scored) -> Comparison:
    name = ours.description.benchmark
    if name != theirs.description.benchmark:
        raise InputError(f"A is {name} and B is {theirs.description.benchmark}: compare the same benchmark")
    benchmark = find_benchmark(name)
    a, b = ours.outcome.measures, theirs.outcome.measures
    shared = [item for item in ours.groups if item in a and item in b]
    if not shared:
        raise InputError("A and B have no item in common")
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
                f"A and B differ in the {what} ({a} and {b}): the difference is not that of the systems alone"
            )
    if shared < max(len(ours.groups), len(theirs.groups)):
        notes.append(f"only the {shared:,} items that both have are compared")
    return notes


def write_comparison(comparison: Comparison, ours: Path, theirs: Path, data: Path | None = None) -> Path:
    """Write the page into the folder of A."""
    mine, yours = sides_of(ours, theirs)
    other = slug("-".join([yours.folder.name, *([theirs.stem] if theirs.is_file() else [])]), 80) or "other"
    path = mine.folder / f"compare-{other}.html"
    write_atomic(path, render_comparison(comparison, mine, yours, path.parent, data).encode())
    return path


def render_comparison(
    comparison: Comparison, ours: Side, theirs: Side, page: Path, data: Path | None = None
) -> str:
    """The page as HTML: no script, nothing loaded but images of the two folders."""
    benchmark = find_benchmark(comparison.benchmark)
    items, notes = _items(benchmark, ours, data)
    duels = _duels(comparison, ours, theirs, items, Pages(benchmark, page))
    groups = dict.fromkeys(duel.item.group for duel in duels)
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
        duels=duels,
        show_filters=[
            Filter("show-all", "wins and losses", "", len(duels)),
            Filter("show-wins", "wins of A", "win", len(comparison.wins)),
            Filter("show-losses", "losses of A", "loss", len(comparison.losses)),
        ],
        group_filters=group_filters([(duel.item.group, duel.group) for duel in duels], list(groups)),
        in_digits=in_digits,
    )


def _items(benchmark: Benchmark, side: Side, data: Path | None) -> tuple[dict[str, Item], list[str]]:
    """The items with their prompts, where the data is at hand; without it ids have to do."""
    there = Path(side.scored.description.data)
    try:
        found = open_workspace(benchmark, side.folder, data or (there if there.exists() else None))
        return {item.id: item for item in found.dataset.items}, []
    except InterleaveError as error:
        return {}, [f"prompts are not shown, because the data was not found ({error}); --data names it"]


def _duels(
    comparison: Comparison, ours: Side, theirs: Side, items: Mapping[str, Item], pages: Pages
) -> list[Duel]:
    benchmark = pages.benchmark
    outputs = [side.outputs(benchmark) for side in (ours, theirs)]
    records = [side.records(each) for side, each in zip((ours, theirs), outputs, strict=True)]
    classes = group_classes(ours.scored.groups.values())
    won = set(comparison.wins)
    duels = []
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
        duels.append(
            Duel(
                pages.item(item),
                identity in won,
                differences[identity],
                (scores[0], scores[1]),
                (answers[0], answers[1]),
                tuple(zip(answers[0].verdicts, answers[1].verdicts, strict=True)),
                classes[group],
            )
        )
    return duels

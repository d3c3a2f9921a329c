"""The page of a judged benchmark: prompt, images, questions and verdicts of every item, worst first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from interleave.bench.base import Benchmark
from interleave.bench.judge import Judged
from interleave.bench.published import (
    differences_from_published,
    differs_in,
    measured_name,
    published_rows,
)
from interleave.bench.records import spent
from interleave.bench.scoring import Measured, item_scores
from interleave.bench.stages import Scored, Workspace, judge_name, score_name
from interleave.bench.views import (
    AnswerView,
    ItemView,
    Pages,
    as_published,
    bounds_of,
    in_digits,
)
from interleave.plugin import render, write_atomic


@dataclass(frozen=True)
class NumberRow:
    """One of our numbers, with its interval as a bar."""

    name: str
    id: str
    value: str
    bounds: str
    items: int
    coverage: float
    bar: tuple[float, float, float] | None = None
    """Value, low and high on the bar, in percent of its length."""


@dataclass(frozen=True)
class PublishedView:
    """A published row."""

    system: str
    cells: tuple[str, ...]
    source: str
    note: str = ""
    differs: tuple[str, ...] = ()
    ours: bool = False


@dataclass(frozen=True)
class Entry:
    """One item on the page."""

    item: ItemView
    answer: AnswerView
    score: float | None
    below: bool
    """Whether the item scores below full marks."""
    group: str
    """The CSS class of its group's filter."""

    @property
    def classes(self) -> str:
        found = ["item", self.group, "below" if self.below else "full"]
        return " ".join([*found, "unanswered"] if self.answer.unanswered else found)


@dataclass(frozen=True)
class Filter:
    """A choice of a filter, with the number of items it shows."""

    id: str
    label: str
    keeps: str
    """The CSS class of the items it shows; empty for all."""
    count: int


def write_report(workspace: Workspace, scored: Scored, judged: Judged) -> Path:
    """Write the page into the benchmark's folder; return its path."""
    path = workspace.folder / f"report-{score_name(scored)}.html"
    write_atomic(path, render_report(workspace, scored, judged).encode())
    return path


def render_report(workspace: Workspace, scored: Scored, judged: Judged) -> str:
    """Render the page as HTML. It has no script and loads only images next to it."""
    entries = entries_of(workspace, scored, judged)
    outcome, benchmark = scored.outcome, workspace.benchmark
    pages = Pages(benchmark, workspace.folder)
    _, cost = spent(judged.path)
    facts = [
        ("system", scored.description.system if benchmark.tests == "systems" else ""),
        *scored.description.models.items(),
        ("outputs", scored.outputs if benchmark.tests == "systems" else ""),
        ("judge", judge_name(scored.judge)),
        ("judge's prompts", scored.prompts),
        ("data", scored.description.data),
        ("revision", scored.description.revision),
        ("licence of the data", benchmark.licence),
        ("missing answers count as", outcome.missing),
        ("coverage", f"{outcome.coverage:.1%} of {outcome.items:,} items"),
        ("questions", ", ".join(f"{number:,} {status}" for status, number in outcome.statuses.items())),
        *([("judge cost", f"{cost:,.2f} US dollars")] if cost else []),
    ]
    columns, rows = published_views(benchmark, scored)
    group_numbers = [numbers[0] for numbers in outcome.by_group.values()]
    return render.page_template("benchmark.html.j2", package="interleave.bench").render(
        title=f"{benchmark.title}: {measured_name(benchmark, scored)}",
        benchmark=benchmark,
        headline=outcome.numbers[0],
        numbers=[number_row(number) for number in outcome.numbers],
        groups=[
            (name, number_row(numbers[0], [*group_numbers, outcome.numbers[0]]))
            for name, numbers in outcome.by_group.items()
        ],
        facts=[(name, value) for name, value in facts if value],
        notes=outcome.notes,
        warnings=differences_from_published(benchmark, scored) if rows else (),
        columns=columns,
        published=rows,
        records=pages.address(judged.path) if judged.path.exists() else None,
        entries=entries,
        show_filters=show_filters(entries),
        group_filters=group_filters(
            [(entry.item.group, entry.group) for entry in entries], list(outcome.by_group)
        ),
        bounds_of=bounds_of,
        in_digits=in_digits,
    )


def entries_of(workspace: Workspace, scored: Scored, judged: Judged) -> list[Entry]:
    """Return the items: those without a value first, then by ascending score."""
    benchmark, records = workspace.benchmark, judged.records()
    pages = Pages(benchmark, workspace.folder)
    measures, numbers = scored.outcome.measures, benchmark.numbers()
    scores: dict[str, float | None] = {}
    for item in workspace.dataset.items:
        found = item_scores(benchmark, numbers, item.group, measures[item.id])
        scores[item.id] = found[0] if found is not None else None
    full = max([benchmark.full_marks, *(score for score in scores.values() if score is not None)])
    classes = group_classes(item.group for item in workspace.dataset.items)
    entries = [
        Entry(
            pages.item(item),
            pages.answer(
                item,
                judged.output(item),
                workspace.folder,
                records[item.id],
                measures[item.id],
                judged.keys(item),
            ),
            scores[item.id],
            (score := scores[item.id]) is not None and score < full,
            classes[item.group],
        )
        for item in workspace.dataset.items
    ]
    worst = float("-inf")
    return sorted(entries, key=lambda entry: (worst if entry.score is None else entry.score, entry.item.id))


def group_classes(groups: Iterable[str]) -> dict[str, str]:
    """Return a CSS class for every group."""
    return {name: f"group-{number}" for number, name in enumerate(dict.fromkeys(groups), start=1)}


def show_filters(entries: Sequence[Entry]) -> list[Filter]:
    return [
        Filter("show-all", "all", "", len(entries)),
        Filter("show-below", "below full marks", "below", sum(entry.below for entry in entries)),
        Filter("show-full", "full marks", "full", sum(not entry.below for entry in entries)),
        Filter(
            "show-unanswered",
            "without an answer",
            "unanswered",
            sum(entry.answer.unanswered for entry in entries),
        ),
    ]


def group_filters(shown: Sequence[tuple[str, str]], groups: Sequence[str]) -> list[Filter]:
    """Return a filter per group if there are several; `shown` has the group and CSS class of every item."""
    if len(groups) < 2:
        return []
    classes, counts = dict(shown), Counter(group for group, _ in shown)
    return [
        Filter("group-all", "all groups", "", len(shown)),
        *(Filter(f"choose-{classes[name]}", name, classes[name], counts[name]) for name in groups),
    ]


def number_row(number: Measured, peers: Sequence[Measured] = ()) -> NumberRow:
    """Format a number, with a bar scaled to the numbers of `peers`."""
    ends = [end for each in peers for end in (each.value, each.high) if end is not None]
    top = max(ends, default=0.0)
    bar = None
    if number.value is not None and top > 0:
        low = number.value if number.low is None else number.low
        high = number.value if number.high is None else number.high
        bar = (_share(number.value, top), _share(low, top), _share(high, top))
    return NumberRow(
        number.name,
        number.id,
        in_digits(number.value, number.digits),
        bounds_of(number),
        number.items,
        number.coverage,
        bar,
    )


def _share(value: float, top: float) -> float:
    return round(min(100.0, max(0.0, 100 * value / top)), 2)


def published_views(
    benchmark: Benchmark, scored: Scored, *, with_groups: bool = True
) -> tuple[list[str], list[PublishedView]]:
    """Return the published columns, and the rows: ours first."""
    outcome, rows = scored.outcome, published_rows(benchmark.name, benchmark.package_folders)
    names = [number.name for number in outcome.numbers if any(number.name in row.numbers for row in rows)]
    headlines = outcome.by_group if with_groups else {}
    groups = [name for name in headlines if any(name in row.groups for row in rows)]
    if not names and not groups:
        return [], []
    ours = {number.name: number for number in outcome.numbers}
    mine = [ours[name] for name in names] + [headlines[name][0] for name in groups]
    views = [
        PublishedView(
            f"ours: {measured_name(benchmark, scored)}",
            tuple(in_digits(number.value, number.digits) for number in mine),
            judge_name(scored.judge),
            ours=True,
        )
    ]
    for row in rows:
        there = [row.numbers.get(name) for name in names] + [row.groups.get(name) for name in groups]
        views.append(
            PublishedView(
                row.system,
                tuple(as_published(value, number.digits) for value, number in zip(there, mine, strict=True)),
                row.source + (f", judged by {row.judge}" if row.judge else ""),
                row.note,
                differs_in(benchmark, scored, row),
            )
        )
    return names + groups, views

"""The page of a judged benchmark: prompt, pictures, questions and verdicts of every item, worst first."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from interleave.benchmarks.base import Item, JudgeRecord
from interleave.benchmarks.judge import Judged
from interleave.benchmarks.outputs import Output
from interleave.benchmarks.published import PublishedRow, published_rows
from interleave.benchmarks.stages import Scored, Workspace, score_name
from interleave.files import write_atomic
from interleave.render.html import page_template


@dataclass(frozen=True)
class ItemView:
    """What the page shows of an item."""

    item: Item
    output: Output | None
    records: list[JudgeRecord]
    measures: dict[str, float | None]
    worst: float
    """What items are sorted by: the mean of the measures, with failures first."""

    @property
    def failed(self) -> bool:
        return any(record.status != "ok" for record in self.records)


def write_report(workspace: Workspace, scored: Scored, judged: Judged) -> Path:
    """Write the page into the benchmark's folder."""
    path = workspace.folder / f"report-{score_name(scored)}.html"
    write_atomic(path, render_report(workspace, scored, judged).encode())
    return path


def render_report(workspace: Workspace, scored: Scored, judged: Judged) -> str:
    records = judged.records()
    views = [
        ItemView(
            item,
            judged.output(item),
            [records[item.id][key] for key in judged.keys(item) if key in records[item.id]],
            scored.outcome.measures[item.id],
            _mean(scored.outcome.measures[item.id]),
        )
        for item in workspace.dataset.items
    ]
    rows: tuple[PublishedRow, ...] = published_rows(workspace.benchmark.name)
    return page_template("benchmark.html.j2", package="interleave.benchmarks").render(
        benchmark=workspace.benchmark,
        scored=scored,
        outcome=scored.outcome,
        published=rows,
        items=sorted(views, key=lambda view: (view.worst, view.item.id)),
    )


def _mean(measures: dict[str, float | None]) -> float:
    there = [value for value in measures.values() if value is not None]
    return sum(there) / len(there) if there else float("-inf")

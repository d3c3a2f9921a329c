"""Computes the table over several trainings: intervals over tasks and trainings, and paired differences.

    python perf/trainings.py runs/mini --results perf/results/trainings.json

RUN is written by `interleave mini train all --trainings N --out RUN`: RUN/table and RUN/seed-N/table. More
tasks for the differences go into another table next to it, also for RUN/seed-N:

    interleave bench mini --table ablation --trained RUN --rows critic-sft,full --seed 1 --out RUN/table-1

Intervals of a row with several trainings are bootstrapped over trainings and tasks, both with replacement.
Three trainings make a coarse bootstrap, so every training is shown as well.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from interleave_mini.bench.runner import read_items

RESAMPLES = 4_000
STEPS = (("planner", "generator"), ("critic-sft", "planner"), ("full", "critic-sft"))
"""Rows compared with the previous one."""
VARIANTS = (
    ("no-step", "full"),
    ("no-accuracy", "full"),
    ("one-agent", "critic-sft"),
    ("unfiltered", "critic-sft"),
)
"""Pairs of rows that differ in one thing; the last two are without GRPO too."""
LIMITS = (1, 3, 5)
MEASURES = ("accuracy", "caught", "false_alarms", "other_steps", "repaired", "again")
"""Measures of a critic in the exam."""

Scores = Mapping[str, float]
"""Whether a task is strictly right, by task."""


def scores_of(
    training: Path, row: str, suite: str, attempts: int | None = None, tables: str = "table*"
) -> Scores:
    """Return the tasks of a row in the tables of a training; empty if it was not run."""
    scores: dict[str, float] = {}
    for table in sorted(training.glob(tables)):
        found = read_items(table / "rows" / row / suite)
        if found and (attempts is None or attempts in found):
            scores |= {each.id: each.strict for each in found[max(found) if attempts is None else attempts]}
    return scores


def interval(trainings: Sequence[Scores]) -> dict[str, Any]:
    """Return the mean of several trainings on the same tasks, with a 95 % interval over both."""
    tasks = sorted(set.intersection(*(set(each) for each in trainings)))
    values = np.array([[each[task] for task in tasks] for each in trainings])
    rng = np.random.default_rng(0)
    means = []
    for _ in range(RESAMPLES):
        rows = rng.integers(len(values), size=len(values))
        columns = rng.integers(len(tasks), size=len(tasks))
        means.append(values[rows][:, columns].mean())
    low, high = np.quantile(means, (0.025, 0.975))
    each = [round(float(mean), 4) for mean in values.mean(axis=1)]
    return {
        "mean": round(float(values.mean()), 4),
        "low": round(float(low), 4),
        "high": round(float(high), 4),
        "tasks": len(tasks),
        "trainings": each,
    }


def difference(ours: Sequence[Scores], theirs: Sequence[Scores]) -> dict[str, Any] | None:
    """Return ours minus theirs, paired by task and training."""
    if not ours or not theirs:
        return None
    if len(theirs) == 1:  # an untrained one, such as the generator
        theirs = [theirs[0]] * len(ours)
    pairs = [
        {task: mine[task] - other[task] for task in mine if task in other}
        for mine, other in zip(ours, theirs, strict=False)
    ]
    return interval(pairs) if pairs and all(pairs) else None


def results_of(run: Path) -> dict[str, Any]:
    trainings = [run, *sorted(run.glob("seed-*"))]
    rows = sorted({each.name for training in trainings for each in training.glob("table*/rows/*")})
    suites = sorted({each.name for training in trainings for each in training.glob("table*/rows/*/*")})
    found: dict[str, Any] = {"rows": {}, "differences": {}, "attempts": {}}
    for suite in suites:
        scores = {row: [s for each in trainings if (s := scores_of(each, row, suite))] for row in rows}
        for row in rows:  # on the tasks common to all
            if some := [s for each in trainings if (s := scores_of(each, row, suite, tables="table"))]:
                found["rows"][f"{row}/{suite}"] = interval(some)
        for row, other in (*STEPS, *VARIANTS):
            ours, theirs = scores.get(row, []), scores.get(other, [])
            gap = difference(ours, theirs[: len(ours)])
            if gap:
                found["differences"][f"{row} − {other}/{suite}"] = gap
        limited = {
            limit: [s for each in trainings if (s := scores_of(each, "full", suite, limit))]
            for limit in LIMITS
        }
        for limit in LIMITS:
            if some := [s for each in trainings if (s := scores_of(each, "full", suite, limit, "table"))]:
                found["attempts"][f"full, at most {limit}/{suite}"] = interval(some)
        for fewer, more in pairwise(LIMITS):
            gap = difference(limited[more], limited[fewer])
            if gap:
                found["differences"][f"full, at most {more} − at most {fewer}/{suite}"] = gap
    found["exam"] = exams_of(trainings)
    return found


def exams_of(trainings: Sequence[Path]) -> dict[str, Any]:
    """Return the mean measures of each critic in the exam, by training."""
    exams: dict[str, Any] = defaultdict(lambda: defaultdict(list))
    for training in trainings:
        path = training / "table" / "ablation.json"
        exam = json.loads(path.read_bytes())["exam"] if path.is_file() else None
        for critic in exam["critics"] if exam else ():
            for measure in MEASURES:
                value = critic[measure]
                exams[critic["key"]][measure].append(round(value["mean"], 4) if value else None)
    return {critic: dict(each) for critic, each in exams.items()}


def as_markdown(found: Mapping[str, Any]) -> str:
    lines = ["| | suite | strict | trainings | tasks |", "|---|---|---:|---|---:|"]
    for part in ("rows", "attempts", "differences"):
        sign = "+" if part == "differences" else ""
        for name, each in found[part].items():
            row, _, suite = name.rpartition("/")
            mean, low, high = (f"{100 * each[key]:{sign}.1f}" for key in ("mean", "low", "high"))
            every = ", ".join(f"{100 * value:{sign}.1f}" for value in each["trainings"])
            lines.append(f"| {row} | `{suite}` | {mean} ({low} to {high}) | {every} | {each['tasks']} |")
    lines += ["", f"| critic | {' | '.join(MEASURES)} |", f"|---|{'---|' * len(MEASURES)}"]
    for critic, measured in found["exam"].items():
        cells = (", ".join(map(_percent, measured[measure])) for measure in MEASURES)
        lines.append(f"| {critic} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _percent(share: float | None) -> str:
    return "–" if share is None else f"{100 * share:.1f}"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("run", type=Path)
    parser.add_argument("--results", type=Path)
    given = parser.parse_args()
    found = results_of(given.run)
    print(as_markdown(found))
    if given.results:
        given.results.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()

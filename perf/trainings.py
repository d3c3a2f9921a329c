"""Computes the table over several trainings: intervals over tasks and trainings, and paired differences.

    python perf/trainings.py runs/mini --results perf/results/trainings.json

RUN is written by `interleave mini train all --trainings N --out RUN`: RUN/table and RUN/seed-N/table. More
tasks for the differences go into another table next to it, also for RUN/seed-N:

    interleave bench mini --table ablation --trained RUN --rows critic-sft,full --seed 1 --out RUN/table-1

`--records FILE.jsonl.gz` writes the score of every task into one file. In place of RUN, that file alone gives
every cell again. With `--plan PLAN.toml`, departures from the plan are named, and its one test is done.

Intervals of a row with several trainings are bootstrapped over trainings and tasks, both with replacement.
Three trainings make a coarse bootstrap, so every training is shown as well.
"""

from __future__ import annotations

import argparse
import gzip
import json
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np

from interleave_mini.bench.runner import read_items
from interleave_mini.bench.scores import ItemScore, StepScore

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


@dataclass
class Training:
    """The records of one training: the score of every task in its tables, and the exams of its critics."""

    rows: dict[tuple[str, str, str], dict[int, list[ItemScore]]] = field(default_factory=dict)
    """By table, row and suite, then by the limit of attempts."""
    exam: dict[str, dict[str, Any]] = field(default_factory=dict)
    """The measures of each critic."""

    @classmethod
    def of_folder(cls, folder: Path) -> Training:
        """Read the tables of a training from its folder."""
        found = cls()
        for place in sorted(folder.glob("table*/rows/*/*")):
            if items := read_items(place):
                found.rows[place.parts[-4], place.parts[-2], place.name] = items
        path = folder / "table" / "ablation.json"
        exam = json.loads(path.read_bytes())["exam"] if path.is_file() else None
        for critic in exam["critics"] if exam else ():
            found.exam[critic["key"]] = {
                measure: critic[measure]["mean"] if critic[measure] else None for measure in MEASURES
            }
        return found

    @property
    def names(self) -> set[tuple[str, str]]:
        """Its rows and suites."""
        return {(row, suite) for _, row, suite in self.rows}


def read_trainings(source: Path) -> list[Training]:
    """Read the trainings of a run's folder, or of a file of records."""
    if source.is_dir():
        return [Training.of_folder(each) for each in (source, *sorted(source.glob("seed-*")))]
    found: defaultdict[int, Training] = defaultdict(Training)
    with gzip.open(source, "rt", encoding="utf-8") as lines:
        for line in map(json.loads, lines):
            training = found[line["training"]]
            if "exam" in line:
                training.exam = line["exam"]
                continue
            place = training.rows.setdefault((line["table"], line["row"], line["suite"]), {})
            place.setdefault(line["attempts"], []).append(_score_of(line))
    return [found[number] for number in sorted(found)]


def write_records(trainings: Sequence[Training], path: Path) -> None:
    """Write every task's score into one file, the same bytes for the same scores."""
    lines = (json.dumps(line, separators=(",", ":")) + "\n" for line in _lines(trainings))
    path.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


def _lines(trainings: Sequence[Training]) -> Iterator[dict[str, Any]]:
    for number, training in enumerate(trainings):
        yield {"training": number, "exam": training.exam}
        for (table, row, suite), passes in sorted(training.rows.items()):
            place = {"training": number, "table": table, "row": row, "suite": suite}
            for attempts, items in sorted(passes.items()):
                for item in items:
                    yield {**place, "attempts": attempts, **_as_line(item)}


def _as_line(item: ItemScore) -> dict[str, Any]:
    marks = {True: "1", False: "0", None: "-"}
    return {
        "id": item.id,
        "status": item.status,
        "steps": " ".join(marks[step.image] + marks[step.text] for step in item.steps),
        "too_many": item.too_many,
        "drawn": item.drawn,
        "forced": item.forced,
        "unreadable_plan": item.unreadable_plan,
    }


def _score_of(line: Mapping[str, Any]) -> ItemScore:
    marks = {"1": True, "0": False, "-": None}
    steps = tuple(StepScore(image=marks[image], text=text == "1") for image, text in line["steps"].split())
    kept = {name: line[name] for name in ("id", "status", "too_many", "drawn", "forced", "unreadable_plan")}
    return ItemScore(topic="", unseen=(), folder="", steps=steps, **kept)


def scores_of(
    training: Training, row: str, suite: str, attempts: int | None = None, table: str | None = None
) -> Scores:
    """Return the tasks of a row in one table of a training or all; empty if it was not run."""
    scores: dict[str, float] = {}
    for (name, *place), found in sorted(training.rows.items()):
        if place != [row, suite] or table not in (None, name) or (attempts or max(found)) not in found:
            continue
        scores |= {each.id: each.strict for each in found[attempts or max(found)]}
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


def results_of(trainings: Sequence[Training]) -> dict[str, Any]:
    """Return every cell of the table, the differences and the exams."""
    rows = sorted({row for training in trainings for row, _ in training.names})
    suites = sorted({suite for training in trainings for _, suite in training.names})
    found: dict[str, Any] = {"rows": {}, "differences": {}, "attempts": {}}
    for suite in suites:
        scores = {row: [s for each in trainings if (s := scores_of(each, row, suite))] for row in rows}
        for row in rows:  # on the tasks common to all
            if some := [s for each in trainings if (s := scores_of(each, row, suite, table="table"))]:
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


def exams_of(trainings: Sequence[Training]) -> dict[str, Any]:
    """Return the mean measures of each critic in the exam, by training."""
    exams: dict[str, Any] = defaultdict(lambda: defaultdict(list))
    for training in trainings:
        for critic, measured in training.exam.items():
            for measure in MEASURES:
                value = measured[measure]
                exams[critic][measure].append(None if value is None else round(value, 4))
    return {critic: dict(each) for critic, each in exams.items()}


# The plan


def departures(trainings: Sequence[Training], plan: Mapping[str, Any]) -> list[str]:
    """Return what differs from the plan: trainings, rows and tasks that are missing or too many."""
    found = []
    if len(trainings) != plan["trainings"]:
        found.append(f"{len(trainings)} trainings, {plan['trainings']} are planned")
    planned: dict[tuple[str, str], tuple[int, bool]] = {
        ("table", row): (each["tasks"], each.get("each", False)) for row, each in plan["rows"].items()
    }
    test = plan["test"]
    planned |= {(test["table"], test[side]): (test["tasks"], True) for side in ("ours", "theirs")}
    for number, training in enumerate(trainings):
        for (table, row), (tasks, each) in planned.items():
            for suite in plan["suites"]:
                have = len(scores_of(training, row, suite, table=table))
                if have != (tasks if each or not number else 0):
                    found.append(f"training {number}, {table}, {row}, {suite}: {have} tasks")
        extra = {place[:2] for place in training.rows} - planned.keys()
        found += [f"training {number}, {table}, {row}: not planned" for table, row in sorted(extra)]
    return found


def planned_test(trainings: Sequence[Training], plan: Mapping[str, Any]) -> dict[str, Any] | None:
    """Do the one test of the plan, on its own tasks and both suites together; `None` if it was not run."""
    test = plan["test"]
    gaps = []
    for training in trainings:
        gap: dict[str, float] = {}
        for suite in plan["suites"]:
            ours, theirs = (
                scores_of(training, test[side], suite, table=test["table"]) for side in ("ours", "theirs")
            )
            gap |= {f"{suite}/{task}": ours[task] - theirs[task] for task in ours if task in theirs}
        gaps.append(gap)
    if not gaps or not all(gaps):
        return None
    result = interval(gaps)
    return {**result, "clear": result["low"] > 0}


def test_as_markdown(result: Mapping[str, Any] | None, plan: Mapping[str, Any]) -> str:
    test = plan["test"]
    what = f"{test['ours']} − {test['theirs']}"
    if result is None:
        return f"The planned test, {what}: not run."
    mean, low, high = (f"{100 * result[key]:+.1f}" for key in ("mean", "low", "high"))
    said = "clear" if result["clear"] else "not shown"
    return f"The planned test, {what}: {mean} ({low} to {high}) on {result['tasks']} tasks: {said}."


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
    parser.add_argument("source", type=Path, metavar="RUN|RECORDS")
    parser.add_argument("--results", type=Path)
    parser.add_argument("--records", type=Path)
    parser.add_argument("--plan", type=Path)
    given = parser.parse_args()
    trainings = read_trainings(given.source)
    found = results_of(trainings)
    print(as_markdown(found))
    if given.plan:
        plan = tomllib.loads(given.plan.read_text("utf-8"))
        found["departures"], found["test"] = departures(trainings, plan), planned_test(trainings, plan)
        print("", test_as_markdown(found["test"], plan), *found["departures"], sep="\n")
    if given.records:
        write_records(trainings, given.records)
    if given.results:
        given.results.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", "utf-8")


if __name__ == "__main__":
    main()

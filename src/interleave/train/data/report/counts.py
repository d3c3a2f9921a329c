"""Counts a collection for the report, in one pass over its runs."""

from __future__ import annotations

import heapq
import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path

from interleave import InputError, InterleaveError, Scores
from interleave.plugin import batches, runs
from interleave.train.data.score_file import AttemptKey, Unscored, read_scores, score_names
from interleave.train.data.select.selection import collection_name, read_selection
from interleave.train.data.trajectories import Trajectory, read_collection

UNKNOWN = "unknown"
UNJUDGED = "unjudged"


@dataclass
class Distribution:
    """A histogram of scores in hundredths, for mean and quantiles."""

    values: Counter[float] = field(default_factory=Counter)

    def add(self, value: float) -> None:
        self.values[round(value, 2)] += 1

    @property
    def mean(self) -> float:
        return sum(value * times for value, times in self.values.items()) / self.values.total()

    def quantile(self, share: float) -> float:
        wanted = share * (self.values.total() - 1)
        seen = 0
        for value in sorted(self.values):
            seen += self.values[value]
            if seen > wanted:
                return value
        return 0.0


@dataclass
class GeneratorCounts:
    """Counts of the runs of one generator."""

    runs: int = 0
    attempts: int = 0
    first: int = 0
    first_accepted: int = 0
    semantics: Distribution = field(default_factory=Distribution)
    quality: Distribution = field(default_factory=Distribution)


@dataclass
class CollectionCounts:
    """The counts of a collection, and a sample of its trajectories."""

    runs: int = 0
    statuses: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    attempts: int = 0
    steps: int = 0
    forced: int = 0
    plan_lengths: Counter[int] = field(default_factory=Counter)
    attempts_of_steps: Counter[int] = field(default_factory=Counter)
    verdicts: defaultdict[int, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    """Attempt number → verdicts."""
    semantics: defaultdict[int, Distribution] = field(default_factory=lambda: defaultdict(Distribution))
    quality: defaultdict[int, Distribution] = field(default_factory=lambda: defaultdict(Distribution))
    unscored: int = 0
    generators: defaultdict[str, GeneratorCounts] = field(
        default_factory=lambda: defaultdict(GeneratorCounts)
    )
    notes: Counter[str] = field(default_factory=Counter)
    """Number of runs with each note, such as that an oracle judged."""
    parts: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)
    rows: Counter[str] = field(default_factory=Counter)
    covered: Counter[str] = field(default_factory=Counter)
    corpus: Counter[str] = field(default_factory=Counter)
    sample: list[Trajectory] = field(default_factory=list)


def count_collection(
    collection: Path,
    *,
    scores: dict[AttemptKey, Scores | Unscored],
    selection: Path | None,
    requests: Path | None,
    shown: int,
    seed: int,
) -> CollectionCounts:
    """Count everything, and choose a random sample to show."""
    counts = CollectionCounts()
    coverage = _Coverage(requests, collection) if requests else None
    sample: list[tuple[str, str, Trajectory]] = []
    for trajectory in read_collection(collection, skipped=counts.left_out):
        _count(trajectory, counts, scores)
        if coverage:
            counts.covered[coverage.of(trajectory)] += 1
        random_key = sha256(f"{seed}/{trajectory.name}".encode()).hexdigest()
        item = (random_key, trajectory.name, trajectory)
        if len(sample) < shown:
            heapq.heappush(sample, item)
        elif sample and item > sample[0]:
            heapq.heapreplace(sample, item)
    counts.sample = [trajectory for _, _, trajectory in sorted(sample, reverse=True)]
    if coverage:
        counts.corpus = coverage.counts
    if selection is not None:
        own_name = collection_name(collection, selection)
        for line in read_selection(selection):
            if line.collection != own_name:
                continue  # a selection may cover several collections
            counts.parts[line.part] += 1
            counts.rows[line.part] += line.copies
            if line.reason:
                counts.reasons[line.reason] += 1
    return counts


def scores_of(collection: Path, name: str | None) -> tuple[str | None, dict[AttemptKey, Scores | Unscored]]:
    """Return the name of the scorer and its scores; None and empty if there are none."""
    names = score_names(collection)
    if not names and name is None:
        return None, {}
    scores = read_scores(collection, name)
    return name or names[0], scores


def _count(
    trajectory: Trajectory, counts: CollectionCounts, scores: dict[AttemptKey, Scores | Unscored]
) -> None:
    record = trajectory.record
    counts.runs += 1
    counts.statuses[record.status] += 1
    counts.notes.update(record.notes)
    counts.generators[record.config.generator.spec].runs += 1
    counts.plan_lengths[len(record.steps)] += 1
    for step in record.steps:
        for attempts in step.own_takes.values():
            counts.steps += 1
            counts.forced += step.forced and attempts == step.line
            counts.attempts_of_steps[len(attempts)] += 1
            for turn, attempt in enumerate(attempts, start=1):
                _count_attempt(trajectory, step, turn, attempt, counts, scores)


def _count_attempt(
    trajectory: Trajectory,
    step: runs.StepRecord,
    turn: int,
    attempt: runs.AttemptRecord,
    counts: CollectionCounts,
    scores: dict[AttemptKey, Scores | Unscored],
) -> None:
    counts.attempts += 1
    counts.verdicts[turn][attempt.verdict.outcome if attempt.verdict else UNJUDGED] += 1
    generator = counts.generators[attempt.generator or trajectory.record.config.generator.spec]
    generator.attempts += 1
    if turn == 1:
        generator.first += 1
        generator.first_accepted += attempt.verdict is not None and attempt.verdict.accepted
    score = scores.get((trajectory.name, step.plan.number, attempt.number))
    if isinstance(score, Scores):
        for distribution in (counts.semantics[turn], generator.semantics):
            distribution.add(score.semantics)
        for distribution in (counts.quality[turn], generator.quality):
            distribution.add(score.quality)
    else:
        counts.unscored += 1


class _Coverage:
    """Taxonomy entries of runs, found by request id if the collection has an index, else by text."""

    def __init__(self, requests: Path, collection: Path) -> None:
        self.counts: Counter[str] = Counter()
        self._by_id: dict[str, str] = {}
        self._by_text: dict[str, str] = {}
        for _, row in batches.rows_of(requests):
            if isinstance(row, InputError):
                continue  # `data collect` has reported it
            entry = " / ".join(str(row[key]) for key in ("domain", "subcategory") if row.get(key)) or UNKNOWN
            self.counts[entry] += 1
            self._by_id[str(row.get("id"))] = entry
            self._by_text[_text_of(row.get("request"))] = entry
        if not self.counts:
            raise InputError(f"{requests} contains no readable request, so there is no coverage to count")
        self._ids = _ids_in(collection)

    def of(self, trajectory: Trajectory) -> str:
        request_id = self._ids.get(trajectory.name)
        if request_id in self._by_id:
            return self._by_id[request_id]
        text = "\n".join(part.text for part in trajectory.record.request if part.text)
        return self._by_text.get(text, UNKNOWN)


def _text_of(request: object) -> str:
    if isinstance(request, list):
        return "\n".join(str(part["text"]) for part in request if isinstance(part, dict) and "text" in part)
    return request if isinstance(request, str) else json.dumps(request)


def _ids_in(collection: Path) -> dict[str, str]:
    try:
        return {ended.folder: ended.id for ended in batches.read_index(collection)}
    except (InterleaveError, OSError):
        return {}  # not made by 'data collect'

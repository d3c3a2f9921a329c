"""`data select`: reads collections with their scores and assigns every attempt to sft, rl or dropped."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from interleave import InputError, Scores
from interleave.plugin import count, files
from interleave.train.data.manifest import Manifest, file_digest, write_manifest
from interleave.train.data.outputs import atomic_folder
from interleave.train.data.parallel_map import Progress, chunks, gc_paused, map_in_order
from interleave.train.data.score_file import AttemptKey, Unscored, read_scores, score_files, score_names
from interleave.train.data.select.rules import (
    DROPPED,
    MAX_COPIES,
    RL,
    SFT,
    SFT_TO_RL,
    SURPLUS,
    UNJUDGED,
    UNREADABLE,
    Candidate,
    ScoredAttempt,
    ScoredStep,
    ThresholdOptions,
    Thresholds,
    VerdictSummary,
    copy_counts,
    move_acceptances_to_rl,
    part_of,
    summarize_verdict,
    thresholds_for,
    why_dropped,
    with_score,
)
from interleave.train.data.select.selection import (
    FILE_NAME,
    MANIFEST_NAME,
    collections_by_name,
    write_collection_paths,
)
from interleave.train.data.trajectories import Trajectory, digest_line, read_trajectory, run_names

BATCH_RUNS = 200


@dataclass(frozen=True)
class SelectOptions:
    """The options of `data select`."""

    thresholds: ThresholdOptions = field(default_factory=ThresholdOptions)
    scores: str | None = None
    """Scorer whose scores are used; None if there is only one."""
    balanced: bool = True
    max_copies: int = MAX_COPIES
    seed: int = 0
    workers: int = 1


@dataclass(frozen=True)
class Choice:
    """The part of one attempt, and the number of rows it becomes."""

    part: str
    reason: str | None = None
    copies: int = 0


def select(
    collections: Sequence[Path],
    out: Path,
    options: SelectOptions = SelectOptions(),
    *,
    replace: bool = False,
    progress: Progress = lambda done, total: None,
) -> Manifest:
    """Assign every attempt of the collections to a part and write the selection; returns the manifest."""
    paths = collections_by_name(collections)
    with gc_paused(), atomic_folder(out, MANIFEST_NAME, replace=replace) as folder:
        reader = _CollectionReader(options, progress)
        steps = [step for name, path in paths.items() for step in reader.steps(name, path)]
        if not steps:
            raise InputError("the collections contain no attempts to select from")
        thresholds = thresholds_for(steps, options.thresholds)
        choices = choose(steps, thresholds, options)
        _write(folder / FILE_NAME, steps, choices)
        write_collection_paths(folder, out, paths)
        manifest = _manifest(counts_of(steps, choices), thresholds, options, reader)
        write_manifest(folder / MANIFEST_NAME, manifest)
    return manifest


def counts_of(steps: Iterable[ScoredStep], choices: Mapping[str, list[Choice]]) -> dict[str, int]:
    """Return the counts for the manifest; parts add up to the attempts, reasons to the dropped ones."""
    counts: Counter[str] = Counter(
        {"attempts": 0, "steps": 0, SFT: 0, RL: 0, DROPPED: 0, f"{SFT} rows": 0, f"{RL} rows": 0}
    )
    for step in steps:
        counts["steps"] += 1
        for attempt, choice in zip(step.attempts, choices[step_key(step)], strict=True):
            counts["attempts"] += 1
            counts[choice.part] += 1
            if choice.reason:
                counts[f"{DROPPED}: {choice.reason}"] += 1
            else:
                counts[f"{choice.part} rows"] += choice.copies
                counts[f"{choice.part} rows accepted"] += choice.copies * attempt.accepted
    return dict(counts)


def _manifest(
    counts: dict[str, int], thresholds: Thresholds, options: SelectOptions, reader: _CollectionReader
) -> Manifest:
    skipped = [f"{count(number, 'run')} left out: {why}" for why, number in sorted(reader.skipped.items())]
    if reader.unknown_scores:
        skipped.append(f"{count(reader.unknown_scores, 'score')} of attempts that are not there")
    skipped += [
        f"{name!r} was never scored: rows for a planner, none for a critic (`interleave data score`)"
        for name in reader.unscored
    ]
    return Manifest(
        stage="select",
        options={
            **thresholds.model_dump(),
            "filtered": options.thresholds.filtered,
            "sft_to_rl": SFT_TO_RL if options.thresholds.sft_to_rl is None else options.thresholds.sft_to_rl,
            "balanced": options.balanced and options.thresholds.filtered,
            "max_copies": options.max_copies,
            "seed": options.seed,
            "scores": options.scores,
        },
        inputs=reader.digests,
        counts={"runs": reader.runs, "runs left out": reader.skipped.total(), **counts},
        notes=(*skipped, *_warnings(counts, thresholds)),
    )


def _warnings(counts: Mapping[str, int], thresholds: Thresholds) -> Iterator[str]:
    """Yield warnings about data that spoils training: a part with only one verdict, or no rows for RL."""
    for part in (SFT, RL):
        rows, accepted = counts[f"{part} rows"], counts.get(f"{part} rows accepted", 0)
        if rows and accepted in (0, rows):
            judgement, learns = ("an acceptance", "accept") if accepted else ("a refusal", "refuse")
            yield (
                f"warning: every row of {part} is {judgement}, and a critic trained on it alone learns to "
                f"{learns} everything: collect more, or change --variance"
            )
    if not counts[RL] and thresholds.variance > 0:
        yield (
            f"warning: nothing goes to RL, because no step varies by more than {thresholds.variance:g}: "
            "--variance 0 selects every step that varies"
        )


def choose(
    steps: Iterable[ScoredStep], thresholds: Thresholds, options: SelectOptions
) -> dict[str, list[Choice]]:
    """Return the choices for the attempts of each step, in their order."""
    choices: dict[str, list[Choice]] = {}
    candidates, slots = [], []
    for step in steps:
        key = step_key(step)
        own = choices[key] = [_before_balancing(step, attempt, thresholds) for attempt in step.attempts]
        for position, (attempt, choice) in enumerate(zip(step.attempts, own, strict=True)):
            if choice.part != DROPPED:
                name = f"{key}.{attempt.number}"
                candidates.append(Candidate(name, choice.part, position + 1, attempt.accepted))
                slots.append((own, position))
    if options.balanced and options.thresholds.filtered:
        candidates = move_acceptances_to_rl(candidates, seed=options.seed)
        copies = copy_counts(candidates, seed=options.seed, max_copies=options.max_copies)
        for each, (own, position), number in zip(candidates, slots, copies, strict=True):
            own[position] = _choice(each.part, None, number) if number else _choice(DROPPED, SURPLUS, 0)
    return choices


def step_key(step: ScoredStep) -> str:
    take = f"#{step.take}" if step.take > 1 else ""
    return f"{step.collection}/{step.run}/{step.number}{take}"


def _before_balancing(step: ScoredStep, attempt: ScoredAttempt, thresholds: Thresholds) -> Choice:
    """Return the part before balancing; a problem of the attempt takes precedence over one of its step."""
    if attempt.problem is not None or step.stats is None:
        return _choice(DROPPED, attempt.problem, 0)
    if reason := why_dropped(step, thresholds):
        return _choice(DROPPED, reason, 0)
    return _choice(part_of(step.stats, thresholds), None, 1)


@cache
def _choice(part: str, reason: str | None, copies: int) -> Choice:
    """Return a shared object for equal choices: there may be millions of them."""
    return Choice(part, reason, copies)


class _CollectionReader:
    """Reads collections and keeps counts, digests and skipped runs for the manifest."""

    def __init__(self, options: SelectOptions, progress: Progress) -> None:
        self.options = options
        self.progress = progress
        self.skipped: Counter[str] = Counter()
        self.digests: dict[str, str] = {}
        self.unknown_scores = 0
        self.unscored: list[str] = []
        """Collections without scores."""
        self.runs = 0

    def steps(self, name: str, collection: Path) -> Iterator[ScoredStep]:
        """Yield the steps of a collection that have attempts, in order of run and number."""
        names = run_names(collection)
        scores = self._scores(name, collection)
        digest, used, done = hashlib.sha256(), 0, 0
        workers = self.options.workers if len(names) > 10 * BATCH_RUNS else 1  # a worker is slow to start
        for batch in map_in_order(partial(summarize_runs, collection), chunks(names, BATCH_RUNS), workers):
            for run in batch:
                digest.update(digest_line(run.run, run.digest))
                self.runs += run.skipped is None
                self.skipped.update([run.skipped] if run.skipped else [])
                for number, take, verdicts in run.steps:
                    found = [scores.get((run.run, number, each[0])) for each in verdicts]
                    used += sum(score is not None for score in found)
                    attempts = tuple(map(with_score, verdicts, found))
                    yield ScoredStep(name, run.run, number, attempts, take)
            done += len(batch)
            self.progress(done, len(names))
        self.unknown_scores += len(scores) - used
        self.digests[name] = digest.hexdigest()

    def _scores(self, name: str, collection: Path) -> Mapping[AttemptKey, Scores | Unscored]:
        """Return the scores of a collection; none if it was never scored: its plans still train planners."""
        if self.options.scores is None and not score_names(collection):
            self.unscored.append(name)
            return {}
        scores = read_scores(collection, self.options.scores)
        scorer = self.options.scores or score_names(collection)[0]
        for path in score_files(collection, scorer):
            self.digests[f"{name}/scores/{path.name}"] = file_digest(path)
        return scores


@dataclass(frozen=True)
class RunSummary:
    """The part of a run that selection needs, small enough to send between processes."""

    run: str
    digest: str
    skipped: str | None = None
    steps: tuple[tuple[int, int, tuple[VerdictSummary, ...]], ...] = ()
    """Step number, take number and verdicts for each take of each step."""


def summarize_runs(collection: Path, names: list[str]) -> list[RunSummary]:
    """Summarize the runs with these names."""
    return [_summarize_run(collection, name) for name in names]


def _summarize_run(collection: Path, name: str) -> RunSummary:
    trajectory = read_trajectory(collection, name)
    if not isinstance(trajectory, Trajectory):
        return RunSummary(name, "", trajectory)
    steps = (
        (step.plan.number, take, tuple(map(summarize_verdict, attempts)))
        for step in trajectory.record.steps
        for take, attempts in step.own_takes.items()
    )
    return RunSummary(name, trajectory.digest, None, tuple(steps))


def _write(path: Path, steps: Iterable[ScoredStep], choices: Mapping[str, list[Choice]]) -> None:
    with open(path, "w", encoding="utf-8") as file:
        for step in steps:
            for attempt, choice in zip(step.attempts, choices[step_key(step)], strict=True):
                file.write(json.dumps(_line(step, attempt, choice), ensure_ascii=False) + "\n")
        file.flush()
        files.sync_file(file.fileno())


def _line(step: ScoredStep, attempt: ScoredAttempt, choice: Choice) -> dict[str, Any]:
    unjudged = attempt.problem in (UNJUDGED, UNREADABLE)
    return {
        "collection": step.collection,
        "run": step.run,
        "step": step.number,
        "attempt": attempt.number,
        "part": choice.part,
        **({"reason": choice.reason} if choice.reason else {}),
        "accepted": None if unjudged else attempt.accepted,
        "semantics": attempt.scores.semantics if attempt.scores else None,
        "quality": attempt.scores.quality if attempt.scores else None,
        "copies": choice.copies,
    }

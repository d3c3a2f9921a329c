"""Renders the report page: counts and charts, then a sample of trajectories with every attempt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from interleave import ConfigurationError, InterleaveError, Outcome, RunError, Scores, StorageError
from interleave.plugin import one_line, render, runs, text, write_atomic
from interleave.train.data.outputs import refuse_folder
from interleave.train.data.report.counts import (
    UNJUDGED,
    CollectionCounts,
    Distribution,
    count_collection,
    scores_of,
)
from interleave.train.data.score_file import AttemptKey, Unscored
from interleave.train.data.trajectories import Trajectory
from interleave.train.pages import data_url, rendered

MARK = "interleave data report"
"""Text that identifies a page as written by this command."""
MARK_WITHIN = 1000
MOST_PLAN_STEPS = 20
OUTCOMES = (Outcome.ACCEPTED.value, Outcome.REJECTED.value, Outcome.UNREADABLE.value, UNJUDGED)


@dataclass(frozen=True)
class Chart:
    """A chart with its title and explanation."""

    title: str
    svg: str
    note: str
    legend: tuple[str, ...] = ()


@dataclass(frozen=True)
class AttemptView:
    """One attempt on the page."""

    image: str | None
    prompt: str
    verdict: str
    reasoning: str
    score: str
    shown: bool


@dataclass(frozen=True)
class StepView:
    number: int
    text: str
    planned: str | None
    forced: bool
    attempts: tuple[AttemptView, ...]


@dataclass(frozen=True)
class RunView:
    """One trajectory on the page."""

    name: str
    title: str
    status: str
    generator: str
    given: tuple[str, ...]
    steps: tuple[StepView, ...]


def write_page(
    collection: Path,
    out: Path,
    *,
    selection: Path | None = None,
    requests: Path | None = None,
    scores: str | None = None,
    shown: int = 24,
    seed: int = 0,
) -> CollectionCounts:
    """Write the page and return its counts."""
    _refuse_foreign(out)
    scorer, numbers = scores_of(collection, scores)
    totals = count_collection(
        collection, scores=numbers, selection=selection, requests=requests, shown=shown, seed=seed
    )
    page = rendered(
        "report.html.j2",
        mark=MARK,
        name=collection.resolve().name,
        counts=totals,
        scorer=scorer,
        charts=charts_of(totals, scorer),
        runs=[_run_view(trajectory, numbers) for trajectory in totals.sample],
        selected=selection is not None,
    )
    try:
        out.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise StorageError.at(out.parent, error) from error
    write_atomic(out, page.encode("utf-8", "backslashreplace"))
    return totals


def _refuse_foreign(out: Path) -> None:
    """Raise unless the output is new or a page of this command, which may be overwritten."""
    if out.suffix.lower() not in (".html", ".htm"):
        raise ConfigurationError(f"--out {str(out)!r} must be a file that ends with .html")
    refuse_folder(out)
    try:
        with open(out, "rb") as file:
            ours = MARK.encode() in file.read(MARK_WITHIN)
    except FileNotFoundError:
        return
    except OSError as error:
        raise StorageError.at(out, error) from error
    if not ours:
        raise RunError(f"{out} was not made by 'data report': choose another name with --out")


def charts_of(totals: CollectionCounts, scorer: str | None) -> list[Chart]:
    """Return all charts with data."""
    charts = [_scores_chart(totals, scorer)] if totals.semantics else []
    drawn = f"Attempts to draw a step; {totals.forced:,} of {totals.steps:,} steps were never accepted."
    charts += [
        _verdict_chart(totals),
        _histogram("Steps per plan", totals.plan_lengths, "plans", "steps", "Length of the plans."),
        _histogram("Attempts per step", totals.attempts_of_steps, "steps", "attempts", drawn),
    ]
    if totals.parts:
        charts.append(_parts_chart(totals))
    if totals.reasons:
        charts.append(
            Chart(
                "Reasons for dropping",
                render.ranking(dict(totals.reasons.most_common()), title="Attempts dropped, by reason"),
                "Attempts that give no row, by the rule that dropped them.",
            )
        )
    if totals.corpus:
        charts += _coverage_charts(totals)
    return charts


def _scores_chart(totals: CollectionCounts, scorer: str | None) -> Chart:
    numbers = sorted(totals.semantics)
    series = [
        _series("semantics", totals.semantics, numbers),
        _series("quality", totals.quality, numbers),
    ]
    return Chart(
        "Scores by attempt",
        render.lines(
            list(map(str, numbers)), series, top=10, across="attempt", title="Mean scores by attempt"
        ),
        f"Means of the scorer “{scorer}”, 0 to 10; the middle half is shaded. Later attempts are of steps "
        "that failed before, so a line that stays level is progress.",
        ("semantics", "quality"),
    )


def _series(name: str, spreads: Mapping[int, Distribution], numbers: list[int]) -> render.Series:
    chosen = [spreads[number] for number in numbers]
    return render.Series(
        name,
        [distribution.mean for distribution in chosen],
        [distribution.quantile(0.25) for distribution in chosen],
        [distribution.quantile(0.75) for distribution in chosen],
    )


def _verdict_chart(totals: CollectionCounts) -> Chart:
    numbers = sorted(totals.verdicts)
    outcomes = [name for name in OUTCOMES if any(totals.verdicts[number][name] for number in numbers)]
    series = [render.Series(name, [totals.verdicts[number][name] for number in numbers]) for name in outcomes]
    return Chart(
        "Judgements by attempt",
        render.bars(list(map(str, numbers)), series, across="attempt", title="Judgements by attempt"),
        "The critic's verdicts on the first, second and later images of a step.",
        tuple(outcomes),
    )


def _histogram(title: str, counts: Counter[int], what: str, across: str, note: str) -> Chart:
    """Build a histogram; large numbers are combined."""
    bars = _with_overflow(counts, MOST_PLAN_STEPS)
    series = [render.Series(what, list(bars.values()))]
    return Chart(title, render.bars(list(bars), series, across=across, title=title), note)


def _parts_chart(totals: CollectionCounts) -> Chart:
    parts = {f"{part}: attempts": float(totals.parts[part]) for part in ("sft", "rl", "dropped")}
    parts |= {f"{part}: rows after balancing": float(totals.rows[part]) for part in ("sft", "rl")}
    return Chart(
        "Selection",
        render.ranking(parts, title="Attempts and rows by part"),
        "Each attempt is in exactly one part; balancing repeats some and drops others.",
    )


def _coverage_charts(totals: CollectionCounts) -> list[Chart]:
    """Build one chart for domains and one for sub-categories."""
    charts = []
    for depth, title in ((1, "Coverage by domain"), (2, "Coverage by sub-category")):
        total, covered = Counter[str](), Counter[str]()
        for place, number in totals.corpus.items():
            total[" / ".join(place.split(" / ")[:depth])] += number
        for place, number in totals.covered.items():
            covered[" / ".join(place.split(" / ")[:depth])] += number
        names = sorted(total.keys() | covered.keys())
        charts.append(
            Chart(
                title,
                render.ranking(
                    {name: covered[name] for name in names},
                    of={name: total[name] for name in names},
                    title=title,
                ),
                "Runs in this collection, of the requests in the corpus.",
            )
        )
    return charts


def _with_overflow(counts: Counter[int], most: int) -> dict[str, float]:
    """Return counts with numbers as labels; numbers beyond `most` are combined."""
    if not counts:
        return {}
    last = min(max(counts), most)
    shown = {str(number): float(counts[number]) for number in range(min(min(counts), last), last + 1)}
    beyond = sum(times for number, times in counts.items() if number > most)
    if beyond:
        shown[f"{most}+"] = shown.pop(str(most)) + beyond
    return shown


def _run_view(trajectory: Trajectory, scores: Mapping[AttemptKey, Scores | Unscored]) -> RunView:
    record = trajectory.record
    given = [part.image for part in record.request if part.image]
    return RunView(
        name=trajectory.name,
        title=one_line(record.title, 160),
        status=record.status,
        generator=record.config.generator.spec,
        given=tuple(image for name in given if (image := _thumbnail(trajectory, name))),
        steps=tuple(_step_view(trajectory, step, scores) for step in record.steps),
    )


def _step_view(
    trajectory: Trajectory, step: runs.StepRecord, scores: Mapping[AttemptKey, Scores | Unscored]
) -> StepView:
    attempts = tuple(_attempt_view(trajectory, step, attempt, scores) for attempt in step.attempts)
    return StepView(step.plan.number, text.visible(step.plan.text), step.plan.prompt, step.forced, attempts)


def _attempt_view(
    trajectory: Trajectory,
    step: runs.StepRecord,
    attempt: runs.AttemptRecord,
    scores: Mapping[AttemptKey, Scores | Unscored],
) -> AttemptView:
    verdict = attempt.verdict
    score = scores.get((trajectory.name, step.plan.number, attempt.number))
    return AttemptView(
        image=_thumbnail(trajectory, attempt.image),
        prompt=text.visible(attempt.prompt),
        verdict=verdict.outcome.value if verdict else UNJUDGED,
        reasoning=text.visible(verdict.reasoning) if verdict else "",
        score=f"{score.semantics:g} / {score.quality:g}" if isinstance(score, Scores) else "",
        shown=attempt.number == step.shown,
    )


def _thumbnail(trajectory: Trajectory, name: str) -> str | None:
    """Return a thumbnail as a data URL; None if the file is missing or damaged, which the page reports."""
    try:
        image = trajectory.store.get(name)
    except InterleaveError:
        return None
    return data_url(image)

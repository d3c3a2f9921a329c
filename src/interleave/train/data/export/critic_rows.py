"""Builds the critic's rows: every selected attempt, with exactly the input the critic receives in a run."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from interleave import InputError
from interleave.plugin import PromptPack, agents, critic_messages, runs
from interleave.train.data.export.images import ImageFiles, stored_image, white_image
from interleave.train.data.export.rows import CRITIC_RL, CRITIC_SFT, Baseline, TrainingRow
from interleave.train.data.select.selection import Selected
from interleave.train.data.trajectories import Trajectory

Attempts = dict[tuple[int, int], tuple[runs.StepRecord, runs.AttemptRecord]]


def critic_rows(
    prefix: str, trajectory: Trajectory, selected: Selected, attempts: Attempts, pack: PromptPack
) -> Iterator[TrainingRow]:
    """Yield the rows of one selected attempt: one per copy, with different ids."""
    step, attempt = _find(trajectory, selected, attempts)
    first = _row(f"{prefix}/{step.plan.number}.{attempt.number}", trajectory, selected, step, attempt, pack)
    yield first
    for copy in range(2, selected.copies + 1):
        yield replace(first, id=f"{first.id}#{copy}")


def attempts_of(trajectory: Trajectory) -> Attempts:
    """Return the attempts of a trajectory by step number and attempt number."""
    return {(step.plan.number, each.number): (step, each) for step, each in trajectory.attempts()}


def _find(
    trajectory: Trajectory, selected: Selected, attempts: Attempts
) -> tuple[runs.StepRecord, runs.AttemptRecord]:
    found = attempts.get((selected.step, selected.attempt))
    if found is None:
        raise InputError(
            f"{trajectory.folder} has no attempt {selected.attempt} of step {selected.step}: "
            "the run has changed since the selection, so select again"
        )
    return found


def _row(
    name: str,
    trajectory: Trajectory,
    selected: Selected,
    step: runs.StepRecord,
    attempt: runs.AttemptRecord,
    pack: PromptPack,
) -> TrainingRow:
    seen = trajectory.critic_input(step, attempt)
    sources = tuple(stored_image(source) for source in trajectory.sources_of(step, attempt))
    files = ImageFiles()
    if not sources:
        files.add(seen.before, white_image(seen.before.size))
    messages = critic_messages(seen, pack)
    images = files.refs(messages)
    verdict = attempt.verdict
    if verdict is None or selected.semantics is None or selected.quality is None:
        raise InputError(f"{name} has no verdict or no scores, but is selected: select again")
    if selected.part == "sft":
        return TrainingRow(name, CRITIC_SFT, messages, images, completion=agents.render_verdict(verdict))
    baseline = Baseline(
        planned_prompt=seen.planned_prompt,
        used_prompt=seen.prompt,
        before=files.ref(seen.before),
        after=files.ref(seen.after),
        sources=sources,
        success=verdict.accepted,
        semantics=selected.semantics,
        quality=selected.quality,
    )
    return TrainingRow(name, CRITIC_RL, messages, images, baseline=baseline)

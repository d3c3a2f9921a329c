"""What a critic learns from: every selected attempt, seen exactly as the critic sees it in use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from interleave.agents.critic import critic_messages
from interleave.agents.prompts import PromptPack
from interleave.agents.replies import render_verdict
from interleave.data.export.images import canvas, exhibit_of, exhibits_of, labelled, stored
from interleave.data.export.rows import CRITIC_RL, CRITIC_SFT, Baseline, Row
from interleave.data.select.selection import Selected
from interleave.data.trajectories import Trajectory
from interleave.errors import InputError
from interleave.runs.record import AttemptRecord, StepRecord

Attempts = dict[tuple[int, int], tuple[StepRecord, AttemptRecord]]


def critic_rows(
    prefix: str, trajectory: Trajectory, chosen: Selected, attempts: Attempts, pack: PromptPack
) -> Iterator[Row]:
    """The rows of one selected attempt: as many as balancing wants, each with an id of its own."""
    step, attempt = _find(trajectory, chosen, attempts)
    first = _row(f"{prefix}/{step.plan.number}.{attempt.number}", trajectory, chosen, step, attempt, pack)
    yield first
    for copy in range(2, chosen.copies + 1):
        yield replace(first, id=f"{first.id}#{copy}")


def attempts_of(trajectory: Trajectory) -> Attempts:
    """The attempts of a trajectory by step and number."""
    return {(step.plan.number, each.number): (step, each) for step, each in trajectory.attempts()}


def _find(trajectory: Trajectory, chosen: Selected, attempts: Attempts) -> tuple[StepRecord, AttemptRecord]:
    found = attempts.get((chosen.step, chosen.attempt))
    if found is None:
        raise InputError(
            f"{trajectory.folder} has no attempt {chosen.attempt} of step {chosen.step}: "
            "it has changed since it was selected from, so select again"
        )
    return found


def _row(
    name: str,
    trajectory: Trajectory,
    chosen: Selected,
    step: StepRecord,
    attempt: AttemptRecord,
    pack: PromptPack,
) -> Row:
    seen = trajectory.critic_input(step, attempt)
    sources = tuple(stored(source) for source in trajectory.sources_of(step))
    if not sources:
        labelled(seen.before, canvas(seen.before.size))
    messages = critic_messages(seen, pack)
    pictures = exhibits_of(messages)
    verdict = attempt.verdict
    if verdict is None or chosen.semantics is None or chosen.quality is None:
        raise InputError(f"{name} has no verdict or no scores, but is selected: select again")
    if chosen.part == "sft":
        return Row(name, CRITIC_SFT, messages, pictures, completion=render_verdict(verdict))
    baseline = Baseline(
        planned_prompt=seen.planned_prompt,
        used_prompt=seen.prompt,
        before=exhibit_of(seen.before),
        after=exhibit_of(seen.after),
        sources=sources,
        success=verdict.accepted,
        semantics=chosen.semantics,
        quality=chosen.quality,
    )
    return Row(name, CRITIC_RL, messages, pictures, baseline=baseline)

"""The decisions of `interleave resume`: at most one is made, before the run goes on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from interleave.errors import ConfigurationError

DECISIONS = {
    "from_step": "--from-step",
    "choose": "--choose",
    "undo": "--undo",
    "branch_from": "--branch-from",
    "approve": "--approve",
    "plan": "--plan",
}
CHANGE = "generator"
"""`--generator` without another decision is one itself: that is what draws the rest."""
DETAILS = {
    "prompt": ("--prompt", ("from_step", "branch_from")),
    "seed": ("--seed", ("from_step", "branch_from")),
    "generator": ("--generator", ("from_step", "branch_from", CHANGE)),
    "only_step": ("--only-step", ("from_step", "choose")),
    "out": ("--out", ("branch_from",)),
    "by": ("--by", (*DECISIONS, CHANGE)),
}
"""Options that say more about a decision, and the decisions that they go with."""


@dataclass(frozen=True)
class Wishes:
    """What the options of `resume` ask for."""

    from_step: int | None
    prompt: str | None
    seed: int | None
    generator: str | None
    only_step: bool
    choose: str | None
    undo: bool
    branch_from: int | None
    out: Path | None
    approve: bool
    plan: Path | None
    by: str

    @property
    def decision(self) -> str | None:
        """The one decision among the options, if any; raises where they do not go together."""
        made = [name for name in DECISIONS if self._is_given(name)]
        if len(made) > 1:
            raise ConfigurationError(
                f"{DECISIONS[made[0]]} and {DECISIONS[made[1]]} are two decisions: make one after the other"
            )
        decision = made[0] if made else CHANGE if self.generator is not None else None
        for name, (option, goes_with) in DETAILS.items():
            if self._is_given(name) and decision not in goes_with:
                needed = " or ".join(DECISIONS[each] for each in goes_with if each != CHANGE)
                raise ConfigurationError(f"{option} goes with {needed}")
        return decision

    def _is_given(self, name: str) -> bool:
        value = getattr(self, name)
        return value is not None and value is not False and value != ""  # 0 is a seed


def carry_out(run: Path, wishes: Wishes) -> Path:
    """Record the decision among the options, if any; returns the folder to continue."""
    from interleave.cli.request_input import read_plan_file
    from interleave.runs.branch import branch_run
    from interleave.runs.decisions import (
        change_generator,
        choose_attempt,
        redraw_step,
        release_plan,
        undo_decision,
    )

    decision, by = wishes.decision, wishes.by
    if wishes.from_step is not None:
        redraw_step(
            run,
            wishes.from_step,
            prompt=wishes.prompt,
            seed=wishes.seed,
            generator=wishes.generator,
            only_step=wishes.only_step,
            by=by,
        )
    elif wishes.choose is not None:
        step, attempt = _place(wishes.choose)
        choose_attempt(run, step, attempt, only_step=wishes.only_step, by=by)
    elif wishes.undo:
        undo_decision(run, by=by)
    elif wishes.branch_from is not None:
        if wishes.out is None:
            raise ConfigurationError("--branch-from needs a folder for the new run: name it with --out DIR")
        branch_run(
            run,
            wishes.out,
            wishes.branch_from,
            prompt=wishes.prompt,
            seed=wishes.seed,
            generator=wishes.generator,
            by=by,
        )
        return wishes.out
    elif decision == CHANGE and wishes.generator is not None:
        change_generator(run, wishes.generator, by=by)
    elif decision is not None:
        release_plan(run, read_plan_file(wishes.plan)[0] if wishes.plan is not None else None, by=by)
    return run


def _place(text: str) -> tuple[int, int]:
    """The step and the attempt in `STEP:ATTEMPT`."""
    step, colon, attempt = text.partition(":")
    if not (colon and step.isascii() and step.isdigit() and attempt.isascii() and attempt.isdigit()):
        raise ConfigurationError(f"--choose {text}: write the step and the attempt, as in --choose 2:1")
    return int(step), int(attempt)

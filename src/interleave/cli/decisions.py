"""The decisions of `interleave resume`: at most one is made, and recorded once all it needs is there."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, TypedDict

from interleave.errors import ConfigurationError

if TYPE_CHECKING:
    from interleave.runs.branch import CheckedBranch
    from interleave.runs.decisions import Decide

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


class RedrawDetails(TypedDict):
    """What the options say about a step that is drawn again."""

    prompt: str | None
    seed: int | None
    generator: str | None
    by: str


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

    @property
    def redraw_details(self) -> RedrawDetails:
        """How a step is drawn again, and who wants that."""
        return {"prompt": self.prompt, "seed": self.seed, "generator": self.generator, "by": self.by}

    def _is_given(self, name: str) -> bool:
        value = getattr(self, name)
        return value is not None and value is not False and value != ""  # 0 is a seed


def decision_of(wishes: Wishes) -> Decide | None:
    """What checks the decision about the run itself against the run, where the options have one."""
    from interleave.cli.request_input import read_plan_file
    from interleave.runs.decisions import change_line, choice_line, redraw_line, release_line, undo_line

    by, only_step = wishes.by, wishes.only_step
    match wishes.decision:
        case None | "branch_from":
            return None
        case "from_step":
            number, details = wishes.from_step or 0, wishes.redraw_details
            return lambda run: redraw_line(run, number, **details, only_step=only_step)
        case "choose":
            step, attempt = _place(wishes.choose or "")
            return lambda run: choice_line(run, step, attempt, only_step=only_step, by=by)
        case "undo":
            return lambda run: undo_line(run, by=by)
        case "generator":
            return lambda run: change_line(run, wishes.generator or "", by=by)
    plan = read_plan_file(wishes.plan)[0] if wishes.plan is not None else None
    return lambda run: release_line(run, plan, by=by)


def branch_of(run: Path, wishes: Wishes) -> CheckedBranch | None:
    """The branch that the options ask for, if they do."""
    from interleave.runs.branch import check_branch

    if wishes.branch_from is None:
        return None
    if wishes.out is None:
        raise ConfigurationError("--branch-from needs a folder for the new run: name it with --out DIR")
    return check_branch(run, wishes.out, wishes.branch_from, **wishes.redraw_details)


def _place(text: str) -> tuple[int, int]:
    """The step and the attempt in `STEP:ATTEMPT`."""
    step, colon, attempt = text.partition(":")
    if not (colon and step.isascii() and step.isdigit() and attempt.isascii() and attempt.isdigit()):
        raise ConfigurationError(f"--choose {text}: write the step and the attempt, as in --choose 2:1")
    return int(step), int(attempt)

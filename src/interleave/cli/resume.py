"""`interleave resume`: continue a run where it stopped, or as a person decides."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypedDict

import typer

from interleave.cli import options
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


Approve = Annotated[bool, typer.Option("--approve", help="Draw the plan of a held run as it is.")]
EditedPlan = Annotated[
    Path | None, typer.Option("--plan", metavar="FILE", help="Draw this plan instead of the held one.")
]
FromStep = Annotated[
    int | None,
    typer.Option("--from-step", metavar="N", help="Draw step N again, and those that follow from it."),
]
Prompt = Annotated[str | None, typer.Option("--prompt", help="With a redrawn step: what it is to show.")]
StepSeed = Annotated[int | None, typer.Option("--seed", help="With a redrawn step: its random seed.")]
StepGenerator = Annotated[
    str | None,
    typer.Option(
        "--generator",
        metavar="SPEC",
        help="The model that draws all that is left; with a redrawn step: that step.",
    ),
]
OnlyStep = Annotated[bool, typer.Option("--only-step", help="Keep the images of all later steps.")]
Choose = Annotated[
    str | None, typer.Option("--choose", metavar="STEP:ATTEMPT", help="Show another attempt of a step.")
]
BranchFrom = Annotated[
    int | None,
    typer.Option("--branch-from", metavar="N", help="Copy the run to --out DIR and redraw it from step N."),
]
Undo = Annotated[bool, typer.Option("--undo", help="Undo the last of these decisions about steps.")]
By = Annotated[str, typer.Option("--by", metavar="NAME", help="Who decides; recorded with the decision.")]
BranchFolder = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="With --branch-from: the new run folder.")
]


def resume(
    run: options.RunFolder,
    from_step: FromStep = None,
    prompt: Prompt = None,
    seed: StepSeed = None,
    generator: StepGenerator = None,
    only_step: OnlyStep = False,
    choose: Choose = None,
    undo: Undo = False,
    branch_from: BranchFrom = None,
    out: BranchFolder = None,
    approve: Approve = False,
    plan: EditedPlan = None,
    by: By = "",
    max_calls: options.MaxCalls = None,
    max_seconds: options.MaxSeconds = None,
    max_cost: options.MaxCost = None,
    allow: options.Allow = None,
    redraw: options.Redraw = False,
    fail_on_forced: options.FailOnForced = False,
    open_document: options.Open = False,
    json_output: options.Json = False,
    json_events: options.JsonEvents = False,
) -> int:
    """Continue a run; everything but the limits is taken from its folder.

    One decision of yours may come first: release a held plan, redraw a step, choose another attempt, have the
    rest drawn by another generator, undo that, or branch off into another folder. It is recorded, and only
    what is new is paid for.

    A folder may come from anyone: keys, files and code that it asks for are refused unless you --allow them.
    """
    from interleave.api import open_branch, reopen_run
    from interleave.batches.batch import CONFIG_NAME
    from interleave.cli.run_command import Output, run_and_report
    from interleave.runs.decisions import check_decision
    from interleave.runs.permissions import permissions_of
    from interleave.runs.resolve import split_choices
    from interleave.runs.run import Run

    if (run / CONFIG_NAME).exists():
        raise ConfigurationError(
            f"{run} holds many runs: continue them with the command that started them, "
            "generate --requests or data collect"
        )
    _, limits = split_choices({"max_calls": max_calls, "max_seconds": max_seconds, "max_cost": max_cost})
    wishes = Wishes(
        from_step=from_step,
        prompt=prompt,
        seed=seed,
        generator=generator,
        only_step=only_step,
        choose=choose,
        undo=undo,
        branch_from=branch_from,
        out=out,
        approve=approve,
        plan=plan,
        by=by,
    )
    decide, branch = decision_of(wishes), branch_of(run, wishes)
    decision = check_decision(run, decide) if decide is not None else None
    allowed = (*(allow or ()), *(permissions_of(generator) if generator else ()))

    def opened() -> Run:
        if branch is not None:
            return open_branch(branch, limits, allow=allowed)
        return reopen_run(run, limits, allow=allowed, redraw=redraw, decision=decision)

    return run_and_report(
        opened,
        output=Output(json_output, json_events),
        open_document=open_document,
        fail_on_forced=fail_on_forced,
    )

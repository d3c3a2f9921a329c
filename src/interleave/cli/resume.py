"""`interleave resume`: continue a run where it stopped, or as a person decides."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interleave.cli import options
from interleave.cli.decisions import Wishes, branch_of, decision_of
from interleave.errors import ConfigurationError

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
OnlyStep = Annotated[bool, typer.Option("--only-step", help="Keep the pictures of all later steps.")]
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

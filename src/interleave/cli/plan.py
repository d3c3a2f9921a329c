"""`interleave plan`: only the plan, to read, edit and draw later."""

from __future__ import annotations

import typer

from interleave.cli import options
from interleave.cli import request_input as inputs


def plan(
    request: options.RequestText = None,
    image: options.Images = None,
    from_file: options.FromFile = None,
    profile: options.ProfileName = None,
    planner: options.PlannerSpec = None,
    prompts: options.PackName = None,
    max_steps: options.MaxSteps = None,
    nearest: options.Nearest = False,
    dry_run: options.DryRun = False,
    json_output: options.Json = False,
) -> int:
    """Plan a request without drawing. Save the plan with --json and draw it with generate --plan FILE."""
    from interleave.api import plan as make_plan
    from interleave.cli.run_command import ASKED, asked_json
    from interleave.cli.streams import as_json, say
    from interleave.text import visible
    from interleave.types import Asked

    parts = inputs.gather_parts(request, image, from_file)
    try:
        made = make_plan(
            inputs.build_request(parts),
            profile=inputs.choose_profile(profile, dry_run),
            planner=planner,
            prompts=prompts,
            max_steps=max_steps,
            nearest=nearest,
        )
    except Asked as asked:
        if not json_output:
            raise
        say(f"interleave: {asked}", error=True)
        print(as_json(asked_json(asked.question, inputs.plan_value_of(asked.plan, parts))))
        return ASKED
    if json_output:
        typer.echo(inputs.plan_as_json(made, parts))
        return 0
    for step in made.steps:
        typer.echo(f"{step.number}  {visible(step.text)}")
        if step.prompt is not None:
            typer.echo(f"   prompt: {visible(step.prompt)}")
    for note in made.notes:
        typer.echo(visible(note))
    return 0

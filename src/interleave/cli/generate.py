"""`interleave generate`: a request in, a document out."""

from __future__ import annotations

from interleave.cli import inputs, options


def generate(
    request: options.RequestText = None,
    image: options.Images = None,
    from_file: options.FromFile = None,
    profile: options.ProfileName = None,
    planner: options.PlannerSpec = None,
    critic: options.CriticSpec = None,
    generator: options.GeneratorSpec = None,
    prompts: options.PackName = None,
    plan: options.PlanFile = None,
    max_attempts: options.MaxAttempts = None,
    max_steps: options.MaxSteps = None,
    max_calls: options.MaxCalls = None,
    max_seconds: options.MaxSeconds = None,
    max_cost: options.MaxCost = None,
    sources: options.Sources = None,
    seed: options.Seed = 0,
    out: options.Out = None,
    dry_run: options.DryRun = False,
    fail_on_forced: options.FailOnForced = False,
    open_document: options.Open = False,
    json_output: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Answer a request with text and pictures; prints where the document is.

    On a folder that holds the same request and configuration it continues; a finished one is shown again.
    """
    from interleave.cli.working import work
    from interleave.runs.generating import open_trajectory
    from interleave.runs.trajectory import Trajectory

    parts = inputs.gather_parts(request, image, from_file)
    given_plan = None
    if plan is not None:
        given_plan, made_for = inputs.read_plan_file(plan)
        parts = parts or made_for or [inputs.GIVEN_PLAN_TITLE]
    asked = inputs.build_request(parts)
    choices = {
        **inputs.choose_profile(profile, dry_run),
        "planner": planner,
        "critic": critic,
        "generator": generator,
        "prompts": prompts,
        "plan": given_plan,
        "max_attempts": max_attempts,
        "max_steps": max_steps,
        "max_calls": max_calls,
        "max_seconds": max_seconds,
        "max_cost": max_cost,
        "sources": sources,
        "seed": seed,
    }

    def open_run() -> Trajectory:
        return open_trajectory(asked, out=out, **choices)

    return work(open_run, json_output=json_output, open_document=open_document, fail_on_forced=fail_on_forced)

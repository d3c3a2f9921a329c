"""`interleave generate`: a request in, a document out."""

from __future__ import annotations

from interleave.cli import options
from interleave.cli import request_input as inputs


def generate(
    request: options.RequestText = None,
    image: options.Images = None,
    profile: options.ProfileName = None,
    max_attempts: options.MaxAttempts = None,
    out: options.Out = None,
    open_document: options.Open = False,
    planner: options.PlannerSpec = None,
    critic: options.CriticSpec = None,
    generator: options.GeneratorSpec = None,
    prompts: options.PackName = None,
    identity: options.Identity = None,
    safety: options.Safety = None,
    dry_run: options.DryRun = False,
    asset: options.Assets = None,
    from_file: options.FromFile = None,
    plan: options.PlanFile = None,
    hold_plan: options.HoldPlan = False,
    nearest: options.Nearest = False,
    chapter_steps: options.ChapterSteps = None,
    sources: options.Sources = None,
    choose: options.Choose = None,
    drift_control: options.DriftControl = None,
    reference_sheets: options.ReferenceSheets = None,
    seed: options.Seed = 0,
    redraw: options.Redraw = False,
    max_steps: options.MaxSteps = None,
    max_calls: options.MaxCalls = None,
    max_seconds: options.MaxSeconds = None,
    max_cost: options.MaxCost = None,
    requests: options.Requests = None,
    concurrency: options.Concurrency = None,
    retry_failed: options.RetryFailed = False,
    skip_bad: options.SkipBad = False,
    gallery: options.Gallery = False,
    fail_on_forced: options.FailOnForced = False,
    json_output: options.Json = False,
    json_events: options.JsonEvents = False,
) -> int:
    """Answer a request with text and images. Prints the path of the document.

    If --out holds a run of the same request and configuration, that run is continued.
    With --requests FILE.jsonl --out DIR, each request gets a folder below DIR.
    """
    from interleave.api import RunOptions, open_run
    from interleave.cli.run_command import Output, run_and_report
    from interleave.errors import ConfigurationError
    from interleave.runs.run import Run

    output = Output(json_output, json_events)
    given_plan, made_for = inputs.read_given_plan(plan)
    choices: RunOptions = {
        "profile": inputs.choose_profile(profile, dry_run),
        "planner": planner,
        "critic": critic,
        "generator": generator,
        "prompts": prompts,
        "plan": given_plan,
        "max_attempts": max_attempts,
        "max_steps": max_steps,
        "chapter_steps": chapter_steps,
        "max_calls": max_calls,
        "max_seconds": max_seconds,
        "max_cost": max_cost,
        "sources": sources,
        "choose": choose,
        "drift_control": drift_control,
        "reference_sheets": reference_sheets,
        "identity": identity,
        "safety": tuple(safety or ()),
        "seed": seed,
        "nearest": nearest,
    }

    if requests is not None:
        if request or image or asset or from_file or plan:
            raise ConfigurationError(
                "--requests cannot be combined with REQUEST, --image, --asset, --from or --plan"
            )
        if open_document or redraw or hold_plan:
            raise ConfigurationError(
                "--open, --redraw and --hold-plan are for one run: they cannot be combined with --requests"
            )
        from interleave.cli.batch_command import run_requests
        from interleave.config.run_config import DEFAULT_CONCURRENCY

        return run_requests(
            requests,
            out,
            choices,
            concurrency=concurrency or DEFAULT_CONCURRENCY,
            retry_failed=retry_failed,
            skip_bad=skip_bad,
            gallery=gallery,
            fail_on_forced=fail_on_forced,
            output=output,
        )
    if concurrency is not None or retry_failed or skip_bad or gallery:
        raise ConfigurationError(
            "--concurrency, --retry-failed, --skip-bad and --gallery need --requests FILE.jsonl"
        )
    parts = inputs.gather_parts(request, image, from_file) or made_for
    asked = inputs.with_assets(inputs.build_request(parts), asset or [])

    def opened() -> Run:
        return open_run(asked, out=out, redraw=redraw, hold_plan=hold_plan, **choices)

    return run_and_report(opened, output=output, open_document=open_document, fail_on_forced=fail_on_forced)

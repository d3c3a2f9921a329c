"""`interleave resume`: continue a run where it stopped."""

from __future__ import annotations

from interleave.cli import options
from interleave.errors import ConfigurationError


def resume(
    run: options.RunFolder,
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

    A folder may come from anyone: keys, files and code that it asks for are refused unless you --allow them.
    """
    from interleave.api import reopen_run
    from interleave.batches.batch import CONFIG_NAME
    from interleave.cli.run_command import Output, run_and_report
    from interleave.runs.resolve import split_choices
    from interleave.runs.run import Run

    if (run / CONFIG_NAME).exists():
        raise ConfigurationError(
            f"{run} holds many runs: continue them with the command that started them, "
            "generate --requests or data collect"
        )
    _, limits = split_choices({"max_calls": max_calls, "max_seconds": max_seconds, "max_cost": max_cost})

    def opened() -> Run:
        return reopen_run(run, limits, allow=allow or (), redraw=redraw)

    return run_and_report(
        opened,
        output=Output(json_output, json_events),
        open_document=open_document,
        fail_on_forced=fail_on_forced,
    )

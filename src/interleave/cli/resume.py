"""`interleave resume`: continue a run from its last step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interleave.cli import options
from interleave.cli.lazy_group import taking
from interleave.errors import ConfigurationError

if TYPE_CHECKING:
    from interleave.runs.decisions import Decide
    from interleave.runs.run import Run


@dataclass(frozen=True)
class Continuation:
    """Options of the commands that continue a run."""

    max_calls: options.MaxCalls = None
    max_seconds: options.MaxSeconds = None
    max_cost: options.MaxCost = None
    allow: options.Allow = None
    redraw: options.Redraw = False
    fail_on_forced: options.FailOnForced = False
    open_document: options.Open = False
    json_output: options.Json = False
    json_events: options.JsonEvents = False

    def __post_init__(self) -> None:
        for text in self.allow or ():
            if "@" not in text and "://" not in text:
                raise ConfigurationError(f"--allow {text}: write WHAT@WHERE, as in the refusal")

    def run(self, open_run: Callable[..., Run], generator: str | None = None) -> int:
        """Open a run with the limits and permissions, carry it out, and return the exit code."""
        from interleave.cli.run_command import Output, run_and_report
        from interleave.runs.permissions import permissions_of
        from interleave.runs.resolve import split_choices

        names = ("max_calls", "max_seconds", "max_cost")
        limits = split_choices({name: getattr(self, name) for name in names})[1]
        allowed = (*(self.allow or ()), *(permissions_of(generator) if generator else ()))
        return run_and_report(
            lambda: open_run(limits=limits, allow=allowed),
            output=Output(self.json_output, self.json_events),
            open_document=self.open_document,
            fail_on_forced=self.fail_on_forced,
        )


RestGenerator = Annotated[
    str | None,
    typer.Option(
        "--generator",
        metavar="SPEC",
        autocompletion=options.complete_spec,
        help="Draw the remaining steps with another model.",
    ),
]


@taking(Continuation)
def resume(
    run: options.RunFolder,
    generator: RestGenerator = None,
    by: options.By = "",
    given: Continuation = Continuation(),
) -> int:
    """Continue a run. Everything but the limits is taken from its folder.

    A folder may come from anyone: keys, files and code that it asks for are refused unless you --allow them.
    """
    from interleave.runs.decisions import change_line

    if generator is None:
        if by:
            raise ConfigurationError("--by goes with --generator: only decisions are recorded")
        return continue_run(run, given)
    return continue_run(run, given, lambda run: change_line(run, generator, by=by), generator)


def continue_run(
    run: Path, given: Continuation, decide: Decide | None = None, generator: str | None = None
) -> int:
    """Check a decision, if there is one, then record it and continue the run. Return the exit code."""
    from interleave.api import reopen_run
    from interleave.cli.run_command import Output, record_words
    from interleave.runs.decisions import check_decision

    refuse_batch(run)
    decision = check_decision(run, decide) if decide is not None else None
    if decision is not None and decision.is_about_words:
        return record_words(decision, Output(given.json_output, given.json_events), given.open_document)
    return given.run(
        lambda **chosen: reopen_run(run, redraw=given.redraw, decision=decision, **chosen), generator
    )


def refuse_batch(run: Path) -> None:
    """Raise `ConfigurationError` if the folder holds many runs."""
    from interleave.batches.batch import CONFIG_NAME

    if (run / CONFIG_NAME).exists():
        raise ConfigurationError(
            f"{run} holds many runs: continue them with the command that started them, "
            "generate --requests or data collect"
        )

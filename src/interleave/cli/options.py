"""Options that several commands share, each defined once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from interleave.cli.streams import be_quiet, be_verbose, spool_stdin
from interleave.errors import ConfigurationError

COMMON = "Common options"


def panel(heading: str) -> partial[Any]:
    """Return `typer.Option` for a section of the help. Options without a section are listed first."""
    return partial(typer.Option, rich_help_panel=heading)


def or_stdin(ctx: typer.Context, parameter: typer.CallbackParam, value: Any) -> Any:
    """Let the file '-' be standard input, which one option of a command may read."""
    if value is None or str(value) != "-":
        return value
    name = next(iter(parameter.opts), "") if parameter.param_type_name == "option" else parameter.metavar
    other = ctx.meta.setdefault("standard input", name)
    if other != name:
        raise ConfigurationError(f"{other} and {name} both read standard input: pass one of them as a file")
    if isinstance(value, Path):
        spool_stdin()
    return value


def complete_profile(incomplete: str) -> list[str]:
    from interleave.config.profiles import profile_files

    return [name for name in profile_files() if name.startswith(incomplete)]


def complete_spec(incomplete: str) -> list[str]:
    """Complete the name of a backend; a model after the colon is not completed."""
    from interleave.backends.registry import GROUPS, known_names

    return [name for name in known_names(*GROUPS) if name.startswith(incomplete)]


model, input_, rule, limit = panel("Models"), panel("Input"), panel("Rules"), panel("Limits")
many, output, common = panel("Many requests"), panel("Output"), panel(COMMON)
spec = partial(model, metavar="SPEC", autocompletion=complete_spec)
a_file = partial(input_, metavar="FILE", callback=or_stdin)

RequestText = Annotated[
    str | None,
    typer.Argument(metavar="REQUEST", callback=or_stdin, help="What to make. '-' reads standard input."),
]
Images = Annotated[
    list[Path] | None,
    typer.Option("--image", metavar="PATH", help="An image to start from. Repeatable."),
]
ProfileName = Annotated[
    str | None,
    typer.Option(
        "--profile",
        metavar="NAME|FILE.toml",
        autocompletion=complete_profile,
        help="A named set of models and prompts.",
    ),
]
MaxAttempts = Annotated[
    int | None, typer.Option(metavar="N", help="Maximum attempts per step. [default: the profile's, 5]")
]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="The run folder. [default: a new one under runs/]")
]
Open = Annotated[bool, typer.Option("--open", help="Open the document when it is done.")]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="WHAT@WHERE",
        help="Permit what the folder asks for, in the words of its refusal. Repeatable.",
    ),
]
By = Annotated[str, typer.Option("--by", metavar="NAME", help="Who decides; recorded with the decision.")]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]

PlannerSpec = Annotated[str | None, spec("--planner", help="The model that plans.")]
CriticSpec = Annotated[str | None, spec("--critic", help="The model that judges.")]
GeneratorSpec = Annotated[str | None, spec("--generator", help="The model that draws.")]
PackName = Annotated[
    str | None, model("--prompts", metavar="PACK", help="The prompt pack of planner and critic.")
]
Identity = Annotated[
    str | None,
    model(
        metavar="colours|SPEC",
        help="The model that compares assets across steps, such as transformers:facebook/dinov2-small."
        " [default: colours]",
    ),
]
Safety = Annotated[
    list[str] | None,
    rule(
        "--safety",
        metavar="SPEC",
        help="A check that may refuse the request, the plan and images: words:FILE.toml, ask:MODEL, writing."
        " Repeatable.",
    ),
]
DryRun = Annotated[bool, model("--dry-run", help="Use the built-in fakes instead of models.")]

Assets = Annotated[
    list[str] | None,
    input_(
        "--asset",
        metavar="NAME=IMAGE",
        help="Something that must look the same in every image: NAME=IMAGE, or 'NAME: DESCRIPTION'."
        " Repeatable.",
    ),
]
FromFile = Annotated[
    Path | None,
    a_file(
        "--from",
        metavar="FILE.md",
        help="Markdown to continue, with images from its folder or below. '-' reads standard input.",
    ),
]
PlanFile = Annotated[
    Path | None,
    a_file("--plan", help="Draw this plan instead of calling a planner. '-' reads standard input."),
]

HoldPlan = Annotated[
    bool, rule("--hold-plan", help="Stop after planning, until you approve or edit the plan.")
]
ChapterSteps = Annotated[
    int | None,
    rule(metavar="N", help="Plan in chapters of at most N steps, each after the previous one is drawn."),
]
Sources = Annotated[str | None, rule(metavar="previous|history", help="The images that a step starts from.")]
Choose = Annotated[
    str | None,
    rule(
        metavar="RULE",
        help="The attempt that a step shows: best, first-unless-better or last."
        " [default: the profile's, best]",
    ),
]
DriftControl = Annotated[
    str | None,
    rule(
        metavar="NAME,…",
        help="Measures against drift: keep, align, anchor=K, rollback=N, drift=LEVELS, audit=N."
        " [default: none]",
    ),
]
ReferenceSheets = Annotated[
    bool | None,
    rule(
        "--reference-sheets/--no-reference-sheets",
        help="First draw each asset that has a description but no image. [default: the profile's, no]",
    ),
]
Nearest = Annotated[
    bool, rule("--nearest", help="Exchange words that the planner does not know for their neighbours.")
]
Seed = Annotated[int, rule(metavar="N", help="The random seed.")]
Redraw = Annotated[bool, rule("--redraw", help="Redraw images that are missing from the folder or altered.")]

MaxSteps = Annotated[
    int | None, limit(metavar="N", help="Maximum steps of a plan. [default: the profile's, 50]")
]
MaxCalls = Annotated[int | None, limit(metavar="N", help="End the run after N model calls.")]
MaxSeconds = Annotated[float | None, limit(metavar="SECONDS", help="End the run after this time.")]
MaxCost = Annotated[float | None, limit(metavar="USD", help="End the run before it costs more than this.")]

Requests = Annotated[
    Path | None,
    many(
        "--requests",
        metavar="FILE.jsonl",
        callback=or_stdin,
        help="Requests, one JSON object per line. '-' reads standard input.",
    ),
]
Concurrency = Annotated[
    int | None, many(metavar="N", min=1, max=4096, help="Concurrent requests. [default: 64]")
]
RetryFailed = Annotated[bool, many("--retry-failed", help="Retry requests that failed or ended short.")]
SkipBad = Annotated[bool, many("--skip-bad", help="Skip lines that cannot be used.")]
Gallery = Annotated[bool, many("--gallery", help="Write a page for every run, and one that shows them all.")]

FailOnForced = Annotated[
    bool, output("--fail-on-forced", help="Exit with 1 if a step shows a rejected image.")
]
Json = Annotated[bool, output("--json", help="Print one JSON object on standard output.")]
JsonEvents = Annotated[
    bool, output("--json-events", help="Print every event as a line of JSON on standard output.")
]

Verbose = Annotated[
    bool, common("--verbose", "-v", callback=be_verbose, help="Log requests, retries and timings.")
]
Quiet = Annotated[bool, common("--quiet", "-q", callback=be_quiet, help="Show only errors and the result.")]
Debug = Annotated[bool, common("--debug", help="Show the traceback of an error.")]

"""The options that several commands share, each defined once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RequestText = Annotated[
    str | None, typer.Argument(metavar="REQUEST", help="What to make; '-' reads it from standard input.")
]
Images = Annotated[
    list[Path] | None,
    typer.Option("--image", metavar="PATH", help="An image to start from; may be repeated."),
]
FromFile = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="FILE.md",
        help="Text and images to continue, as Markdown: ![](image.png)."
        " Images are files of its folder or below.",
    ),
]
ProfileName = Annotated[
    str | None,
    typer.Option("--profile", metavar="NAME|FILE.toml", help="A named set of models and prompts."),
]
PlannerSpec = Annotated[str | None, typer.Option("--planner", metavar="SPEC", help="The model that plans.")]
CriticSpec = Annotated[str | None, typer.Option("--critic", metavar="SPEC", help="The model that judges.")]
GeneratorSpec = Annotated[
    str | None, typer.Option("--generator", metavar="SPEC", help="The model that draws.")
]
PackName = Annotated[
    str | None, typer.Option("--prompts", metavar="PACK", help="The prompt pack for planner and critic.")
]
PlanFile = Annotated[
    Path | None, typer.Option("--plan", metavar="FILE", help="Draw this plan instead of calling a planner.")
]
MaxAttempts = Annotated[
    int | None, typer.Option(help="The most attempts per step. [default: the profile's, 5]")
]
ChapterSteps = Annotated[
    int | None,
    typer.Option(
        "--chapter-steps",
        metavar="N",
        help="Plan in chapters of at most N steps, each when the one before it is drawn.",
    ),
]
MaxSteps = Annotated[
    int | None, typer.Option(help="The most steps a plan may have. [default: the profile's, 50]")
]
MaxCalls = Annotated[int | None, typer.Option(help="End the run after this many model calls.")]
MaxSeconds = Annotated[float | None, typer.Option(help="End the run after this many seconds.")]
MaxCost = Annotated[
    float | None, typer.Option(help="End the run before it costs more than this, in US dollars.")
]
Sources = Annotated[
    str | None, typer.Option(metavar="previous|history", help="The images that a step starts from.")
]
Choose = Annotated[
    str | None,
    typer.Option(
        metavar="best|first-unless-better|last",
        help="The attempt of a step that counts. [default: the profile's, best]",
    ),
]
Remedies = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,…",
        help="Against drift: keep, align, anchor=K, rollback=N, drift=LEVELS, audit=N. [default: none]",
    ),
]
Sheets = Annotated[
    bool | None,
    typer.Option(
        "--sheets/--no-sheets",
        help="Draw what is described under 'assets', and has no image, first. [default: the profile's, no]",
    ),
]
Identity = Annotated[
    str | None,
    typer.Option(
        metavar="colours|SPEC",
        help="What says whether assets are still themselves, such as transformers:facebook/dinov2-small."
        " [default: colours]",
    ),
]
Assets = Annotated[
    list[str] | None,
    typer.Option(
        "--asset",
        metavar="NAME=IMAGE",
        help="A thing that must always look the same, and an image of it, or 'NAME: WORDS' that describe it;"
        " may be repeated.",
    ),
]
Seed = Annotated[int, typer.Option(help="The random seed; another seed gives other images.")]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="The run folder. [default: a new one under runs/]")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Use the built-in test doubles instead of models.")]
FailOnForced = Annotated[
    bool, typer.Option("--fail-on-forced", help="Exit with 1 when a step was shown without being accepted.")
]
Open = Annotated[bool, typer.Option("--open", help="Open the document when it is done.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
JsonEvents = Annotated[
    bool,
    typer.Option("--json-events", help="Print every event as a line of JSON on standard output."),
]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]
Requests = Annotated[
    Path | None,
    typer.Option("--requests", metavar="FILE.jsonl", help="Many requests, one JSON object per line."),
]
Concurrency = Annotated[
    int | None,
    typer.Option(min=1, max=4096, help="With --requests: how many run at the same time. [default: 64]"),
]
RetryFailed = Annotated[
    bool, typer.Option("--retry-failed", help="With --requests: retry those that failed or ended short.")
]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="With --requests: leave out lines that cannot be used.")
]
Gallery = Annotated[
    bool,
    typer.Option("--gallery", help="With --requests: a page for every run, and one that shows them all."),
]
Redraw = Annotated[
    bool, typer.Option("--redraw", help="Redraw images that are missing from the folder or altered.")
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="WHAT@WHERE",
        help="Permit what the folder asks for, in the words of its refusal; may be repeated.",
    ),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]
HoldPlan = Annotated[
    bool, typer.Option("--hold-plan", help="End with the plan; draw it when you have approved or edited it.")
]

"""The options that several verbs share, each described once."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

RequestText = Annotated[
    str | None, typer.Argument(metavar="REQUEST", help="What to make; '-' reads it from standard input.")
]
Images = Annotated[
    list[Path] | None,
    typer.Option("--image", metavar="PATH", help="A picture to start from; may be repeated."),
]
FromFile = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="FILE.md",
        help="Text and pictures to continue, as Markdown: ![](picture.png)."
        " Pictures are files of its folder or below.",
    ),
]
ProfileName = Annotated[
    str | None,
    typer.Option("--profile", metavar="NAME|FILE.toml", help="A named choice of models and prompts."),
]
PlannerSpec = Annotated[str | None, typer.Option("--planner", metavar="SPEC", help="The model that plans.")]
CriticSpec = Annotated[str | None, typer.Option("--critic", metavar="SPEC", help="The model that judges.")]
GeneratorSpec = Annotated[
    str | None, typer.Option("--generator", metavar="SPEC", help="The model that draws.")
]
PackName = Annotated[
    str | None, typer.Option("--prompts", metavar="PACK", help="The words models are asked with.")
]
PlanFile = Annotated[
    Path | None, typer.Option("--plan", metavar="FILE", help="Draw this plan; no planner is asked.")
]
MaxAttempts = Annotated[
    int | None, typer.Option(help="How often a step is drawn at most. [default: the profile's, 5]")
]
MaxSteps = Annotated[
    int | None, typer.Option(help="How many steps a plan may have. [default: the profile's, 50]")
]
MaxCalls = Annotated[int | None, typer.Option(help="End the run after so many model calls.")]
MaxSeconds = Annotated[float | None, typer.Option(help="End the run after so many seconds.")]
MaxCost = Annotated[
    float | None, typer.Option(help="End the run before it costs more than so many US dollars.")
]
Sources = Annotated[
    str | None, typer.Option(metavar="previous|history", help="Which pictures a step starts from.")
]
Seed = Annotated[int, typer.Option(help="Another seed, another set of pictures.")]
Out = Annotated[
    Path | None, typer.Option("--out", metavar="DIR", help="The run folder. [default: a new one under runs/]")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Use the built-in doubles instead of models.")]
FailOnForced = Annotated[
    bool, typer.Option("--fail-on-forced", help="Exit with 1 when a step was shown without being accepted.")
]
Open = Annotated[bool, typer.Option("--open", help="Open the document when it is done.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object on standard output.")]
Debug = Annotated[bool, typer.Option("--debug", help="Show where an error came from.")]
Requests = Annotated[
    Path | None,
    typer.Option("--requests", metavar="FILE.jsonl", help="Many requests at once, one JSON object a line."),
]
Concurrency = Annotated[
    int | None,
    typer.Option(min=1, max=4096, help="With --requests: how many are in flight at once. [default: 64]"),
]
RetryFailed = Annotated[
    bool, typer.Option("--retry-failed", help="With --requests: take up those that failed or ended short.")
]
SkipBad = Annotated[
    bool, typer.Option("--skip-bad", help="With --requests: leave out lines that cannot be used.")
]
Gallery = Annotated[
    bool,
    typer.Option("--gallery", help="With --requests: a page for every run, and one that shows them all."),
]
Redraw = Annotated[
    bool, typer.Option("--redraw", help="Draw pictures again that are missing or altered in the folder.")
]
Allow = Annotated[
    list[str] | None,
    typer.Option(
        "--allow",
        metavar="WHAT@WHERE",
        help="What the folder may not do without your word, as its refusal names it; may be repeated.",
    ),
]
RunFolder = Annotated[Path, typer.Argument(metavar="RUN", help="A run folder.")]

"""`interleave edit`: decide about the steps of a run, then redraw what follows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interleave.cli import options
from interleave.cli.lazy_group import taking
from interleave.cli.resume import Continuation, continue_run, refuse_batch
from interleave.errors import ConfigurationError

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

Step = Annotated[int, typer.Argument(metavar="STEP", help="The number of a step.")]
Attempt = Annotated[int, typer.Argument(metavar="ATTEMPT", help="The number of its attempt.")]
Prompt = Annotated[str | None, typer.Option("--prompt", metavar="TEXT", help="What the step shows instead.")]
StepSeed = Annotated[int | None, typer.Option("--seed", metavar="N", help="The random seed of the step.")]
StepGenerator = Annotated[
    str | None,
    typer.Option(
        "--generator", metavar="SPEC", autocompletion=options.complete_spec, help="The model that draws it."
    ),
]
Only = Annotated[bool, typer.Option("--only", help="Keep the images of all later steps.")]
HeldPlan = Annotated[
    Path | None,
    typer.Option(
        "--plan",
        metavar="FILE",
        callback=options.or_stdin,
        help="Draw this plan instead of the held one. '-' reads standard input.",
    ),
]
Title = Annotated[str | None, typer.Option("--title", metavar="TEXT", help="The title of the document.")]
WordsStep = Annotated[
    int | None,
    typer.Option("--step", metavar="N", help="The step of --name, --text, --alt, --hide and --show."),
]
Name = Annotated[str | None, typer.Option("--name", metavar="TEXT", help="Its heading. '' for none.")]
StepText = Annotated[str | None, typer.Option("--text", metavar="TEXT", help="Its text.")]
Alt = Annotated[
    str | None,
    typer.Option("--alt", metavar="TEXT", help="The alternative text of its image. '' for its text."),
]
Hidden = Annotated[bool | None, typer.Option("--hide/--show", help="Leave it out, or show it again.")]
Order = Annotated[
    str, typer.Option("--order", metavar="1,3,2", help="The steps to show first; the others follow.")
]
Keep = Annotated[
    list[int] | None,
    typer.Option("--keep", metavar="N", help="A step whose text fits its redrawn image. Repeatable."),
]
WordsFile = Annotated[
    Path | None,
    typer.Option(
        "--from",
        metavar="FILE",
        callback=options.or_stdin,
        help="The JSON of `show RUN --words`, edited. '-' reads standard input.",
    ),
]
NewFolder = Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder of the new run.")]
DEFAULTS = Continuation()


@app.callback()
def edit(context: typer.Context, run: options.RunFolder) -> None:
    """Redraw, choose, undo, branch, approve or change words. Edits are recorded; only new images cost."""
    context.obj = run


@app.command()
@taking(Continuation)
def redraw(
    context: typer.Context,
    step: Step,
    prompt: Prompt = None,
    seed: StepSeed = None,
    generator: StepGenerator = None,
    only: Only = False,
    by: options.By = "",
    given: Continuation = DEFAULTS,
) -> int:
    """Redraw a step, and the steps that follow from it."""
    from interleave.runs.decisions import redraw_line

    return continue_run(
        context.obj,
        given,
        lambda run: redraw_line(
            run, step, prompt=prompt, seed=seed, generator=generator, only_step=only, by=by
        ),
        generator,
    )


@app.command()
@taking(Continuation)
def choose(
    context: typer.Context,
    step: Step,
    attempt: Attempt,
    only: Only = False,
    by: options.By = "",
    given: Continuation = DEFAULTS,
) -> int:
    """Show another attempt of a step, and redraw the steps that follow from it."""
    from interleave.runs.decisions import choice_line

    return continue_run(
        context.obj, given, lambda run: choice_line(run, step, attempt, only_step=only, by=by)
    )


@app.command()
def words(
    context: typer.Context,
    title: Title = None,
    step: WordsStep = None,
    name: Name = None,
    text: StepText = None,
    alt: Alt = None,
    hidden: Hidden = None,
    order: Order = "",
    keep: Keep = None,
    file: WordsFile = None,
    by: options.By = "",
    open_document: options.Open = False,
    json_output: options.Json = False,
    json_events: options.JsonEvents = False,
) -> int:
    """Change what the document shows: title, names, texts, order. No model is called."""
    from interleave.request_files import read_words_file
    from interleave.runs.words import words_given, words_line

    of_step = {"name": name, "text": text, "alt": alt, "hidden": hidden}
    document = read_words_file(file) if file is not None else None
    given = words_given(document, step, of_step, title=title, order=_numbers(order), keep=keep)
    shown = Continuation(open_document=open_document, json_output=json_output, json_events=json_events)
    return continue_run(context.obj, shown, lambda run: words_line(run, given, by=by))


def _numbers(order: str) -> list[int]:
    try:
        return [int(number) for number in order.split(",")] if order else []
    except ValueError:
        raise ConfigurationError(f"--order {order}: write numbers of steps, such as 1,3,2") from None


@app.command()
@taking(Continuation)
def undo(context: typer.Context, by: options.By = "", given: Continuation = DEFAULTS) -> int:
    """Undo the last edit, of steps or words."""
    from interleave.runs.decisions import undo_line

    return continue_run(context.obj, given, lambda run: undo_line(run, by=by))


@app.command()
@taking(Continuation)
def branch(
    context: typer.Context,
    step: Step,
    out: NewFolder,
    prompt: Prompt = None,
    seed: StepSeed = None,
    generator: StepGenerator = None,
    by: options.By = "",
    given: Continuation = DEFAULTS,
) -> int:
    """Copy a run to another folder and redraw it there from a step on."""
    from interleave.api import open_branch
    from interleave.runs.branch import check_branch

    refuse_batch(context.obj)
    checked = check_branch(context.obj, out, step, prompt=prompt, seed=seed, generator=generator, by=by)
    return given.run(lambda **chosen: open_branch(checked, **chosen), generator)


@app.command()
@taking(Continuation)
def add(
    context: typer.Context,
    after: Annotated[int, typer.Argument(metavar="STEP", help="The step before it; 0 for the first place.")],
    out: NewFolder,
    prompt: Annotated[str, typer.Option("--prompt", metavar="TEXT", help="What its image shows.")],
    text: Annotated[str, typer.Option("--text", metavar="TEXT", help="Its text.")] = "",
    name: Annotated[str, typer.Option("--name", metavar="TEXT", help="Its heading.")] = "",
    by: options.By = "",
    given: Continuation = DEFAULTS,
) -> int:
    """Copy a run to another folder with one more step after STEP. The other images stay."""
    from interleave.api import open_branch
    from interleave.runs.branch import check_new_step

    refuse_batch(context.obj)
    checked = check_new_step(context.obj, out, after, prompt=prompt, text=text, name=name, by=by)
    return given.run(lambda **chosen: open_branch(checked, **chosen))


@app.command()
@taking(Continuation)
def approve(
    context: typer.Context, plan: HeldPlan = None, by: options.By = "", given: Continuation = DEFAULTS
) -> int:
    """Draw the held plan of a run, or an edited one."""
    from interleave.request_files import read_plan_file
    from interleave.runs.decisions import release_line

    chosen = read_plan_file(plan)[0] if plan is not None else None
    return continue_run(context.obj, given, lambda run: release_line(run, chosen, by=by))

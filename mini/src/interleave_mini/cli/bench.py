"""`interleave bench mini`: how well a system does on tasks whose truth is known."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interleave.plugin import options
from interleave.plugin import request_input as inputs

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

    from interleave_mini.bench.runner import Result, Scores
    from interleave_mini.intervals import Estimate

TABLE = "Table of systems"


def mini(
    suite: Annotated[
        str | None,
        typer.Option(
            help="story, continue, know, edit, plain or annotate; or long, count, alike or places, which are "
            "harder. [default: story]"
        ),
    ] = None,
    system: Annotated[
        str | None,
        typer.Option(
            help="base (generator alone), plan (one attempt a step) or full (with critic). [default: full]"
        ),
    ] = None,
    profile: options.ProfileName = None,
    planner: options.PlannerSpec = None,
    critic: options.CriticSpec = None,
    generator: options.GeneratorSpec = None,
    prompts: options.PackName = None,
    items: Annotated[
        int | None,
        typer.Option(
            help="Number of tasks of the test split. [default: 40; 1,000 for the main rows of a table]"
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed of tasks and runs.")] = 0,
    max_attempts: options.MaxAttempts = None,
    choose: options.Choose = None,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the runs; repeating the command resumes.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Concurrent tasks.")] = 16,
    table: Annotated[
        str | None,
        typer.Option(help="Compare many systems instead of running one: 'ablation'.", rich_help_panel=TABLE),
    ] = None,
    trained: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Output folder of `mini train all`. [default: the shipped agents]",
            rich_help_panel=TABLE,
        ),
    ] = None,
    rows: Annotated[
        str | None,
        typer.Option(help="Rows of the table, e.g. planner,full. [default: all]", rich_help_panel=TABLE),
    ] = None,
    suites: Annotated[
        str | None,
        typer.Option(
            help="Suites of all rows. [default: all for main rows, story,edit for the others]",
            rich_help_panel=TABLE,
        ),
    ] = None,
    more_items: Annotated[
        int | None,
        typer.Option(min=0, help="Tasks of each additional row. [default: 300]", rich_help_panel=TABLE),
    ] = None,
    exam: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Attempts in the exam of the critics; 0 skips it. [default: 2,000]",
            rich_help_panel=TABLE,
        ),
    ] = None,
    failures: Annotated[
        int | None,
        typer.Option(
            min=0,
            help="Continue the exam until it has this many failures. [default: 150]",
            rich_help_panel=TABLE,
        ),
    ] = None,
    vlm_options: Annotated[
        str | None,
        typer.Option(
            metavar="KEY=VALUE&…",
            help="Options of learned agents, e.g. batch=256.",
            rich_help_panel=TABLE,
        ),
    ] = None,
    json_output: options.Json = False,
) -> int:
    """Run the miniature's benchmark: suites with known truth, scored from the images alone.

    Prints a table and the path of a page with all images, or with --json one object. `--table ablation`
    compares many systems on the same tasks, and has an exam of their critics.
    """
    of_a_table = {
        "--trained": trained,
        "--rows": rows,
        "--suites": suites,
        "--more-items": more_items,
        "--exam": exam,
        "--failures": failures,
        "--vlm-options": vlm_options,
    }
    of_one_run = {
        "--suite": suite,
        "--system": system,
        "--profile": profile,
        "--planner": planner,
        "--critic": critic,
        "--choose": choose,
    }
    if table is not None:
        from interleave_mini.cli.bench_table import ablation, chosen

        return ablation(
            table,
            chosen(of_one_run, of_a_table),
            generator=generator,
            prompts=prompts,
            items=items,
            seed=seed,
            max_attempts=max_attempts,
            out=out,
            concurrency=concurrency,
            json_output=json_output,
        )
    _refuse_any(of_a_table, "is for a table: add --table ablation")
    suite, system = suite or "story", system or "full"
    from interleave.plugin import cli, make_console
    from interleave_mini.bench.reports import write_report
    from interleave_mini.bench.runner import Settings, default_folder, run_mini

    choices = {
        "profile": inputs.choose_profile(profile, False),
        "planner": planner,
        "critic": critic,
        "generator": generator,
        "prompts": prompts,
        "max_attempts": max_attempts,
        "choose": choose,
    }
    settings = Settings(suite, system, 40 if items is None else items, seed, concurrency, choices)
    folder = out or default_folder(settings)
    console = make_console()
    console.print("loading models…")
    with cli.show_batch_progress() as progress, cli.collapse_retry_messages():
        result, answered = run_mini(settings, folder, progress)
    page = write_report(result, answered, folder)
    if json_output:
        typer.echo(result.model_dump_json())
    else:
        _print_table(result, console)
        typer.echo(str(page))
    without_plan = [each.score for each in answered if each.score.unreadable_plan]
    if without_plan:  # an answer, and a wrong one
        console.print(
            f"{len(without_plan)} of {result.items} tasks have no plan and count as wrong, "
            f"the first with: {without_plan[0].reason}"
        )
    failed = [
        each.score for each in answered if each.score.status == "failed" and not each.score.unreadable_plan
    ]
    if failed:
        console.print(
            f"{len(failed)} of {result.items} tasks failed, the first with: {failed[0].reason} "
            "(repeat the command to retry them)"
        )
    return 0 if not failed else 1 if len(failed) < result.items else 3


def _refuse_any(given: Mapping[str, object], why: str) -> None:
    """Refuse an option that has no meaning here, rather than ignore it."""
    from interleave import ConfigurationError

    for option, value in given.items():
        if value is not None:
            raise ConfigurationError(f"{option} {why}")


def _print_table(result: Result, console: Console) -> None:
    from rich.table import Table

    from interleave_mini.bench.reports import BY_CONSTRUCTION

    table = Table(
        title=f"bench mini: {result.suite}, {result.system}, {result.items} tasks", title_justify="left"
    )
    for name in ("", "strict", "image", "text"):
        table.add_column(name, justify="left" if not name else "right")
    table.add_row("all tasks", *_cells(result.scores))
    if len(result.by_attempts) > 1:
        table.add_section()
        for attempts, scores in result.by_attempts.items():
            table.add_row(f"at most {attempts} attempt{'s' * (attempts != '1')}", *_cells(scores))
    for group in (result.apart, result.by_topic):
        table.add_section()
        for name, scores in group.items():
            table.add_row(name, *_cells(scores))
    console.print(table)
    calls = ", ".join(f"{count:,} {role}" for role, count in result.calls.items())
    console.print(f"coverage {result.coverage:.0%}, calls: {calls}, {result.seconds_per_item} s a task")
    for note in (*result.notes, *([BY_CONSTRUCTION] if result.system == "base" else [])):
        console.print(note, style="yellow")


def _cells(scores: Scores) -> list[Text]:
    return [_percent(score) for score in (scores.strict, scores.image, scores.text)]


def _percent(score: Estimate | None) -> Text:
    from rich.text import Text

    if score is None:
        return Text("–")
    interval = f"{100 * score.low:.0f}–{100 * score.high:.0f}"
    return Text.assemble(f"{100 * score.mean:.1f} % ", (interval, "dim"))

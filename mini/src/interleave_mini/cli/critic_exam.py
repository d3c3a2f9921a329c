"""`interleave bench critic-exam`: how well a critic judges pairs of images whose truth is known."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interleave.plugin import options

if TYPE_CHECKING:
    from interleave_mini.bench.pairs import Pair
    from interleave_mini.bench.pairs_run import Expected, PairsResult
    from interleave_mini.intervals import Estimate


def critic_exam(
    critic: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC", help="Critic, or always-yes or always-no. Without it the pairs are written only."
        ),
    ] = None,
    prompts: options.PackName = None,
    data: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Folder of pairs. [default: written to --out]")
    ] = None,
    items: Annotated[
        int, typer.Option(min=2, max=20_000, help="Number of pairs, the first ones of a larger exam.")
    ] = 2000,
    seed: Annotated[int, typer.Option(help="Random seed of the pairs.")] = 0,
    repeats: Annotated[
        int, typer.Option("--runs", min=1, max=2, help="2: judge twice, and count different verdicts.")
    ] = 1,
    out: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of pairs and verdicts; repeating resumes.")
    ] = Path("runs/critic-exam"),
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Print calls and cost, and stop.")] = False,
    max_cost: Annotated[
        float | None, typer.Option(metavar="USD", min=0, help="Stop judging before it costs much more.")
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, max=4096, help="Concurrent calls.")] = 16,
    json_output: options.Json = False,
) -> int:
    """Examine a critic on pairs of images before and after an edit, right or with one known fault.

    No judge is called. Prints the cost first, then a table with a column for each critic examined in this
    folder, or with --json one object.
    """
    from interleave.plugin import make_console, progress_bar, write_atomic
    from interleave_mini.bench.pairs import read_pairs, write_pairs
    from interleave_mini.bench.pairs_run import PairExam, check_critic, result_of

    console = make_console()
    if critic is not None:
        check_critic(critic)
    if data is None and (critic is None or not dry_run):
        console.print(f"writing {items - items % 2:,} pairs to {out}", soft_wrap=True)
        write_pairs(out, seed, items)
    if critic is None:
        typer.echo(str(data or out))
        return 0
    pairs = read_pairs(data or out)[:items] if data or not dry_run else _planned(seed, items)
    exam = PairExam(critic, pairs, data or out, out / "critics", prompts, repeats, concurrency)
    model = exam.load()
    console.print(_cost(critic, exam.expected(model)), soft_wrap=True)
    if dry_run:
        return 0
    with progress_bar("pairs judged") as show:
        seconds = exam.judge(model, show, max_cost)
    result = result_of(exam, seconds)
    write_atomic(exam.result_file, f"{result.model_dump_json(indent=2)}\n".encode())
    if json_output:
        typer.echo(result.model_dump_json())
    else:
        _print_table(result, exam.others())
    return 0


def _planned(seed: int, items: int) -> list[Pair]:
    """The pairs that would be judged."""
    from interleave_mini.bench.pairs import questions

    return [pair for each in questions(seed, items // 2) for pair in each.pairs()]


def _cost(critic: str, expected: Expected) -> str:
    if expected.price is None:
        price = "price unknown; a model on this machine is free of charge"
    elif not expected.price:
        price = "free of charge"
    else:
        price = f"about {expected.price:,.2f} US dollars"
    judged = f" ({expected.already:,} judged before)" if expected.already else ""
    return f"{critic}: {expected.calls:,} calls with {expected.images:,} images{judged}, {price}"


def _print_table(result: PairsResult, others: Sequence[PairsResult]) -> None:
    from rich.table import Table

    from interleave.plugin import make_console

    table = Table(title=f"critic exam: {result.pairs:,} pairs, edition {result.edition}, in %")
    table.add_column()
    shown = [result, *others]
    for each in shown:
        table.add_column(each.critic, justify="right")
    table.add_row("verdicts right", *(_percent(each.accuracy) for each in shown))
    table.add_row("both of a question right", *(_percent(each.questions) for each in shown))
    table.add_row("false alarms", *(_percent(each.false_alarms) for each in shown))
    table.add_row("unreadable", *(_percent(each.unreadable) for each in shown), end_section=True)
    for fault in result.caught:
        table.add_row(f"caught: {fault}", *(_percent(each.caught[fault]) for each in shown))
    make_console().print(table)
    if result.repeated:
        print(f"second run: {result.repeated.different:,} of {result.repeated.pairs:,} verdicts differ")
    cost = "cost unknown" if result.cost is None else f"{result.cost:.2f} US dollars"
    print(f"{result.tokens} tokens a verdict, {cost}, {result.seconds} s")


def _percent(share: Estimate) -> str:
    return f"{100 * share.mean:.1f} [{100 * share.low:.1f}, {100 * share.high:.1f}]"

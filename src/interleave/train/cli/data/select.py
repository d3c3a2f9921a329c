"""`interleave data select`: choose the attempts that train a critic by SFT or RL."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interleave.plugin import options, progress_bar

if TYPE_CHECKING:
    from interleave.train.data.manifest import Manifest

FROM_DATA = "[default: from the data]"


def select(
    collections: Annotated[
        list[Path], typer.Argument(metavar="COLLECTION…", help="Folders with scored runs.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder of the selection.")],
    scores: Annotated[
        str | None, typer.Option(metavar="NAME", help="The scores to use, if there are several.")
    ] = None,
    max_fall: Annotated[
        float | None,
        typer.Option(min=0, help=f"Drop a step that ends more than this below its best. {FROM_DATA}"),
    ] = None,
    min_best: Annotated[
        float | None,
        typer.Option(min=0, max=10, help=f"Drop a step without an attempt of this score. {FROM_DATA}"),
    ] = None,
    variance: Annotated[
        float | None,
        typer.Option(min=0, help=f"Steps whose scores vary more than this go to RL. {FROM_DATA}"),
    ] = None,
    ratio: Annotated[
        float | None,
        typer.Option(
            help="SFT rows per RL row, if possible. [default: 2; at most half of the varying steps go to RL]"
        ),
    ] = None,
    max_copies: Annotated[
        int, typer.Option(min=1, help="Maximum repetitions of an attempt for balance.")
    ] = 4,
    no_balance: Annotated[
        bool, typer.Option("--no-balance", help="Do not balance acceptances and rejections.")
    ] = False,
    no_filter: Annotated[
        bool,
        typer.Option(
            "--no-filter", help="Drop nothing and do not balance: the unfiltered set of the ablation."
        ),
    ] = False,
    seed: Annotated[int, typer.Option(metavar="N", help="The random seed.")] = 0,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes. [default: one per CPU]")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an existing selection.")] = False,
    json_output: options.Json = False,
) -> int:
    """Assign every attempt to sft or rl, or drop it with a reason.

    Steps whose scores fall or stay low are dropped. Of the rest, those whose scores vary go to RL and the
    others to SFT. Then acceptances and rejections are balanced. The thresholds are printed and stored.
    """
    from interleave.train.data.parallel_map import default_workers
    from interleave.train.data.select.rules import ThresholdOptions
    from interleave.train.data.select.stage import SelectOptions
    from interleave.train.data.select.stage import select as run

    thresholds = ThresholdOptions(max_fall, min_best, variance, ratio, filtered=not no_filter)
    chosen = SelectOptions(
        thresholds,
        scores=scores,
        balanced=not no_balance,
        max_copies=max_copies,
        seed=seed,
        workers=workers or default_workers(),
    )
    with progress_bar("runs read") as progress:
        manifest = run(collections, out, chosen, replace=replace, progress=progress)
    _print_summary(manifest)
    print(manifest.model_dump_json() if json_output else out)
    return 0


def _print_summary(manifest: Manifest) -> None:
    """Print the thresholds and the counts."""
    from interleave.plugin import count

    used, counts = manifest.options, manifest.counts
    if used["filtered"]:
        low = "is not accepted and never reaches" if used["spares_accepted"] else "never reaches"
        _say(
            f"thresholds: a step is dropped when it falls by more than {used['max_fall']:g} "
            f"or {low} {used['min_best']:g}"
        )
    _say(f"thresholds: a step whose scores vary by more than {used['variance']:g} goes to RL")
    _say(f"{counts['attempts']:,} attempts of {counts['steps']:,} steps of {counts['runs']:,} runs")
    for part in ("sft", "rl"):
        rows, accepted = counts[f"{part} rows"], counts.get(f"{part} rows accepted", 0)
        _say(f"  {part:<8}{counts[part]:>9,}   {count(rows, 'row')}, {_judged(rows, accepted)}")
    _say(f"  {'dropped':<8}{counts['dropped']:>9,}")
    for name, number in counts.items():
        if name.startswith("dropped: "):
            _say(f"  {'':<8}{number:>9,}   {name.removeprefix('dropped: ')}")
    for note in manifest.notes:
        _say(note)


def _judged(rows: int, accepted: int) -> str:
    if rows and accepted in (0, rows):
        return f"all of them {'acceptances' if accepted else 'refusals'}"
    return f"{accepted:,} of them acceptances"


def _say(message: str) -> None:
    typer.echo(message, err=True)

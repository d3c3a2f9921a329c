"""`interleave data import`: import runs of the reference system."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from interleave.plugin import options

SHOWN = 10


def import_runs(
    src: Annotated[
        Path, typer.Argument(metavar="SRC", help="A folder with execution_record.json files, or one file.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The collection to make.")],
    prompts: Annotated[
        str,
        typer.Option(
            "--prompts", metavar="PACK", help="The prompt pack of the rows that later stages write."
        ),
    ] = "default",
    json_output: options.Json = False,
) -> int:
    """Import runs of the reference system: its data records in both shapes, and its UEval results.

    Exits with 1 if some records could not be imported; import.jsonl has the reasons.
    """
    from interleave.plugin import count, make_console, one_line, progress_bar
    from interleave.train.data.import_runs.stage import REPORT, import_all

    console = make_console()
    with progress_bar("records") as progress:
        results = import_all(src, out, pack=prompts, progress=progress)
    bad = [each for each in results if each.problem]
    odd = [each for each in results if each.warnings]
    for each in bad[:SHOWN]:
        console.print(f"not imported: {one_line(f'{each.source}: {each.problem}', 240)}", soft_wrap=True)
    for each in odd[:SHOWN]:
        console.print(f"odd: {one_line(f'{each.source}: {each.warnings[0]}', 240)}", soft_wrap=True)
    if len(bad) > SHOWN or len(odd) > SHOWN:
        console.print(f"… and more, all in {out / REPORT}")
    console.print(
        f"{count(len(results) - len(bad), 'run')} imported, {len(odd):,} of them with remarks, "
        f"{count(len(bad), 'record')} not imported"
    )
    counts = {"imported": len(results) - len(bad), "odd": len(odd), "not imported": len(bad)}
    print(json.dumps({"collection": str(out), **counts}) if json_output else out)
    return 1 if bad else 0

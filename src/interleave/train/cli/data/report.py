"""`interleave data report`: show a collection as one HTML page."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from interleave.plugin import options


def report(
    collection: Annotated[Path, typer.Argument(metavar="COLLECTION", help="A folder of runs.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE.html", help="The page to write.")],
    selection: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Its selection, to show parts and reasons.")
    ] = None,
    requests: Annotated[
        Path | None,
        typer.Option(metavar="FILE.jsonl", help="Its requests, to show how they cover the taxonomy."),
    ] = None,
    scores: Annotated[
        str | None, typer.Option(metavar="NAME", help="The scores to show, if there are several.")
    ] = None,
    items: Annotated[int, typer.Option(metavar="N", min=0, max=500, help="Runs to show with images.")] = 24,
    seed: Annotated[int, typer.Option(help="Seed of the random sample of runs.")] = 0,
    json_output: options.Json = False,
) -> int:
    """Show a collection as one HTML page with charts and a sample of its runs, for offline use."""
    from interleave.plugin import count, make_console
    from interleave.train.data.report.page import write_page

    console = make_console()
    with console.status("reading runs…"):
        totals = write_page(
            collection, out, selection=selection, requests=requests, scores=scores, shown=items, seed=seed
        )
    console.print(
        f"{count(totals.runs, 'run')}, {count(totals.attempts, 'attempt')}; {len(totals.sample)} runs shown, "
        f"{totals.left_out.total():,} left out"
    )
    counts = {"runs": totals.runs, "attempts": totals.attempts, "shown": len(totals.sample)}
    print(json.dumps({"report": str(out), **counts}) if json_output else out)
    return 0

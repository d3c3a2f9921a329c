"""`interleave data sequences`: write trajectories for models that generate text and images."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interleave.plugin import options, progress_bar


def sequences(
    collections: Annotated[list[Path], typer.Argument(metavar="COLLECTION…", help="Folders with runs.")],
    out: Annotated[Path, typer.Option("--out", metavar="FILE.json", help="The file of the sequences.")],
    reflection: Annotated[
        bool, typer.Option("--reflection", help="Include every attempt with its verdict.")
    ] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Skip trajectories whose images are missing.")
    ] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes. [default: one per CPU]")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace existing sequences.")] = False,
    json_output: options.Json = False,
) -> int:
    """Write interleaved sequences: the steps of the plan with their accepted images.

    With --reflection, also the rejected attempts and the reasons. Trajectories with a step that was never
    accepted are skipped and counted.
    """
    from interleave.train.data.parallel_map import default_workers
    from interleave.train.data.sequences import SequenceOptions, make_sequences

    chosen = SequenceOptions(reflection, skip_bad, workers or default_workers())
    with progress_bar("runs read") as progress:
        manifest = make_sequences(collections, out, chosen, replace=replace, progress=progress)
    for name, number in manifest.counts.items():
        typer.echo(f"  {number:>9,}  {name}", err=True)
    print(manifest.model_dump_json() if json_output else out)
    return 0

"""`interleave mini onnx`: the graphs that run the miniature without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interleave_mini import WEIGHTS


def onnx(
    weights: Annotated[
        Path,
        typer.Argument(
            metavar="DIR", exists=True, file_okay=False, help="The folder of planner, critic and generator."
        ),
    ] = WEIGHTS,
) -> int:
    """Export the models as ONNX graphs beside their weights, to which the graphs refer; prints the files."""
    from miniature.export.graphs import export_all

    for path in export_all(weights):
        typer.echo(str(path))
    return 0

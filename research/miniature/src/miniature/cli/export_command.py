"""`interleave mini onnx`: the files that run the miniature without torch."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interleave_mini import WEIGHTS


def onnx(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="DIR",
            exists=True,
            file_okay=False,
            help="A model, or a folder of planner, critic and generator. [default: the shipped weights]",
            show_default=False,
        ),
    ] = WEIGHTS,
) -> int:
    """Export models as ONNX graphs that refer to the weights in their folders; print the files."""
    from miniature.export.characters import write_characters
    from miniature.export.graphs import export_all

    written = export_all(folder)
    if folder == WEIGHTS:
        written.append(write_characters(WEIGHTS / "characters.json"))
    for path in written:
        typer.echo(str(path))
    return 0

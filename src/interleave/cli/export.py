"""`interleave export`: a run as PDF, EPUB, PowerPoint, ZIP, one HTML page, or a format of a plugin."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from interleave.cli import options
from interleave.render.exports import format_names

To = Annotated[str, typer.Option("--to", metavar="FORMAT", help=f"The format: {', '.join(format_names())}.")]
File = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FILE", help="The file to write. [default: document.FORMAT in the run folder]"
    ),
]
Paper = Annotated[str, typer.Option(metavar="a4|letter", help="The paper size of a PDF.")]
Layout = Annotated[
    str, typer.Option(metavar="print|slides", help="The pages of a PDF: to print, or one wide page per step.")
]


def export(
    run: options.RunFolder,
    to: To,
    out: File = None,
    paper: Paper = "a4",
    layout: Layout = "print",
    open_document: options.Open = False,
) -> int:
    """Write the document of a run as a file to keep, print or send. Prints its path."""
    from interleave.cli.run_command import open_in_browser, say_outdated_texts
    from interleave.render.exports import ExportOptions, write_export
    from interleave.render.exports.pdf import missing_note
    from interleave.runs.record import read_record

    path, made = write_export(run, to, out, ExportOptions(paper, layout))  # type: ignore[arg-type]
    if made.missing_characters:
        print(f"interleave: {missing_note(frozenset(made.missing_characters))}", file=sys.stderr)
    say_outdated_texts(read_record(run), run)
    print(path)
    if open_document:
        open_in_browser(path)
    return 0

"""`interleave export`: a run as PDF, EPUB, PowerPoint, ZIP, one HTML page, or what other packages make."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from interleave.cli import options
from interleave.render.exports import format_names

To = Annotated[str, typer.Option("--to", metavar="|".join(format_names()), help="The format.")]
File = Annotated[
    Path | None,
    typer.Option(
        "--out", metavar="FILE", help="The file to write. [default: document.FORMAT in the run folder]"
    ),
]
Paper = Annotated[str, typer.Option(metavar="a4|letter", help="The paper of a PDF.")]
Layout = Annotated[
    str, typer.Option(metavar="print|slides", help="A PDF to print, or with one wide page for each step.")
]


def export(
    run: options.RunFolder,
    to: To,
    out: File = None,
    paper: Paper = "a4",
    layout: Layout = "print",
    open_document: options.Open = False,
) -> int:
    """Write the document of a run as a file to keep, print or send; its path is printed."""
    from interleave.cli.run_command import open_in_browser
    from interleave.errors import ConfigurationError
    from interleave.files import write_atomic
    from interleave.render.exports import ExportOptions, export_run
    from interleave.render.exports.pdf import missing_note
    from interleave.runs.record import read_record

    if paper not in ("a4", "letter"):
        raise ConfigurationError(f"--paper {paper}: a4 or letter")
    if layout not in ("print", "slides"):
        raise ConfigurationError(f"--layout {layout}: print or slides")
    record = read_record(run)
    made = export_run(run, record, to, ExportOptions(paper=paper, layout=layout))  # type: ignore[arg-type]
    path = out or run / f"document.{to}"
    write_atomic(path, made.data)
    if made.missing_characters:
        print(f"interleave: {missing_note(frozenset(made.missing_characters))}", file=sys.stderr)
    print(path)
    if open_document:
        open_in_browser(path)
    return 0

"""`interleave export`: a run as a file of one or more formats."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, get_args

import typer

from interleave.cli import options
from interleave.errors import ConfigurationError
from interleave.render.exports import ExportOptions, PageLayout, format_names

To = Annotated[
    str,
    typer.Option(
        "--to", metavar="FORMAT", help=f"The format: {', '.join(format_names())}. Several with commas."
    ),
]
File = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="The file to write; for several formats, a folder. [default: document.FORMAT in the run folder]",
    ),
]
Paper = Annotated[
    str,
    typer.Option(metavar="SIZE", help="Paper or trim size: a4, letter, a5, or such as 8x10in, 210x210mm."),
]
Layout = Annotated[
    str,
    typer.Option(metavar="LAYOUT", help=f"The pages of PDF and CBZ: {', '.join(get_args(PageLayout))}."),
]
Language = Annotated[
    str,
    typer.Option(
        "--language", metavar="TAGS", help="The languages to show, such as de or en,ar for two on each page."
    ),
]
Texts = Annotated[
    list[Path] | None,
    typer.Option(
        "--texts", metavar="FILE", help="The words in another language: --to texts makes one. Repeatable."
    ),
]
Bleed = Annotated[
    bool, typer.Option("--bleed", help="A PDF for a printer: bleed of 3 mm, images at 300 dpi, even pages.")
]

Details = Annotated[
    bool, typer.Option("--details", help="Include prompts, attempts and verdicts; zip: the record too.")
]
Sign = Annotated[
    str,
    typer.Option(
        "--sign", metavar="KEY|self", help="Sign the file with a PEM file, or a key made on first use."
    ),
]
SignPrompts = Annotated[
    str,
    typer.Option("--sign-prompts", metavar="no|hash|text", help="What the signed statements say of prompts."),
]
AiNotice = Annotated[bool, typer.Option("--ai-notice", help="Say below the title that it was made with AI.")]


def export(
    run: options.RunFolder,
    to: To = "pdf",
    out: File = None,
    paper: Paper = "",
    layout: Layout = "print",
    language: Language = "",
    texts: Texts = None,
    bleed: Bleed = False,
    details: Details = False,
    sign: Sign = "",
    sign_prompts: SignPrompts = "no",
    ai_notice: AiNotice = False,
    open_document: options.Open = False,
) -> int:
    """Write the document of a run as a file to keep, print or send. Prints its path."""
    from interleave.cli.run_command import open_in_browser, say_outdated_texts
    from interleave.render.exports import write_export
    from interleave.runs.record import read_record

    names, languages = _listed(to), tuple(_listed(language))
    if len(names) > 1 and out is not None and not out.is_dir():
        raise ConfigurationError(f"--out {out}: for several formats name an existing folder")
    chosen = ExportOptions(
        paper,
        layout,  # type: ignore[arg-type]
        languages,
        tuple(texts or ()),
        bleed,
        details,
        sign,
        sign_prompts,  # type: ignore[arg-type]
        ai_notice,
    )
    say_outdated_texts(read_record(run), run)
    for name in names:
        path = write_export(run, name, out, chosen)
        print(path)
        if open_document:
            open_in_browser(path)
    return 0


def _listed(names: str) -> list[str]:
    return list(dict.fromkeys(name for each in names.split(",") if (name := each.strip())))

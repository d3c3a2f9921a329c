"""`interleave book`: a book from a file of sentences, translated words, and what images show."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, get_args

import typer

from interleave.plugin import Output, options, render, run_and_report, say

app = typer.Typer(help="Make a book from sentences, translate it, describe its images.", no_args_is_help=True)

Story = Annotated[
    Path,
    typer.Argument(
        metavar="STORY.md", help="A title, and one sentence in each line. '## ' begins a chapter."
    ),
]
Layout = Annotated[
    str, typer.Option(metavar="LAYOUT", help=f"One of {', '.join(get_args(render.PageLayout))}.")
]
Texts = Annotated[
    list[Path] | None,
    typer.Option(
        "--texts", metavar="FILE", help="The sentences in another language: STORY.de.md. Repeatable."
    ),
]
Languages = Annotated[
    str, typer.Option("--language", metavar="TAGS", help="The languages to show, such as en,de.")
]
To = Annotated[
    str, typer.Option("--to", metavar="FORMAT", help="The format of the book; several with commas.")
]
Paper = Annotated[str, typer.Option(metavar="SIZE", help="Paper or trim size, such as a4 or 8x10in.")]
Bleed = Annotated[bool, typer.Option("--bleed", help="A PDF for a printer.")]
Tag = Annotated[
    str, typer.Option("--language", metavar="TAG", help="The language to translate into, such as de.")
]
File = Annotated[
    Path | None, typer.Option("--out", metavar="FILE", help="[default: texts.TAG.toml in the run]")
]


@app.callback()
def _book() -> None:
    """Make a book from sentences, translate it, describe its images."""


@app.command()
def make(
    story: Story,
    out: options.Out = None,
    layout: Layout = "one",
    to: To = "pdf",
    texts: Texts = None,
    language: Languages = "",
    paper: Paper = "",
    bleed: Bleed = False,
    profile: options.ProfileName = None,
    planner: options.PlannerSpec = None,
    critic: options.CriticSpec = None,
    generator: options.GeneratorSpec = None,
    max_attempts: options.MaxAttempts = None,
    seed: options.Seed = 0,
    nearest: options.Nearest = False,
    open_document: options.Open = False,
) -> int:
    """Illustrate a file of sentences, one page each, and write the book. Prints its path.

    On a folder that exists, it goes on where it stopped.
    """
    from interleave import Request, export, read_record
    from interleave.books.looking import look as look_at
    from interleave.books.looking import own_reader
    from interleave.books.story import plan_story, read_story
    from interleave.plugin import open_run, slug

    title, chapters = read_story(story)
    pages = sum(map(len, chapters))
    folder = out or Path("runs") / (slug(title) or "book")
    chosen: dict[str, Any] = {"profile": profile, "planner": planner}
    say(f"planning {pages} pages…")
    made = plan_story(chapters, **chosen, nearest=nearest, max_steps=pages)
    drawing = {"critic": critic, "generator": generator, "max_attempts": max_attempts, "seed": seed}
    given = {name: value for name, value in {**chosen, **drawing}.items() if value is not None}
    status = run_and_report(
        lambda: open_run(Request.of(title), out=folder, plan=made, max_steps=pages, **given),
        output=Output(),
        open_document=False,
        fail_on_forced=False,
    )
    if status:
        return status
    if own_reader(read_record(folder)) is not None:
        look_at(folder, by="book make")
    for name in filter(None, to.split(",")):
        path = export(
            folder,
            name.strip(),
            layout=layout,  # type: ignore[arg-type]
            paper=paper,
            texts=texts or (),
            languages=tuple(filter(None, language.split(","))),
            bleed=bleed,
        )
        print(path)
        if open_document:
            typer.launch(str(path))
    return 0


@app.command()
def translate(
    run: options.RunFolder, language: Tag, out: File = None, planner: options.PlannerSpec = None
) -> int:
    """Translate the words of a run with the planner's model. Prints the file, to check and for --texts."""
    from interleave.books.translate import translate as write_translation

    print(write_translation(run, language, out, planner))
    return 0


@app.command()
def look(run: options.RunFolder, critic: options.CriticSpec = None, by: options.By = "") -> int:
    """Describe the images as alternative texts, and find the points of labels and speakers."""
    from interleave.books.looking import look as look_at

    print(look_at(run, critic=critic, by=by or "book look").folder)
    return 0

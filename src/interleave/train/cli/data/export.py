"""`interleave data export`: write training rows in the formats of trainers."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interleave.plugin import options, progress_bar

if TYPE_CHECKING:
    from interleave.train.data.manifest import Manifest


def export(
    out: Annotated[Path, typer.Option("--out", metavar="DIR", help="The folder of the export.")],
    selection: Annotated[
        Path | None,
        typer.Argument(
            metavar="[SELECTION]", help="The output of 'data select'. Omit it to only join files."
        ),
    ] = None,
    formats: Annotated[
        list[str] | None,
        typer.Option(
            "--format",
            metavar="FORMAT",
            help="trl, llamafactory, swift, verl, easyr1 or reference. Repeatable. [default: trl]",
        ),
    ] = None,
    prompts: Annotated[
        str | None,
        typer.Option(metavar="PACK", help="The prompt pack of the rows. [default: the collection's]"),
    ] = None,
    images: Annotated[
        str,
        typer.Option(
            metavar="embedded|referenced", help="Images copied into the export, or referenced by path."
        ),
    ] = "embedded",
    validation: Annotated[
        float, typer.Option(min=0, max=0.9, help="The share of requests kept for validation.")
    ] = 0.02,
    held_out: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE.jsonl", help="Requests to exclude from training. Repeatable."),
    ] = None,
    fail_on_leak: Annotated[
        bool, typer.Option("--fail-on-leak", help="Stop if a run answers a held-out request.")
    ] = False,
    join: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FORMAT:FILE",
            help="Add other data: comm, sharegpt, or the reference's planner_sft, critic_sft, critic_rl. "
            "Repeatable.",
        ),
    ] = None,
    collection: Annotated[
        list[Path] | None,
        typer.Option(metavar="DIR", help="The new path of a collection that was moved. Repeatable."),
    ] = None,
    tokenizer: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Count tokens with this model's tokenizer, instead of estimating."),
    ] = None,
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Skip longer rows.")] = None,
    no_annotation: Annotated[
        bool,
        typer.Option("--no-annotation", help="Write no rows that ask for texts of given images."),
    ] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip rows that cannot be written.")] = False,
    workers: Annotated[int | None, typer.Option(min=1, help="Processes. [default: one per CPU]")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace an existing export.")] = False,
    json_output: options.Json = False,
) -> int:
    """Write rows for trainers: planner SFT, critic SFT, critic RL, and both jobs for one agent.

    The planner learns from all trajectories, the critic from selected attempts. A data card describes the
    rows and how to load them.
    """
    from interleave import ConfigurationError
    from interleave.plugin import did_you_mean
    from interleave.train.data.export.images import ImageForm
    from interleave.train.data.export.joined import JoinedFile
    from interleave.train.data.export.stage import ExportOptions
    from interleave.train.data.export.stage import export as run
    from interleave.train.data.parallel_map import default_workers

    if images not in set(ImageForm):
        raise ConfigurationError(f"--images {images!r} is unknown. {did_you_mean(images, ImageForm)}")
    chosen = ExportOptions(
        formats=tuple(dict.fromkeys(formats or ["trl"])),
        prompts=prompts,
        images=ImageForm(images),
        validation=validation,
        held_out=tuple(held_out or ()),
        fail_on_leak=fail_on_leak,
        joined=tuple(JoinedFile.parse(each) for each in join or ()),
        collections=tuple(collection or ()),
        tokenizer=tokenizer,
        max_tokens=max_tokens,
        annotation=not no_annotation,
        skip_bad=skip_bad,
        workers=workers or default_workers(),
    )
    with progress_bar("runs exported") as progress:
        manifest = run(selection, out, chosen, replace=replace, progress=progress)
    _print_summary(manifest)
    print(manifest.model_dump_json() if json_output else out)
    return 0


def _print_summary(manifest: Manifest) -> None:
    from interleave.train.data.export.stage import row_path

    for name, number in manifest.counts.items():
        if "/" in name:
            typer.echo(f"  {number:>9,} rows  {row_path(name)}", err=True)
    for note in manifest.notes[:20]:
        typer.echo(note, err=True)

"""`interleave mini train generator`: the miniature's image model from nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from interleave.cli import options


def generator(
    out: Annotated[Path, typer.Option(help="Where checkpoints, log and the finished pipeline go.")],
    shape: Annotated[str, typer.Option(help="mini (what will be shipped) or toy (for a try).")] = "mini",
    vae_minutes: Annotated[float, typer.Option(min=0, help="Time for the picture encoder.")] = 10,
    flow_minutes: Annotated[float, typer.Option(min=0, help="Time for text encoder and transformer.")] = 18.5,
    stop_after: Annotated[
        float | None,
        typer.Option(min=0, help="Stop the second after so many minutes; run again to go on."),
    ] = None,
    device: Annotated[str | None, typer.Option(help="cuda, cpu…; by default a GPU if there is one.")] = None,
    workers: Annotated[int, typer.Option(min=0, help="Processes that write examples.")] = 0,
    evaluate: Annotated[int, typer.Option(min=1, help="Pictures of each sort in the evaluation.")] = 200,
    seed: Annotated[int, typer.Option(help="Seeds everything.")] = 0,
    debug: options.Debug = False,
) -> int:
    """Train the generator, a small FLUX.2-klein, on the world's own scenes; prints where the pipeline is."""
    from interleave_mini.train.generator import Orders, train_generator

    orders = Orders(out, shape, vae_minutes, flow_minutes, stop_after, device, workers, seed, evaluate)
    if not train_generator(orders):
        typer.echo("stopped: the same command goes on", err=True)
        return 1
    typer.echo(f"use it with: --generator diffusers:{(out / 'pipeline').absolute()}", err=True)
    typer.echo(str(out / "pipeline"))
    return 0

"""`interleave bench drift`: quality of chained edits, with and without drift control."""

from __future__ import annotations

import json
import pkgutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interleave.plugin import options

if TYPE_CHECKING:
    from interleave.bench.drift.chains import ChainSource
    from interleave.bench.drift.run import Cell, DriftSettings
    from interleave.bench.drift.scores import CellScore
    from interleave.plugin import config

REMEDIES = "plain,keep,align,anchor,all"
CHAINS = 40
MARKS = "10,25,50,100"
ANCHOR_EVERY = 5


def drift(
    generator: options.GeneratorSpec = None,
    profile: options.ProfileName = None,
    protocol: Annotated[
        str, typer.Option(help="noop, cycle, chain and twins, separated by commas.")
    ] = "chain",
    drift_control: Annotated[
        str,
        typer.Option(
            metavar="NAME,…",
            help="plain, keep (unchanged parts by a mask), align (tint), anchor (redrawn), all "
            "(these three), assets (described in prompts), or a combination: keep+anchor.",
        ),
    ] = REMEDIES,
    chains: Annotated[int, typer.Option(min=1, help="Chains of each kind.")] = CHAINS,
    steps: Annotated[str, typer.Option(help="The steps to report; the last is the length.")] = MARKS,
    anchor_every: Annotated[
        int, typer.Option(min=1, metavar="N", help="Redraw an image every N steps.")
    ] = ANCHOR_EVERY,
    image: options.Images = None,
    chains_file: Annotated[
        Path | None,
        typer.Option(
            "--chains-file",
            metavar="FILE",
            help="A file of chains, one JSON object per line, or a folder with EdiVal.",
        ),
    ] = None,
    seed: options.Seed = 0,
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The folder. Run the command again to continue. [default: runs/drift]"
        ),
    ] = None,
    concurrency: Annotated[int, typer.Option(min=1, help="Concurrent images.")] = 16,
    json_output: options.Json = False,
) -> int:
    """Measure how images degrade over long chains of edits, with each kind of drift control.

    The miniature knows the truth of every image. For any other generator, pass images to start from.
    """
    import asyncio

    from interleave import load_generator
    from interleave.bench.drift.report import write_report
    from interleave.bench.drift.run import DriftRun, DriftSettings
    from interleave.bench.drift.scores import score
    from interleave.plugin import config

    spec = generator or str(
        config.load_profile(profile or config.default_profile()).generator.as_spec("generator")
    )
    settings = DriftSettings(
        generator=spec,
        cells=_cells(protocol, drift_control, anchor_every),
        chains=chains,
        marks=_marks(steps),
        seed=seed,
        source=str(chains_file) if chains_file else ",".join(map(str, image or ())),
    )
    source = _source(spec, image or [], chains_file)
    folder = out or Path("runs") / "drift"
    with _progress() as report:
        run = DriftRun(folder, settings, load_generator(spec), source, concurrency, report)
        lines = asyncio.run(run.run())
    scores = score(settings, lines)
    page = write_report(folder, settings, scores, lines)
    if json_output:
        typer.echo(json.dumps(_as_json(settings, scores)))
        return 0
    _print_table(settings, scores)
    typer.echo(str(page))
    return 0


def _source(spec: str, images: Sequence[Path], chains_file: Path | None) -> ChainSource:
    """Return the source of the chains: the user's file or images, else the generator's world."""
    from interleave import InputError, read_image
    from interleave.bench.drift.chains import FileChains, ImageChains
    from interleave.bench.drift.edival import EdivalChains
    from interleave.plugin import backends, parse_spec

    if chains_file is not None:
        if images:
            raise InputError("--chains-file brings its own images: drop --image")
        return EdivalChains(chains_file) if chains_file.is_dir() else FileChains(chains_file)
    info = backends.find_backend(parse_spec(spec).name, "generator")
    if not images and info is not None and info.chains:
        source: ChainSource = pkgutil.resolve_name(info.chains)()
        return source
    return ImageChains([read_image(path) for path in images])


def _cells(protocol: str, remedies: str, anchor_every: int) -> tuple[Cell, ...]:
    from interleave import ConfigurationError
    from interleave.bench.drift.chains import PROTOCOLS
    from interleave.bench.drift.run import Cell
    from interleave.plugin import did_you_mean

    cells = []
    for name in _listed(protocol):
        if name not in PROTOCOLS:
            raise ConfigurationError(f"no protocol is named {name!r}. {did_you_mean(name, PROTOCOLS)}")
        cells += [
            Cell.model_validate(
                {
                    "protocol": name,
                    "name": each,
                    "remedies": _remedies(each, anchor_every),
                    "assets": "assets" in each.split("+"),
                }
            )
            for each in _listed(remedies)
        ]
    return tuple(cells)


def _remedies(name: str, anchor_every: int) -> config.DriftControl:
    from interleave import ConfigurationError
    from interleave.plugin import config, did_you_mean

    known = ("plain", "keep", "align", "anchor", "assets", "all")
    parts = {"keep", "align", "anchor"} if name == "all" else set(name.split("+"))
    if unknown := parts - set(known):
        raise ConfigurationError(f"no remedy is named {min(unknown)!r}. {did_you_mean(min(unknown), known)}")
    return config.DriftControl(
        keep="keep" in parts,
        align="align" in parts,
        anchor_every=anchor_every if "anchor" in parts else None,
    )


def _listed(text: str) -> list[str]:
    return list(dict.fromkeys(piece.strip() for piece in text.split(",") if piece.strip()))


def _marks(text: str) -> tuple[int, ...]:
    from interleave import ConfigurationError

    try:
        marks = sorted({int(piece) for piece in _listed(text)})
    except ValueError:
        marks = []
    if not marks or marks[0] < 1 or marks[-1] > 10_000:
        raise ConfigurationError(f"--steps {text}: name steps from 1 to 10,000, such as {MARKS}")
    return tuple(marks)


def _as_json(settings: DriftSettings, scores: Sequence[CellScore]) -> dict[str, object]:
    return {
        "generator": settings.generator,
        "chains": settings.chains,
        "seed": settings.seed,
        "cells": [each.model_dump() for each in scores],
    }


def _print_table(settings: DriftSettings, scores: Sequence[CellScore]) -> None:
    from rich.table import Table

    from interleave.bench.drift.report import shown_cell
    from interleave.plugin import make_console

    title = f"{settings.generator}, {settings.chains} chains; 95 % intervals over chains"
    table = Table("protocol", "remedy", *(f"step {mark}" for mark in settings.marks), "calls", title=title)
    for each in scores:
        by_step = {mark.step: shown_cell(mark) for mark in each.marks}
        cells = [by_step.get(mark, "–") for mark in settings.marks]
        table.add_row(each.protocol, each.name, *cells, f"{each.calls:,}")
    make_console().print(table)


class _progress:
    """A line on stderr every few per cent."""

    def __init__(self) -> None:
        self._said = -1

    def __enter__(self) -> _progress:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, done: int, total: int) -> None:
        share = 100 * done // max(total, 1)
        if share // 2 != self._said:
            self._said = share // 2
            typer.echo(f"{done:,} of {total:,} images", err=True)

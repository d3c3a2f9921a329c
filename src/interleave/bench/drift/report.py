"""The page of a drift measurement: the table, and some chains as strips of images."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from interleave.bench.drift.run import Cell, DriftSettings, StepLine
from interleave.bench.drift.scores import WINDOW, CellScore, MarkScore
from interleave.bench.statistics import Estimate
from interleave.plugin import render, write_atomic

PAGE_NAME = "drift.html"
SCORES_NAME = "scores.json"
STRIPS = 2
"""Chains shown per cell."""
NAMES = {
    "noop": "Asked to change nothing",
    "cycle": "Edits and their reversal",
    "chain": "A long chain of edits",
    "twins": "Two look-alike characters",
}


@dataclass(frozen=True)
class ImageView:
    step: int
    path: str
    said: str


@dataclass(frozen=True)
class Strip:
    chain: str
    images: tuple[ImageView, ...]


@dataclass(frozen=True)
class Row:
    name: str
    cells: tuple[str, ...]
    calls: int
    calls_per_image: float
    strips: tuple[Strip, ...]


def write_report(
    folder: Path, settings: DriftSettings, scores: Sequence[CellScore], lines: Sequence[StepLine]
) -> Path:
    """Write `drift.html` and `scores.json`; return the page's path."""
    values = {"settings": settings.model_dump(), "cells": [each.model_dump() for each in scores]}
    write_atomic(folder / SCORES_NAME, (json.dumps(values, indent=1) + "\n").encode())
    protocols: dict[str, list[Row]] = {}
    for cell, found in zip(settings.cells, scores, strict=True):
        protocols.setdefault(cell.protocol, []).append(_row(folder, settings, cell, found, lines))
    page = render.page_template("drift.html.j2", package="interleave.bench").render(
        title=f"Drift of {settings.generator}",
        settings=settings,
        window=WINDOW,
        names=NAMES,
        filters=(),
        protocols=list(protocols.items()),
    )
    write_atomic(folder / PAGE_NAME, page.encode())
    return folder / PAGE_NAME


def shown_cell(mark: MarkScore) -> str:
    """Format a table cell: the share of right images if the truth is known, else the difference."""
    if mark.right is not None:
        mixed = f", {_per_cent(mark.mixed_up)} mixed up" if mark.mixed_up and mark.mixed_up.mean else ""
        return f"{_per_cent(mark.right)} right{mixed}"
    if mark.from_first is not None:
        return f"{_levels(mark.from_first)} from the first"
    return f"{_levels(mark.outside)} outside"


def _per_cent(share: Estimate) -> str:
    return f"{100 * share.mean:.1f} ({100 * share.low:.1f}–{100 * share.high:.1f})"


def _levels(value: Estimate) -> str:
    return f"{value.mean:.1f} ({value.low:.1f}–{value.high:.1f})"


def _row(
    folder: Path, settings: DriftSettings, cell: Cell, found: CellScore, lines: Sequence[StepLine]
) -> Row:
    by_step = {mark.step: shown_cell(mark) for mark in found.marks}
    own = [line for line in lines if line.cell == cell.key]
    return Row(
        name=cell.name,
        cells=tuple(by_step.get(mark, "–") for mark in settings.marks),
        calls=found.calls,
        calls_per_image=found.calls / max(1, found.pictures),
        strips=tuple(
            _strip(folder, settings, cell, chain, own)
            for chain in list(dict.fromkeys(line.chain for line in own))[:STRIPS]
        ),
    )


def _strip(folder: Path, settings: DriftSettings, cell: Cell, chain: str, lines: Sequence[StepLine]) -> Strip:
    images = []
    for line in lines:
        path = Path("pictures") / cell.key / chain / f"{line.step}.png"
        if line.chain == chain and line.step in settings.marks and (folder / path).exists():
            said = {True: ", right", False: ", wrong", None: ""}[line.right]
            images.append(ImageView(line.step, path.as_posix(), said))
    return Strip(chain, tuple(images))

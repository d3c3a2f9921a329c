"""Options of `interleave bench run` and its stages, declared once, as fields."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from interleave.plugin import options

CONCURRENCY = 16
judging, scale = options.panel("Judging"), options.panel("Scale")
CHOICES = ("profile", "planner", "critic", "generator", "prompts", "max_attempts", "choose", "seed")


class MissingChoice(StrEnum):
    """Value of a question without an answer."""

    ZERO = "zero"
    DROP = "drop"
    OFFICIAL = "official"


@dataclass(frozen=True)
class BenchOptions:
    """Options of `bench run` and of its single stages."""

    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder of one system on one benchmark.")
    ] = None
    items: Annotated[
        int | None, typer.Option(metavar="N", min=1, help="Only N items, from all groups in turn.")
    ] = None
    system: Annotated[
        str,
        typer.Option(
            help="base (generator alone), plan (one attempt per step), full (with critic) or native (a "
            "document: planner alone)."
        ),
    ] = "full"
    profile: options.ProfileName = None
    max_attempts: options.MaxAttempts = None
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="SPEC",
            autocompletion=options.complete_spec,
            help="The model that judges the outputs. [default: the official judge]",
        ),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the models, the questions and the cost, and stop.")
    ] = False
    planner: options.PlannerSpec = None
    critic: options.CriticSpec = None
    generator: options.GeneratorSpec = None
    prompts: options.PackName = None
    data: Annotated[
        Path | None,
        options.input_(
            metavar="DIR", help="The benchmark's data. [default: below $INTERLEAVE_BENCH_DATA, else the Hub]"
        ),
    ] = None
    data_revision: Annotated[
        str | None,
        options.input_(
            metavar="COMMIT",
            help="The commit of the data on the Hub. [default: the folder's, else the newest]",
        ),
    ] = None
    outputs: Annotated[
        Path | None,
        options.input_("--import", metavar="PATH", help="Outputs made elsewhere, in the official layout."),
    ] = None
    judgements: Annotated[
        Path | None,
        options.input_(
            "--import-judge",
            metavar="PATH",
            help="Judgements that the official script wrote, alone or of imported outputs; --judge names "
            "who made them. Nothing is generated or asked. Name them again to score them later.",
        ),
    ] = None
    choose: options.Choose = None
    seed: options.Seed = 0
    attempts: Annotated[
        int | None,
        judging(metavar="N", min=1, help="Judge the outputs of at most N attempts. [default: all attempts]"),
    ] = None
    judge_prompts: Annotated[
        Path | None,
        judging(
            metavar="DIR", help="A checkout of the benchmark, to use its own prompts. [default: our prompts]"
        ),
    ] = None
    missing: Annotated[MissingChoice, judging(help="The value of a question without an answer.")] = (
        MissingChoice.ZERO
    )
    retry_failed: Annotated[
        bool, judging("--retry-failed", help="Repeat questions whose replies could not be read.")
    ] = False
    max_cost: Annotated[
        float | None, judging(metavar="USD", help="Stop judging before it costs more than this.")
    ] = None
    concurrency: Annotated[int, scale(metavar="N", min=1, help="Concurrent items.")] = CONCURRENCY
    shard: Annotated[str | None, scale(metavar="K/N", help="With bench generate: only part K of N.")] = None
    engine: Annotated[str, scale(metavar="local|ray", help="This process, or workers on a Ray cluster.")] = (
        "local"
    )
    workers: Annotated[int, scale(metavar="N", min=1, help="Ray workers.")] = 1
    worker_gpus: Annotated[float, scale(metavar="N", min=0, help="GPUs of each Ray worker.")] = 0.0
    json_output: options.Json = False

    @property
    def choices(self) -> dict[str, Any]:
        """Return the choices of the system, as keyword arguments of `interleave.generate`."""
        return {name: getattr(self, name) for name in CHOICES}

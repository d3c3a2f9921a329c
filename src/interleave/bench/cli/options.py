"""The options of `interleave bench NAME`: the same for every benchmark, declared once, as fields."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from interleave.plugin import options

CONCURRENCY = 16
CHOICES = ("profile", "planner", "critic", "generator", "prompts", "max_attempts", "choose", "seed")


class Stage(StrEnum):
    """What to do; each stage goes on where it was left."""

    ALL = "all"
    RUN = "run"
    JUDGE = "judge"
    SCORE = "score"
    REPORT = "report"
    EXPORT = "export"


class MissingChoice(StrEnum):
    """What a question without a value counts as."""

    ZERO = "zero"
    DROP = "drop"
    OFFICIAL = "official"


@dataclass(frozen=True)
class BenchOptions:
    """What the command line says."""

    stage: Annotated[Stage, typer.Argument(help="A stage, or all of them.")] = Stage.ALL
    out: Annotated[
        Path | None, typer.Option(metavar="DIR", help="The folder of one system on one benchmark.")
    ] = None
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="The benchmark's data. [default: below $INTERLEAVE_BENCH_DATA, else the Hub]"
        ),
    ] = None
    data_revision: Annotated[
        str | None,
        typer.Option(
            metavar="COMMIT",
            help="The commit of the data on the Hub. [default: the folder's, else the newest]",
        ),
    ] = None
    items: Annotated[int | None, typer.Option(min=1, help="Only so many items, of all groups in turn.")] = (
        None
    )
    outputs: Annotated[
        Path | None,
        typer.Option("--import", metavar="PATH", help="Outputs made elsewhere, in the official layout."),
    ] = None
    judgements: Annotated[
        Path | None,
        typer.Option(
            "--import-judge",
            metavar="PATH",
            help="What the official script wrote for its judge; to score it later, name it again.",
        ),
    ] = None
    system: Annotated[
        str, typer.Option(help="base (generator alone), plan (one attempt a step) or full (with critic).")
    ] = "full"
    profile: options.ProfileName = None
    planner: options.PlannerSpec = None
    critic: options.CriticSpec = None
    generator: options.GeneratorSpec = None
    prompts: options.PackName = None
    max_attempts: options.MaxAttempts = None
    choose: options.Choose = None
    seed: options.Seed = 0
    attempts: Annotated[
        int | None, typer.Option(min=1, help="Judge the outputs of so many attempts. [default: the most]")
    ] = None
    judge: Annotated[
        str | None, typer.Option(metavar="SPEC", help="Who judges. [default: the official judge]")
    ] = None
    judge_prompts: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR", help="A checkout of the benchmark, to ask in its own words. [default: our words]"
        ),
    ] = None
    missing: Annotated[MissingChoice, typer.Option(help="What a question without an answer counts as.")] = (
        MissingChoice.ZERO
    )
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Ask again where replies could not be read.")
    ] = False
    max_cost: Annotated[float | None, typer.Option(help="Stop judging before it costs more US dollars.")] = (
        None
    )
    concurrency: Annotated[int, typer.Option(min=1, help="Items under way at once.")] = CONCURRENCY
    shard: Annotated[
        str | None, typer.Option(metavar="K/N", help="With run: only this part of the items.")
    ] = None
    engine: Annotated[str, typer.Option(help="local, or ray: workers on a cluster.")] = "local"
    workers: Annotated[int, typer.Option(min=1, help="With ray: how many workers.")] = 1
    worker_gpus: Annotated[float, typer.Option(min=0, help="With ray: GPUs for each worker.")] = 0.0
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only say what would be done, and what it would cost.")
    ] = False
    json_output: options.Json = False

    @property
    def choices(self) -> dict[str, Any]:
        """What is asked of the system, as `interleave.generate` takes it."""
        return {name: getattr(self, name) for name in CHOICES}

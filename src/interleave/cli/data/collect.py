"""`interleave data collect`: requests in, run folders out."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interleave.cli import options
from interleave.cli import request_input as inputs

if TYPE_CHECKING:
    from interleave.batches.batch import Crew
    from interleave.data.collecting.ray_executor import Team
    from interleave.data.collecting.recipe import Recipe


def collect(
    requests: Annotated[Path, typer.Argument(metavar="REQUESTS.jsonl", help="One JSON object a line.")],
    out: Annotated[Path, typer.Option("--out", metavar="COLLECTION", help="The folder of the runs.")],
    profile: options.ProfileName = None,
    planner: options.PlannerSpec = None,
    critic: options.CriticSpec = None,
    generator: Annotated[
        list[str] | None,
        typer.Option("--generator", metavar="SPEC", help="The model that draws; several share the requests."),
    ] = None,
    weight: Annotated[
        list[float] | None,
        typer.Option("--weight", metavar="N", help="How much of the work is a generator's, one for each."),
    ] = None,
    prompts: options.PackName = None,
    max_attempts: options.MaxAttempts = None,
    max_steps: options.MaxSteps = None,
    max_calls: options.MaxCalls = None,
    max_seconds: options.MaxSeconds = None,
    max_cost: options.MaxCost = None,
    sources: options.Sources = None,
    seed: Annotated[
        int, typer.Option(help="Decides the seed of every run, and which generator draws it.")
    ] = 0,
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, max=4096, help="Runs in flight at once; with Ray, in each worker. [default: 64]"),
    ] = None,
    shard: Annotated[
        str | None, typer.Option(metavar="I/N", help="Do the I-th of N parts; others may do theirs at once.")
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Only the first so many requests.")] = None,
    engine: Annotated[
        str, typer.Option(metavar="local|ray", help="In this process, or by workers on a Ray cluster.")
    ] = "local",
    workers: Annotated[int, typer.Option(min=1, help="With Ray: how many workers.")] = 1,
    worker_gpus: Annotated[float, typer.Option(min=0, help="With Ray: the GPUs each worker takes.")] = 0.0,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Take up those that failed or ended short.")
    ] = False,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Leave out lines that cannot be used.")
    ] = False,
    dry_run: options.DryRun = False,
    json_output: options.Json = False,
    debug: options.Debug = False,
) -> int:
    """Carry requests out, each in a run folder below COLLECTION; the same command goes on where it was.

    Several --generator share the requests by --weight, so that the critic sees failures of every kind.
    """
    from interleave.batches.batch import DEFAULT_CONCURRENCY, Batch, refuse_unfit
    from interleave.batches.shards import Shard
    from interleave.cli.batch_command import run_batch
    from interleave.cli.run_command import say
    from interleave.data.collecting.collection import Work, describe
    from interleave.data.collecting.ray_executor import Team
    from interleave.data.collecting.recipe import Recipe
    from interleave.runs.outage import Patience

    choices = {
        "profile": inputs.choose_profile(profile, dry_run),
        "planner": planner,
        "critic": critic,
        "prompts": prompts,
        "max_attempts": max_attempts,
        "max_steps": max_steps,
        "max_calls": max_calls,
        "max_seconds": max_seconds,
        "max_cost": max_cost,
        "sources": sources,
        "seed": seed,
    }
    recipe = Recipe(choices, tuple(generator or ()), tuple(weight or ()))
    team = Team(workers, concurrency or DEFAULT_CONCURRENCY, worker_gpus)
    part = Shard.parse(shard)
    casting = recipe.casting()
    work = Work.of(requests, casting, limit=limit, shard=part, skip_bad=skip_bad)
    for problem in work.left_out:
        say(f"left out: {problem}")
    refuse_unfit(out, casting, part)
    say("loading models…")
    with _crew(engine, recipe, out, requests, team) as crew:
        batch = Batch(out, casting, crew, shard=part, patience=Patience(max_seconds))
        try:
            return run_batch(
                batch,
                work.items,
                concurrency=team.concurrency * (team.workers if engine == "ray" else 1),
                retry_failed=retry_failed,
                fail_on_forced=False,
                json_output=json_output,
            )
        finally:
            describe(out, work)


@contextmanager
def _crew(engine: str, recipe: Recipe, out: Path, requests: Path, team: Team) -> Iterator[Crew]:
    """Who carries the requests out: this process, or workers on a cluster."""
    from interleave.data.collecting.ray_executor import ray_crew
    from interleave.errors import ConfigurationError, did_you_mean

    if engine == "ray":
        with ray_crew(recipe, out, requests, team) as crew:
            yield crew
    elif engine == "local":
        if team.workers > 1 or team.gpus:
            raise ConfigurationError("--workers and --worker-gpus are for --engine ray")
        yield recipe.studio(out)
    else:
        raise ConfigurationError(f"no engine named {engine!r}. {did_you_mean(engine, ['local', 'ray'])}")

"""`interleave data collect`: run requests, one run folder each."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interleave.plugin import options
from interleave.plugin import request_input as inputs

if TYPE_CHECKING:
    from interleave.plugin import batches
    from interleave.train.data.collect import CollectConfig


def collect(
    requests: Annotated[
        Path,
        typer.Argument(
            metavar="REQUESTS.jsonl",
            callback=options.or_stdin,
            help="Requests, one JSON object per line. '-' reads standard input.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="COLLECTION", help="The folder of the runs.")],
    profile: options.ProfileName = None,
    planner: options.PlannerSpec = None,
    critic: options.CriticSpec = None,
    generator: Annotated[
        list[str] | None,
        typer.Option(
            "--generator",
            metavar="SPEC",
            help="The model that draws. Repeatable: several share the requests.",
        ),
    ] = None,
    weight: Annotated[
        list[float] | None,
        typer.Option("--weight", metavar="N", help="The share of each generator, in the same order."),
    ] = None,
    prompts: options.PackName = None,
    max_attempts: options.MaxAttempts = None,
    max_steps: options.MaxSteps = None,
    max_calls: options.MaxCalls = None,
    max_seconds: options.MaxSeconds = None,
    max_cost: options.MaxCost = None,
    sources: options.Sources = None,
    choose: options.Choose = None,
    seed: Annotated[int, typer.Option(metavar="N", help="Seeds the runs and the choice of generators.")] = 0,
    concurrency: Annotated[
        int | None,
        typer.Option(min=1, max=4096, help="Concurrent runs; with Ray, per worker. [default: 64]"),
    ] = None,
    shard: Annotated[
        str | None,
        typer.Option(metavar="I/N", help="Run part I of N; the parts may run concurrently."),
    ] = None,
    items: Annotated[int | None, typer.Option(metavar="N", min=1, help="Only the first N requests.")] = None,
    engine: Annotated[
        str, typer.Option(metavar="local|ray", help="This process, or workers on a Ray cluster.")
    ] = "local",
    workers: Annotated[int, typer.Option(min=1, metavar="N", help="Ray workers.")] = 1,
    worker_gpus: Annotated[float, typer.Option(min=0, metavar="N", help="GPUs of each Ray worker.")] = 0.0,
    retry_failed: Annotated[
        bool, typer.Option("--retry-failed", help="Retry runs that failed or ended short.")
    ] = False,
    skip_bad: Annotated[bool, typer.Option("--skip-bad", help="Skip lines that cannot be used.")] = False,
    dry_run: options.DryRun = False,
    json_output: options.Json = False,
    json_events: options.JsonEvents = False,
) -> int:
    """Run requests, each in a folder below COLLECTION. Run the command again to continue.

    Several --generator share the requests by --weight, so that the critic sees all kinds of failures.
    """
    from interleave.plugin import Output, batches, cli, runs, say
    from interleave.train.data.collect import CollectConfig, Workload, write_collection_manifest

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
        "choose": choose,
        "seed": seed,
    }
    output = Output(json_output, json_events)
    config = CollectConfig(choices, tuple(generator or ()), tuple(weight or ()))
    ray_options = batches.WorkerOptions(workers, concurrency or batches.DEFAULT_CONCURRENCY, worker_gpus)
    part = batches.Shard.parse(shard)
    assignment = config.assignment()
    workload = Workload.read(requests, assignment, limit=items, shard=part, skip_bad=skip_bad)
    for problem in workload.left_out:
        say(f"left out: {problem}")
    batches.refuse_unusable_folder(out, assignment, part)
    say("loading models…")
    with (
        cli.watching(out, output) as watcher,
        _executor(engine, config, out, requests, ray_options, watcher) as executor,
    ):
        retry = runs.OutageRetry(max_seconds)
        batch = batches.Batch(out, assignment, executor, shard=part, outage_retry=retry, watcher=watcher)
        try:
            return cli.run_batch(
                batch,
                workload.items,
                concurrency=ray_options.concurrency * (ray_options.workers if engine != "local" else 1),
                retry_failed=retry_failed,
                fail_on_forced=False,
                output=output,
            )
        finally:
            write_collection_manifest(out, workload)


@contextmanager
def _executor(
    engine: str,
    config: CollectConfig,
    out: Path,
    requests: Path,
    ray_options: batches.WorkerOptions,
    watcher: batches.Watcher,
) -> Iterator[batches.Executor]:
    """Yield the executor of the requests: this process, or workers on a cluster."""
    from interleave import ConfigurationError
    from interleave.plugin import batches
    from interleave.train.data.collect import CollectWork

    if engine == "local":
        if ray_options.workers > 1 or ray_options.gpus:
            raise ConfigurationError("--workers and --worker-gpus are for --engine ray")
        yield config.worker(out, watcher)
        return
    with batches.executor_named(
        engine, CollectWork(config, requests.absolute()), out, ray_options
    ) as executor:
        yield executor

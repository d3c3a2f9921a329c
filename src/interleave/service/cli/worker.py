"""`interleave serve worker`: work on the jobs of document services, on any number of machines."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from interleave import ConfigurationError
from interleave.plugin import options
from interleave.service.cli import options as service_options


def worker(
    jobs: Annotated[
        str,
        typer.Option(
            metavar="postgres://…",
            envvar="INTERLEAVE_JOBS",
            help="The job table of the document services. Better: set INTERLEAVE_JOBS.",
        ),
    ],
    runs: service_options.Folder,
    profile: options.ProfileName = None,
    planner: options.PlannerSpec = None,
    critic: options.CriticSpec = None,
    generator: options.GeneratorSpec = None,
    prompts: options.PackName = None,
    dry_run: options.DryRun = False,
    max_calls: options.MaxCalls = None,
    max_seconds: options.MaxSeconds = None,
    max_cost: options.MaxCost = None,
    concurrency: Annotated[int, typer.Option(min=1, max=4096, help="Concurrent jobs.")] = 64,
    per_key: Annotated[
        int | None,
        typer.Option(min=1, help="Concurrent jobs of one API key, on all machines."),
    ] = None,
    lease: service_options.LeaseSeconds = 30.0,
    drain: Annotated[
        float,
        typer.Option(min=0, help="Seconds for jobs to end when it stops; another worker continues the rest."),
    ] = 10.0,
    metrics_port: Annotated[
        int | None,
        typer.Option(min=1, max=65535, help="Serve metrics for Prometheus on this port. [default: none]"),
    ] = None,
    log_format: service_options.LogFormat = "text",
) -> int:
    """Work on the jobs of document services, until Ctrl-C.

    Any number of workers share the jobs, on all machines that share the folder of the runs. If a worker dies
    or hangs, another worker continues its jobs.
    """
    service_options.require_packages("postgres,serve")
    from interleave.plugin import Limits
    from interleave.service.documents.postgres import is_postgres, require_psycopg
    from interleave.service.documents.worker import WorkerSettings
    from interleave.service.documents.worker_main import WorkConfig, work

    if not is_postgres(jobs):
        raise ConfigurationError("--jobs: workers share a table in Postgres: write postgres://HOST/DATABASE")
    require_psycopg()
    service_options.check_log_format(log_format)
    chosen = service_options.make_choices(
        dry_run, profile, planner=planner, critic=critic, generator=generator, prompts=prompts
    )
    service_options.require_models(chosen, "serve worker --jobs … --runs …")
    config = WorkConfig(
        chosen=chosen,
        folder=runs,
        jobs=jobs,
        worker=WorkerSettings(
            concurrency,
            per_key,
            Limits(max_calls=max_calls, max_seconds=max_seconds, max_cost=max_cost),
            lease,
        ),
        drain_seconds=drain,
        metrics_port=metrics_port,
        json_logs=log_format == "json",
    )
    work(config, _announce)
    return 0


def _announce(name: str) -> None:
    print("working; the models are loaded (Ctrl-C ends it)", file=sys.stderr)
    print(name, flush=True)

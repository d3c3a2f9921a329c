"""`interleave serve documents` and `interleave serve keys`."""

from __future__ import annotations

import importlib.util
import os
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from interleave import ConfigurationError
from interleave.plugin import options
from interleave.service.cli import options as service_options

SQLITE = "sqlite:"

keys = typer.Typer(
    help="Add, list and revoke the API keys of a document service.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

DEFAULT_FOLDER = Path("runs") / "documents"


def serve_documents(
    profile: options.ProfileName = None,
    planner: options.PlannerSpec = None,
    critic: options.CriticSpec = None,
    generator: options.GeneratorSpec = None,
    prompts: options.PackName = None,
    dry_run: options.DryRun = False,
    max_attempts: options.MaxAttempts = None,
    max_steps: options.MaxSteps = None,
    max_calls: options.MaxCalls = None,
    max_seconds: options.MaxSeconds = None,
    max_cost: options.MaxCost = None,
    host: service_options.Host = "127.0.0.1",
    port: service_options.Port = 8020,
    public_url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="The prefix of image addresses. [default: the host that a client calls]",
        ),
    ] = None,
    runs: service_options.Folder = DEFAULT_FOLDER,
    jobs: Annotated[
        str | None,
        typer.Option(
            metavar="sqlite:PATH|postgres://…",
            envvar="INTERLEAVE_JOBS",
            help="The job table. Services and workers share one in Postgres. "
            "[default: jobs.sqlite in --runs]",
        ),
    ] = None,
    lease: service_options.LeaseSeconds = 30.0,
    concurrency: Annotated[
        int,
        typer.Option(min=0, max=4096, help="Concurrent jobs. 0 leaves all to 'interleave serve worker'."),
    ] = 64,
    queue: Annotated[int, typer.Option(min=1, max=1_000_000, help="Jobs that may wait.")] = 10_000,
    per_key: Annotated[int | None, typer.Option(min=1, help="Concurrent jobs of one API key.")] = None,
    streams_per_key: Annotated[
        int, typer.Option(min=1, help="Open streams and waiting calls of one API key.")
    ] = 256,
    memory: Annotated[
        int, typer.Option(min=64, help="Megabytes that requests and their images may take in memory.")
    ] = 1000,
    drain: Annotated[
        float,
        typer.Option(min=0, help="Seconds for jobs to end when the service stops; the rest resume later."),
    ] = 10.0,
    keep_days: Annotated[
        float | None,
        typer.Option(min=0.01, help="Remove jobs and uploads after this many days. [default: never]"),
    ] = None,
    webhook_host: Annotated[
        list[str] | None,
        typer.Option(
            metavar="HOST",
            help="A host that webhooks may call. Repeatable. scheme://host:port may be private.",
        ),
    ] = None,
    log_format: service_options.LogFormat = "text",
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A parameter of requests to ignore. Repeatable."),
    ] = None,
    end_when_idle: Annotated[
        float | None,
        typer.Option(
            min=1,
            metavar="SECONDS",
            help="End after this time without requests and jobs. [default: never]",
        ),
    ] = None,
    sign: service_options.Sign = "",
) -> int:
    """Serve whole documents over HTTP, until Ctrl-C.

    A job is a Response of OpenAI's API: submitted, streamed, cancelled, deleted. The address is printed on
    standard output, requests are logged on standard error. After a restart, open jobs resume.
    """
    service_options.require_packages()
    from interleave.plugin import Limits
    from interleave.service.documents.server import DocumentsConfig, serve_documents
    from interleave.service.documents.service import ServiceSettings
    from interleave.service.documents.webhooks import SECRET_VARIABLE
    from interleave.service.http.memory import MEGABYTE

    service_options.check_log_format(log_format)
    table = _job_table(jobs)
    if concurrency == 0 and not isinstance(table, str):
        raise ConfigurationError(
            "--concurrency 0 leaves all jobs to workers, which needs --jobs postgres://…"
        )
    chosen = service_options.make_choices(
        dry_run,
        profile,
        planner=planner,
        critic=critic,
        generator=generator,
        prompts=prompts,
        max_attempts=max_attempts,
        max_steps=max_steps,
    )
    if concurrency:  # else it loads no models
        service_options.require_models(chosen, "serve documents")
    config = DocumentsConfig(
        chosen=chosen,
        folder=runs,
        jobs=table,
        host=host,
        port=port,
        drain_seconds=drain,
        webhook_hosts=tuple(webhook_host or ()),
        webhook_secret=os.environ.get(SECRET_VARIABLE),
        json_logs=log_format == "json",
        idle_seconds=end_when_idle,
        settings=ServiceSettings(
            models=tuple(dict.fromkeys(("interleave", service_options.shown_profile(chosen.profile)))),
            profile=service_options.shown_profile(chosen.profile),
            concurrency=concurrency,
            queue=queue,
            per_key=per_key,
            streams_per_key=streams_per_key,
            limits=Limits(max_calls=max_calls, max_seconds=max_seconds, max_cost=max_cost),
            memory_bytes=memory * MEGABYTE,
            keep_days=keep_days,
            ignored=service_options.ignored_parameters(ignore or []),
            public_url=service_options.checked_public_url(public_url),
            lease_seconds=lease,
            sign=service_options.checked_key(sign),
        ),
    )
    serve_documents(config, _announce if concurrency else _announce_without_models)
    return 0


def _job_table(given: str | None) -> Path | str | None:
    """Return the path of a SQLite file, or the address of a Postgres database."""
    from interleave.service.documents.postgres import is_postgres, require_psycopg

    if given is None:
        return None
    if is_postgres(given):
        require_psycopg()
        return given
    if not given.startswith(SQLITE) or given == SQLITE:
        raise ConfigurationError(
            f"--jobs {given}: the job table is a SQLite file or a Postgres database: write {SQLITE}PATH or "
            "postgres://HOST/DATABASE"
        )
    return Path(given.removeprefix(SQLITE))


def _announce(address: str) -> None:
    print(f"serving documents at {address}; the models are being loaded (Ctrl-C ends it)", file=sys.stderr)
    if importlib.util.find_spec("mcp") is not None:
        print(f"assistants connect to {address}/mcp", file=sys.stderr)
    print(address, flush=True)


def _announce_without_models(address: str) -> None:
    print(
        f"serving documents at {address}; jobs are left to 'interleave serve worker' (Ctrl-C ends it)",
        file=sys.stderr,
    )
    print(address, flush=True)


@keys.callback()
def _keys() -> None:
    """Add, list and revoke the API keys of a document service."""


@keys.command("add")
def add(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The owner of the key.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(metavar="submit|read|admin", help="Repeatable. [default: submit and read]"),
    ] = None,
    max_jobs: Annotated[
        int | None, typer.Option(min=1, help="Maximum jobs of this key that wait or run.")
    ] = None,
    per_hour: Annotated[int | None, typer.Option(min=1, help="Maximum jobs it may submit per hour.")] = None,
    runs: service_options.Folder = DEFAULT_FOLDER,
) -> int:
    """Make an API key. It is printed once, and stored only as a hash."""
    service_options.require_packages()
    from interleave.service.documents.keys import FILE_NAME, add_key
    from interleave.service.documents.private_files import private_files

    with private_files():
        key, secret = add_key(
            runs / FILE_NAME, name, scope or ("submit", "read"), max_jobs=max_jobs, per_hour=per_hour
        )
    print(f"key {key.id} for {name!r} may {' and '.join(key.scopes)}; it is shown only now:", file=sys.stderr)
    print(secret)
    return 0


@keys.command("list")
def list_keys(runs: service_options.Folder = DEFAULT_FOLDER) -> int:
    """List the API keys, without their secrets."""
    service_options.require_packages()
    from interleave.service.documents.keys import FILE_NAME, read_keys

    for key in read_keys(runs / FILE_NAME):
        made = time.strftime("%Y-%m-%d", time.gmtime(key.created))
        state = "revoked" if key.revoked is not None else ",".join(key.scopes)
        print(f"{key.id}  {made}  {state:<20}  {key.name}")
    return 0


@keys.command("revoke")
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME|ID", help="The key's name or id.")],
    runs: service_options.Folder = DEFAULT_FOLDER,
) -> int:
    """Refuse a key from now on; its jobs stay."""
    service_options.require_packages()
    from interleave.service.documents.keys import FILE_NAME, revoke_key

    key = revoke_key(runs / FILE_NAME, name)
    print(f"revoked {key.id} ({key.name})")
    return 0

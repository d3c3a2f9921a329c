"""`interleave studio`: a page to make, watch and read documents in the browser."""

from __future__ import annotations

import re
import sys
import threading
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interleave import ConfigurationError, InterleaveError
from interleave.plugin import options
from interleave.service.cli import options as service_options

if TYPE_CHECKING:
    from interleave.plugin import runs

DEFAULT_FOLDER = Path("runs") / "studio"
WITHOUT_MODELS = ("mini", "oracle", "dry-run")
"""Profiles without key, GPU and download, offered additionally if installed."""


def studio(
    profile: options.ProfileName = None,
    planner: options.PlannerSpec = None,
    critic: options.CriticSpec = None,
    generator: options.GeneratorSpec = None,
    prompts: options.PackName = None,
    dry_run: options.DryRun = False,
    offer: Annotated[
        list[str] | None,
        typer.Option(
            metavar="PROFILE",
            help="Another profile to offer, or 'none'. Repeatable. [default: those without key and GPU]",
        ),
    ] = None,
    max_attempts: options.MaxAttempts = None,
    max_steps: options.MaxSteps = None,
    max_calls: options.MaxCalls = None,
    max_seconds: options.MaxSeconds = None,
    max_cost: options.MaxCost = None,
    host: service_options.Host = "127.0.0.1",
    port: service_options.Port = 8030,
    no_open: Annotated[bool, typer.Option("--no-open", help="Do not open the browser.")] = False,
    runs: service_options.Folder = DEFAULT_FOLDER,
    concurrency: Annotated[
        int, typer.Option(min=1, max=4096, help="Concurrent documents; the others wait.")
    ] = 2,
    queue: Annotated[int, typer.Option(min=1, max=1_000_000, help="Documents that may wait.")] = 10_000,
    public_url: Annotated[
        str | None, typer.Option(metavar="URL", help="The public address of the studio.")
    ] = None,
    guests: Annotated[
        bool,
        typer.Option(
            "--guests",
            help="Allow documents without an API key. Visitors see only their own.",
        ),
    ] = False,
    guest_jobs: Annotated[
        int, typer.Option(min=1, help="Documents of a guest that wait or are in progress.")
    ] = 2,
    guest_hour: Annotated[int, typer.Option(min=1, help="Documents of a guest per hour.")] = 20,
    frame: Annotated[
        list[str] | None,
        typer.Option(metavar="URL", help="A site that may embed the studio in a frame. Repeatable."),
    ] = None,
    reports: Annotated[
        list[Path] | None,
        typer.Option(
            metavar="DIR",
            help="A folder with reports of benchmarks, data and training. Repeatable. "
            "[default: bench and reports next to --runs, and trained]",
        ),
    ] = None,
    keep_days: Annotated[
        float | None, typer.Option(min=0.01, help="Remove documents after this many days. [default: never]")
    ] = None,
    sign: service_options.Sign = "",
) -> int:
    """Open the studio: make, watch, edit and read illustrated documents in the browser, until Ctrl-C.

    The studio is the document service with a page. Everything stays in --runs, and the page loads nothing
    from other sites. The address is printed on standard output.
    """
    service_options.require_packages("studio")
    from interleave.plugin import Limits
    from interleave.service.documents.keys import GuestQuota
    from interleave.service.documents.server import DocumentsConfig, serve_documents
    from interleave.service.documents.service import ServiceSettings
    from interleave.studio.page import PageFile
    from interleave.studio.routes import NAME, studio_routes

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
    service_options.require_models(chosen, "studio")
    others = _offers(chosen, offer)
    own = service_options.shown_profile(chosen.profile)
    page = PageFile(frame_ancestors=tuple(map(_origin, frame or ())))
    config = DocumentsConfig(
        chosen=chosen,
        folder=runs,
        host=host,
        port=port,
        others=others,
        guests=GuestQuota(guest_jobs, guest_hour) if guests else None,
        routes={NAME: studio_routes(page, _report_folders(reports, runs))},
        settings=ServiceSettings(
            models=tuple(dict.fromkeys(("interleave", own, *others))),
            profile=own,
            concurrency=concurrency,
            queue=queue,
            public_url=service_options.checked_public_url(public_url),
            limits=Limits(max_calls=max_calls, max_seconds=max_seconds, max_cost=max_cost),
            keep_days=keep_days,
            runs_beside=runs.absolute().parent,
            sign=service_options.checked_key(sign),
        ),
    )
    serve_documents(config, lambda address: _announce(address, opens=not no_open))
    return 0


def _report_folders(named: list[Path] | None, runs: Path) -> tuple[Path, ...]:
    """Return the named folders, else those that commands write to, which may appear later."""
    if named is None:
        return (runs.parent / "bench", runs.parent / "reports", Path("trained"))
    for folder in named:
        if not folder.is_dir():
            raise ConfigurationError(f"--reports {folder}: no such folder")
    return tuple(named)


def _origin(site: str) -> str:
    """Return a site as a policy names it; anything else could add rules."""
    if not re.fullmatch(r"https?://(\*\.)?[A-Za-z0-9.-]+(:[0-9]{1,5})?", site):
        raise ConfigurationError(f"--frame {site}: write it as https://example.com")
    return site


def _offers(chosen: runs.Choices, named: list[str] | None) -> tuple[str, ...]:
    """Return the additional profiles: the named ones, else those that run anywhere."""
    from interleave.plugin import config

    if named == ["none"]:
        return ()
    wanted = [name for name in dict.fromkeys(named or WITHOUT_MODELS) if name != chosen.profile]
    if named:
        for name in wanted:
            config.load_profile(name)  # refuses unknown names
        return tuple(wanted)
    return tuple(name for name in wanted if _can_run(name))


def _can_run(profile: str) -> bool:
    """Return whether a profile is installed with the packages that it needs. Imports none of them."""
    from interleave.plugin import runs

    try:
        service_options.require_models(runs.Choices(profile=profile), "studio")
    except InterleaveError:
        return False
    return True


def _announce(address: str, *, opens: bool) -> None:
    print(f"the studio is at {address}; the models are being loaded (Ctrl-C ends it)", file=sys.stderr)
    print(address, flush=True)
    if opens:  # not in this thread: some browsers return only on exit
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()

"""`interleave serve mcp`: documents in assistants."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path
from typing import Annotated, Any

import typer

from interleave import ConfigurationError, MissingDependency
from interleave.plugin import options
from interleave.service.cli import options as service_options

DEFAULT_FOLDER = Path.home() / "interleave" / "documents"
"""Hosts start the command in any folder, often in `/`."""


def serve_mcp(
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
    http: Annotated[
        bool, typer.Option("--http", help="Serve over streamable HTTP instead of standard input and output.")
    ] = False,
    host: service_options.Host = "127.0.0.1",
    port: service_options.Port = 8020,
    url: Annotated[
        str | None,
        typer.Option(
            metavar="URL",
            help="Use this document service instead of one on this machine. Its key: INTERLEAVE_API_KEY.",
        ),
    ] = None,
    runs: Annotated[
        Path | None,
        typer.Option(
            "--runs",
            metavar="DIR",
            help="The folder of jobs, runs and API keys. [default: interleave/documents in the home folder]",
        ),
    ] = None,
    wait: Annotated[
        float, typer.Option(min=1, max=3600, metavar="SECONDS", help="Time a call waits for a document.")
    ] = 45.0,
) -> int:
    """Serve documents to an assistant: Claude, ChatGPT, VS Code, Open WebUI.

    A host starts this command and speaks with it over standard input and output. Documents are made by a
    document service on this machine, which is started if none runs in the folder. It finishes its documents
    if the host is closed. With --http the address is printed on standard output, until Ctrl-C.
    """
    service_options.require_packages("mcp")
    if importlib.util.find_spec("mcp") is None:
        raise MissingDependency(
            "the MCP server needs the package 'mcp', which is not installed. "
            'Install it with: pip install "interleavethinker[mcp]"'
        )
    models: dict[str, Any] = {
        "--profile": profile,
        "--planner": planner,
        "--critic": critic,
        "--generator": generator,
        "--prompts": prompts,
        "--max-attempts": max_attempts,
        "--max-steps": max_steps,
        "--max-calls": max_calls,
        "--max-seconds": max_seconds,
        "--max-cost": max_cost,
    }
    arguments = [word for name, value in models.items() if value is not None for word in (name, str(value))]
    arguments += ["--dry-run"] if dry_run else []
    folder = (runs or DEFAULT_FOLDER).absolute()
    if url is not None:
        _check_url(url, http, arguments)
    if http:
        from interleave.service.cli.documents import serve_documents

        given = {name.removeprefix("--").replace("-", "_"): value for name, value in models.items()}
        return serve_documents(**given, dry_run=dry_run, host=host, port=port, runs=folder)
    from interleave.service.mcp.stdio import KEY_VARIABLE, StdioConfig, serve_stdio

    key = os.environ.get(KEY_VARIABLE) or None
    serve_stdio(StdioConfig(folder, tuple(arguments), wait, url.rstrip("/") if url else None, key))
    return 0


def _check_url(url: str, http: bool, arguments: list[str]) -> None:
    if http:
        raise ConfigurationError("--url and --http exclude each other: that service serves /mcp itself")
    if arguments:
        raise ConfigurationError(f"{arguments[0]}: the service at --url has its own models and limits")
    if not re.fullmatch(r"https?://[^\s/?#@]+(/[^\s?#]*)?", url):
        raise ConfigurationError(f"--url {url}: write it as https://documents.example.com")

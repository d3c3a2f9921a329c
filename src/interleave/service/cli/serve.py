"""`interleave serve`: serve generators or documents over HTTP."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from interleave import ConfigurationError
from interleave.plugin import lazy_command, lazy_group, options
from interleave.service.cli import options as service_options

if TYPE_CHECKING:
    from interleave.plugin import Spec
    from interleave.service.generator.ray_replicas import RayReplicas

COMMANDS = {
    "generator": lazy_command("interleave.service.cli.serve:serve_generator", "Serve an image generator."),
    "documents": lazy_command("interleave.service.cli.documents:serve_documents", "Serve whole documents."),
    "balancer": lazy_command(
        "interleave.service.cli.balancer:serve_balancer", "Balance several generator servers with nginx."
    ),
    "worker": lazy_command("interleave.service.cli.worker:worker", "Work on the jobs of document services."),
    "mcp": lazy_command(
        "interleave.service.cli.mcp:serve_mcp",
        "Serve documents to assistants, by the Model Context Protocol.",
    ),
    "keys": lazy_command("interleave.service.cli.documents:keys", "Add, list and revoke API keys."),
}
app = typer.Typer(
    cls=lazy_group(lambda: COMMANDS),
    help="Serve generators or documents over HTTP.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

SHORT_TOKEN = 16


@app.callback()
def _serve() -> None:
    """Serve generators or documents over HTTP."""


def serve_generator(
    generator: options.GeneratorSpec = None,
    preset: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="A service of the reference, by name or number, e.g. klein or 11."),
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on. A public one needs a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="The port; 0 for a free one. [default: the preset's, 8011]"),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(help="The bearer token that clients send. Better: set INTERLEAVE_SERVER_TOKEN."),
    ] = None,
    devices: Annotated[
        str | None,
        typer.Option(metavar="0,1", help="One worker per device; 0+1 for one worker on two devices; or cpu."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="The name of the generator in /v1/models. [default: its model]")
    ] = None,
    queue: Annotated[int, typer.Option(min=1, max=100_000, help="Maximum images in the queue.")] = 100,
    batch: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=4096,
            help="Maximum images per batch. [default: the generator's, else 4]",
        ),
    ] = None,
    deadline: Annotated[
        float, typer.Option(min=1, help="Seconds a request may take, including waiting.")
    ] = 300.0,
    draw_limit: Annotated[
        float | None,
        typer.Option(min=1, help="Seconds a worker may take for an image. [default: the deadline]"),
    ] = None,
    heartbeat: Annotated[
        float, typer.Option(min=1, help="Seconds of silence after which a worker counts as hung.")
    ] = 10.0,
    memory: Annotated[
        int, typer.Option(min=64, help="Megabytes that requests and their images may take in memory.")
    ] = 1000,
    drain: Annotated[
        float, typer.Option(min=0, help="Seconds to finish images in progress when the server stops.")
    ] = 30.0,
    ignore: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A parameter of requests to ignore. Repeatable."),
    ] = None,
    fixed: Annotated[
        bool, typer.Option("--fixed", help="Refuse requests for other steps, sizes and so on.")
    ] = False,
    engine: Annotated[
        str,
        typer.Option(metavar="process|ray", help="Draw in processes here, or in replicas on a Ray cluster."),
    ] = "process",
    replicas: Annotated[
        int, typer.Option(min=1, max=4096, help="With --engine ray: the number of copies.")
    ] = 1,
    max_replicas: Annotated[
        int | None,
        typer.Option(min=1, max=4096, help="With --engine ray: add copies up to N while images wait."),
    ] = None,
    replica_gpus: Annotated[
        float, typer.Option(min=0, help="With --engine ray: GPUs of each copy, or a fraction of one.")
    ] = 0.0,
    register: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file of addresses, which lists this server while it is ready."),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Its address in that file. [default: the address it listens on]"),
    ] = None,
) -> int:
    """Serve an image generator over HTTP, until Ctrl-C.

    It serves the API of the reference's services (/edit, /generate) and OpenAI's (/v1/images/generations,
    /v1/images/edits). The address is printed on standard output, requests are logged on standard error.
    """
    service_options.require_packages()
    from interleave.plugin import backends, parse_spec
    from interleave.service.generator.config import (
        Limits,
        ServerConfig,
        find_preset,
        parse_devices,
        visible_devices,
    )
    from interleave.service.generator.ray_replicas import RayReplicas
    from interleave.service.generator.server import serve
    from interleave.service.http.auth import check_public
    from interleave.service.http.memory import MEGABYTE

    chosen_name, chosen = find_preset(preset) if preset is not None else (None, None)
    spec = generator or (chosen.generator if chosen else None)
    if spec is None:
        raise ConfigurationError(
            "name what to serve: --generator SPEC, e.g. solid, or --preset NAME, e.g. klein"
        )
    parsed = parse_spec(spec)
    backends.require_backend(parsed, "generator")
    token = _token(token)
    check_public(host, token)
    workers = parse_devices(devices)
    for device in workers:
        visible_devices(device, os.environ)
    backends.look_for_model(parsed)
    ignored = service_options.ignored_parameters(ignore or [])
    names = filter(None, (name or _model_name(parsed), chosen_name))
    drawn_by = _on(engine, RayReplicas(spec, replicas, max_replicas, replica_gpus))
    config = ServerConfig(
        generator=drawn_by,
        models=tuple(dict.fromkeys(names)),
        host=host,
        port=port if port is not None else chosen.port if chosen else 8011,
        token=token,
        devices=tuple(workers),
        limits=Limits(
            queue=queue,
            batch=batch,
            deadline_seconds=deadline,
            drain_seconds=drain,
            draw_seconds=draw_limit,
            silence_seconds=heartbeat,
            memory_bytes=memory * MEGABYTE,
        ),
        ignored=ignored,
        fixed=fixed,
        register=register,
        address=address,
    )
    serve(config, _announce)
    return 0


def _on(where: str, replicas: RayReplicas) -> str:
    """Return the spec that the worker of the server loads."""
    from interleave.service.generator.ray_replicas import import_serve

    if where == "process":
        return replicas.generator
    if where != "ray":
        raise ConfigurationError(f"--engine {where}: process or ray")
    if replicas.most is not None and replicas.most < replicas.replicas:
        raise ConfigurationError("--max-replicas is less than --replicas")
    import_serve()
    return replicas.spec


def _announce(address: str) -> None:
    print(f"serving at {address}; the generator is being loaded (Ctrl-C ends it)", file=sys.stderr)
    print(address, flush=True)


def _token(given: str | None) -> str | None:
    from interleave.service.http.auth import TOKEN_VARIABLE

    token = given if given is not None else os.environ.get(TOKEN_VARIABLE)
    if token is None:
        return None
    if not token.strip() or not token.isascii() or not token.isprintable() or " " in token:
        raise ConfigurationError("the token must be printable ASCII without spaces, and not empty")
    if given is not None:
        print(
            f"interleave: --token shows in the list of processes: set {TOKEN_VARIABLE} instead",
            file=sys.stderr,
        )
    if len(token) < SHORT_TOKEN:
        print(
            f"interleave: a token of {len(token)} characters can be guessed; use {SHORT_TOKEN} or more",
            file=sys.stderr,
        )
    return token


def _model_name(spec: Spec) -> str:
    """Return the name that clients see: for a folder, the last part of its path."""
    if spec.model and spec.model.startswith(("/", ".")):
        return os.path.basename(os.path.abspath(spec.model))
    return spec.model or spec.name

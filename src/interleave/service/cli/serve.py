"""`interleave serve`: a generator, or whole documents, behind HTTP."""

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
        "interleave.service.cli.balancer:serve_balancer", "Balance several servers, by nginx."
    ),
    "keys": lazy_command("interleave.service.cli.documents:keys", "The API keys of a document service."),
}
app = typer.Typer(
    cls=lazy_group(lambda: COMMANDS),
    help="Serve a generator, or whole documents, over HTTP; balance several servers.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

SHORT_TOKEN = 16


@app.callback()
def _serve() -> None:
    """Serve a generator, or whole documents, over HTTP."""


def serve_generator(
    generator: options.GeneratorSpec = None,
    preset: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="One of the reference's services, by name or number, e.g. klein or 11."
        ),
    ] = None,
    host: Annotated[
        str, typer.Option(help="The address to listen on; any but this machine's own needs a token.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65535, help="The port; 0 for any free one. [default: the preset's, 8011]"),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(help="The bearer token that clients must send. Better: set INTERLEAVE_SERVER_TOKEN."),
    ] = None,
    devices: Annotated[
        str | None,
        typer.Option(metavar="0,1", help="One worker for each of these devices; 0+1 for one on two; or cpu."),
    ] = None,
    name: Annotated[
        str | None, typer.Option(help="What /v1/models calls the generator. [default: its model]")
    ] = None,
    queue: Annotated[int, typer.Option(min=1, max=100_000, help="The most images in the queue.")] = 100,
    batch: Annotated[
        int | None,
        typer.Option(
            min=1,
            max=4096,
            help="The most images per batch of a worker. [default: its generator's, else 4]",
        ),
    ] = None,
    deadline: Annotated[
        float, typer.Option(min=1, help="Seconds a request may take, waiting included.")
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
        typer.Option(metavar="NAME", help="A parameter to ignore when clients send it; may be repeated."),
    ] = None,
    fixed: Annotated[
        bool, typer.Option("--fixed", help="Refuse requests for other steps, sizes and so on.")
    ] = False,
    on: Annotated[
        str,
        typer.Option(
            metavar="process|ray", help="Where it draws: in processes here, or in replicas on a Ray cluster."
        ),
    ] = "process",
    replicas: Annotated[int, typer.Option(min=1, max=4096, help="With --on ray: how many copies.")] = 1,
    most_replicas: Annotated[
        int | None,
        typer.Option(min=1, max=4096, help="With --on ray: add copies up to so many while images wait."),
    ] = None,
    replica_gpus: Annotated[
        float, typer.Option(min=0, help="With --on ray: GPUs of each copy; parts of one are allowed.")
    ] = 0.0,
    register: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file of addresses that has the server's own while it can draw."),
    ] = None,
    address: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Its address in that file. [default: the one it listens on]"),
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
    drawn_by = _on(on, RayReplicas(spec, replicas, most_replicas, replica_gpus))
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
    """What the worker of the server loads."""
    from interleave.service.generator.ray_replicas import import_serve

    if where == "process":
        return replicas.generator
    if where != "ray":
        raise ConfigurationError(f"--on {where}: process or ray")
    if replicas.most is not None and replicas.most < replicas.replicas:
        raise ConfigurationError("--most-replicas is less than --replicas")
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
            f"interleave: a token of {len(token)} characters can be guessed; take {SHORT_TOKEN} or more",
            file=sys.stderr,
        )
    return token


def _model_name(spec: Spec) -> str:
    """The name that clients see: for a folder, its last part and not its whole path."""
    if spec.model and spec.model.startswith(("/", ".")):
        return os.path.basename(os.path.abspath(spec.model))
    return spec.model or spec.name

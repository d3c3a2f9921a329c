"""`interleave serve balancer`: one address for several generator servers."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer


def serve_balancer(
    servers: Annotated[Path, typer.Argument(metavar="FILE", help="Addresses of servers, one per line.")],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port.")] = 8080,
    server_port: Annotated[
        int, typer.Option(min=1, max=65535, help="The port of servers listed without one.")
    ] = 8011,
    nginx: Annotated[
        str | None,
        typer.Option(metavar="PROGRAM", help="The nginx program. [default: $NGINX, else nginx on the path]"),
    ] = None,
    show: Annotated[bool, typer.Option("--show", help="Print the nginx configuration and exit.")] = False,
) -> int:
    """Balance several generator servers behind one address, with nginx and without root, until Ctrl-C.

    The file is reloaded when it changes. 'interleave serve generator --register FILE' keeps it up to date.
    """
    from interleave.remote.endpoints import read_endpoints
    from interleave.service.generator.balancer import BalancerConfig, balance, site

    config = BalancerConfig(servers, host, port, server_port, nginx)
    if show:
        print(site(read_endpoints(servers, server_port), config.listen), end="")
        return 0
    balance(config, _announce)
    return 0


def _announce(address: str) -> None:
    print(f"balancing at {address} (Ctrl-C ends it)", file=sys.stderr)
    print(address, flush=True)

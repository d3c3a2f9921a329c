"""The MCP server over standard input and output, in front of a document service."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import anyio
import httpx2

from interleave.plugin import redaction
from interleave.service.mcp.api import Api, FindService
from interleave.service.mcp.local_service import LocalService
from interleave.service.mcp.server import build_server

KEY_VARIABLE = "INTERLEAVE_API_KEY"
EXPORTS = "exports"


@dataclass(frozen=True)
class StdioConfig:
    """Options of `interleave serve mcp`."""

    folder: Path
    arguments: tuple[str, ...]
    """Options of the service that is started for the folder."""
    wait_seconds: float
    url: str | None = None
    """Base URL of a document service; `None` for the one of the folder."""
    key: str | None = None


def serve_stdio(config: StdioConfig) -> None:
    """Serve one host until it closes standard input."""
    with redaction.redacted_logging("%(message)s"):
        anyio.run(_serve, config)


async def _serve(config: StdioConfig) -> None:
    headers = {"authorization": f"Bearer {config.key}"} if config.key else {}
    async with httpx2.AsyncClient(trust_env=config.url is not None) as http:
        local = LocalService(config.folder, config.arguments, http)
        api = Api(http, local.find if config.url is None else _at(config.url), headers=headers)
        exports = config.folder.parent / EXPORTS if config.url is None else None
        server = build_server(lambda _: api, wait_seconds=config.wait_seconds, exports=exports)
        async with anyio.create_task_group() as tasks:
            if config.url is None:
                tasks.start_soon(local.stay)
            await server.run_stdio_async()
            tasks.cancel_scope.cancel()


def _at(url: str) -> FindService:
    async def find() -> str:
        return url

    return find

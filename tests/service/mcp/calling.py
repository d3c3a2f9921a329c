"""MCP clients for tests: the SDK's own client, over HTTP or in this process."""

from __future__ import annotations

import base64
import io
import re
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import anyio
import httpx2
from mcp.client import Client
from mcp_types import CallToolResult
from PIL import Image
from running import Service

from interleave.service.mcp.api import Api
from interleave.service.mcp.server import build_server


def with_client(target: Any, work: Callable[[Client], Awaitable[Any]], **options: Any) -> Any:
    """Run `work` with a client of an MCP server: an address, a transport or a server object."""

    async def connected() -> Any:
        async with Client(target, **options) as client:
            return await work(client)

    with ThreadPoolExecutor(1) as thread:  # Playwright runs an event loop in the thread of a test
        return thread.submit(anyio.run, connected).result()


def impatient(running: Service, work: Callable[[Client], Awaitable[Any]], seconds: float = 0.3) -> Any:
    """Run `work` with a client of a server whose calls wait only so long for a document."""

    async def find() -> str:
        return running.url

    async def connected() -> Any:
        async with httpx2.AsyncClient(trust_env=False) as http:
            server = build_server(lambda _: Api(http, find), wait_seconds=seconds)
            async with Client(server) as client:
                return await work(client)

    return anyio.run(connected)


def call(running: Service, name: str, **arguments: Any) -> CallToolResult:
    """Call one tool at the service's own /mcp."""
    return with_client(f"{running.url}/mcp", lambda client: client.call_tool(name, arguments))  # type: ignore[no-any-return]


def texts(result: CallToolResult) -> str:
    return "\n".join(block.text for block in result.content if block.type == "text")


MARKDOWN_IMAGE = re.compile(r"^!\[([^\]]*)\]\(([^\s()]+)\)$", re.M)


def shown_in(result: CallToolResult) -> list[tuple[str, str]]:
    """Return the Markdown images of a result: alternative texts and addresses."""
    return MARKDOWN_IMAGE.findall(texts(result))


def kinds(result: CallToolResult) -> list[str]:
    return [block.type for block in result.content]


def id_in(result: CallToolResult) -> str:
    found = re.search(r"^document: (resp_[0-9a-f]{48})$", texts(result), re.MULTILINE)
    assert found, texts(result)
    return found[1]


def status_in(result: CallToolResult) -> str:
    found = re.search(r"^status: (\w+)$", texts(result), re.MULTILINE)
    assert found, texts(result)
    return found[1]


def images_in(result: CallToolResult) -> list[Image.Image]:
    found = [block for block in result.content if block.type == "image"]
    assert all(block.mime_type == "image/jpeg" for block in found)
    return [Image.open(io.BytesIO(base64.b64decode(block.data))) for block in found]

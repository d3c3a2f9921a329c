"""Documents and their files as resources: full images, the reading page and every export format."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable

from mcp.server.mcpserver import MCPServer
from mcp.server.mcpserver.exceptions import ResourceError, ResourceNotFoundError, ToolError
from mcp_types import Resource

from interleave.plugin import one_line, render
from interleave.service.mcp.api import DOCUMENTS, Api, current
from interleave.service.mcp.results import SCHEME, document_uri

LISTED = 50
MAX_BYTES = 24_000_000
"""Size of a file as a resource; larger ones are downloaded from the service."""
_ID = re.compile(r"resp_[0-9a-f]{48}\Z")
_IMAGE = re.compile(r"[0-9a-f]{64}\.png\Z")


class DocumentServer(MCPServer):
    """An MCP server that lists the newest documents among its resources."""

    async def list_resources(self) -> list[Resource]:
        listed = await current().json(DOCUMENTS, limit=LISTED)
        return [*await super().list_resources(), *map(_resource, listed["data"])]


def _resource(document: dict[str, str]) -> Resource:
    return Resource(
        uri=document_uri(document["id"]),
        name=one_line(document["title"], 100) or document["id"],
        description=f"Document, {document['status']}",
        mime_type="text/html",
    )


def add_resources(server: MCPServer) -> None:
    """Add the templates of the files of a document."""
    for name, each in render.known_formats().items():
        uri, title = f"{SCHEME}/{{id}}/document.{name}", f"Document as {each.title}"
        export = server.resource(uri, name=f"document.{name}", title=title, mime_type=each.media_type)
        export(_export(name, each.media_type))
    server.resource(f"{SCHEME}/{{id}}/images/{{name}}", name="image", mime_type="image/png")(_image)


def _export(name: str, media_type: str) -> Callable[[str], Awaitable[str | bytes]]:
    async def read(id: str) -> str | bytes:
        data = await _read(current(), id, f"document.{name}")
        return data.decode() if media_type.startswith("text/") else data

    return read


async def _image(id: str, name: str) -> bytes:
    if not _IMAGE.match(name):
        raise ResourceNotFoundError(f"no image {name[:80]!r}")
    return await _read(current(), id, f"pictures/{name}")


async def _read(api: Api, id_: str, name: str) -> bytes:
    if not _ID.match(id_):
        raise ResourceNotFoundError(f"no document {id_[:80]!r}")
    try:
        data = (await api.get(f"{DOCUMENTS}/{id_}/{name}")).content
    except ToolError as error:
        kind = ResourceNotFoundError if "not found" in str(error) else ResourceError
        raise kind(str(error)) from None
    if len(data) > MAX_BYTES:
        address = await api.public_url(f"{DOCUMENTS}/{id_}/{name}")
        raise ResourceError(f"{name} has {len(data):,} bytes, too many for a resource: it is at {address}")
    return data

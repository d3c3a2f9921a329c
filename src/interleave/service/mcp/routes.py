"""`/mcp` of the document service: the MCP server over streamable HTTP, without sessions.

Every request stands alone, so a restart of the service ends no session. The tools call this service's own
HTTP API at the address the request came to, with the key of the request.
"""

from __future__ import annotations

import asyncio
import importlib.util
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Depends
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.routes import ReadCall, Router, per_service, sending
from interleave.service.documents.service import Documents
from interleave.service.documents.shared_images import origin_of

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext

    from interleave.service.mcp.api import Api

PATH = "/mcp"
INSTALL = 'pip install "interleavethinker[mcp]"'


class MountedServer:
    """The MCP server of a document service, started by the first request."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self.manager: Any = None
        self._starting: asyncio.Future[None] | None = None
        self._stopping = asyncio.Event()

    async def ready(self) -> None:
        if self._starting is None:
            self._starting = asyncio.get_running_loop().create_future()
            self.documents.closing.append(self._stopping.set)
            task = asyncio.create_task(self._run(self._starting))
            self.documents.background.add(task)
            task.add_done_callback(self.documents.background.discard)
        await asyncio.shield(self._starting)

    async def _run(self, started: asyncio.Future[None]) -> None:
        import httpx2

        from interleave.service.mcp.server import build_server

        async with httpx2.AsyncClient(trust_env=False) as self.http:
            server = await asyncio.to_thread(build_server, self._api_of)
            server.streamable_http_app(stateless_http=True)
            self.manager = server.session_manager
            async with self.manager.run():
                started.set_result(None)
                await self._stopping.wait()

    def _api_of(self, ctx: ServerRequestContext[Any, Any]) -> Api:
        from interleave.service.mcp.api import HEADERS, Api

        request: Any = ctx.request
        host, port = request.scope["server"]
        own = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
        said = origin_of(request.url.scheme, request.headers.get("host", ""))

        async def find() -> str:
            return own

        given = {name: request.headers[name] for name in HEADERS if name in request.headers}
        return Api(self.http, find, headers=given, public=self.documents.settings.public_url or said)


class McpAnswer(Response):
    """The answer of the MCP server, which writes it itself."""

    def __init__(self, server: MountedServer) -> None:
        super().__init__()
        self.server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.server.manager.handle_request(scope, receive, send)


_mounted = per_service(MountedServer)
ROUTES = Router()


@ROUTES.post(PATH, response_class=sending("application/json"))
async def mcp(call: ReadCall, server: Annotated[MountedServer, Depends(_mounted)]) -> Response:
    """Call the MCP server, by streamable HTTP."""
    if importlib.util.find_spec("mcp") is None:
        raise ApiRefusal(f"the MCP server needs a package: {INSTALL}", status=501, code="not_installed")
    await server.ready()
    return McpAnswer(server)

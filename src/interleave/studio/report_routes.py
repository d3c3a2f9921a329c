"""The routes of reports: a listing for those who may read, and files for those who have a ticket."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from starlette.responses import Response

from interleave.plugin import files
from interleave.service.documents.keys import REPORTS
from interleave.service.documents.refusals import ApiRefusal, unknown
from interleave.service.documents.requests import caller_of, value_json
from interleave.service.documents.service import Documents
from interleave.service.http.middleware import LEASE
from interleave.studio.report_page import framed_page, report_policy
from interleave.studio.reports import ReportFolders

if TYPE_CHECKING:
    from starlette.requests import Request

FILE_ROUTE = REPORTS + "{ticket}/{path:path}"
MOST_BYTES = 200_000_000
COPIES = 3
"""Memory to prepare a page, in sizes of it."""


class ReportRoutes:
    """The handlers of `/v1/studio/reports`."""

    def __init__(
        self, documents: Documents, folders: ReportFolders, frame_ancestors: tuple[str, ...]
    ) -> None:
        self.documents = documents
        self.folders = folders
        self.headers = {
            "content-security-policy": report_policy(frame_ancestors),
            "cache-control": "private, no-cache",
            "referrer-policy": "no-referrer",
            "x-content-type-options": "nosniff",
        }

    async def listing(self, request: Request) -> Response:
        caller = caller_of(request)
        caller.require("read")
        if caller.is_guest:
            raise ApiRefusal("guests see no reports", status=403, code="insufficient_permissions")
        return value_json(await self.documents.in_thread(self.folders.listing))

    async def file(self, request: Request) -> Response:
        """A file of a folder; needs no key, since its ticket is signed."""
        ticket, path = request.path_params["ticket"], request.path_params["path"]
        found = await self.documents.in_thread(self.folders.file, ticket, path)
        if found is None:
            raise unknown("report", path)
        lease, loop = request.scope[LEASE], asyncio.get_running_loop()
        try:
            size = found.path.stat().st_size
            await lease.reserve(COPIES * min(size, MOST_BYTES), loop.time() + 60)
            data = await self.documents.in_thread(lambda: files.read_bytes(found.path, most_bytes=MOST_BYTES))
        except OSError:
            raise unknown("report", path) from None
        body = await self.documents.in_thread(framed_page, data) if found.is_page else data
        lease.keep(len(body))
        return Response(body, headers=self.headers, media_type=found.media_type)

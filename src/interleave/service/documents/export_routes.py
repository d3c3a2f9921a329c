"""Exported files of a document: one route for each format, also for those of other packages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends
from starlette.responses import Response

from interleave.plugin import ImageStore, render, runs, slug
from interleave.service.documents.document_routes import Run, SeenRun
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.routes import Lease, Router, per_service
from interleave.service.documents.service import Documents
from interleave.service.http.memory import MemoryLease

PAGE_POLICY = "default-src 'none'; img-src data: 'self'; style-src 'unsafe-inline'; sandbox allow-popups"
MAX_CONCURRENT_RENDERS = 2
RENDER_COPIES = 4
"""Memory for rendering a page or an archive, as a multiple of the size of its images."""


class Renderer:
    """Renders files within the memory budget and with limited concurrency."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self._rendering = asyncio.Semaphore(MAX_CONCURRENT_RENDERS)

    async def exported(
        self, lease: MemoryLease, run: Run, name: str, options: render.ExportOptions
    ) -> render.Exported:
        folder, record = self.documents.folders.run(run.job.id), run.started
        paths = [ImageStore(folder).path(name) for name in runs.image_names(record)]
        sizes = [path.stat().st_size for path in paths if path.exists()]
        await lease.reserve(RENDER_COPIES * sum(sizes), asyncio.get_running_loop().time() + 60)
        async with self._rendering:
            made = await self.documents.in_thread(render.export_run, folder, record, name, options)
        lease.keep(len(made.data))
        return made


OwnRenderer = Annotated[Renderer, Depends(per_service(Renderer))]


def router() -> Router:
    """Return the routes of all known formats."""
    made = Router()
    for each in render.known_formats().values():
        made.get(
            f"/v1/documents/{{id}}/document.{each.name}",
            summary=f"Get the document as {each.title}",
            response_class=type("ExportResponse", (Response,), {"media_type": each.media_type}),
        )(_export(each))
    return made


def _export(wanted: render.Format) -> Callable[..., Awaitable[Response]]:
    """Return the handler that sends a document in this format."""

    async def export(
        renderer: OwnRenderer,
        lease: Lease,
        run: SeenRun,
        download: str | None = None,
        paper: render.Paper = "a4",
        layout: render.PageLayout = "print",
    ) -> Response:
        if wanted.missing is not None:
            message = f"{wanted.title} files need a package that is not installed: {wanted.missing}"
            raise ApiRefusal(message, status=501, code="not_installed")
        options = render.ExportOptions(paper=paper, layout=layout)
        made = await renderer.exported(lease, run, wanted.name, options)
        headers = {}
        if made.missing_characters:
            headers["x-interleave-missing-characters"] = str(len(made.missing_characters))
        if wanted.name == "html":
            headers |= {"content-security-policy": PAGE_POLICY, "referrer-policy": "no-referrer"}
        if wanted.name != "html" or download is not None:
            file = f"{slug(run.started.title) or run.job.id}.{wanted.name}"
            headers["content-disposition"] = f'attachment; filename="{file}"'
        kind = f"{wanted.media_type}; charset=utf-8" if wanted.name == "html" else wanted.media_type
        return Response(made.data, headers=headers, media_type=kind)

    return export

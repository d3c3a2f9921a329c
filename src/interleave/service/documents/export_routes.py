"""Exported files of a document: one route for each format, also for those of other packages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Annotated

from fastapi import Depends
from starlette.responses import Response

from interleave import ConfigurationError, InputError, RunError
from interleave.plugin import render, runs, slug
from interleave.service.documents.document_routes import SeenRun
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.routes import Router, per_service, sending

PAGE_POLICY = "default-src 'none'; img-src data: 'self'; style-src 'unsafe-inline'; sandbox allow-popups"
MAX_CONCURRENT_RENDERS = 2
RENDER_COPIES = 4
"""Memory for rendering a page or an archive, as a multiple of the size of its images."""


_rendering = per_service(lambda documents: asyncio.Semaphore(MAX_CONCURRENT_RENDERS))


def router() -> Router:
    """Return the routes of all known formats."""
    made = Router()
    for each in render.known_formats().values():
        made.get(
            f"/v1/documents/{{id}}/document.{each.name}",
            summary=f"Get the document as {each.title}",
            response_class=sending(each.media_type),
        )(_export(each))
    return made


def _export(wanted: render.Format) -> Callable[..., Awaitable[Response]]:
    """Return the handler that sends a document in this format."""

    async def export(
        rendering: Annotated[asyncio.Semaphore, Depends(_rendering)],
        run: SeenRun,
        download: str | None = None,
        paper: str = "",
        layout: render.PageLayout = "print",
        details: bool = False,
    ) -> Response:
        call, job, record = run.call, run.job, run.started
        if wanted.missing is not None:
            message = f"{wanted.title} files need a package that is not installed: {wanted.missing}"
            raise ApiRefusal(message, status=501, code="not_installed")
        options = render.ExportOptions(paper=paper, layout=layout, details=details)
        store, size = call.images(job), 0
        for name in runs.image_names(record):
            with suppress(RunError):
                size += store.bytes_of(name)
        await call.lease.reserve(RENDER_COPIES * size, asyncio.get_running_loop().time() + 60)
        async with rendering:
            folder = call.documents.folders.run(job.id)
            try:
                made: render.Exported = await call.documents.in_thread(
                    render.export_run, folder, record, wanted.name, options
                )
            except (ConfigurationError, InputError) as error:  # an unknown paper, a character without a font
                raise ApiRefusal(str(error)) from None
        call.lease.keep(len(made.data))
        headers: dict[str, str] = {}
        if wanted.name == "html":
            headers |= {"content-security-policy": PAGE_POLICY, "referrer-policy": "no-referrer"}
        if wanted.name != "html" or download is not None:
            file = f"{slug(record.title) or job.id}.{wanted.suffix or wanted.name}"
            headers["content-disposition"] = f'attachment; filename="{file}"'
        kind = f"{wanted.media_type}; charset=utf-8" if wanted.name == "html" else wanted.media_type
        return Response(made.data, headers=headers, media_type=kind)

    return export

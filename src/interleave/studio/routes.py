"""The routes that the studio adds to the document service."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from interleave.service.documents.routes import Router
from interleave.studio import credentials, gallery, label_routes, library, queue, reading, request_check
from interleave.studio.page import PageFile, page_router
from interleave.studio.report_routes import report_router

NAME = "studio"
"""Name of the entry point."""


def studio_routes(page: PageFile | None = None, reports: Sequence[Path] = ()) -> Router:
    """Return all routes with this page. `reports` are folders whose reports are listed."""
    page = page or PageFile()
    router = Router()
    for each in (
        page_router(page),
        gallery.router,
        library.router,
        credentials.router,
        reading.router,
        request_check.router,
        report_router(reports, page.frame_ancestors),
        queue.router,
        label_routes.router,
    ):
        router.routes.extend(each.routes)
    return router


ROUTES = studio_routes()

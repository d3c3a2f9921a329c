"""The routes that the studio adds to the document service, with their handlers."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import get_args

from interleave.bench.labels import Kind
from interleave.service.documents.keys import KeyAccess
from interleave.service.documents.openapi import LIMIT, TEXT
from interleave.service.documents.routes import Handler, Key, Route, RouteSet
from interleave.service.documents.schemas import Nothing
from interleave.service.documents.service import Documents
from interleave.studio import label_schemas as judging
from interleave.studio import schemas as wire
from interleave.studio.gallery import GalleryRoutes
from interleave.studio.indexing import Indexing
from interleave.studio.label_routes import JudgingRoutes
from interleave.studio.page import PageFile, PageRoutes
from interleave.studio.queue import QueueRoutes
from interleave.studio.report_routes import FILE_ROUTE, ReportRoutes
from interleave.studio.reports import ReportFolders
from interleave.studio.thumbnails import SIDES

NAME = "studio"
"""Name of the entry point."""
_JSONL = "application/jsonl"
_RATER = ("rater", TEXT)
_KIND = ("kind", {"type": "string", "enum": [each.value for each in Kind]})
_SEARCH = (
    ("q", TEXT),
    ("profile", TEXT),
    ("outcome", {"type": "string", "enum": list(get_args(wire.Outcome))}),
    ("since", TEXT),
    ("until", TEXT),
    ("order", {"type": "string", "enum": ["newest", "oldest"]}),
    LIMIT,
    ("cursor", TEXT),
)
DESCRIBED: dict[Key, Route] = {
    ("GET", "/"): Route("The studio's page", "text/html", is_open=True),
    ("GET", "/v1/documents/{id}/thumbnails/{name}"): Route(
        "A thumbnail of an image",
        "image/webp",
        query=(("side", {"type": "integer", "enum": list(SIDES)}),),
    ),
    ("GET", "/v1/studio/start"): Route("Features and settings of the studio", wire.Start, is_open=True),
    ("POST", "/v1/studio/session"): Route("Start a session with the key of this request, in a cookie"),
    ("DELETE", "/v1/studio/session"): Route("End the session"),
    ("GET", "/v1/studio/documents"): Route("Search the gallery", wire.Gallery, query=_SEARCH),
    ("GET", "/v1/studio/reports"): Route("Reports under the studio's folders", wire.Reports),
    ("GET", FILE_ROUTE): Route("A file of a report folder", "text/html", is_open=True),
    ("GET", "/v1/studio/queue"): Route("The queue", wire.Queue),
    ("POST", "/v1/studio/queue/pause"): Route("Pause the queue", wire.Queue, Nothing),
    ("POST", "/v1/studio/queue/resume"): Route("Resume the queue", wire.Queue, Nothing),
    ("POST", "/v1/studio/queue/{id}/move"): Route("Move a document in the queue", wire.Queue, wire.Move),
    ("POST", "/v1/studio/queue/retry-failed"): Route("Retry all failed documents", wire.Retried, Nothing),
    ("GET", "/v1/studio/documents/{id}/related"): Route(
        "Documents to compare this one with", judging.Related
    ),
    ("GET", "/v1/studio/judging/{task}"): Route(
        "Items that a rater has not judged",
        judging.JudgeItems,
        query=(_RATER, ("runs", TEXT), ("unit", TEXT), LIMIT, ("cursor", TEXT)),
    ),
    ("GET", "/v1/studio/labels"): Route(
        "Labels of a rater, newest first",
        judging.RunLabels,
        query=(_RATER, _KIND, ("runs", TEXT), LIMIT, ("cursor", TEXT)),
    ),
    ("POST", "/v1/studio/labels"): Route("Store labels", judging.StoredLabels, judging.NewLabels),
    ("POST", "/v1/studio/labels/undo"): Route(
        "Undo a rater's last labels", judging.UndoneLabels, judging.Undo
    ),
    ("POST", "/v1/studio/labels/reveal"): Route(
        "Record that a rater knows the systems behind these documents", None, judging.Reveal
    ),
    ("GET", "/v1/studio/labels/export"): Route("Export labels", _JSONL, query=(_RATER, _KIND)),
    ("POST", "/v1/studio/labels/import"): Route("Import labels", judging.StoredLabels, _JSONL),
    ("GET", "/v1/studio/agreement"): Route("Agreement of raters", judging.AgreementFacts),
}


def handlers(
    documents: Documents, access: KeyAccess, page: PageFile, reports: Sequence[Path]
) -> dict[Key, Handler]:
    """Return the handler of each route."""
    pages, indexing = PageRoutes(documents, access, page), Indexing(documents)
    gallery, queue = GalleryRoutes(documents, indexing), QueueRoutes(documents, indexing)
    shown = ReportRoutes(documents, ReportFolders(reports, documents.folders.root), page.frame_ancestors)
    judging = JudgingRoutes(documents, indexing)
    return {
        ("GET", "/"): pages.show,
        ("GET", "/v1/studio/start"): pages.start,
        ("POST", "/v1/studio/session"): pages.sign_in,
        ("DELETE", "/v1/studio/session"): pages.sign_out,
        ("GET", "/v1/studio/documents"): gallery.listing,
        ("GET", "/v1/documents/{id}/thumbnails/{name}"): gallery.thumbnail,
        ("GET", "/v1/studio/reports"): shown.listing,
        ("GET", FILE_ROUTE): shown.file,
        ("GET", "/v1/studio/queue"): queue.show,
        ("POST", "/v1/studio/queue/pause"): queue.pause,
        ("POST", "/v1/studio/queue/resume"): queue.resume,
        ("POST", "/v1/studio/queue/{id}/move"): queue.move,
        ("POST", "/v1/studio/queue/retry-failed"): queue.retry_failed,
        ("GET", "/v1/studio/documents/{id}/related"): gallery.related,
        ("GET", "/v1/studio/judging/{task}"): judging.items,
        ("GET", "/v1/studio/labels"): judging.listing,
        ("POST", "/v1/studio/labels"): judging.add,
        ("POST", "/v1/studio/labels/undo"): judging.undo,
        ("POST", "/v1/studio/labels/reveal"): judging.reveal,
        ("GET", "/v1/studio/labels/export"): judging.export,
        ("POST", "/v1/studio/labels/import"): judging.take_in,
        ("GET", "/v1/studio/agreement"): judging.agreement,
    }


def studio_routes(page: PageFile | None = None, reports: Sequence[Path] = ()) -> RouteSet:
    """Return all routes with this page. `reports` are folders whose reports are listed."""
    made = partial(handlers, page=page or PageFile(), reports=reports)
    return RouteSet(DESCRIBED, made, may_lack=frozenset({"Subject"}))


ROUTES = studio_routes()

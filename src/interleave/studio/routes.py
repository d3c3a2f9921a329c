"""The routes of the studio, as it adds them to the document service: what they are, and who answers."""

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
"""Of the entry point."""
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
        "A small copy of an image",
        "image/webp",
        query=(("side", {"type": "integer", "enum": list(SIDES)}),),
    ),
    ("GET", "/v1/studio/start"): Route("What the studio can do here", wire.Start, is_open=True),
    ("POST", "/v1/studio/session"): Route("Keep the key of this request in a cookie"),
    ("DELETE", "/v1/studio/session"): Route("Forget the key"),
    ("GET", "/v1/studio/documents"): Route("The gallery, searched", wire.Gallery, query=_SEARCH),
    ("GET", "/v1/studio/reports"): Route("The reports under the studio's folders", wire.Reports),
    ("GET", FILE_ROUTE): Route("A file of a folder of reports", "text/html", is_open=True),
    ("GET", "/v1/studio/queue"): Route("The queue", wire.Queue),
    ("POST", "/v1/studio/queue/pause"): Route("Start nothing more", wire.Queue, Nothing),
    ("POST", "/v1/studio/queue/resume"): Route("Start again what waits", wire.Queue, Nothing),
    ("POST", "/v1/studio/queue/{id}/move"): Route("Another place in the queue", wire.Queue, wire.Move),
    ("POST", "/v1/studio/queue/retry-failed"): Route("Go on with all that failed", wire.Retried, Nothing),
    ("GET", "/v1/studio/documents/{id}/related"): Route(
        "What a document can be compared with", judging.Related
    ),
    ("GET", "/v1/studio/judging/{task}"): Route(
        "What a rater has not judged yet",
        judging.JudgeItems,
        query=(_RATER, ("runs", TEXT), ("unit", TEXT), LIMIT, ("cursor", TEXT)),
    ),
    ("GET", "/v1/studio/labels"): Route(
        "The labels of a rater, the newest first",
        judging.RunLabels,
        query=(_RATER, _KIND, ("runs", TEXT), LIMIT, ("cursor", TEXT)),
    ),
    ("POST", "/v1/studio/labels"): Route("Store labels", judging.StoredLabels, judging.NewLabels),
    ("POST", "/v1/studio/labels/undo"): Route(
        "Take back what a rater said last", judging.UndoneLabels, judging.Undo
    ),
    ("POST", "/v1/studio/labels/reveal"): Route(
        "Note that a rater knows which systems drew these documents", None, judging.Reveal
    ),
    ("GET", "/v1/studio/labels/export"): Route("Labels as a file", _JSONL, query=(_RATER, _KIND)),
    ("POST", "/v1/studio/labels/import"): Route("Labels from a file", judging.StoredLabels, _JSONL),
    ("GET", "/v1/studio/agreement"): Route("How far raters agree", judging.AgreementFacts),
}


def handlers(
    documents: Documents, access: KeyAccess, page: PageFile, reports: Sequence[Path]
) -> dict[Key, Handler]:
    """The handler of each."""
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
    """All routes, with this page; `reports` are folders whose reports are shown."""
    made = partial(handlers, page=page or PageFile(), reports=reports)
    return RouteSet(DESCRIBED, made, may_lack=frozenset({"Subject"}))


ROUTES = studio_routes()

"""What is done with several documents of the library at once: delete, restore, export."""

from __future__ import annotations

import asyncio
import io
import zipfile
from pathlib import Path
from typing import Annotated

from fastapi import Query
from starlette.responses import Response

from interleave import RunError, RunRecord
from interleave.plugin import render, runs, slug
from interleave.service.documents.bodies import json_body
from interleave.service.documents.document_routes import SeenJob
from interleave.service.documents.jobs import Job
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.routes import (
    ReadCall,
    RequestContext,
    Router,
    SubmitCall,
    sending,
    value_json,
)
from interleave.studio.indexing import Indexing, OwnIndexing
from interleave.studio.schemas import Chosen, Deletion, Done
from interleave.studio.share_page import index_page

MOST_EXPORTED = 60
WEB = "web"
"""The format of a folder that any web server serves: a page for each document, and one that leads to them."""
COPIES = 4
"""Memory for an export, as a multiple of the size of its images."""
router = Router(prefix="/v1/studio")


@router.post("/delete", response_model=Done)
async def delete(
    call: SubmitCall, indexing: OwnIndexing, body: Annotated[Chosen, json_body(Chosen)]
) -> Response:
    """Delete documents. They can be restored for a week; open ones are stopped."""
    jobs = await _seen(call, body.ids)
    for job in jobs:
        if not job.is_final:
            await call.documents.cancel(call.caller, job.id)
        await call.documents.in_thread(indexing.trash.put, job.id)
    await _remove_expired(call, indexing)
    return await _indexed(indexing, jobs)


@router.post("/restore", response_model=Done)
async def restore(
    call: SubmitCall, indexing: OwnIndexing, body: Annotated[Chosen, json_body(Chosen)]
) -> Response:
    """Restore deleted documents."""
    jobs = await _seen(call, body.ids)
    for job in jobs:
        await call.documents.in_thread(indexing.trash.take_back, job.id)
    return await _indexed(indexing, jobs)


@router.get("/documents/{id}/deletion", response_model=Deletion)
async def deletion(call: ReadCall, indexing: OwnIndexing, job: SeenJob) -> Response:
    """Whether a document was deleted in the library. Until it is removed, it can be read by its address."""
    return value_json(Deletion(deleted=await call.documents.in_thread(indexing.trash.has, job.id)))


async def _indexed(indexing: Indexing, jobs: list[Job]) -> Response:
    await indexing.put_again([job.id for job in jobs])
    return value_json(Done(ids=[job.id for job in jobs]))


async def _remove_expired(call: RequestContext, indexing: Indexing) -> None:
    for id_ in await call.documents.in_thread(indexing.trash.expired):
        await call.documents.remove_job(id_)
        await call.documents.in_thread(indexing.trash.take_back, id_)


async def _seen(call: RequestContext, ids: list[str]) -> list[Job]:
    """Return the documents that exist and that the caller may see."""
    found = []
    for id_ in dict.fromkeys(ids):
        try:
            found.append(await call.documents.find(call.caller, id_))
        except ApiRefusal:
            continue
    return found


@router.get("/export", response_class=sending("application/zip"))
async def export(
    call: ReadCall, ids: Annotated[str, Query(max_length=10_000)], format: str = WEB
) -> Response:
    """Get several documents in one archive; in the format `web`, as a folder for any web server."""
    wanted = render.known_formats().get("html" if format == WEB else format)
    if wanted is None:
        known = ", ".join([WEB, *render.known_formats()])
        raise ApiRefusal(f"format must be one of {known}", parameter="format")
    if wanted.missing is not None:
        message = f"{wanted.title} files need a package that is not installed: {wanted.missing}"
        raise ApiRefusal(message, status=501, code="not_installed")
    jobs = (await _seen(call, ids.split(",")))[:MOST_EXPORTED]
    size = await call.documents.in_thread(_bytes_of, call, jobs)
    await call.lease.reserve(size * COPIES, asyncio.get_running_loop().time() + 60)
    data = await call.documents.in_thread(_archive, call, jobs, wanted, format == WEB)
    call.lease.keep(len(data))
    headers = {"content-disposition": 'attachment; filename="documents.zip"'}
    return Response(data, headers=headers, media_type="application/zip")


def _bytes_of(call: RequestContext, jobs: list[Job]) -> int:
    folders = (call.documents.folders.run(job.id) / runs.IMAGES_FOLDER for job in jobs)
    return sum(path.stat().st_size for folder in folders if folder.is_dir() for path in folder.iterdir())


def _archive(call: RequestContext, jobs: list[Job], wanted: render.Format, for_web: bool) -> bytes:
    buffer = io.BytesIO()
    pages: list[tuple[str, RunRecord, Path]] = []
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for job in jobs:
            folder = call.documents.folders.run(job.id)
            try:
                record = call.documents.record(job)
            except RunError:
                continue
            if record is None or not record.steps:
                continue
            name = f"{len(pages) + 1:02d}-{slug(record.title) or 'document'}.{wanted.suffix or wanted.name}"
            pages.append((name, record, folder))
            only = for_web and len(jobs) == 1
            made = render.export_run(folder, record, wanted.name, render.ExportOptions())
            archive.writestr("index.html" if only else name, made.data)
        if not pages:
            raise ApiRefusal("none of these documents has images to export", parameter="ids")
        if for_web and len(jobs) > 1:
            archive.writestr("index.html", index_page(pages))
    return buffer.getvalue()

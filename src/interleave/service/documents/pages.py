"""`/v1/documents`: a job as a document to read, with its plan, attempts, verdicts and pictures."""

from __future__ import annotations

import asyncio
import io
import zipfile
from typing import TYPE_CHECKING, Any

from starlette.responses import Response

from interleave.render.html import render_document
from interleave.render.markdown import FILE_NAME as MARKDOWN_NAME
from interleave.render.markdown import render_markdown
from interleave.runs.folder import DOCUMENT_NAME
from interleave.runs.record import RunRecord, picture_names
from interleave.runs.store import FOLDER, PictureStore
from interleave.service.documents.events import JournalFold
from interleave.service.documents.facts import DOCUMENTS, facts_of, picture_url
from interleave.service.documents.jobs import Job
from interleave.service.documents.refusals import ApiRefusal, unknown
from interleave.service.documents.requests import caller_of, event_number, plain_json
from interleave.service.documents.service import Documents
from interleave.service.documents.shared_pictures import PREFIX as SIGNED_PATHS
from interleave.service.documents.shared_pictures import shared_picture
from interleave.service.documents.streams import EventStream
from interleave.service.middleware import LEASE

if TYPE_CHECKING:
    from starlette.requests import Request

PAGE_POLICY = "default-src 'none'; img-src data: 'self'; style-src 'unsafe-inline'; sandbox allow-popups"
KEPT_FOR_EVER = "private, max-age=31536000, immutable"
"""A picture is named by its content: what is behind its address never changes."""
RENDERED_AT_ONCE = 2
MAX_LISTED = 100
RENDER_COPIES = 4
"""Memory to render a page or an archive, in sizes of its pictures."""


class DocumentRoutes:
    """The handlers of `/v1/documents`."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self._rendering = asyncio.Semaphore(RENDERED_AT_ONCE)

    async def listing(self, request: Request) -> Response:
        """The newest jobs; `after` is the id of the last one that the client has."""
        limit = _limit(request.query_params.get("limit", "20"))
        jobs = await self.documents.newest(
            caller_of(request), limit=limit + 1, before=request.query_params.get("after")
        )
        shown = [_summary(job) for job in jobs[:limit]]
        return plain_json({"object": "list", "data": shown, "has_more": len(jobs) > limit})

    async def document(self, request: Request) -> Response:
        job, record = await self._job(request)
        facts = facts_of(job, record)
        given = [
            {"text": part.text} if part.image is None else {"picture": _given(job, record, part.image)}
            for part in (record.request if record else job.parts)
        ]
        links = {name: f"{DOCUMENTS}/{job.id}/{name}" for name in _FORMATS} if record else {}
        return plain_json({**_summary(job), **facts, "request": given, "links": links})

    async def plan(self, request: Request) -> Response:
        job, record = await self._job(request)
        if record is None or record.plan is None:
            raise ApiRefusal(f"the job {job.id} has no plan yet", status=404, code="not_ready")
        return plain_json(record.plan.model_dump(mode="json"))

    async def steps(self, request: Request) -> Response:
        job, record = await self._job(request)
        return plain_json({"object": "list", "data": facts_of(job, record).get("steps", [])})

    async def events(self, request: Request) -> Response:
        """The lines of the journal as server-sent events."""
        job = await self.documents.get(caller_of(request), request.path_params["id"])
        return EventStream(
            self.documents.events(job, kind=JournalFold, after=event_number(request)),
            PictureStore(self.documents.folders.run(job.id)),
            request.scope[LEASE],
        )

    async def html(self, request: Request) -> Response:
        job, record = await self._started(request)
        folder = self.documents.folders.run(job.id)
        page = await self._render(request, job, record, lambda: render_document(folder, record).encode())
        headers = {"content-security-policy": PAGE_POLICY, "referrer-policy": "no-referrer"}
        return Response(page, headers=headers, media_type="text/html; charset=utf-8")

    async def markdown(self, request: Request) -> Response:
        """The Markdown; its pictures are links to their addresses here."""
        job, record = await self._started(request)
        text = render_markdown(record).replace(f"]({FOLDER}/", f"]({picture_url(job.id, '')}")
        return Response(text.encode(), media_type="text/markdown; charset=utf-8")

    async def archive(self, request: Request) -> Response:
        """A ZIP of the page, the Markdown, the record and all pictures."""
        job, record = await self._started(request)
        data = await self._render(request, job, record, lambda: self._zip(job, record))
        headers = {"content-disposition": f'attachment; filename="{job.id}.zip"'}
        return Response(data, headers=headers, media_type="application/zip")

    async def picture(self, request: Request) -> Response:
        """A picture of a job, by the hash of its content."""
        job, record = await self._job(request)
        name = request.path_params["name"]
        if record is None or name not in picture_names(record):
            raise unknown("picture", name)
        return await self._picture(request, job.id, name)

    async def shared(self, request: Request) -> Response:
        """A picture at an address that is signed: no key is needed."""
        id_, signature, name = (request.path_params[field] for field in ("id", "signature", "name"))
        picture = shared_picture(f"{SIGNED_PATHS}{id_}/{signature}/{name}")
        if picture is None or not self.documents.addresses.allows(picture):
            raise unknown("picture", name)
        if await self.documents.jobs.get(picture.job) is None:  # deleted
            raise unknown("picture", name)
        return await self._picture(request, picture.job, picture.name)

    async def _picture(self, request: Request, job: str, name: str) -> Response:
        path = PictureStore(self.documents.folders.run(job)).path(name)
        try:
            data = await self.documents.in_thread(path.read_bytes)
        except OSError:
            raise unknown("picture", name) from None
        request.scope[LEASE].keep(len(data))
        headers = {
            "cache-control": KEPT_FOR_EVER,
            "etag": f'"{name.removesuffix(".png")}"',
            "content-security-policy": "default-src 'none'; sandbox",
        }
        return Response(data, headers=headers, media_type="image/png")

    async def _job(self, request: Request) -> tuple[Job, RunRecord | None]:
        job = await self.documents.get(caller_of(request), request.path_params["id"])
        return job, await self.documents.in_thread(self.documents.record, job)

    async def _started(self, request: Request) -> tuple[Job, RunRecord]:
        job, record = await self._job(request)
        if record is None:
            raise ApiRefusal(f"the job {job.id} has not started yet", status=404, code="not_ready")
        return job, record

    async def _render(self, request: Request, job: Job, record: RunRecord, work: Any) -> bytes:
        """A page or archive, within the memory budget and a few at a time."""
        store = PictureStore(self.documents.folders.run(job.id))
        sizes = [path.stat().st_size for name in picture_names(record) if (path := store.path(name)).exists()]
        lease, loop = request.scope[LEASE], asyncio.get_running_loop()
        await lease.reserve(RENDER_COPIES * sum(sizes), loop.time() + 60)
        async with self._rendering:
            data: bytes = await self.documents.in_thread(work)
        lease.keep(len(data))
        return data

    def _zip(self, job: Job, record: RunRecord) -> bytes:
        folder = self.documents.folders.run(job.id)
        store, buffer = PictureStore(folder), io.BytesIO()
        with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr(DOCUMENT_NAME, render_document(folder, record))
            archive.writestr(MARKDOWN_NAME, render_markdown(record))
            archive.writestr("run.json", record.model_dump_json(indent=1))
            for name in picture_names(record):
                if store.path(name).exists():  # PNG files are compressed already
                    archive.writestr(
                        f"{FOLDER}/{name}", store.path(name).read_bytes(), compress_type=zipfile.ZIP_STORED
                    )
        return buffer.getvalue()


_FORMATS = ("plan", "steps", "events", "document.html", "document.md", "document.zip")


def _summary(job: Job) -> dict[str, Any]:
    return {
        "id": job.id,
        "object": "document",
        "status": job.status,
        "created_at": int(job.created),
        "finished_at": int(job.finished) if job.finished is not None else None,
        "title": next((part.text for part in job.parts if part.text), "")[:200],
        "error": job.error.model_dump() if job.error else None,
        "metadata": job.metadata or {},
        "previous_response_id": job.previous,
    }


def _given(job: Job, record: RunRecord | None, name: str) -> str | None:
    return picture_url(job.id, name) if record else None


def _limit(text: str) -> int:
    if not text.isascii() or not text.isdigit() or not 1 <= int(text[:9]) <= MAX_LISTED:
        raise ApiRefusal(f"limit must be a number from 1 to {MAX_LISTED}", parameter="limit")
    return int(text)

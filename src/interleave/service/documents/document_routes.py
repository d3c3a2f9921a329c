"""`/v1/documents`: a job as a document, with its plan, attempts, verdicts and images."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast, get_args

from starlette.responses import Response

from interleave import RunError, RunRecord
from interleave.plugin import config, journal, render, runs, slug
from interleave.service.documents.calls import calls_in
from interleave.service.documents.events import JournalFold
from interleave.service.documents.jobs import Job
from interleave.service.documents.refusals import ApiRefusal, unknown
from interleave.service.documents.response_json import DOCUMENTS, image_url, job_details
from interleave.service.documents.routes import caller_of, event_number, number_in, plain_json, value_json
from interleave.service.documents.service import Documents, suggestions_for
from interleave.service.documents.shared_images import PREFIX as SIGNED_PATHS
from interleave.service.documents.shared_images import shared_image
from interleave.service.documents.streams import EventStream
from interleave.service.http.middleware import LEASE

if TYPE_CHECKING:
    from starlette.requests import Request

PAGE_POLICY = "default-src 'none'; img-src data: 'self'; style-src 'unsafe-inline'; sandbox allow-popups"
IMMUTABLE = "private, max-age=31536000, immutable"
"""Cache policy of images: an address contains the content hash, so its image never changes."""
MAX_CONCURRENT_RENDERS = 2
MAX_LISTED = 100
RENDER_COPIES = 4
"""Memory for rendering a page or an archive, as a multiple of the size of its images."""


class DocumentRoutes:
    """Handlers of `/v1/documents`."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self._rendering = asyncio.Semaphore(MAX_CONCURRENT_RENDERS)

    async def listing(self, request: Request) -> Response:
        """List the newest jobs; `after` is the id of the client's last one."""
        limit = number_in(request, "limit", 20, MAX_LISTED)
        jobs = await self.documents.newest(
            caller_of(request), limit=limit + 1, before=request.query_params.get("after")
        )
        shown = [_summary(job) for job in jobs[:limit]]
        return plain_json({"object": "list", "data": shown, "has_more": len(jobs) > limit})

    async def document(self, request: Request) -> Response:
        job, record = await self._job(request)
        details = job_details(job, record)
        given = [
            {"text": part.text} if part.image is None else {"picture": _given(job, record, part.image)}
            for part in (record.request if record else job.parts)
        ]
        links = {name: f"{DOCUMENTS}/{job.id}/{name}" for name in _parts()} if record else {}
        more = {
            "profile": self.documents.profile_of(job),
            "command": command_line(job, record, self._named_profile(job)),
            "request": given,
            "links": links,
        }
        return plain_json({**_summary(job), **details, **more, "error": await self._error(job)})

    def _named_profile(self, job: Job) -> str | None:
        """Return the profile of a job if it selects the same models again; `None` otherwise."""
        offer = self.documents.model_cache.offer_of(job.config)
        return offer.chosen.profile if offer and offer.is_whole_profile else None

    async def _error(self, job: Job) -> dict[str, Any] | None:
        """Return why a job failed; for an invalid request, with the nearest valid ones."""
        if job.error is None or job.error.code != "invalid_prompt":
            return job.error.model_dump() if job.error else None
        said = "\n".join(part.text for part in job.parts if part.text)
        nearest = await self.documents.in_thread(suggestions_for, said, job.config.planner)
        return {**job.error.model_dump(), "nearest": nearest}

    async def calls(self, request: Request) -> Response:
        """Return every model call with its reply, in order."""
        job, record = await self._job(request)
        folder = self.documents.folders.run(job.id)
        entries = await self.documents.in_thread(journal.read_journal, folder) if record else []
        return value_json(calls_in(entries, lambda name: image_url(job.id, name)))

    async def plan(self, request: Request) -> Response:
        job, record = await self._job(request)
        if record is None or record.plan is None:
            raise ApiRefusal(f"the job {job.id} has no plan yet", status=404, code="not_ready")
        return plain_json(record.plan.model_dump(mode="json"))

    async def steps(self, request: Request) -> Response:
        job, record = await self._job(request)
        return plain_json({"object": "list", "data": job_details(job, record).get("steps", [])})

    async def events(self, request: Request) -> Response:
        """Stream the lines of the journal as server-sent events."""
        job = await self.documents.get(caller_of(request), request.path_params["id"])
        return EventStream(
            self.documents.events(job, kind=JournalFold, after=event_number(request)),
            self.documents.folders.images(job.id),
            request.scope[LEASE],
        )

    def export(self, name: str) -> Callable[[Request], Awaitable[Response]]:
        """Return the handler that sends a document in this format."""

        async def handler(request: Request) -> Response:
            return await self._export(request, render.known_formats()[name])

        return handler

    async def _export(self, request: Request, wanted: render.Format) -> Response:
        job, record = await self._started(request)
        if wanted.missing is not None:
            message = f"{wanted.title} files need a package that is not installed: {wanted.missing}"
            raise ApiRefusal(message, status=501, code="not_installed")
        options, folder = _export_options(request), self.documents.folders.run(job.id)
        made = await self._render(
            request, job, record, lambda: render.export_run(folder, record, wanted.name, options)
        )
        headers = {}
        if made.missing_characters:
            headers["x-interleave-missing-characters"] = str(len(made.missing_characters))
        if wanted.name == "html":
            headers |= {"content-security-policy": PAGE_POLICY, "referrer-policy": "no-referrer"}
        if wanted.name != "html" or "download" in request.query_params:
            file = f"{slug(record.title) or job.id}.{wanted.name}"
            headers["content-disposition"] = f'attachment; filename="{file}"'
        kind = f"{wanted.media_type}; charset=utf-8" if wanted.name == "html" else wanted.media_type
        return Response(made.data, headers=headers, media_type=kind)

    async def markdown(self, request: Request) -> Response:
        """Return the Markdown, with links to its images on this service."""
        job, record = await self._started(request)
        text = render.render_markdown(record).replace(
            f"]({runs.IMAGES_FOLDER}/", f"]({image_url(job.id, '')}"
        )
        return Response(text.encode(), media_type="text/markdown; charset=utf-8")

    async def image(self, request: Request) -> Response:
        """Return an image of a job by its content hash."""
        job, record = await self._job(request)
        name = request.path_params["name"]
        if record is None or name not in runs.image_names(record):
            raise unknown("image", name)
        return await self._image(request, job.id, name)

    async def shared(self, request: Request) -> Response:
        """Return an image by its signed address, without a key."""
        id_, signature, name = (request.path_params[field] for field in ("id", "signature", "name"))
        image = shared_image(f"{SIGNED_PATHS}{id_}/{signature}/{name}")
        if image is None or not self.documents.addresses.allows(image):
            raise unknown("image", name)
        if await self.documents.jobs.get(image.job) is None:  # deleted
            raise unknown("image", name)
        return await self._image(request, image.job, image.name)

    async def _image(self, request: Request, job: str, name: str) -> Response:
        try:
            data = await self.documents.in_thread(self.documents.folders.images(job).read, name)
        except RunError:
            raise unknown("image", name) from None
        request.scope[LEASE].keep(len(data))
        headers = {
            "cache-control": IMMUTABLE,
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

    async def _render(
        self, request: Request, job: Job, record: RunRecord, work: Callable[[], render.Exported]
    ) -> render.Exported:
        """Render a file, within the memory budget and with limited concurrency."""
        store, sizes = self.documents.folders.images(job.id), 0
        for name in runs.image_names(record):
            with suppress(RunError):
                sizes += store.bytes_of(name)
        lease, loop = request.scope[LEASE], asyncio.get_running_loop()
        await lease.reserve(RENDER_COPIES * sizes, loop.time() + 60)
        async with self._rendering:
            made = await self.documents.in_thread(work)
        lease.keep(len(made.data))
        return made


def _parts() -> list[str]:
    """Return the views of a document, with the export formats whose packages are installed."""
    formats = (f"document.{each.name}" for each in render.known_formats().values() if each.missing is None)
    return ["plan", "steps", "calls", "events", "document.md", *formats]


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
    return image_url(job.id, name) if record else None


def _export_options(request: Request) -> render.ExportOptions:
    given = request.query_params
    paper, layout = given.get("paper", "a4"), given.get("layout", "print")
    if paper not in get_args(render.Paper):
        raise ApiRefusal(f"paper must be one of {', '.join(get_args(render.Paper))}", parameter="paper")
    if layout not in get_args(render.PageLayout):
        raise ApiRefusal(
            f"layout must be one of {', '.join(get_args(render.PageLayout))}", parameter="layout"
        )
    return render.ExportOptions(paper=cast(render.Paper, paper), layout=cast(render.PageLayout, layout))


def command_line(job: Job, record: RunRecord | None, profile: str | None) -> str:
    """Return the command that makes the same document; without a `profile` it names every model.

    Images of the request are files of the exported archive, so run the command there.
    """
    chosen, parts = job.config, record.request if record else job.parts
    words = ["interleave", "generate", "\n".join(part.text for part in parts if part.text)]
    for part in parts:
        if part.image:
            words += ["--image", f"{runs.IMAGES_FOLDER}/{part.image}"]
    for asset in record.assets if record else job.assets:
        name = asset.name if asset.kind == "character" else f"{asset.name} ({asset.kind})"
        if asset.image:
            words += ["--asset", f"{name}={runs.IMAGES_FOLDER}/{asset.image}"]
        if asset.description:
            words += ["--asset", f"{name}: {asset.description}"]
    if profile is not None:
        words += ["--profile", profile]
    else:
        for role in ("planner", "critic", "generator"):
            words += [f"--{role}", getattr(chosen, role).identity]
        words += ["--prompts", chosen.prompts.name]
    words += ["--max-attempts", str(chosen.max_attempts), "--sources", chosen.sources.value]
    if chosen.remedies != config.NO_DRIFT_CONTROL:
        words += ["--drift-control", config.format_drift_control(chosen.remedies)]
    if chosen.sheets:
        words += ["--reference-sheets"]
    if chosen.identity:
        words += ["--identity", chosen.identity]
    if chosen.chapter_steps is not None:
        words += ["--chapter-steps", str(chosen.chapter_steps)]
    if chosen.choose != config.DEFAULT_CHOICE:
        words += ["--choose", chosen.choose]
    return shlex.join([*words, "--seed", str(chosen.seed)])

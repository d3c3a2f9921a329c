"""`/v1/documents`: a job as a document, with its plan, attempts, verdicts and images."""

from __future__ import annotations

import shlex
from functools import cache
from typing import Annotated, Any, NamedTuple

from fastapi import Depends, Query, Request
from starlette.responses import Response

from interleave import Plan, RunError, RunRecord
from interleave.plugin import config, journal, render, runs
from interleave.service.documents import schemas as wire
from interleave.service.documents.calls import ModelCalls, calls_in
from interleave.service.documents.event_types import JournalEvent
from interleave.service.documents.events import JournalFold
from interleave.service.documents.jobs import Job
from interleave.service.documents.refusals import ApiRefusal, unknown
from interleave.service.documents.response_json import DOCUMENTS, image_url, job_details
from interleave.service.documents.routes import (
    OPEN,
    AfterEvent,
    Call,
    RequestContext,
    Router,
    plain_json,
    sending,
    value_json,
)
from interleave.service.documents.service import Documents, suggestions_for
from interleave.service.documents.shared_images import PREFIX as SIGNED_PATHS
from interleave.service.documents.shared_images import ROUTE as SHARED
from interleave.service.documents.shared_images import shared_image
from interleave.service.documents.streams import EventStream

IMAGE_POLICY = "default-src 'none'; sandbox"
IMMUTABLE = "private, max-age=31536000, immutable"
"""Cache policy of images: an address contains the content hash, so its image never changes."""
MAX_LISTED = 100
router = Router()


async def _seen_job(request: Request, id: str) -> Job:
    call = RequestContext(request)
    return await call.documents.get(call.caller, id)


SeenJob = Annotated[Job, Depends(_seen_job)]
"""The job in the path, if the caller may see it."""


class Run(NamedTuple):
    """A job with its record; `None` if it has not started."""

    call: RequestContext
    job: Job
    record: RunRecord | None

    @property
    def started(self) -> RunRecord:
        if self.record is None:
            raise ApiRefusal(f"the job {self.job.id} has not started yet", status=404, code="not_ready")
        return self.record


async def _seen_run(request: Request, id: str) -> Run:
    call, job = RequestContext(request), await _seen_job(request, id)
    return Run(call, job, await call.documents.in_thread(call.documents.record, job))


SeenRun = Annotated[Run, Depends(_seen_run)]


@router.get("/v1/documents", response_model=wire.Documents)
async def listing(
    call: Call,
    limit: Annotated[int, Query(ge=1, le=MAX_LISTED)] = 20,
    after: Annotated[str | None, Query(description="Id of the client's last job")] = None,
) -> Response:
    """List the newest jobs."""
    jobs = await call.documents.newest(call.caller, limit=limit + 1, before=after)
    shown = [_summary(job) for job in jobs[:limit]]
    return plain_json({"object": "list", "data": shown, "has_more": len(jobs) > limit})


@router.get("/v1/documents/{id}", response_model=wire.Document)
async def document(run: SeenRun) -> Response:
    """Get a document with all its details."""
    call, job, record = run
    details = job_details(job, record)
    given = [
        {"text": part.text} if part.image is None else {"picture": _given(job, record, part.image)}
        for part in (record.request if record else job.parts)
    ]
    links = {name: f"{DOCUMENTS}/{job.id}/{name}" for name in _parts()} if record else {}
    more: dict[str, Any] = {
        "profile": call.documents.profile_of(job),
        "command": command_line(job, record, _named_profile(call.documents, job)),
        "request": given,
        "links": links,
    }
    more["undoable"] = await call.documents.in_thread(_undoable, call.documents, job) if record else None
    more["error"] = await _error(call.documents, job)
    if job.status == "asked":
        more["nearest"] = await call.documents.in_thread(_nearest, job)
    edited = record and record.words and record.words.title
    summary = _summary(job) | ({"title": edited} if edited else {})
    return plain_json({**summary, **details, **more})


def _undoable(documents: Documents, job: Job) -> dict[str, Any] | None:
    """Return the last edit of a job's run in effect."""
    entries = journal.read_journal(documents.folders.run(job.id))
    in_effect = runs.steering_after(entries).in_effect
    if not in_effect:
        return None
    kinds = {"document_edited": "words", "redraw_decided": "redraw", "attempt_chosen": "choice"}
    last = in_effect[-1]
    return {"kind": kinds.get(last.event, "generator"), "step": getattr(last, "step", None)}


def _named_profile(documents: Documents, job: Job) -> str | None:
    """Return the profile of a job if it selects the same models again; `None` otherwise."""
    offer = documents.model_cache.offer_of(job.config)
    return offer.chosen.profile if offer and offer.is_whole_profile else None


async def _error(documents: Documents, job: Job) -> dict[str, Any] | None:
    """Return why a job failed; for an invalid request, with the nearest valid ones."""
    if job.error is None or job.error.code != "invalid_prompt":
        return job.error.model_dump() if job.error else None
    return {**job.error.model_dump(), "nearest": await documents.in_thread(_nearest, job)}


def _nearest(job: Job) -> list[str]:
    """Return requests near a job's that its planner can do."""
    return suggestions_for("\n".join(part.text for part in job.parts if part.text), job.config.planner)


@router.get("/v1/documents/{id}/plan", response_model=Plan)
async def plan(run: SeenRun) -> Response:
    """Get the plan."""
    record = run.record
    if record is None or record.plan is None:
        raise ApiRefusal(f"the job {run.job.id} has no plan yet", status=404, code="not_ready")
    return plain_json(record.plan.model_dump(mode="json"))


@router.get("/v1/documents/{id}/words", response_model=wire.Words)
async def words(run: SeenRun) -> Response:
    """Get the words of the document: title, headings, texts, alternative texts, order and visibility."""
    record = run.record
    if record is None or record.plan is None:
        raise ApiRefusal(f"the job {run.job.id} has no plan yet", status=404, code="not_ready")
    return plain_json(runs.words_of(record))


@router.get("/v1/documents/{id}/steps", response_model=wire.Steps)
async def steps(run: SeenRun) -> Response:
    """Get the steps."""
    return plain_json({"object": "list", "data": job_details(run.job, run.record).get("steps", [])})


@router.get("/v1/documents/{id}/calls", response_model=ModelCalls)
async def calls(run: SeenRun) -> Response:
    """Get the model calls with their raw replies."""
    call, job, record = run
    folder = call.documents.folders.run(job.id)
    entries = await call.documents.in_thread(journal.read_journal, folder) if record else []
    return value_json(calls_in(entries, lambda name: image_url(job.id, name)))


@router.get(
    "/v1/documents/{id}/events",
    status_code=200,
    response_class=EventStream,
    responses={200: {"model": JournalEvent}},
)
async def events(call: Call, job: SeenJob, after: AfterEvent) -> Response:
    """Stream the journal as server-sent events, each a JournalEvent."""
    events = call.documents.events(job, kind=JournalFold, after=after)
    return EventStream(events, call.images(job), call.lease)


@router.get("/v1/documents/{id}/document.md", response_class=sending("text/markdown"))
async def markdown(run: SeenRun) -> Response:
    """Get the document as Markdown, with links to its images on this service."""
    images = f"]({image_url(run.job.id, '')}"
    text = render.render_markdown(run.started).replace(f"]({runs.IMAGES_FOLDER}/", images)
    return Response(text, media_type="text/markdown")


@router.get("/v1/documents/{id}/pictures/{name}", response_class=sending("image/png"))
async def image(run: SeenRun, name: str) -> Response:
    """Get an image."""
    call, job, record = run
    if record is None or name not in runs.image_names(record):
        raise unknown("image", name)
    sent = await _image(call, job, name)
    sent.headers["cross-origin-resource-policy"] = "same-origin"  # no page of another site may show it
    return sent


@router.get(SHARED, response_class=sending("image/png"), openapi_extra=OPEN)
async def shared(call: Call, id: str, signature: str, name: str) -> Response:
    """Get an image by its signed address."""
    image = shared_image(f"{SIGNED_PATHS}{id}/{signature}/{name}")
    if image is None or not call.documents.addresses.allows(image):
        raise unknown("image", name)
    job = await call.documents.jobs.get(image.job)
    if job is None:  # deleted
        raise unknown("image", name)
    return await _image(call, job, image.name)


async def _image(call: RequestContext, job: Job, name: str) -> Response:
    try:
        data = await call.documents.in_thread(call.images(job).read, name)
    except RunError:
        raise unknown("image", name) from None
    call.lease.keep(len(data))
    headers = {
        "cache-control": IMMUTABLE,
        "etag": f'"{name.removesuffix(".png")}"',
        "content-security-policy": IMAGE_POLICY,
    }
    return Response(data, headers=headers, media_type="image/png")


def _parts() -> list[str]:
    """Return the views of a document, with the export formats whose packages are installed."""
    formats = (f"document.{each.name}" for each in render.known_formats().values() if _is_installed(each))
    return ["plan", "steps", "calls", "events", "document.md", *formats]


@cache
def _is_installed(wanted: render.Format) -> bool:
    """Return whether a format has its packages; looking for them takes longer than the rest of a response."""
    return wanted.missing is None


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

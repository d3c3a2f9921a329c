"""The document service: submit, read, stream, cancel, delete. Every HTTP API is a facade over it."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import ValidationError

from interleave import (
    ConfigurationError,
    GivenAsset,
    ImagePart,
    InputError,
    Request,
    RunError,
    RunRecord,
    StorageError,
    Text,
    UnknownWords,
)
from interleave.plugin import (
    Limits,
    Part,
    RoleConfig,
    RunConfig,
    agents,
    backends,
    count,
    journal,
    runs,
)
from interleave.service.documents import input_roles
from interleave.service.documents.admission import Admission
from interleave.service.documents.broadcaster import Broadcaster
from interleave.service.documents.events import Event, Fold, ResponseFold, folded
from interleave.service.documents.folders import Folders
from interleave.service.documents.health import Health
from interleave.service.documents.job_table import IdempotencyConflict, JobTable, Load
from interleave.service.documents.jobs import OPEN, Job, end_of, is_job_id, new_job_id
from interleave.service.documents.keys import Caller
from interleave.service.documents.model_cache import ModelCache
from interleave.service.documents.old_queue import adopt_queue
from interleave.service.documents.refusals import ApiRefusal, for_clients, unknown
from interleave.service.documents.response_json import response_object
from interleave.service.documents.shared_images import ImageAddresses, SharedImage
from interleave.service.documents.stream_limits import STREAMS_PER_KEY, StreamLimits
from interleave.service.documents.submissions import FileReference, InputImage, Submission
from interleave.service.documents.supervision import Supervision
from interleave.service.documents.tracing import span, traceparent
from interleave.service.documents.uploads import StoredFile, Uploads
from interleave.service.documents.webhooks import Webhooks, deliveries_of
from interleave.service.documents.worker import Worker, WorkerSettings
from interleave.service.http.decoding import Decoder, EncodedImage, RawImage
from interleave.service.http.memory import MEGABYTE, MemoryBudget, MemoryLease

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")
log = logging.getLogger(__name__)
REQUEST_THREADS = 8
RECEIVE_SECONDS = 60.0
"""Time for the images of a request to wait for decoding memory."""
MAX_IDEMPOTENCY_KEY = 255
NEAREST_REQUESTS = 3
"""Number of suggestions for a request that cannot be answered."""
STORAGE_RETRY_SECONDS = 30.0
DAY = 86_400.0
REMOVE_SECONDS = 600.0
"""Interval between removals of expired jobs and uploads."""
REMOVING_SECONDS = 6 * 3600.0
"""Time that one removal may take, of many jobs on a slow disk."""
REMOVAL_BATCH = 100
LOAD_SECONDS = 1.0
"""Time for which a count of the open jobs stays valid."""


@dataclass(frozen=True)
class ServiceSettings:
    """Settings and limits of a service."""

    models: tuple[str, ...] = ("interleave",)
    """Names that clients may send as `model`."""
    profile: str = "interleave"
    """Default profile of requests."""
    concurrency: int = 64
    """Maximum concurrent jobs; their calls share the limits of each model."""
    queue: int = 10_000
    """Maximum waiting jobs."""
    per_key: int | None = None
    """Maximum concurrent jobs per key."""
    streams_per_key: int = STREAMS_PER_KEY
    """Maximum open streams and waiting calls per key."""
    limits: Limits = field(default_factory=Limits)
    """Limits of each job: calls, seconds, cost."""
    max_attempts: int | None = None
    """Maximum that a request may set; `None` for the value of the configuration."""
    memory_bytes: int = 1000 * MEGABYTE
    keep_days: float | None = None
    """Days after which ended jobs and uploads are removed; `None` for never."""
    ignored: frozenset[str] = frozenset()
    """Parameters that are accepted and ignored."""
    public_url: str | None = None
    """Base URL of image addresses; `None` for the host of the client's request."""
    lease_seconds: float = 30.0
    """Duration of the lease on each running job, if the job table is in Postgres."""
    runs_beside: Path | None = None
    """Folder whose runs of the command line are shown too."""
    sign: str = ""
    """Key of the operator for exports that are to be signed: a PEM file or `self`. Empty: none is signed."""


class Documents:
    """The document service of a folder. `start` resumes every open job."""

    def __init__(
        self,
        folders: Folders,
        jobs: JobTable,
        model_cache: ModelCache,
        settings: ServiceSettings | None = None,
        *,
        webhooks: Webhooks | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folders = folders
        self.jobs = jobs
        self.model_cache = model_cache
        self.settings = settings or ServiceSettings()
        self.clock = clock
        self.webhooks = webhooks
        self.memory = MemoryBudget(self.settings.memory_bytes)
        self.decoder = Decoder()
        self.streams = StreamLimits(self.settings.streams_per_key)
        self.supervision = Supervision()
        """The background loops of this process."""
        self.health = Health(
            self.supervision, model_cache, jobs, folders.root, is_draining=lambda: self.draining
        )
        self.uploads = Uploads(jobs.database)
        self.worker = Worker(
            jobs,
            folders,
            model_cache,
            WorkerSettings(
                self.settings.concurrency,
                self.settings.per_key,
                self.settings.limits,
                self.settings.lease_seconds,
            ),
            supervision=self.supervision,
            deliveries=deliveries_of if webhooks else lambda job: [],
            clock=clock,
        )
        self.last_load = Load()
        """Numbers of open jobs at the last count."""
        self._counted = -math.inf
        self.broadcaster = Broadcaster(folders, self.supervision)
        self.addresses = ImageAddresses(folders.root)
        self._threads = ThreadPoolExecutor(REQUEST_THREADS, thread_name_prefix="requests")
        self.draining = False
        self._removing: asyncio.Task[None] | None = None
        self.background: set[asyncio.Future[Any]] = set()
        """Background tasks, such as cancelling a job whose client disconnected."""
        self.queued: list[Callable[[Job], None]] = []
        """Callbacks for every job that enters the queue, also after a decision."""
        self.edited: list[Callable[[Job], None]] = []
        """Callbacks for every ended job whose words were edited."""
        self.removed: list[Callable[[str], None]] = []
        """Callbacks for every deleted job."""
        self.closing: list[Callable[[], None]] = []
        """Callbacks for when the service stops."""
        self._waiting: dict[str, list[asyncio.Future[Job]]] = {}
        self.worker.listeners.append(self._ended)
        self.worker.on_notice.append(self._on_notice)
        self.worker.on_reconnect.append(lambda: self._in_background(self._poll_missed_ends()))

    def _on_notice(self, status: str, id_: str) -> None:
        """Notify clients also of jobs finished by other processes."""
        if status not in OPEN and (id_ in self._waiting or id_ in self.broadcaster.watched):
            self._in_background(self._forward_end(id_))
        if status not in OPEN and self.webhooks is not None:
            self.webhooks.wake()

    async def _poll_missed_ends(self) -> None:
        """Poll for jobs finished by other processes."""
        for id_ in {*self._waiting, *self.broadcaster.watched}:
            await self._forward_end(id_)

    async def _forward_end(self, id_: str) -> None:
        with suppress(StorageError):
            job = await self.jobs.patient.get(id_)
            if job is not None and job.is_final:
                self._ended(job)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    async def start(self) -> int:
        """Start loading models and resume every open job; return their number."""
        self.folders.make()
        self.addresses.prepare()
        self.model_cache.start()
        if self.webhooks is not None:
            self.webhooks.start(self.supervision)
        await adopt_queue(self.folders.root, self.jobs)
        if not self.jobs.database.shared:  # else another service may be storing them now
            await self.in_thread(self.folders.remove_unknown_inputs, await self.jobs.open_ids())
        opened = await self.worker.start()
        if self.settings.keep_days is not None:
            self._removing = asyncio.create_task(self._remove_regularly(self.settings.keep_days))
        return opened

    async def load(self) -> Load:
        """Return the numbers of open jobs, counted at most once a second."""
        if time.monotonic() - self._counted >= LOAD_SECONDS:
            self.last_load = await self.jobs.load()
            self._counted = time.monotonic()
        return self.last_load

    def admission(self, caller: Caller) -> Admission:
        """Return the quotas that a new job of this caller must meet."""
        return Admission(caller, self.settings.queue)

    async def stop(self, within: float = 0.0) -> None:
        """Accept no more jobs and interrupt the running ones; the next start resumes them."""
        self.draining = True
        if self._removing is not None:
            self._removing.cancel()
        await self.worker.stop(within)
        if self.webhooks is not None:
            await self.webhooks.stop()
        self.broadcaster.close()
        for close in self.closing:
            close()
        for waiting in self._waiting.values():
            for future in waiting:
                future.cancel()

    async def submit(
        self,
        caller: Caller,
        asked: Submission,
        *,
        lease: MemoryLease | None = None,
        idempotency_key: str | None = None,
        request_id: str = "",
        trace: str | None = None,
    ) -> Job:
        """Store a job and queue it. Once this returns, the job survives any crash."""
        caller.require("submit")
        once = idempotency_pair(idempotency_key, asked.digest)
        if (earlier := await self.earlier(caller, once)) is not None:
            return earlier
        self.refuse_when_draining()
        if asked.webhook is not None:
            self._check_webhook(asked.webhook)
        await self.jobs.check(self.admission(caller))
        with span("interleave.submit", parent=trace, request=request_id):
            return await self._stored(caller, asked, lease or MemoryLease(self.memory), once, request_id)

    @property
    def own_profile(self) -> str:
        """Name of the default profile of requests."""
        return self.settings.profile

    def profile_of(self, job: Job) -> str:
        """Return the profile of a job's models, or its `model` if that profile is no longer offered."""
        offer = self.model_cache.offer_of(job.config)
        if offer is self.model_cache.own:
            return self.own_profile
        return next((name for name, each in self.model_cache.others.items() if each is offer), job.model)

    async def in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Run `work` in a thread reserved for requests, so that runs waiting for the disk cannot delay it."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *arguments))

    async def get(self, caller: Caller, id_: str) -> Job:
        """Return a job that this caller may see."""
        caller.require("read")
        return await self.find(caller, id_)

    async def newest(self, caller: Caller, *, limit: int = 20, before: str | None = None) -> list[Job]:
        """Return the newest jobs that this caller may see."""
        caller.require("read")
        number = (await self.find(caller, before)).number if before is not None else None
        return await self.jobs.newest(caller.sees, limit=limit, before=number)

    def response(self, job: Job) -> dict[str, Any]:
        """Return a job as a Response object with its output so far. Reads files, so run it in a thread."""
        record = self.record(job)
        entries = journal.read_journal(self.folders.run(job.id)) if record else []
        fold, _ = folded(job, entries)
        if job.is_final:
            fold.end(job, record)
        return response_object(job, fold.items, record, fold.usage)

    def record(self, job: Job) -> RunRecord | None:
        """Return the record of a job's run; `None` before it has started."""
        return self.folders.record(job.id)

    async def events(
        self, job: Job, *, kind: type[Fold] = ResponseFold, after: int = -1
    ) -> AsyncGenerator[Event | None]:
        """Yield the events of a job after number `after`, up to its end; `None` is a heartbeat."""
        running = self.broadcaster.events(job, lambda: self.jobs.get(job.id), kind, after=after)
        async with aclosing(running) as events:
            async for event in events:
                yield event

    async def wait(self, job: Job) -> Job:
        """Wait for the final state of a job and return it."""
        future: asyncio.Future[Job] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(job.id, []).append(future)
        try:
            latest = await self.jobs.get(job.id)
            if latest is None:
                raise unknown("response", job.id)
            return latest if latest.is_final else await future
        finally:
            waiting = self._waiting[job.id]
            waiting.remove(future)
            if not waiting:
                del self._waiting[job.id]

    async def cancel(self, caller: Caller, id_: str) -> Job:
        """Cancel a job; an ended one stays unchanged."""
        caller.require("submit")
        job = await self.find(caller, id_)
        marked = await (
            self._reopened_to_cancel(job) if job.waits_for_person else self.jobs.ask_to_cancel(id_)
        )
        if marked is not None:
            await self.worker.cancel(marked)
        return await self.find(caller, id_)

    async def _reopened_to_cancel(self, job: Job) -> Job | None:
        """Reopen a held job to cancel it, keeping the final state that clients have seen."""
        lines = len(await self.in_thread(journal.read_journal, self.folders.run(job.id)))
        reopened = await self.jobs.reopen(job, end_of(job, lines), cancelling=True)
        self.broadcaster.job_reopened(job.id)
        return reopened[0] if reopened else None

    async def pause(self, caller: Caller, paused: bool) -> None:
        """Pause or resume the queue on all machines. Running jobs continue; the state survives a restart."""
        caller.require("admin")
        await self.jobs.pause(paused)
        self.worker.wake()

    async def move(self, caller: Caller, id_: str, place: int) -> None:
        """Move a waiting job to another place among the jobs of its key; 0 is next."""
        caller.require("submit")
        if not await self.jobs.move(await self.find(caller, id_), place):
            raise ApiRefusal("the job is no longer waiting", status=409, code="not_possible_now")

    async def delete(self, caller: Caller, id_: str) -> None:
        """Cancel a job if it is open, and remove it with all its files."""
        await self.remove_job((await self.cancel(caller, id_)).id)

    async def remove_job(self, id_: str) -> None:
        """Remove an ended job with all its files."""
        if await self.jobs.remove(id_):
            self.broadcaster.job_removed(id_)
            for removed in self.removed:
                removed(id_)
            await self.worker.remove(id_)

    async def remove_file(self, file: StoredFile) -> None:
        """Remove an upload, and its image unless another upload has the same one."""
        if await self.uploads.remove(file.id):
            path = self.folders.files.path(file.image)
            await self.in_thread(partial(path.unlink, missing_ok=True))

    async def _remove_regularly(self, days: float) -> None:
        """Remove old jobs regularly; after a disk error, retry later."""
        with self.supervision.loop("remove old jobs", max_age=REMOVING_SECONDS) as loop:
            while True:
                loop.beat()
                try:
                    if removed := await self.remove_older(days):
                        log.info("removed %s that ended more than %g days ago", count(removed, "job"), days)
                except (StorageError, OSError) as error:
                    log.error("old jobs cannot be removed: %s", error)
                await asyncio.sleep(REMOVE_SECONDS)

    async def remove_older(self, days: float) -> int:
        """Remove ended and held jobs, and uploads, older than `days`; return the number of jobs."""
        before, removed = self.clock() - days * DAY, 0
        while ids := await self.jobs.ended_before(before, limit=REMOVAL_BATCH):
            for id_ in ids:
                await self.remove_job(id_)
            removed += len(ids)
        while files := await self.uploads.before(before, limit=REMOVAL_BATCH):
            for file in files:
                await self.remove_file(file)
        return removed

    async def _stored(
        self,
        caller: Caller,
        asked: Submission,
        lease: MemoryLease,
        once: tuple[str, str] | None,
        request_id: str,
    ) -> Job:
        config = self._config(asked)
        request = await self._request(caller, asked, config, lease)
        id_ = new_job_id()
        try:
            if request.all_images:
                parts, assets = await self.in_thread(self.folders.store_inputs, id_, request)
            else:
                parts, assets = self.folders.store_inputs(id_, request)
            job = Job(
                id=id_,
                key=caller.key,
                created=round(self.clock(), 3),
                request_id=request_id,
                parts=parts,
                assets=assets,
                config=config,
                model=asked.model,
                background=asked.background,
                previous=asked.previous,
                metadata=asked.metadata,
                settings=asked.settings | await self._roles(caller, asked, len(parts)),
                partial_images=asked.partial_images,
                webhook=asked.webhook,
                traceparent=traceparent(),
                hold_plan=asked.hold_plan,
            )
            stored = await self.jobs.insert(job, admission=self.admission(caller), idempotency=once)
        except StorageError as error:
            self.folders.remove_inputs(id_)
            raise storage_failed() from error
        except IdempotencyConflict:
            self.folders.remove_inputs(id_)
            raise key_conflict() from None
        except ApiRefusal:  # other requests of this key were faster
            self.folders.remove_inputs(id_)
            raise
        if stored.id != id_:  # the same request arrived twice concurrently
            self.folders.remove_inputs(id_)
            return stored
        self.has_queued(stored)
        return stored

    def has_queued(self, job: Job) -> None:
        """Have a stored job claimed soon, and notify listeners."""
        self.worker.wake()
        for queued in self.queued:
            queued(job)

    def was_edited(self, job: Job) -> None:
        """Notify listeners of an edit of a job's words."""
        for edited in self.edited:
            edited(job)

    async def _request(
        self, caller: Caller, asked: Submission, config: RunConfig, lease: MemoryLease
    ) -> Request:
        """Return the request with its images; refuse it before a model call if it cannot be answered."""
        given = [*asked.parts, *(asset.image for asset in asked.assets)]
        encoded = [part for part in given if isinstance(part, EncodedImage)]
        ends_at = asyncio.get_running_loop().time() + RECEIVE_SECONDS
        decoded = iter(await self.decoder.decode(encoded, lease, ends_at) if encoded else ())
        earlier, known = await self._previous(caller, asked)
        parts: list[Part] = [*earlier]
        for part in asked.parts:
            parts.append(
                Text(part) if isinstance(part, str) else ImagePart(await self._image(caller, part, decoded))
            )
        try:
            assets = {asset.name.lower(): asset for asset in known}
            for each in asked.assets:
                image = await self._image(caller, each.image, decoded) if each.image else None
                assets[each.name.lower()] = GivenAsset(each.name, image, each.kind, each.description)
            request = Request(tuple(parts), tuple(assets.values()))
            if _reads_prompts(config.planner):  # a computed planner refuses requests when it runs
                await self.in_thread(runs.adapted_request, request, config)
        except (InputError, ConfigurationError) as error:  # the configuration does not fit the request
            said = "\n".join(part.text for part in parts if isinstance(part, Text))
            nearest = await self.in_thread(suggestions_for, said, config.planner)
            message = str(error) if isinstance(error, InputError) else for_clients(str(error))
            exchanges = error.nearest if isinstance(error, UnknownWords) else {}
            raise ApiRefusal(
                message, parameter="input", code="invalid_prompt", nearest=nearest, exchanges=exchanges
            ) from None
        return request

    async def _image(self, caller: Caller, part: InputImage, decoded: Iterator[RawImage]) -> Image:
        """Return an image of a request; `decoded` yields those sent with it, in order."""
        match part:
            case EncodedImage():
                return image_of(next(decoded))
            case FileReference():
                return await self._uploaded(caller, part)
            case SharedImage():
                return await self._shared(part)

    async def _uploaded(self, caller: Caller, reference: FileReference) -> Image:
        file = await self.uploads.get(reference.id)
        if file is None or (caller.sees is not None and file.key != caller.sees):
            raise unknown("file", reference.id)
        return await self.in_thread(self.folders.files.get, file.image)

    async def _shared(self, part: SharedImage) -> Image:
        """Return an image of an earlier answer, which the client refers to by its address."""
        gone = ApiRefusal(
            "an image address of this service is unknown or was deleted: send the image itself",
            code="invalid_image_url",
        )
        if not self.addresses.allows(part):
            raise gone
        try:
            return await self.in_thread(self.folders.images(part.job).get, part.name)
        except RunError:
            raise gone from None

    async def _previous(
        self, caller: Caller, asked: Submission
    ) -> tuple[list[Text | ImagePart], tuple[GivenAsset, ...]]:
        """Return the request and answer of the document that this one continues, in order, and its assets."""
        if asked.previous is None:
            return [], ()
        job = await self.find(caller, asked.previous, "previous response")
        if not job.is_final or job.waits_for_person:
            raise ApiRefusal(
                f"the previous response {job.id} has not ended yet",
                parameter="previous_response_id",
                code="previous_response_not_ready",
            )
        try:
            return (
                await self.in_thread(self.folders.document_of, job.id),
                await self.in_thread(self.folders.assets_of, job.id),
            )
        except RunError as error:
            raise ApiRefusal(
                f"the previous response cannot be read: {error}", parameter="previous_response_id"
            ) from None

    async def _roles(self, caller: Caller, asked: Submission, parts: int) -> dict[str, Any]:
        """Return the setting with who said each of the `parts` of a request."""
        roles = list(asked.roles or ["user"] * len(asked.parts))
        if asked.previous is not None:
            earlier = await self.find(caller, asked.previous, "previous response")
            record = await self.in_thread(self.record, earlier)
            own = len(record.request) if record else 0
            roles = [*input_roles.continued(earlier, own, parts - len(roles)), *roles]
        return input_roles.setting_of(roles)

    def _config(self, asked: Submission) -> RunConfig:
        """Return the configuration with the client's options, within the limits of the service."""
        config = self.model_cache.config_for(asked.model)
        most = self.settings.max_attempts or config.max_attempts
        if asked.options.get("max_attempts", 0) > most:
            raise ApiRefusal(
                f"interleave.max_attempts: this service allows at most {most}",
                parameter="interleave.max_attempts",
            )
        try:
            return RunConfig.model_validate({**config.model_dump(), **asked.options})
        except ValidationError as error:
            raise ApiRefusal(f"interleave: {error.errors()[0]['msg']}", parameter="interleave") from None

    def _check_webhook(self, url: str) -> None:
        if self.webhooks is None:
            raise ApiRefusal(
                "interleave.webhook: webhooks are disabled on this service", parameter="interleave.webhook"
            )
        self.webhooks.allowed.check(url)

    async def earlier(self, caller: Caller, once: tuple[str, str] | None) -> Job | None:
        """Return the job of an earlier request with the same idempotency key."""
        try:
            return await self.jobs.earlier(caller.key, *once) if once is not None else None
        except IdempotencyConflict:
            raise key_conflict() from None

    def refuse_when_draining(self) -> None:
        if self.draining:
            raise ApiRefusal("the service is shutting down", status=503, retry_after=5)

    async def find(self, caller: Caller, id_: str, what: str = "response") -> Job:
        job = await self.jobs.get(id_) if is_job_id(id_) else None
        if job is None or (caller.sees is not None and job.key != caller.sees):
            raise unknown(what, id_)
        return job

    def _ended(self, job: Job) -> None:
        self.broadcaster.job_ended(job)
        if self.webhooks is not None:
            self.webhooks.wake()
        for future in self._waiting.get(job.id, []):
            if not future.done():
                future.set_result(job)


def _reads_prompts(planner: RoleConfig) -> bool:
    return not planner.is_object and agents.is_prompted(planner.parsed)


def suggestions_for(text: str, planner: RoleConfig, number: int = NEAREST_REQUESTS) -> list[str]:
    """Return up to `number` requests near `text` that this planner accepts; none if it accepts any."""
    return [] if planner.is_object else backends.suggested_requests(text, planner.parsed, number)


def image_of(raw: RawImage) -> Image:
    """Return decoded pixels as a Pillow image."""
    from PIL import Image as Pillow

    return Pillow.frombytes("RGB", (raw.width, raw.height), raw.data)


def idempotency_pair(name: str | None, digest: str) -> tuple[str, str] | None:
    """Check the idempotency key of a request and return it with the digest of the request."""
    if name is None:
        return None
    if not name.strip() or len(name) > MAX_IDEMPOTENCY_KEY:
        raise ApiRefusal(f"Idempotency-Key must have 1 to {MAX_IDEMPOTENCY_KEY} characters")
    return name, digest


def storage_failed() -> ApiRefusal:
    return ApiRefusal(
        "the service cannot store the request: its disk is full or failing",
        status=503,
        code="storage_failed",
        retry_after=STORAGE_RETRY_SECONDS,
    )


def key_conflict() -> ApiRefusal:
    return ApiRefusal(
        "this Idempotency-Key was used for another request: use a new key for a new request",
        status=422,
        code="idempotency_key_reused",
    )

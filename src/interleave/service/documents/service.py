"""The document service itself: submit, look, watch, cancel, delete. Every wire is a facade over this."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, field
from functools import partial
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
)
from interleave.plugin import (
    ImageStore,
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
from interleave.service.documents.broadcaster import Feeds
from interleave.service.documents.events import Event, Fold, ResponseFold, folded
from interleave.service.documents.fair_queue import QueueState, read_queue, write_queue
from interleave.service.documents.folders import Folders
from interleave.service.documents.jobs import (
    IdempotencyConflict,
    Job,
    JobTable,
    StoredFile,
    end_of,
    is_job_id,
    new_job_id,
)
from interleave.service.documents.keys import Caller
from interleave.service.documents.model_cache import ModelShelf
from interleave.service.documents.refusals import ApiRefusal, for_clients, unknown
from interleave.service.documents.response_json import response_object
from interleave.service.documents.shared_images import ImageAddresses, SharedImage
from interleave.service.documents.shared_worker import SharedJobWorker, Sharing, make_worker
from interleave.service.documents.submissions import FileReference, InputImage, Submission
from interleave.service.documents.tracing import span, traceparent
from interleave.service.documents.webhooks import Webhooks, deliveries_of
from interleave.service.http.decoding import Decoder, EncodedImage, RawImage
from interleave.service.http.memory import MEGABYTE, MemoryBudget, MemoryLease

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")
log = logging.getLogger(__name__)
REQUEST_THREADS = 8
RECEIVE_SECONDS = 60.0
"""How long the images of a request may wait for memory to be decoded in."""
MAX_IDEMPOTENCY_KEY = 255
NEAREST_REQUESTS = 3
"""How many requests are offered instead of one that cannot be answered."""
STORAGE_RETRY_SECONDS = 30.0
DAY = 86_400.0
REMOVE_SECONDS = 600.0
"""How often it looks for what is too old to be kept."""
REMOVED_AT_ONCE = 100


@dataclass(frozen=True)
class ServiceSettings:
    """What a service allows."""

    models: tuple[str, ...] = ("interleave",)
    """The names that clients may give as `model`."""
    profile: str = "interleave"
    """The profile of the models that a request gets which names none."""
    concurrency: int = 64
    """Jobs that run at once; the calls of all of them share the limits of each model."""
    queue: int = 10_000
    """Jobs that may wait."""
    per_key: int | None = None
    """Jobs of one key that run at once."""
    limits: Limits = field(default_factory=Limits)
    """Of every job: calls, seconds, cost."""
    max_attempts: int | None = None
    """The most that a request may choose; None for the configuration's own."""
    memory_bytes: int = 1000 * MEGABYTE
    keep_days: float | None = None
    """After so many days what has ended, and uploads, are removed; None: never."""
    ignored: frozenset[str] = frozenset()
    """Parameters that clients may send without effect."""
    public_url: str | None = None
    """What stands before the addresses of images; None for the host that a client calls."""
    sharing: Sharing | None = None
    """How jobs are shared with other processes, where the job table is in Postgres."""


class Documents:
    """A service on its folder. `start` goes on with every job that has not ended."""

    def __init__(
        self,
        folders: Folders,
        jobs: JobTable,
        shelf: ModelShelf,
        settings: ServiceSettings | None = None,
        *,
        webhooks: Webhooks | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.folders = folders
        self.jobs = jobs
        self.shelf = shelf
        self.settings = settings or ServiceSettings()
        self.clock = clock
        self.webhooks = webhooks
        self.memory = MemoryBudget(self.settings.memory_bytes)
        self.decoder = Decoder()
        self.worker = make_worker(
            jobs,
            folders,
            shelf,
            self.settings.limits,
            running=self.settings.concurrency,
            waiting=self.settings.queue,
            per_key=self.settings.per_key,
            sharing=self.settings.sharing,
            deliveries=deliveries_of if webhooks else lambda job: [],
            clock=clock,
        )
        self.turns = self.worker.turns
        self.feeds = Feeds(folders)
        self.addresses = ImageAddresses(folders.root)
        self._threads = ThreadPoolExecutor(REQUEST_THREADS, thread_name_prefix="requests")
        self.draining = False
        self._removing: asyncio.Task[None] | None = None
        self.background: set[asyncio.Future[Any]] = set()
        """Work that nobody waits for, such as cancelling a job whose client is gone."""
        self.removed: list[Callable[[str], None]] = []
        """Told of every job that was deleted."""
        self.closing: list[Callable[[], None]] = []
        """Called when the service stops."""
        self._waiting: dict[str, list[asyncio.Future[Job]]] = {}
        self.worker.listeners.append(self._ended)
        if isinstance(self.worker, SharedJobWorker):
            self._hear_of_others(self.worker)

    def _hear_of_others(self, worker: SharedJobWorker) -> None:
        """Tell clients also of jobs that other processes end."""
        worker.on_news.append(self._ended)
        worker.wants_news = lambda id_: bool(
            self.webhooks or id_ in self._waiting or id_ in self.feeds.watched
        )
        worker.on_reconnect.append(lambda: self._in_background(self._catch_up()))

    async def _catch_up(self) -> None:
        """Look for ends that this process was not told of."""
        if self.webhooks is not None:
            await self.webhooks.start()
        for id_ in {*self._waiting, *self.feeds.watched}:
            job = await self.jobs.get(id_)
            if job is not None and job.is_final:
                self._ended(job)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self.background.add(task)
        task.add_done_callback(self.background.discard)

    async def start(self) -> int:
        """Begin to load models, and go on with every job that has not ended; returns their number."""
        self.folders.make()
        self.addresses.prepare()
        self.shelf.start()
        if self.webhooks is not None:
            await self.webhooks.start()
        queue = read_queue(self.folders.root)
        self.turns.paused = queue.paused
        opened = await self.worker.restart(queue.order)
        if self.settings.keep_days is not None:
            self._removing = asyncio.create_task(self._remove_regularly(self.settings.keep_days))
        return opened

    async def stop(self, within: float = 0.0) -> None:
        """Take no more jobs and interrupt those that run; the next start goes on with them."""
        self.draining = True
        if self._removing is not None:
            self._removing.cancel()
        await self.worker.stop(within)
        if self.webhooks is not None:
            await self.webhooks.stop()
        self.feeds.close()
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
        """Store a job and queue it; it survives every crash from the moment this returns."""
        caller.require("submit")
        once = once_only(idempotency_key, asked.digest)
        if (earlier := await self.earlier(caller, once)) is not None:
            return earlier
        self.refuse_when_draining()
        if asked.webhook is not None:
            self._check_webhook(asked.webhook)
        with self.turns.admitted(caller), span("interleave.submit", parent=trace, request=request_id):
            return await self._stored(caller, asked, lease or MemoryLease(self.memory), once, request_id)

    @property
    def own_profile(self) -> str:
        """The name of the profile that a request gets which names none."""
        return self.settings.profile

    def profile_of(self, job: Job) -> str:
        """The profile whose models a job was submitted with, as far as it is still offered."""
        offer = self.shelf.offer_of(job.config)
        if offer is self.shelf.own:
            return self.own_profile
        return next((name for name, each in self.shelf.others.items() if each is offer), job.model)

    async def in_thread(self, work: Callable[..., T], *arguments: Any) -> T:
        """Work for requests, in threads of their own: runs that wait for the disk do not hold them up."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, partial(work, *arguments))

    async def get(self, caller: Caller, id_: str) -> Job:
        """A job that this caller may see."""
        caller.require("read")
        return await self.find(caller, id_)

    async def newest(self, caller: Caller, *, limit: int = 20, before: str | None = None) -> list[Job]:
        """The newest jobs that this caller may see."""
        caller.require("read")
        number = (await self.find(caller, before)).number if before is not None else None
        return await self.jobs.newest(caller.sees, limit=limit, before=number)

    def response(self, job: Job) -> dict[str, Any]:
        """A job as a Response object, with its output so far; reads its journal, so run it in a thread."""
        record = self.record(job)
        entries = journal.read_journal(self.folders.run(job.id)) if record else []
        fold, _ = folded(job, entries)
        if job.is_final:
            fold.end(job, record)
        return response_object(job, fold.items, record, fold.usage)

    def record(self, job: Job) -> RunRecord | None:
        """The record of a job's run; None before it has started."""
        return self.folders.record(job.id)

    async def events(
        self, job: Job, *, kind: type[Fold] = ResponseFold, after: int = -1
    ) -> AsyncGenerator[Event | None]:
        """The numbered events of a job after this one, to its end; None from time to time in between."""
        running = self.feeds.events(job, lambda: self.jobs.get(job.id), kind, after=after)
        async with aclosing(running) as events:
            async for event in events:
                yield event

    async def wait(self, job: Job) -> Job:
        """The job when it has its final state."""
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
        """Cancel a job; one that has ended stays as it is."""
        caller.require("submit")
        job = await self.find(caller, id_)
        marked = await (
            self._reopened_to_cancel(job) if job.status == "held" else self.jobs.ask_to_cancel(id_)
        )
        if marked is not None:
            await self.worker.cancel(marked)
        return await self.find(caller, id_)

    async def _reopened_to_cancel(self, job: Job) -> Job | None:
        """A held job as one that is to be cancelled: the end that its clients were told of is kept."""
        lines = len(await self.in_thread(journal.read_journal, self.folders.run(job.id)))
        reopened = await self.jobs.reopen(job, end_of(job, lines), cancelling=True)
        self.feeds.job_reopened(job.id)
        return reopened[0] if reopened else None

    async def pause(self, caller: Caller, paused: bool) -> None:
        """Start nothing more, or again; what runs goes on. It is kept over a restart."""
        caller.require("admin")
        self._require_own_queue()
        self.turns.paused = paused
        await self._store_queue()
        self.worker.dispatch()

    async def move(self, caller: Caller, id_: str, place: int) -> None:
        """Give a job that waits another place among those of its key; 0 is next."""
        caller.require("submit")
        self._require_own_queue()
        job = await self.find(caller, id_)
        if not self.turns.move(job.key, id_, place):
            raise ApiRefusal("the job no longer waits", status=409, code="not_possible_now")
        await self._store_queue()

    def _require_own_queue(self) -> None:
        if self.turns.shared:
            raise ApiRefusal(
                "the queue is shared with other machines, which this service can neither pause nor reorder: "
                "stop or start workers instead",
                status=409,
                code="queue_is_shared",
            )

    async def _store_queue(self) -> None:
        state = QueueState(paused=self.turns.paused, order=self.turns.waiting())
        try:
            await self.in_thread(write_queue, self.folders.root, state)
        except StorageError as error:
            raise storage_failed() from error

    async def delete(self, caller: Caller, id_: str) -> None:
        """Cancel a job if it has not ended, and remove everything of it."""
        await self.forget((await self.cancel(caller, id_)).id)

    async def forget(self, id_: str) -> None:
        """Remove everything of a job that has ended."""
        if await self.jobs.remove(id_):
            self.feeds.job_removed(id_)
            for removed in self.removed:
                removed(id_)
            await self.worker.remove(id_)

    async def forget_file(self, file: StoredFile) -> None:
        """Remove an upload, and its image unless another upload is the same."""
        if await self.jobs.remove_file(file.id):
            path = self.folders.files.path(file.image)
            await self.in_thread(partial(path.unlink, missing_ok=True))

    async def _remove_regularly(self, days: float) -> None:
        """Remove what is old, again and again; a disk that fails is tried again later."""
        while True:
            try:
                if removed := await self.remove_older(days):
                    log.info("removed %s that ended more than %g days ago", count(removed, "job"), days)
            except (StorageError, OSError) as error:
                log.error("old jobs cannot be removed: %s", error)
            await asyncio.sleep(REMOVE_SECONDS)

    async def remove_older(self, days: float) -> int:
        """Remove jobs that ended so many days ago, held ones too, and uploads; returns the number of jobs."""
        before, removed = self.clock() - days * DAY, 0
        while ids := await self.jobs.ended_before(before, limit=REMOVED_AT_ONCE):
            for id_ in ids:
                await self.forget(id_)
            removed += len(ids)
        while files := await self.jobs.files_before(before, limit=REMOVED_AT_ONCE):
            for file in files:
                await self.forget_file(file)
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
                settings=asked.settings,
                partial_images=asked.partial_images,
                webhook=asked.webhook,
                traceparent=traceparent(),
                hold_plan=asked.hold_plan,
            )
            stored = await self.jobs.insert(job, idempotency=once)
        except StorageError as error:
            self.folders.remove_inputs(id_)
            raise storage_failed() from error
        except IdempotencyConflict:
            self.folders.remove_inputs(id_)
            raise key_conflict() from None
        if stored.id != id_:  # the same request came twice at the same moment
            self.folders.remove_inputs(id_)
            return stored
        self.worker.add(stored)
        return stored

    async def _request(
        self, caller: Caller, asked: Submission, config: RunConfig, lease: MemoryLease
    ) -> Request:
        """The request with its images; what cannot be answered is refused before a model is asked."""
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
            if _reads_prompts(config.planner):  # one that computes refuses by itself, in its turn
                await self.in_thread(runs.adapted_request, request, config)
        except (InputError, ConfigurationError) as error:  # a configuration that does not fit the request
            said = "\n".join(part.text for part in parts if isinstance(part, Text))
            nearest = await self.in_thread(suggestions_for, said, config.planner)
            message = str(error) if isinstance(error, InputError) else for_clients(str(error))
            raise ApiRefusal(message, parameter="input", code="invalid_prompt", nearest=nearest) from None
        return request

    async def _image(self, caller: Caller, part: InputImage, decoded: Iterator[RawImage]) -> Image:
        """An image of a request; `decoded` has those that were sent with it, in order."""
        match part:
            case EncodedImage():
                return image_of(next(decoded))
            case FileReference():
                return await self._uploaded(caller, part)
            case SharedImage():
                return await self._shared(part)

    async def _uploaded(self, caller: Caller, reference: FileReference) -> Image:
        file = await self.jobs.file(reference.id)
        if file is None or (caller.sees is not None and file.key != caller.sees):
            raise unknown("file", reference.id)
        return await self.in_thread(self.folders.files.get, file.image)

    async def _shared(self, part: SharedImage) -> Image:
        """An image of an earlier answer, which the client sends back by its address."""
        gone = ApiRefusal(
            "an image is named by an address of this service that is unknown or was deleted: send the "
            "image itself",
            code="invalid_image_url",
        )
        if not self.addresses.allows(part):
            raise gone
        try:
            store = ImageStore(self.folders.run(part.job))
            return await self.in_thread(store.get, part.name)
        except RunError:
            raise gone from None

    async def _previous(
        self, caller: Caller, asked: Submission
    ) -> tuple[list[Text | ImagePart], tuple[GivenAsset, ...]]:
        """The document that this one continues: its request and its answer, in order; and its assets."""
        if asked.previous is None:
            return [], ()
        job = await self.find(caller, asked.previous, "previous response")
        if not job.is_final or job.status == "held":
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

    def _config(self, asked: Submission) -> RunConfig:
        """The configuration of the service with the rules that the client chose, within its limits."""
        config = self.shelf.config_for(asked.model)
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
                "interleave.webhook: this service calls no webhooks", parameter="interleave.webhook"
            )
        self.webhooks.allowed.check(url)

    async def earlier(self, caller: Caller, once: tuple[str, str] | None) -> Job | None:
        """The job of a request with the same idempotency key that came before."""
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
        self.feeds.job_ended(job)
        if self.webhooks is not None:
            self.webhooks.job_ended(job)
        for future in self._waiting.get(job.id, []):
            if not future.done():
                future.set_result(job)


def _reads_prompts(planner: RoleConfig) -> bool:
    return not planner.is_object and agents.is_prompted(planner.parsed)


def suggestions_for(text: str, planner: RoleConfig, number: int = NEAREST_REQUESTS) -> list[str]:
    """Requests near a text that this planner can take; none where it takes any."""
    return [] if planner.is_object else backends.suggested_requests(text, planner.parsed, number)


def image_of(raw: RawImage) -> Image:
    """A decoded image."""
    from PIL import Image as Pillow

    return Pillow.frombytes("RGB", (raw.width, raw.height), raw.data)


def once_only(name: str | None, digest: str) -> tuple[str, str] | None:
    """The idempotency key of a request, checked, and the digest of what it asks for."""
    if name is None:
        return None
    if not name.strip() or len(name) > MAX_IDEMPOTENCY_KEY:
        raise ApiRefusal(f"Idempotency-Key must have 1 to {MAX_IDEMPOTENCY_KEY} characters")
    return name, digest


def storage_failed() -> ApiRefusal:
    return ApiRefusal(
        "the service cannot store the request now: its disk fails or is full",
        status=503,
        code="storage_failed",
        retry_after=STORAGE_RETRY_SECONDS,
    )


def key_conflict() -> ApiRefusal:
    return ApiRefusal(
        "this Idempotency-Key was used for another request: take a new one for a new request",
        status=422,
        code="idempotency_key_reused",
    )

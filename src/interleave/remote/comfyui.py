"""`comfyui:WORKFLOW.json@http://HOST:8188`: your workflow on a ComfyUI server.

Export the workflow with *Export (API)*. For each image, the backend uploads the sources and writes the
prompt, the seed and the file names into a copy of the workflow. It queues the copy, polls it and fetches the
image. Most workflows need no options: their inputs are found automatically.

ComfyUI generates one image at a time. The time in its queue does not count against the timeout, and calls
wait for a server that is restarting.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import uuid
from collections.abc import AsyncGenerator, Iterator
from contextlib import asynccontextmanager, suppress
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from pydantic import Field

from interleave import BackendError, ConfigurationError, Failure, GeneratorCapabilities, ImageRequest, Slot
from interleave.plugin import Spec, backends, images
from interleave.remote.comfyui_workflow import Workflow, read_workflow
from interleave.remote.endpoints import EndpointPool
from interleave.remote.http_client import (
    EXPECT_ANYTHING,
    EXPECT_IMAGE,
    PerLoop,
    as_backend_errors,
    open_client,
    ssl_context,
)
from interleave.remote.http_errors import (
    STATUS_BYTES,
    bad_reply,
    expect,
    json_of,
    label,
    optional,
    shorten,
    timed_out,
    unreachable,
)
from interleave.remote.image_encoding import check_sources, image_from_bytes
from interleave.remote.keys import Key, key_for
from interleave.remote.options import RemoteOptions

if TYPE_CHECKING:
    import httpx2
    from PIL.Image import Image


log = logging.getLogger(__name__)

OPEN_SECONDS = 10.0
CLOSE_SECONDS = 0.1
"""A finished image does not wait for a server that closes slowly."""
MAX_MESSAGE_BYTES = 16_000_000
"""Large enough for image previews, which arrive on the same websocket and are dropped."""
MAX_STEPS = 100_000


@asynccontextmanager
async def reporting_progress(url: str, client: str, key: Key | None, slot: Slot) -> AsyncGenerator[None]:
    """Report the progress of the workflows that this client queues, if there are listeners.

    ComfyUI sends the events of a workflow to the client that queued it: `progress` has the finished steps of
    a sampler. Progress is display only: a failed progress connection never fails an image.
    """
    if not backends.has_listeners():
        yield
        return
    task = asyncio.create_task(_follow(url, client, key, slot))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


_SOCKET_LOG = logging.getLogger(f"{__name__}.socket")
_SOCKET_LOG.setLevel(logging.INFO)  # DEBUG logs every header, including the key


async def _follow(url: str, client: str, key: Key | None, slot: Slot) -> None:
    try:
        from websockets.asyncio.client import connect
        from websockets.exceptions import WebSocketException
    except ImportError:
        log.debug("ComfyUI progress needs the package 'websockets'")
        return
    address = f"ws{url.removeprefix('http')}/ws?clientId={client}"
    headers = {key.header: key.header_value()} if key else {}
    try:
        async with connect(
            address,
            additional_headers=headers,
            ssl=ssl_context() if address.startswith("wss:") else None,
            open_timeout=OPEN_SECONDS,
            close_timeout=CLOSE_SECONDS,
            max_size=MAX_MESSAGE_BYTES,
            proxy=None,
            logger=_SOCKET_LOG,
        ) as socket:
            async for message in socket:
                if isinstance(message, str) and (steps := _steps_of(message)) is not None:
                    backends.report(slot, *steps)
    except (OSError, TimeoutError, WebSocketException) as error:
        log.debug("ComfyUI progress is unavailable: %s", type(error).__name__)


def _steps_of(message: str) -> tuple[int, int] | None:
    """Return the finished and the total steps of a `progress` event; None for other events."""
    event: Any = None
    with suppress(ValueError, RecursionError):
        event = json.loads(message)
    if not isinstance(event, dict) or event.get("type") != "progress":
        return None
    data = event.get("data")
    done, total = (data.get("value"), data.get("max")) if isinstance(data, dict) else (None, None)
    if not isinstance(done, int) or not isinstance(total, int) or not 0 <= done <= total <= MAX_STEPS:
        return None
    return done, total


FIRST_POLL_SECONDS, LONGEST_POLL_SECONDS = 0.1, 2.0
CANCEL_SECONDS = 5.0
PROBE_SECONDS = 2.0
"""Longest interval between probes of a server that is down."""
CONCURRENCY = 2
"""One image is generated while the sources of the next are uploaded; more would only wait in the queue."""


class ComfyUIGenerator:
    """A ComfyUI server with a workflow."""

    class Options(RemoteOptions):
        text: str | None = None
        """The workflow for images from text alone, if the main one edits."""
        prompt: str | None = Field(default=None, pattern=r"^[^.]+\.[^.]+$")
        """NODE.INPUT that holds the prompt, e.g. 6.text."""
        seed: str | None = Field(default=None, pattern=r"^[^.]+\.[^.]+$")
        """NODE.INPUT that holds the seed, e.g. 3.seed."""
        images: str | None = None
        """The nodes that load the sources, in order, separated by commas."""
        output: str | None = None
        """The node whose image is used, if several nodes save one."""
        price: float | None = Field(default=None, ge=0)
        """US dollars per image."""

    def __init__(self, *, spec: Spec, options: Options) -> None:
        if not spec.model or not spec.base_url:
            raise ConfigurationError(
                f"{str(spec)!r}: write comfyui:WORKFLOW.json@http://host:8188, with a workflow in API format"
            )
        self.options = options
        places = {"prompt": options.prompt, "seed": options.seed}
        loaders = tuple(options.images.split(",")) if options.images else None
        main = read_workflow(spec.model, places, loaders)
        text = read_workflow(options.text, places, ()) if options.text else None
        if text is not None and not main.loaders:
            raise ConfigurationError(
                f"{spec.model!r} loads no image, so it works from text alone: drop text={options.text}"
            )
        self.edit = main if main.loaders else None
        self.text = text if main.loaders else main
        self.where = f"comfyui at {spec.base_url}"
        workflows = [workflow for workflow in (self.edit, self.text) if workflow is not None]
        self.capabilities = GeneratorCapabilities(
            max_sources=len(main.loaders),
            text_to_image=self.text is not None,
            seeds=all(workflow.seeds for workflow in workflows),
            price_per_image=options.price,
            concurrency=options.concurrency or CONCURRENCY,
            timeout=options.seconds(backends.IMAGE_DEADLINE_SECONDS),
            deadline=options.deadline(backends.IMAGE_DEADLINE_SECONDS),
        )
        url, key = spec.base_url.rstrip("/"), key_for(spec.base_url, options.key)
        self.url, self.key = url, key
        self.seconds = options.seconds(backends.IMAGE_DEADLINE_SECONDS)
        self._client: PerLoop[httpx2.AsyncClient] = PerLoop(
            lambda: open_client(
                self.where, base_url=url, seconds=self.seconds, key=key, max_bytes=STATUS_BYTES
            ),
            lambda http: http,
        )
        self.pool = EndpointPool([url], self._is_healthy, probe_seconds=PROBE_SECONDS)

    async def generate(self, request: ImageRequest) -> Image:
        check_sources(self.where, request, self.capabilities)
        workflow = self.edit if request.sources else self.text
        if workflow is None:
            raise BackendError(f"{self.where}: no workflow fits this request")
        deadline = backends.Deadline(self.seconds)
        try:
            async with self.pool.acquire(wait_seconds=self.seconds), deadline.running():
                with as_backend_errors(self.where):
                    data = await self._run_workflow(workflow, request)
        except TimeoutError:
            raise timed_out(self.where, self.seconds) from None
        return await asyncio.to_thread(image_from_bytes, data, where=self.where)

    async def _run_workflow(self, workflow: Workflow, request: ImageRequest) -> bytes:
        http = self._client()
        names = [await self._upload(http, source) for source in request.sources]
        graph = workflow.filled(request.prompt, request.seed, names)
        client = uuid.uuid4().hex
        async with reporting_progress(self.url, client, self.key, request.slot):
            queued = json_of(await http.post("/prompt", json={"prompt": graph, "client_id": client}))
            job = label(queued.get("prompt_id"), "prompt_id", self.where)
            if job is None:
                raise bad_reply(self.where, "it queued the workflow without returning its id")
            async with self._cancel_if_abandoned(http, job):
                outputs = await self._outputs(http, job)
        return await self._fetch(http, outputs)

    async def _upload(self, http: httpx2.AsyncClient, source: Image) -> str:
        data = await asyncio.to_thread(images.encode_png, source)
        # Named by its contents, so that an upload never overwrites another image.
        name = f"interleave-{hashlib.sha256(data).hexdigest()[:24]}.png"
        form = {"overwrite": "true", "type": "input"}
        files = {"image": (name, data, "image/png")}
        reply = json_of(await http.post("/upload/image", files=files, data=form))
        folder = optional(reply.get("subfolder"), str, "subfolder", self.where)
        taken_as = optional(reply.get("name"), str, "name", self.where)
        if not taken_as:
            raise bad_reply(self.where, "it accepted an image without returning its name")
        return f"{folder}/{taken_as}" if folder else taken_as

    async def _outputs(self, http: httpx2.AsyncClient, job: str) -> dict[str, Any]:
        """Poll until the workflow is done, and return its outputs; raise if it failed or was lost."""
        with backends.waiting():  # behind other workflows of this and other clients
            pauses = _pauses()
            while await self._is_queued(http, job, "queue_pending"):
                await asyncio.sleep(next(pauses))
        pauses = _pauses()
        while True:
            entry = await self._history(http, job)
            if entry is not None:
                self._raise_if_failed(entry)
                return optional(entry.get("outputs"), dict, "outputs", self.where) or {}
            in_queue = await self._is_queued(http, job, "queue_running", "queue_pending")
            if not in_queue and await self._history(http, job) is None:
                raise unreachable(self.where, "it no longer knows the workflow: was it restarted?")
            await asyncio.sleep(next(pauses))

    async def _history(self, http: httpx2.AsyncClient, job: str) -> dict[str, Any] | None:
        history = json_of(await http.get(f"/history/{quote(job, safe='')}"))
        return optional(history.get(job), dict, "history", self.where)

    async def _is_queued(self, http: httpx2.AsyncClient, job: str, *lists: str) -> bool:
        queue = json_of(await http.get("/queue"))
        queued = [optional(queue.get(name), list, name, self.where) or [] for name in lists]
        return any(job in entry for entries in queued for entry in entries if isinstance(entry, list))

    async def _is_healthy(self, url: str) -> bool:
        with as_backend_errors(self.where):
            await self._client().get("/queue")
        return True

    def _raise_if_failed(self, entry: dict[str, Any]) -> None:
        status = optional(entry.get("status"), dict, "status", self.where) or {}
        if status.get("status_str") != "error":
            return
        listed = optional(status.get("messages"), list, "messages", self.where) or []
        messages = [each for each in listed if isinstance(each, list) and each]
        if any(each[0] == "execution_interrupted" for each in messages):
            raise BackendError(
                f"{self.where}: the workflow was cancelled on the server, in its UI or by another program"
            )
        errors = [each[1] for each in messages if each[0] == "execution_error" and each[1:]]
        reasons = [each.get("exception_message") for each in errors if isinstance(each, dict)]
        reason = shorten(" ".join(each for each in reasons if isinstance(each, str))) or "no reason given"
        raise BackendError(
            f"{self.where}: the workflow failed: {reason}", transient="out of memory" in reason.lower()
        )

    async def _fetch(self, http: httpx2.AsyncClient, outputs: dict[str, Any]) -> bytes:
        nodes = [self.options.output] if self.options.output else list(outputs)
        made = [optional(outputs.get(node), dict, "output", self.where) or {} for node in nodes]
        images = [
            expect(image, dict, "image", self.where)
            for each in made
            for image in optional(each.get("images"), list, "images", self.where) or []
        ]
        named = [image for image in images if isinstance(image.get("filename"), str)]
        if not named:
            raise bad_reply(self.where, "the workflow made no image")
        saved = [image for image in named if image.get("type") == "output"]
        chosen = (saved or named)[0]
        place = {name: str(chosen.get(name) or "") for name in ("filename", "subfolder", "type")}
        try:
            return (await http.get("/view", params=place, extensions=EXPECT_IMAGE)).content
        except BackendError as error:
            if error.kind is not Failure.INVALID:
                raise
            await self._forget_results(http)
            raise bad_reply(
                self.where,
                f"its image {place['filename']!r} is gone: were its output files deleted? "
                "Its result cache has been cleared for the next attempt",
            ) from None

    async def _forget_results(self, http: httpx2.AsyncClient) -> None:
        """Clear ComfyUI's cache, which returns the old file name for an equal workflow."""
        body = {"free_memory": True, "unload_models": False}
        with suppress(BackendError):
            await http.post("/free", json=body, extensions=EXPECT_ANYTHING)

    @asynccontextmanager
    async def _cancel_if_abandoned(self, http: httpx2.AsyncClient, job: str) -> AsyncGenerator[None]:
        """Cancel the job on the server if the call is cancelled or times out."""
        try:
            yield
        except (asyncio.CancelledError, TimeoutError):
            with suppress(BackendError, TimeoutError):
                async with asyncio.timeout(CANCEL_SECONDS):
                    await http.post("/queue", json={"delete": [job]}, extensions=EXPECT_ANYTHING)
                    if await self._is_queued(http, job, "queue_running"):
                        await http.post("/interrupt", json={"prompt_id": job}, extensions=EXPECT_ANYTHING)
            raise


def _pauses() -> Iterator[float]:
    pause = FIRST_POLL_SECONDS
    while True:
        yield pause
        pause = min(pause * 1.5, LONGEST_POLL_SECONDS)

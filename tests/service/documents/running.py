"""Document services for tests: in a thread on the doubles, whose images can be held; and as processes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import httpx
import openai
from serving import Server

from interleave.backends.protocols import GeneratorCapabilities, ImageRequest
from interleave.backends.registry import load_generator
from interleave.runs.resolve import Choices, resolve
from interleave.service.documents.app import build_app
from interleave.service.documents.call_observer import observed
from interleave.service.documents.deliveries import Deliveries
from interleave.service.documents.folders import Folders
from interleave.service.documents.job_table import JobTable
from interleave.service.documents.keys import FILE_NAME, GuestQuota, Guests, KeyAccess
from interleave.service.documents.metrics import DocumentMetrics
from interleave.service.documents.model_cache import ModelCache
from interleave.service.documents.routes import Router
from interleave.service.documents.service import Documents, ServiceSettings
from interleave.service.generator.server import Server as UvicornServer
from interleave.service.generator.server import address_of, listen, uvicorn_config

T = TypeVar("T")
HANGS_AFTER = 60.0


class HeldGenerator:
    """The double `solid`, whose images after the first few wait until the test lets them go."""

    def __init__(self, free: int = 1_000_000) -> None:
        self.solid = load_generator("solid?size=64")
        self.free = free
        self.calls: list[ImageRequest] = []

    @property
    def capabilities(self) -> GeneratorCapabilities:
        return self.solid.capabilities

    async def generate(self, request: ImageRequest) -> Any:
        self.calls.append(request)
        number = len(self.calls)
        while number > self.free:
            await asyncio.sleep(0.005)
        return await self.solid.generate(request)


class Service:
    """A document service in a thread of this process, behind real HTTP."""

    def __init__(
        self,
        folder: Path,
        *,
        generator: HeldGenerator | None = None,
        settings: ServiceSettings | None = None,
        chosen: Choices | None = None,
        routes: Mapping[str, Router] | None = None,
        guests: GuestQuota | None = None,
        **options: Any,
    ) -> None:
        self.folder = folder
        self.generator = generator or HeldGenerator()
        self.settings = settings or ServiceSettings()
        self.chosen = chosen or Choices(profile="dry-run", generator=self.generator)
        self.added = routes
        self.guests = guests
        self.options = options
        self.clients: list[openai.OpenAI] = []
        self._ready = threading.Event()
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self._ready.wait(HANGS_AFTER)
        if self._failure is not None:
            raise self._failure
        self.http = httpx.Client(base_url=self.url, timeout=HANGS_AFTER, trust_env=False)

    def _run(self) -> None:
        try:
            asyncio.run(self._serve())
        except BaseException as error:
            self._failure = error
            self._ready.set()

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        chosen = self.chosen
        config, pack = resolve(chosen)
        self.jobs = JobTable(self.folder / "jobs.sqlite")
        try:
            self.metrics = DocumentMetrics()
            model_cache = ModelCache(config, pack, chosen, lambda models: observed(models, self.metrics))
            self.documents = self._documents(model_cache)
            self.metrics.watch(self.documents)
            listening = listen("127.0.0.1", 0)
            self.url = address_of(listening)
            guests = Guests(self.folder, self.guests) if self.guests else None
            access = KeyAccess(self.folder / FILE_NAME, guests)
            self.app = build_app(self.documents, access, self.metrics, self.added)
            self._server = UvicornServer(uvicorn_config(self.app))
            await self.documents.start()
            serving = asyncio.create_task(self._server.serve(sockets=[listening]))
            self._ready.set()
            await serving
            await self.documents.stop()
        finally:
            self.jobs.close()

    def _documents(self, model_cache: ModelCache) -> Documents:
        options = dict(self.options)
        if make := options.pop("webhooks", None):
            options["webhooks"] = make(Deliveries(self.jobs.database))
        return Documents(Folders(self.folder), self.jobs, model_cache, self.settings, **options)

    @property
    def routes(self) -> list[tuple[str, str]]:
        """Every method and path that it answers."""
        app: Any = self.app
        while not hasattr(app, "routes"):
            app = app.app
        return [(method, route.path) for route in app.routes for method in sorted(route.methods)]

    def do(self, work: Coroutine[Any, Any, T]) -> T:
        """Run something in the loop of the service."""
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(HANGS_AFTER)

    def stop(self) -> None:
        """End it in order; its jobs stay for the next service on the folder."""
        for client in (*self.clients, self.http):
            client.close()
        self.do(self.documents.stop())
        self._server.should_exit = True
        self._thread.join(HANGS_AFTER)
        assert not self._thread.is_alive()

    def sdk(self, key: str = "any", **options: Any) -> openai.OpenAI:
        client = openai.OpenAI(base_url=f"{self.url}/v1", api_key=key, max_retries=0, **options)
        self.clients.append(client)
        return client

    def until(self, fact: Callable[[], T]) -> T:
        return until(fact)


def until(fact: Callable[[], T]) -> T:
    """Wait for what must come."""
    import time

    ends = time.monotonic() + HANGS_AFTER
    while not (found := fact()):
        assert time.monotonic() < ends, "it never came true"
        time.sleep(0.01)
    return found


@contextmanager
def service(folder: Path, **options: Any) -> Iterator[Service]:
    running = Service(folder, **options)
    try:
        yield running
    finally:
        if running._thread.is_alive():
            running.stop()


class DocumentServer(Server):
    """`interleave serve documents` in a process of its own."""

    serves = "documents"

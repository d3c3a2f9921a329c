"""`interleave serve generator --engine ray`: the generator as replicas of a Ray Serve deployment.

The server keeps the APIs, the queue and the limits. Its worker sends every image to the deployment, which
distributes them over the replicas, restarts replicas of lost nodes, and scales up while images wait. If a
replica is lost, its images are redrawn by another one with the same seed.
"""

from __future__ import annotations

import asyncio
import atexit
import hashlib
import logging
import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, urlencode

from interleave import BackendError, Failure, ImageGenerator, ImageRequest, MissingDependency, load_generator
from interleave.plugin import runs
from interleave.service.generator.parameters import settings_of

if TYPE_CHECKING:
    from PIL.Image import Image

log = logging.getLogger("interleave.service")
PREFIX = "ray?"
PER_REPLICA = 4
"""Concurrent images per replica, if its generator does not specify it."""
LOST_SECONDS = 120.0
"""Time to wait for another replica after one is lost."""
OBJECT_STORE_BYTES = 400_000_000


@dataclass(frozen=True)
class RayReplicas:
    """A generator deployment on a cluster."""

    generator: str
    replicas: int = 1
    most: int | None = None
    """Maximum number of replicas while images wait; `None` for no autoscaling."""
    gpus: float = 0.0
    """GPUs per replica."""

    @property
    def spec(self) -> str:
        """The deployment as the spec string sent to a worker process."""
        given = {"generator": self.generator, "replicas": self.replicas, "gpus": self.gpus}
        return PREFIX + urlencode(given | ({"most": self.most} if self.most else {}))

    @classmethod
    def parse(cls, spec: str) -> RayReplicas:
        given = {name: values[0] for name, values in parse_qs(spec.removeprefix(PREFIX)).items()}
        most = int(given["most"]) if "most" in given else None
        return cls(given["generator"], int(given["replicas"]), most, float(given["gpus"]))


def load_served(spec: str) -> ImageGenerator:
    """Load the generator of a worker process: a Ray deployment or a local one."""
    return RayGenerator(RayReplicas.parse(spec)) if spec.startswith(PREFIX) else load_generator(spec)


class Replica:
    """One copy of the generator, in a Ray process."""

    def __init__(self, spec: str) -> None:
        self.generator = load_generator(spec)

    def info(self) -> tuple[Any, dict[str, Any]]:
        return self.generator.capabilities, settings_of(self.generator)

    async def draw(self, request: ImageRequest) -> tuple[Image | None, dict[str, Any]]:
        """Return the image, or its failure as plain values that any process can unpickle."""
        try:
            return await self.generator.generate(request), {}
        except BackendError as error:
            known = {"transient": error.transient, "retry_after": error.retry_after, "kind": error.kind.value}
            return None, {"message": str(error), **known}


class RayGenerator:
    """Image generator that calls the replicas."""

    def __init__(self, wanted: RayReplicas) -> None:
        self._ray, serve = import_serve()
        connect(self._ray)
        serve.start(proxy_location="Disabled")
        digest = hashlib.sha256(wanted.spec.encode()).hexdigest()[:12]
        self.name = f"interleave-{digest}"
        self._handle = serve.run(
            self._deployment(serve, wanted).bind(wanted.generator), name=self.name, route_prefix=None
        )
        atexit.register(serve.delete, self.name)
        capabilities, self.settings = self._handle.info.remote().result()
        each = capabilities.concurrency or PER_REPLICA
        most = max(wanted.replicas, wanted.most or 0)
        self.capabilities = replace(capabilities, concurrency=each * most)

    def _deployment(self, serve: Any, wanted: RayReplicas) -> Any:
        options: dict[str, Any] = {
            "max_ongoing_requests": PER_REPLICA,
            "ray_actor_options": {"num_cpus": 1, "num_gpus": wanted.gpus},
            "health_check_period_s": 5,
            "health_check_timeout_s": 10,
        }
        if wanted.most is None:
            options["num_replicas"] = wanted.replicas
        else:
            options["autoscaling_config"] = {
                "min_replicas": wanted.replicas,
                "max_replicas": wanted.most,
                "target_ongoing_requests": max(1, PER_REPLICA // 2),
                "upscale_delay_s": 5,
            }
        return serve.deployment(name="generator", **options)(Replica)

    async def generate(self, request: ImageRequest) -> Image:
        for delay in runs.backoff_delays(0.2, 5.0, LOST_SECONDS):
            try:
                answer: tuple[Image | None, dict[str, Any]] = await self._handle.draw.remote(request)
            except self._ray.exceptions.RayTaskError as error:
                raise BackendError(f"the replica failed: {error.cause!r}") from None
            except self._ray.exceptions.RayError as error:  # its node or process is gone
                log.warning("a replica was lost; redrawing its image: %s", _first_line(error))
            else:
                drawn, failure = answer
                if drawn is not None:
                    return drawn
                raise BackendError(failure.pop("message"), **{**failure, "kind": Failure(failure["kind"])})
            await asyncio.sleep(delay)
        raise BackendError("no replica is left", transient=True, kind=Failure.UNREACHABLE)


def import_serve() -> tuple[Any, Any]:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
    try:
        import ray
        from ray import serve
    except ImportError as error:
        raise MissingDependency(
            f"--engine ray needs Ray Serve, which is not installed ({error}). "
            'Install it with: pip install "interleavethinker[ray]"'
        ) from None
    return ray, serve


def connect(ray: Any) -> None:
    """Join the cluster of RAY_ADDRESS, or start one on this machine."""
    if ray.is_initialized():
        return
    local: dict[str, Any] = {}
    if not os.environ.get("RAY_ADDRESS"):
        local = {"include_dashboard": False, "object_store_memory": OBJECT_STORE_BYTES}
    try:
        ray.init(log_to_driver=False, logging_level="ERROR", **local)
    except (ConnectionError, RuntimeError, ValueError, OSError) as error:
        raise BackendError(f"Ray cannot be started or reached: {_first_line(error)}") from error


def _first_line(error: Exception) -> str:
    return next(iter(str(error).splitlines()), type(error).__name__)

"""Prometheus metrics; each server has a separate registry."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from interleave.service.generator.pool import Pool

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2, 4, 8, 15, 30, 60, 120, 300)
PREFIX = "interleave_generator"
OUTCOMES = {429: "busy", 499: "gone", 504: "late"}


class Metrics:
    """Metrics of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter(
            f"{PREFIX}_requests",
            "Requests answered, by route and outcome: ok, refused, busy, late, gone, failed.",
            ["route", "outcome"],
            registry=self.registry,
        )
        self.request_seconds = Histogram(
            f"{PREFIX}_request_seconds",
            "Seconds per answered request, waiting included.",
            ["route"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.draw_seconds = Histogram(
            f"{PREFIX}_draw_seconds",
            "Seconds per generated image.",
            ["worker"],
            buckets=SECONDS,
            registry=self.registry,
        )
        self.deaths = Counter(
            f"{PREFIX}_worker_deaths",
            "Worker processes that died or failed to load; each is restarted.",
            ["worker"],
            registry=self.registry,
        )

    def watch(self, pool: Pool) -> None:
        """Collect the state of the pool on each scrape."""
        self.registry.register(_PoolGauges(pool))

    def answered(self, route: str, status: int, seconds: float) -> None:
        self.requests.labels(route, outcome_of(status)).inc()
        self.request_seconds.labels(route).observe(seconds)

    def image_drawn(self, worker: int, seconds: float) -> None:
        self.draw_seconds.labels(str(worker)).observe(seconds)

    def worker_lost(self, worker: int) -> None:
        self.deaths.labels(str(worker)).inc()

    def text(self) -> bytes:
        return generate_latest(self.registry)


def outcome_of(status: int) -> str:
    """Return the outcome label of an HTTP status."""
    if status in OUTCOMES:
        return OUTCOMES[status]
    return "ok" if status < 400 else "refused" if status < 500 else "failed"


class _PoolGauges:
    """Gauges of the pool, read on each scrape."""

    def __init__(self, pool: Pool) -> None:
        self.pool = pool

    def collect(self) -> Iterator[Metric]:
        pool = self.pool
        yield GaugeMetricFamily(f"{PREFIX}_queue_depth", "Images waiting for a worker.", len(pool.waiting))
        yield GaugeMetricFamily(f"{PREFIX}_in_flight", "Images being drawn.", pool.in_flight)
        yield GaugeMetricFamily(f"{PREFIX}_held_bytes", "Bytes of requests in memory.", pool.memory.held)
        states = GaugeMetricFamily(f"{PREFIX}_worker_ready", "1 if the worker is ready.", labels=["worker"])
        for worker in pool.workers:
            states.add_metric([str(worker.number)], float(worker.state == "ready"))
        yield states

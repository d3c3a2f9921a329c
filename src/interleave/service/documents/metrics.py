"""Prometheus metrics of the document service. Autoscale on the age of the oldest job and the queue depth."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily

from interleave.plugin import runs
from interleave.service.documents.jobs import Job
from interleave.service.generator.metrics import CONTENT_TYPE, SECONDS, outcome_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from prometheus_client import Metric

    from interleave.service.documents.folders import Folders
    from interleave.service.documents.service import Documents

__all__ = ["CONTENT_TYPE", "DocumentMetrics"]
PREFIX = "interleave_documents"
JOB_SECONDS = (1, 2, 5, 10, 20, 60, 120, 300, 600, 1800, 3600, 7200)


class DocumentMetrics:
    """Metrics of one service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter("requests", "Requests answered.", "route", "outcome")
        self.request_seconds = self._histogram(
            "request_seconds", "Seconds per request, streams included.", SECONDS, "route"
        )
        self.jobs = self._counter("jobs", "Ended jobs.", "status")
        self.job_seconds = self._histogram(
            "job_seconds", "Seconds from the submission of a job to its end.", JOB_SECONDS, "status"
        )
        self.calls = self._counter("calls", "Model calls made, retries included.", "role", "outcome")
        self.call_seconds = self._histogram("call_seconds", "Seconds per model call.", SECONDS, "role")
        self.cost = self._counter("cost_dollars", "Cost of ended jobs in US dollars, if reported.")
        self.steps = self._counter("steps", "Steps of ended jobs.")
        self.forced = self._counter("forced_steps", "Steps of ended jobs with no accepted attempt.")
        self.webhooks = self._counter("webhooks", "Webhook calls made.", "outcome")

    def _counter(self, name: str, words: str, *labels: str) -> Counter:
        return Counter(f"{PREFIX}_{name}", words, labels, registry=self.registry)

    def _histogram(self, name: str, words: str, buckets: tuple[float, ...], *labels: str) -> Histogram:
        return Histogram(f"{PREFIX}_{name}", words, labels, buckets=buckets, registry=self.registry)

    def watch(self, documents: Documents) -> None:
        """Count jobs as they end, and collect the state of the service on each scrape."""
        documents.worker.listeners.append(lambda job: self.job_ended(job, documents.folders))
        self.registry.register(_Gauges(documents))

    def answered(self, route: str, status: int, seconds: float) -> None:
        self.requests.labels(route, outcome_of(status)).inc()
        self.request_seconds.labels(route).observe(seconds)

    def job_ended(self, job: Job, folders: Folders) -> None:
        stored = runs.read_stored(folders.run(job.id))
        record = stored[0] if stored else None
        self.jobs.labels(job.status).inc()
        self.job_seconds.labels(job.status).observe(max(0.0, (job.finished or job.created) - job.created))
        if record is not None:
            self.steps.inc(sum(step.finished for step in record.steps))
            self.forced.inc(len(record.forced_steps))
            self.cost.inc(max(0.0, record.cost or 0.0))

    def called(self, role: str, outcome: str, seconds: float) -> None:
        self.calls.labels(role, outcome).inc()
        self.call_seconds.labels(role).observe(seconds)

    def text(self) -> bytes:
        return generate_latest(self.registry)


class _Gauges:
    """Gauges of the service, read on each scrape."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents

    def collect(self) -> Iterator[Metric]:
        documents, load = self.documents, self.documents.last_load
        gauges = {
            "queue_depth": ("Waiting jobs.", load.waiting),
            "in_progress": ("Running jobs.", load.running),
            "oldest_job_seconds": ("Age of the oldest waiting job in seconds.", load.oldest_seconds),
            "streams": ("Jobs whose events are being streamed.", len(documents.broadcaster)),
            "held_bytes": ("Bytes of requests and responses in memory.", documents.memory.held),
            "models_ready": ("1 if the models are loaded.", documents.model_cache.state == "ready"),
        }
        for name, (words, value) in gauges.items():
            yield GaugeMetricFamily(f"{PREFIX}_{name}", words, float(value))

"""OpenTelemetry traces, if an OTEL_* variable is set and the packages are installed.

A job stores the trace of the request that submitted it, so its model calls belong to the same trace, even
after a restart.
"""

from __future__ import annotations

import importlib.util
import logging
import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from typing import Any

log = logging.getLogger(__name__)
NAME = "interleave.documents"
SERVICE = "interleave"
"""Service name if OTEL_SERVICE_NAME is not set."""
_UNTRACED: AbstractContextManager[None, None] = nullcontext()


@cache
def tracer() -> Any:
    """Return the tracer; `None` if tracing is off."""
    if not any(name.startswith("OTEL_") for name in os.environ):
        return None
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    if importlib.util.find_spec("opentelemetry") is None:
        log.warning("OTEL_* is set, but opentelemetry is not installed: traces are off")
        return None
    from opentelemetry import trace

    _export()
    return trace.get_tracer(NAME)


def _export() -> None:
    """Send traces by OTLP, unless the embedding program has set up tracing."""
    from opentelemetry import trace

    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        return
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import SERVICE_NAME, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        log.warning(
            "OTEL_* is set, but its exporter is not installed: "
            "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"
        )
        return
    resource = Resource.create()
    if str(resource.attributes.get(SERVICE_NAME, "")).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: SERVICE}))
    provider = TracerProvider(resource=resource)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(provider)


def span(
    name: str, *, parent: str | None = None, **attributes: Any
) -> AbstractContextManager[None, bool | None]:
    """Return a span as a context manager; `parent` is the `traceparent` of a client or a job."""
    current = tracer()
    return _UNTRACED if current is None else _traced(current, name, parent, attributes)


@contextmanager
def _traced(current: Any, name: str, parent: str | None, attributes: dict[str, Any]) -> Iterator[None]:
    context = None
    if parent:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        context = TraceContextTextMapPropagator().extract({"traceparent": parent})
    known = {key: value for key, value in attributes.items() if value is not None}
    with current.start_as_current_span(name, context=context, attributes=known):
        yield


def traceparent() -> str | None:
    """Return the `traceparent` of the current span; `None` if tracing is off."""
    if tracer() is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent")

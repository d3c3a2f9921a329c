"""Traces of the document service, sent by the real OpenTelemetry SDK to a collector on this machine."""

from __future__ import annotations

import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from running import DocumentServer

pytest.importorskip("opentelemetry.sdk")
pytest.importorskip("opentelemetry.exporter.otlp.proto.http")
pytestmark = pytest.mark.slow
TRACE, CLIENT_SPAN = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


class Collector(ThreadingHTTPServer):
    """Takes traces by OTLP over HTTP."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.bodies: list[bytes] = []
        threading.Thread(target=self.serve_forever, daemon=True).start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def resources(self) -> list[Any]:
        from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

        return [
            each for body in self.bodies for each in ExportTraceServiceRequest.FromString(body).resource_spans
        ]

    def spans(self) -> dict[str, list[Any]]:
        """All spans by their names."""
        found: dict[str, list[Any]] = {}
        for resource in self.resources():
            for scope in resource.scope_spans:
                for span in scope.spans:
                    found.setdefault(span.name, []).append(span)
        return found


class _Handler(BaseHTTPRequestHandler):
    server: Collector

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        if self.headers.get("content-encoding") == "gzip":
            body = gzip.decompress(body)
        self.server.bodies.append(body)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[Collector]:
    running = Collector()
    yield running
    running.shutdown()
    running.server_close()


def text_of(attributes: Any, name: str) -> str:
    return next(str(each.value.string_value) for each in attributes if each.key == name)


def test_a_trace_leads_from_the_client_through_a_restart_to_the_model_calls(
    tmp_path: Path, collector: Collector, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    arguments = ("--dry-run", "--runs", str(tmp_path / "runs"), "--drain", "0")
    first = DocumentServer(tmp_path / "first", *arguments, "--generator", "solid?size=64&delay=1000")
    asked = {"input": "A frog in one picture", "background": True}
    headers = {"traceparent": f"00-{TRACE}-{CLIENT_SPAN}-01"}
    answer = first.client.post("/v1/responses", json=asked, headers=headers)
    id_ = answer.json()["id"]
    first.until(lambda: first.client.get(f"/v1/documents/{id_}/plan").is_success)
    assert first.stop() == 0
    assert (
        text_of(collector.spans()["interleave.submit"][0].attributes, "request")
        == answer.headers["x-request-id"]
    )

    second = DocumentServer(tmp_path / "second", *arguments, "--generator", "solid?size=64&delay=1000")
    second.until(lambda: second.client.get("/health").json()["in_progress"] == 1)
    second.client.post(f"/v1/responses/{id_}/cancel")
    assert second.stop() == 0

    spans = collector.spans()
    assert {span.trace_id.hex() for each in spans.values() for span in each} == {TRACE}
    (submitted,) = spans["interleave.submit"]
    assert submitted.parent_span_id.hex() == CLIENT_SPAN
    jobs = spans["interleave.job"]
    assert [span.parent_span_id for span in jobs] == [submitted.span_id] * 2  # before and after the restart
    assert {text_of(span.attributes, "job") for span in jobs} == {id_}
    (planned,) = spans["interleave.planner"]
    assert planned.parent_span_id in {span.span_id for span in jobs}
    assert {text_of(each.resource.attributes, "service.name") for each in collector.resources()} == {
        "interleave"
    }


def test_a_collector_that_does_not_answer_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    server = DocumentServer(tmp_path / "server", "--dry-run", "--runs", str(tmp_path / "runs"))
    assert (
        server.client.post("/v1/responses", json={"input": "A frog in one picture"}).json()["status"]
        == "completed"
    )
    assert server.stop() == 0

"""Liveness and readiness: each reason is told, a dead loop is found, and probes do not pile up."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client import CollectorRegistry
from running import Service, service

from interleave.service.documents.health import Health, TimedCheck
from interleave.service.documents.keys import FILE_NAME, add_key
from interleave.service.documents.service import ServiceSettings
from interleave.service.documents.supervision import Supervision
from interleave.service.documents.worker_health import serve_health


class Clock:
    """A clock that the test moves."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_G33_a_loop_that_raises_or_hangs_is_a_problem_and_one_that_ends_is_none() -> None:
    clock = Clock()
    supervision = Supervision(clock)
    with supervision.loop("ends", max_age=5):
        assert "ends" in supervision.loops
    with pytest.raises(asyncio.CancelledError), supervision.loop("is cancelled", max_age=5):
        raise asyncio.CancelledError
    assert supervision.loops == {}
    with supervision.loop("hangs", max_age=5) as loop:
        clock.now = 5
        assert supervision.problems == []
        clock.now = 6
        assert supervision.problems == ["hangs: no sign of life for 6 s, of 5 allowed"]
        loop.beat()
        assert supervision.problems == []
    with pytest.raises(ValueError), supervision.loop("raises", max_age=5):
        raise ValueError("with details")
    assert supervision.problems == ["raises: ended by ValueError"]
    with supervision.loop("raises", max_age=5):  # started again
        assert supervision.problems == []


def test_a_service_is_live_and_ready_and_needs_no_key_for_that(tmp_path: Path) -> None:
    add_key(tmp_path / FILE_NAME, "alice")
    with service(tmp_path, settings=ServiceSettings(keep_days=1)) as running:
        running.until(lambda: running.http.get("/health/ready").status_code == 200)
        assert running.http.get("/health/ready").json() == {"status": "ready", "reasons": []}
        live = running.http.get("/health/live").json()
        assert (live["status"], live["reasons"], list(live["loops"])) == (
            "live",
            [],
            ["claims", "remove old jobs"],
        )
        assert not list(tmp_path.glob(".ready*"))


def test_G33_a_dead_loop_makes_live_fail_and_leaves_health_as_it_is(running: Service) -> None:
    documents = running.documents
    with pytest.raises(OSError), documents.supervision.loop("claim jobs", max_age=30):
        raise OSError
    answer = running.http.get("/health/live")
    assert (answer.status_code, answer.json()["reasons"]) == (503, ["claim jobs: ended by OSError"])
    assert running.http.get("/health").status_code == 200
    documents.supervision.loops.clear()
    assert running.http.get("/health/live").status_code == 200


def test_G33_a_stream_whose_loop_dies_is_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from running import HeldGenerator

    from interleave.service.documents import broadcaster

    generator = HeldGenerator(free=0)
    with service(tmp_path, generator=generator) as running:
        id_ = running.http.post("/v1/responses", json={"input": "A frog", "background": True}).json()["id"]
        with running.http.stream("GET", f"/v1/documents/{id_}/events") as stream:
            assert stream.status_code == 200
            running.until(lambda: "stream events" in running.http.get("/health/live").json()["loops"])

            def broken(self: Any) -> None:
                raise OSError("the disk is gone")

            monkeypatch.setattr(broadcaster.JobBroadcast, "poll", broken)
            running.until(lambda: running.http.get("/health/live").status_code == 503)
        generator.free = 1000


def not_writable(running: Service, monkeypatch: pytest.MonkeyPatch) -> str:
    from interleave.service.documents import health

    def refused(folder: Path) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(health, "write_and_remove", refused)
    return "the folder of runs cannot be used"


def draining(running: Service, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(running.documents, "draining", True)
    return "it is shutting down"


def table_closed(running: Service, monkeypatch: pytest.MonkeyPatch) -> str:
    async def failing(id_: str) -> None:
        raise OSError

    monkeypatch.setattr(running.documents.jobs, "get", failing)
    return "the job table cannot be used"


@pytest.mark.parametrize("harm", [not_writable, draining, table_closed], ids=lambda each: each.__name__)
def test_a_service_that_can_take_no_work_is_live_but_not_ready(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    harm: Callable[[Service, pytest.MonkeyPatch], str],
) -> None:
    with service(tmp_path) as running:
        running.until(lambda: running.http.get("/health/ready").status_code == 200)
        reason = harm(running, monkeypatch)
        answer = running.http.get("/health/ready")
        assert (answer.status_code, answer.json()) == (503, {"status": "not ready", "reasons": [reason]})
        assert running.http.get("/health/live").status_code == 200


def test_a_check_that_hangs_is_reported_and_not_started_again() -> None:
    started = 0

    async def probes() -> list[str | None]:
        answered = asyncio.Event()

        async def hanging() -> None:
            nonlocal started
            started += 1
            await answered.wait()

        check = TimedCheck("the job table", hanging, seconds=0.01)
        found = [await check.problem() for _ in range(3)]
        answered.set()
        return [*found, await check.problem()]

    words = "the job table does not answer within 0.01 s"
    assert asyncio.run(probes()) == [words, words, words, None]
    assert started == 1


def test_a_worker_answers_the_same_two_paths_beside_its_metrics(running: Service) -> None:
    documents = running.documents
    draining = threading.Event()
    health = Health(
        documents.supervision,
        documents.model_cache,
        documents.jobs,
        documents.folders.root,
        is_draining=draining.is_set,
    )
    server = serve_health(0, CollectorRegistry(), health, running.loop)
    url = f"http://127.0.0.1:{server.server_port}"
    try:
        assert httpx.get(f"{url}/health/live").json()["status"] == "live"
        assert httpx.get(f"{url}/health/ready").json() == {"status": "ready", "reasons": []}
        assert httpx.get(f"{url}/metrics").status_code == 200
        draining.set()
        assert httpx.get(f"{url}/health/ready").status_code == 503
        with pytest.raises(ValueError), documents.supervision.loop("renew leases", max_age=30):
            raise ValueError
        assert httpx.get(f"{url}/health/live").json()["reasons"] == ["renew leases: ended by ValueError"]
    finally:
        documents.supervision.loops.clear()
        server.shutdown()
        server.server_close()


def test_G33_a_blocked_event_loop_shows(running: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    from interleave.service.documents import worker_health

    monkeypatch.setattr(worker_health, "ANSWER_SECONDS", 0.05)
    server = serve_health(0, CollectorRegistry(), running.documents.health, running.loop)
    go_on = threading.Event()
    running.loop.call_soon_threadsafe(go_on.wait)
    try:
        answer = httpx.get(f"http://127.0.0.1:{server.server_port}/health/live")
        assert answer.status_code == 503 and "event loop is blocked" in answer.json()["reasons"][0]
    finally:
        go_on.set()
        server.shutdown()
        server.server_close()

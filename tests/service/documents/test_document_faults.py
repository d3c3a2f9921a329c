"""What clients and machines do to a document service: bad bodies, full disks, jumping clocks, kills."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import logging
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from running import DocumentServer, HeldGenerator, Service, service, until
from serving import coded, png

from interleave.errors import ConfigurationError
from interleave.runs.journal import Called, Drawn, read_journal
from interleave.runs.record import read_record
from interleave.runs.resolve import Choices
from interleave.service.documents import worker as worker_module
from interleave.service.documents.folders import Folders
from interleave.service.documents.job_table import JobTable
from interleave.service.documents.logs import JsonFormatter
from interleave.service.documents.responses_request import KNOWN, parse_submission
from interleave.service.documents.server import DocumentsConfig, serve_documents
from interleave.service.documents.service import ServiceSettings
from interleave.service.documents.supervision import LoopDied
from interleave.service.http.refusals import Refusal

ASKED = {"input": "A frog, in one picture", "background": True}
IMAGE = {"type": "input_image", "image_url": f"data:image/png;base64,{coded(png())}"}

SIMPLE = st.sampled_from(
    [None, True, 0, -1, 1.5, 10**30, "", "x", "auto", [], [1], {}, {"a": 1}, {"type": "x"}]
)
PARTS = st.fixed_dictionaries(
    {"type": st.sampled_from(["input_text", "input_image", "output_text", "input_file", None])},
    optional={"text": SIMPLE, "image_url": SIMPLE | st.text(max_size=30), "file_id": SIMPLE},
)
ITEMS = st.fixed_dictionaries(
    {
        "role": st.sampled_from(["user", "assistant", "tool", None]),
        "content": SIMPLE | st.lists(PARTS | SIMPLE, max_size=3),
    },
    optional={"type": st.sampled_from(["message", "image_generation_call", "reasoning"]), "result": SIMPLE},
)
BODIES = st.builds(
    lambda given, more: {"input": given, **more},
    st.text(max_size=20) | st.lists(ITEMS | SIMPLE, max_size=3) | SIMPLE,
    st.dictionaries(st.sampled_from([*KNOWN, "other"]), SIMPLE | st.text(max_size=10), max_size=3),
)


@given(BODIES)
@settings(max_examples=200, deadline=None, derandomize=True)
def test_G15_any_json_is_a_submission_or_a_refusal(body: dict[str, Any]) -> None:
    try:
        parse_submission(body, ("interleave",))
    except Refusal as reason:
        assert 400 <= reason.status < 500


@given(st.binary(max_size=200) | BODIES.map(lambda body: json.dumps(body).encode()))
@settings(
    max_examples=40,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
def test_G15_no_body_is_answered_with_a_fault_of_ours(running: Service, body: bytes) -> None:
    headers = {"content-type": "application/json"}
    answer = running.http.post("/v1/responses", content=body, headers=headers)
    assert answer.status_code < 500, answer.text
    if answer.is_success and answer.headers["content-type"] == "application/json":
        running.http.delete(f"/v1/responses/{answer.json()['id']}")


@pytest.mark.parametrize(
    "body",
    [
        {"input": ""},
        {"input": []},
        {"input": "x" * 200_000},
        {"input": "frog", "metadata": {f"k{n}": "v" for n in range(17)}},
        {"input": "frog", "metadata": {"k": "v" * 513}},
        {"input": "frog", "temperature": 0.2},
        {"input": "frog", "model": "gpt-4o"},
        {"input": "frog", "tools": [{"type": "web_search"}]},
        {"input": "frog", "store": False},
        {"input": "frog", "stream": "yes"},
        {"input": "frog", "interleave": {"max_attempts": 99}},
        {"input": "frog", "interleave": {"seed": -1}},
        {"input": "frog", "interleave": {"generator": "http://evil.example"}},
        {"input": "frog", "previous_response_id": "../../etc"},
        {"input": [{"role": "user", "content": [{"type": "input_image", "file_id": "../../etc/passwd"}]}]},
        {"input": [{"role": "user", "content": [IMAGE] * 40}]},
        {"input": "frog", "n": 10**9},
    ],
)
def test_what_cannot_be_done_is_refused_with_the_parameter(running: Service, body: dict[str, Any]) -> None:
    answer = running.http.post("/v1/responses", json=body)
    assert 400 <= answer.status_code < 500
    assert answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "id_",
    [
        *(
            "..",
            "%2e%2e%2f%2e%2e%2fetc%2fpasswd",
            "..%5c..%5cx",
            "resp_",
            "resp_..%2f",
            "CON",
            "%00",
            "a%0ab",
        ),
        *("resp_" + "g" * 48, "resp_" + "A" * 48, "resp_" + "0" * 47, "x" * 5000, "resp_%e2%80%ae"),
    ],
)
def test_G18_ids_of_clients_never_reach_the_disk(running: Service, id_: str) -> None:
    before = sorted(str(path) for path in running.folder.rglob("*"))
    for method, path in (
        ("GET", f"/v1/responses/{id_}"),
        ("DELETE", f"/v1/responses/{id_}"),
        ("POST", f"/v1/responses/{id_}/cancel"),
        ("GET", f"/v1/documents/{id_}/document.zip"),
        ("GET", f"/v1/documents/{id_}/pictures/{id_}"),
        ("GET", f"/v1/files/{id_}/content"),
    ):
        assert running.http.request(method, path).status_code in (404, 405, 414)
    assert sorted(str(path) for path in running.folder.rglob("*")) == before


def test_G14_many_readers_of_one_job_share_one_fold(tmp_path: Path) -> None:
    with service(tmp_path, generator=HeldGenerator(free=0)) as held:
        id_ = held.http.post("/v1/responses", json=ASKED).json()["id"]
        held.until(lambda: held.generator.calls)

        async def read(client: httpx.AsyncClient) -> bytes:
            async with client.stream("GET", f"/v1/responses/{id_}?stream=true") as answer:
                return b"".join([piece async for piece in answer.aiter_bytes()])

        async def read_all() -> list[bytes]:
            limits = httpx.Limits(max_connections=40)
            async with httpx.AsyncClient(
                base_url=held.url, trust_env=False, timeout=60, limits=limits
            ) as client:
                reading = [asyncio.create_task(read(client)) for _ in range(40)]
                while (
                    sum(
                        broadcast.subscribers for broadcast in held.documents.broadcaster._broadcasts.values()
                    )
                    < 40
                ):
                    await asyncio.sleep(0.01)
                assert len(held.documents.broadcaster) == 1
                held.generator.free = 100
                return await asyncio.gather(*reading)

        read_by = asyncio.run(read_all())
        assert len(set(read_by)) == 1
        assert b"event: response.completed" in read_by[0]
        held.until(lambda: not len(held.documents.broadcaster))


def test_G11_clients_that_hang_up_leave_nothing_behind(tmp_path: Path) -> None:
    with service(tmp_path, generator=HeldGenerator(free=0)) as held:
        id_ = held.http.post("/v1/responses", json=ASKED).json()["id"]
        for _ in range(30):
            with held.http.stream("GET", f"/v1/responses/{id_}?stream=true") as answer:
                next(answer.iter_bytes())
        held.until(lambda: not len(held.documents.broadcaster))
        assert held.documents.memory.held == 0
        held.generator.free = 100
        held.until(lambda: held.http.get(f"/v1/documents/{id_}").json()["status"] == "completed")


@pytest.fixture
def full_disk(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """While it is set, no file can be written."""
    full, write = threading.Event(), os.write
    monkeypatch.setattr(worker_module, "FIRST_PAUSE_SECONDS", 0.01)
    monkeypatch.setattr(worker_module, "LONGEST_PAUSE_SECONDS", 0.05)

    def failing(file: int, data: Any) -> int:
        if full.is_set() and os.path.realpath(f"/proc/self/fd/{file}").startswith("/tmp"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(file, data)

    monkeypatch.setattr(os, "write", failing)
    yield full
    full.clear()


def test_B01_jobs_wait_for_a_full_disk_and_lose_nothing(tmp_path: Path, full_disk: threading.Event) -> None:
    generator = HeldGenerator(free=1)
    with service(tmp_path, generator=generator) as held:
        id_ = held.http.post("/v1/responses", json={**ASKED, "input": "A frog in two pictures"}).json()["id"]
        held.until(lambda: len(generator.calls) == 2)
        full_disk.set()
        generator.free = 1000
        held.until(lambda: held.http.get("/health").json()["status"] == "disk failing")
        assert held.http.get("/health").status_code == 503
        content = [{"role": "user", "content": [{"type": "input_text", "text": "go on"}, IMAGE]}]
        refused = held.http.post("/v1/responses", json={"input": content, "background": True})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "storage_failed")
        assert "retry-after" in refused.headers
        assert str(tmp_path) not in refused.text
        full_disk.clear()
        held.until(lambda: held.http.get(f"/v1/responses/{id_}").json()["status"] == "completed")
        assert held.http.get("/health").json()["status"] == "ready"
        first = [entry for entry in read_journal(held.documents.folders.run(id_)) if isinstance(entry, Drawn)]
        assert [(entry.step, entry.attempt) for entry in first] == [(1, 1), (2, 1), (2, 2)]


def test_B01_a_job_table_that_cannot_grow_refuses_and_goes_on_later(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        pages = running.do(
            running.jobs.database.run(lambda db: db.execute("PRAGMA page_count").fetchone()[0])
        )
        running.do(
            running.jobs.database.run(lambda db: db.execute(f"PRAGMA max_page_count={pages}").fetchall())
        )
        big = {**ASKED, "metadata": {f"k{n}": "v" * 500 for n in range(16)}}
        answers = [running.http.post("/v1/responses", json=big) for _ in range(3)]
        assert answers[-1].status_code == 503
        running.do(
            running.jobs.database.run(lambda db: db.execute("PRAGMA max_page_count=100000").fetchall())
        )
        accepted = running.http.post("/v1/responses", json=big)
        ids = [answer.json()["id"] for answer in (*answers, accepted) if answer.is_success]
        for id_ in ids:
            running.until(
                lambda id_=id_: running.http.get(f"/v1/documents/{id_}").json()["status"] == "completed"
            )
        assert len(running.http.get("/v1/documents").json()["data"]) == len(ids)


@pytest.mark.slow
def test_B01_a_service_on_a_file_system_that_fills_up_goes_on_when_there_is_room(tmp_path: Path) -> None:
    """A real one: of a few megabytes, mounted for the process of the service alone."""
    small = tmp_path / "small"
    small.mkdir()
    mounting = f"mount -t tmpfs -o size=6m tmpfs {small}"
    if subprocess.run(["unshare", "-rm", "sh", "-c", mounting], capture_output=True).returncode != 0:
        pytest.skip("nothing can be mounted here")
    server = DocumentServer(
        tmp_path / "server",
        *("--dry-run", "--generator", "solid?size=256&delay=0.2", "--runs", str(small / "runs")),
        wrapper=("unshare", "-rm", "sh", "-c", f'{mounting} && exec "$@"', "sh"),
    )
    seen = Path(f"/proc/{server.process.pid}/root{small}")  # as the service sees it
    ids = [server.client.post("/v1/responses", json=ASKED).json()["id"] for _ in range(4)]
    with pytest.raises(OSError, match="No space"), (seen / "filler").open("wb", buffering=0) as filler:
        while True:
            filler.write(bytes(65536))
    server.until(lambda: server.client.get("/health").json()["status"] == "disk failing")
    refused = server.client.post("/v1/responses", json={**ASKED, "metadata": {"k": "v" * 500}})
    assert refused.status_code in (200, 503), refused.text  # the log of the job table may have a page left
    if refused.is_success:
        ids.append(refused.json()["id"])
    (seen / "filler").unlink()
    for id_ in ids:
        server.until(
            lambda id_=id_: server.client.get(f"/v1/documents/{id_}").json()["status"] == "completed"
        )
    assert server.client.get("/health").json()["status"] == "ready"
    assert server.client.post("/v1/responses", json={**ASKED, "background": False}).is_success
    for folder in (seen / "runs" / "runs").glob("*/*"):
        drawn = [entry.call for entry in read_journal(folder) if isinstance(entry, Drawn)]
        assert len(drawn) == len(set(drawn)) == 1
    assert server.stop() == 0


def test_J03_a_clock_that_jumps_changes_no_order_and_ends_no_job(tmp_path: Path) -> None:
    times = iter([2e9, 0.0, 1e9, 5.0, 4e9, 1.0, 2.0, 3.0])
    with service(tmp_path, clock=lambda: next(times, 7.0)) as running:
        ids = []
        for _ in range(3):
            ids.append(running.http.post("/v1/responses", json={**ASKED, "background": False}).json()["id"])
        listed = running.http.get("/v1/documents").json()["data"]
        assert [each["id"] for each in listed] == ids[::-1]
        assert {each["status"] for each in listed} == {"completed"}
        scraped = running.http.get("/metrics").text
        assert 'interleave_documents_job_seconds_count{status="completed"} 3.0' in scraped


def test_a_run_that_is_just_being_opened_has_not_started(tmp_path: Path) -> None:
    with service(tmp_path, generator=HeldGenerator(free=0), settings=ServiceSettings(concurrency=1)) as held:
        _, waiting = (held.http.post("/v1/responses", json=ASKED).json()["id"] for _ in range(2))
        folder = held.documents.folders.run(waiting)
        folder.mkdir(parents=True)
        for content in (b"", b'{"event":"star'):
            (folder / "journal.jsonl").write_bytes(content)
            for path in (f"/v1/responses/{waiting}", f"/v1/documents/{waiting}"):
                assert held.http.get(path).json()["status"] == "queued"
            assert held.http.get(f"/v1/documents/{waiting}/document.html").status_code == 404
        (folder / "journal.jsonl").unlink()
        held.generator.free = 100
        held.until(lambda: held.http.get(f"/v1/responses/{waiting}").json()["status"] == "completed")


def test_J06_cancel_races_with_the_end_and_one_state_is_final(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        for _ in range(12):
            id_ = running.http.post("/v1/responses", json=ASKED).json()["id"]
            answer = running.http.post(f"/v1/responses/{id_}/cancel").json()
            assert answer["status"] in ("cancelled", "completed")
            assert running.http.get(f"/v1/responses/{id_}").json()["status"] == answer["status"]
            assert running.http.delete(f"/v1/responses/{id_}").json()["deleted"]
        assert running.do(running.jobs.load()).running == 0
        assert not list((tmp_path / "inputs").iterdir())


def test_J06_a_job_interrupted_while_its_end_is_stored_leaves_nobody_waiting(tmp_path: Path) -> None:
    with service(tmp_path) as running:
        busy, free, storing, go_on = (threading.Event() for _ in range(4))
        jobs = running.documents.worker.jobs
        finish, database = jobs.finish, jobs.database
        held: list[Any] = []

        async def with_company(*arguments: Any, **options: Any) -> Any:
            """The end of the job and another piece of work become one commit, which waits in the middle."""
            held.append(asyncio.ensure_future(database.run(lambda _: (busy.set(), free.wait(60)))))
            while not busy.is_set():
                await asyncio.sleep(0.005)
            held.append(asyncio.ensure_future(database.run(lambda _: (storing.set(), go_on.wait(60)))))
            await asyncio.sleep(0)
            asyncio.get_running_loop().call_soon(free.set)
            return await finish(*arguments, **options)

        jobs.finish = with_company  # type: ignore[method-assign]
        id_ = running.http.post("/v1/responses", json=ASKED).json()["id"]
        events: list[str] = []
        reading = threading.Thread(
            target=lambda: events.append(running.http.get(f"/v1/responses/{id_}?stream=true").text)
        )
        reading.start()
        assert storing.wait(60)
        running.loop.call_soon_threadsafe(running.documents.worker._tasks[id_].cancel)
        running.until(lambda: id_ not in running.documents.worker._tasks or go_on.set() is None)
        reading.join(60)
        assert "response.completed" in events[0]


def test_J07_a_second_service_on_the_same_job_table_does_not_start(tmp_path: Path) -> None:
    first = JobTable(tmp_path / "jobs.sqlite")
    with pytest.raises(ConfigurationError, match="another process uses"):
        JobTable(tmp_path / "jobs.sqlite")
    first.close()
    JobTable(tmp_path / "jobs.sqlite").close()
    with (
        Folders(tmp_path).locked(),
        pytest.raises(ConfigurationError, match="another document service uses"),
        Folders(tmp_path).locked(),
    ):
        pass


def test_J24_a_dead_loop_ends_the_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its supervisor starts it again; before, it went on without taking jobs, and looked well."""

    claim = JobTable.claim

    async def defect(table: JobTable, *arguments: Any, **options: Any) -> Any:
        if table.database.path.is_relative_to(tmp_path):  # other services of this process go on
            raise TypeError("a defect")
        return await claim(table, *arguments, **options)

    monkeypatch.setattr(JobTable, "claim", defect)
    config = DocumentsConfig(Choices(profile="dry-run"), folder=tmp_path, port=0, json_logs=True)
    with pytest.raises(LoopDied, match=r"'claims' ended .*a defect"):
        serve_documents(config, lambda address: None)


def test_one_id_leads_from_the_request_to_its_model_calls(running: Service) -> None:
    lines = io.StringIO()
    handler = logging.StreamHandler(lines)
    handler.setFormatter(JsonFormatter())
    logger = logging.getLogger("interleave.service")
    before = logger.level
    logger.setLevel(logging.INFO)
    logger.addHandler(handler)
    try:
        answer = running.http.post("/v1/responses", json={"input": "A frog\r\n\x1b[31m in one picture"})
        running.until(lambda: "completed" in lines.getvalue() and "POST" in lines.getvalue())
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before)
    logged = [json.loads(line) for line in lines.getvalue().splitlines()]
    calls = [line for line in logged if line.get("role")]
    assert [line["role"] for line in calls] == ["planner", "generator", "critic"]
    assert {line["request"] for line in calls} == {answer.headers["x-request-id"]}
    assert {line["job"] for line in calls} == {answer.json()["id"]}


def test_traces_lead_from_the_request_to_its_model_calls(
    running: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    trace = pytest.importorskip("opentelemetry.trace")
    from interleave.service.documents import tracing

    spans: list[tuple[str, dict[str, Any]]] = []

    class Recording(trace.Tracer):
        def start_span(self, name: str, **options: Any) -> Any:
            return trace.NonRecordingSpan(trace.INVALID_SPAN_CONTEXT)

        def start_as_current_span(self, name: str, **options: Any) -> Any:
            spans.append((name, dict(options.get("attributes") or {})))
            return trace.use_span(trace.NonRecordingSpan(trace.INVALID_SPAN_CONTEXT))

    monkeypatch.setattr(tracing, "tracer", Recording)
    id_ = running.http.post("/v1/responses", json={"input": "A frog in one picture"}).json()["id"]
    assert [name for name, _ in spans] == [
        "interleave.submit",
        "interleave.job",
        "interleave.planner",
        "interleave.generator",
        "interleave.critic",
    ]
    assert spans[1][1]["job"] == id_


def test_tracing_is_off_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from interleave.service.documents import tracing

    for name in [name for name in os.environ if name.startswith("OTEL_")]:
        monkeypatch.delenv(name)
    tracing.tracer.cache_clear()
    assert tracing.tracer() is None
    with tracing.span("anything", job="x"):
        assert tracing.traceparent() is None
    tracing.tracer.cache_clear()


@pytest.mark.slow
def test_G07_G08_a_service_killed_at_random_moments_loses_and_repeats_nothing(tmp_path: Path) -> None:
    """Jobs are submitted while the service is killed; a submission is repeated until it is heard."""
    kills, number, chance = 6, 24, random.Random(7)
    port = _free_port()
    ids: dict[int, str] = {}
    done = threading.Event()

    def submit_all() -> None:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30, trust_env=False) as client:
            for job in range(number):
                body = {"input": f"Frog {job} in three pictures", "background": True}
                while job not in ids:
                    try:
                        answer = client.post(
                            "/v1/responses", json=body, headers={"Idempotency-Key": f"job-{job}"}
                        )
                        ids[job] = answer.json()["id"]
                    except httpx.HTTPError:
                        time.sleep(0.05)
                time.sleep(chance.uniform(0, 0.3))
        done.set()

    arguments = ("--dry-run", "--generator", "solid?size=64&delay=0.05", "--runs", str(tmp_path / "runs"))
    threading.Thread(target=submit_all, daemon=True).start()
    for kill in range(kills):
        server = DocumentServer(tmp_path / f"server{kill}", *arguments, "--port", str(port))
        time.sleep(chance.uniform(0.05, 1.2))
        server.process.send_signal(signal.SIGKILL)
        server.stop()
    server = DocumentServer(tmp_path / "last", *arguments, "--port", str(port))
    until(done.is_set)
    for id_ in ids.values():
        server.until(
            lambda id_=id_: server.client.get(f"/v1/documents/{id_}").json()["status"] == "completed"
        )
    listed = server.client.get("/v1/documents", params={"limit": 100}).json()["data"]
    assert sorted(each["id"] for each in listed) == sorted(ids.values())
    assert server.stop() == 0
    for folder in (tmp_path / "runs" / "runs").glob("*/*"):
        record, entries = read_record(folder), read_journal(folder)
        assert record.status == "done"
        sessions = sum(entry.event in ("started", "continued") for entry in entries)
        calls = [entry for entry in entries if isinstance(entry, Called)]
        assert len(calls) - len({(entry.role, entry.call) for entry in calls}) <= sessions - 1
        drawn = [entry.call for entry in entries if isinstance(entry, Drawn)]
        assert len(drawn) == len(set(drawn)) == 4


@pytest.mark.slow
def test_G27_a_service_that_is_told_to_end_keeps_its_jobs_for_the_next(tmp_path: Path) -> None:
    arguments = ("--dry-run", "--generator", "solid?size=64&delay=0.4", "--runs", str(tmp_path / "runs"))
    first = DocumentServer(tmp_path / "first", *arguments, "--drain", "0")
    id_ = first.client.post("/v1/responses", json={**ASKED, "input": "Frogs in four pictures"}).json()["id"]
    first.until(lambda: first.client.get(f"/v1/documents/{id_}").json()["status"] == "in_progress")
    assert first.stop() == 0
    second = DocumentServer(tmp_path / "second", *arguments)
    second.until(lambda: second.client.get(f"/v1/documents/{id_}").json()["status"] == "completed")
    assert second.stop() == 0


@pytest.mark.slow
def test_the_service_starts_without_options_and_draws_with_the_miniature(tmp_path: Path) -> None:
    server = DocumentServer(tmp_path / "mini", ready=False)
    assert server.client.get("/health").json()["status"] in ("loading", "ready")
    server.until(lambda: server.client.get("/health").json()["status"] == "ready", 300)
    refused = server.client.post("/v1/responses", json={"input": "A unicorn with warp drive"})
    assert refused.status_code == 400
    asked = {"input": "How a frog grows up, step by step, in four pictures", "background": True}
    id_ = server.client.post("/v1/responses", json=asked).json()["id"]
    server.until(lambda: server.client.get(f"/v1/documents/{id_}").json()["status"] == "completed", 300)
    answer = server.client.get(f"/v1/responses/{id_}").json()
    assert [item["type"] for item in answer["output"]].count("image_generation_call") == 4
    assert server.stop() == 0


def _free_port() -> int:
    import socket

    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

"""Workers that die, hang or never load, and clients that leave: real processes, really killed."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import clockwork
import httpx
import pytest
import uvicorn
from serving import PLUGINS, Server, StartServer

from interleave.service.generator.config import Limits
from interleave.service.generator.messages import GenerationTask
from interleave.service.generator.pool import Pool
from interleave.service.generator.server import _drain
from interleave.service.http.refusals import Refusal

AWKWARD = ("--generator", "awkward")


def in_background(server: Server, *prompts: str) -> list[Future[httpx.Response]]:
    threads = ThreadPoolExecutor(len(prompts))
    futures = [threads.submit(server.draw, prompt) for prompt in prompts]
    threads.shutdown(wait=False)
    return futures


def worker_of(server: Server, number: int = 0) -> dict[str, Any]:
    return server.status()["workers"][number]


@pytest.mark.slow
def test_a_killed_worker_is_told_of_and_started_again(start: StartServer) -> None:
    server = start("--generator", "awkward?load=gated-again")
    old = worker_of(server)["pid"]
    os.kill(old, signal.SIGKILL)
    server.until(lambda: server.client.get("/health").status_code == 503)
    told = server.status()
    assert (told["state"], told["active_workers"], told["system_ready"]) == ("dead", 0, False)
    assert worker_of(server)["pid"] != old
    server.open_gate("load")
    server.until(lambda: server.client.get("/health").status_code == 200)
    worker = worker_of(server)
    assert (worker["state"], worker["restarts"]) == ("ready", 1)
    assert server.draw("a cat").status_code == 200
    assert 'worker_deaths_total{worker="0"} 1.0' in server.client.get("/metrics").text
    assert "worker 0: its process was killed by signal 9" in server.errors.read_text()


@pytest.mark.slow
def test_one_dead_worker_of_two_is_a_degraded_service_that_draws_on(start: StartServer) -> None:
    server = start("--generator", "awkward?load=gated", "--devices", "cpu,cpu", ready=False)
    server.open_gate("load")
    server.until(lambda: server.status()["state"] == "ready")
    server.close_gate("load")
    os.kill(worker_of(server, 1)["pid"], signal.SIGKILL)
    told = server.until(lambda: (status := server.status())["state"] == "degraded" and status)
    assert told["workers"][0]["state"] == "ready"
    assert told["workers"][1]["state"] in ("restarting", "loading")
    assert server.client.get("/health").json()["status"] == "Degraded"
    assert server.draw("a cat").status_code == 200
    server.open_gate("load")
    server.until(lambda: server.status()["state"] == "ready")


@pytest.mark.slow
def test_an_image_whose_worker_dies_is_drawn_once_more(start: StartServer) -> None:
    server = start(*AWKWARD)
    reply = server.draw("die-once mark", seed=3)
    assert reply.status_code == 200
    assert server.happened("begin die-once mark 1") == 2


@pytest.mark.slow
def test_an_image_that_kills_its_workers_is_given_up_and_takes_no_other_with_it(start: StartServer) -> None:
    server = start(*AWKWARD)
    innocent = in_background(server, "gate a", "gate b")
    server.until(lambda: worker_of(server)["in_flight"] == 2)
    (killer,) = in_background(server, "die")
    server.until(lambda: server.happened("begin die 3"))
    for name in ("a", "b"):  # from now on each is drawn alone
        server.open_gate(name)
    assert killer.result().status_code == 503
    assert killer.result().headers["retry-after"] == "30"
    assert "two workers died" in killer.result().json()["detail"]
    assert [future.result().status_code for future in innocent] == [200, 200]
    assert server.happened("begin die 1") == 1  # the second time it was drawn alone
    assert server.happened("begin die 3") == 1


@pytest.mark.slow
def test_a_worker_that_leaves_a_child_behind_is_seen_to_be_dead(start: StartServer) -> None:
    server = start(*AWKWARD)
    assert server.draw("orphan").status_code == 200  # though the child is still there, its socket in hand
    assert worker_of(server)["restarts"] == 1
    server.open_gate("orphan")


def test_images_are_drawn_together(awkward: Server) -> None:
    replies = in_background(awkward, *(f"gate together {number}" for number in range(4)))
    awkward.until(lambda: worker_of(awkward)["in_flight"] == 4)
    awkward.open_gate("together")
    assert {future.result().status_code for future in replies} == {200}
    most = max(int(line[-1]) for line in awkward.journal.read_text().splitlines() if "together" in line)
    assert most == 4


@pytest.mark.slow
def test_no_more_are_drawn_at_once_than_the_generator_takes(start: StartServer) -> None:
    server = start("--generator", "awkward?concurrency=1", "--batch", "8")
    replies = in_background(server, *(f"wait 0.1 {number}" for number in range(4)))
    assert {future.result().status_code for future in replies} == {200}
    assert worker_of(server)["capacity"] == 1
    assert all(line.endswith(" 1") for line in server.journal.read_text().splitlines() if "begin" in line)


@pytest.mark.slow
def test_every_worker_sees_its_own_device(start: StartServer) -> None:
    server = start(*AWKWARD, "--devices", "0,2+3")
    server.until(lambda: server.status()["state"] == "ready")
    loaded = {line for line in server.journal.read_text().splitlines() if line.startswith("loading")}
    assert loaded == {"loading 0", "loading 2,3"}
    assert [worker["device"] for worker in server.status()["workers"]] == ["0", "2+3"]
    replies = in_background(server, "gate both a", "gate both b")
    server.until(lambda: server.status()["pending_tasks"] == 2)
    server.open_gate("both")
    assert sorted(future.result().json()["gpu_id"] for future in replies) == [0, 1]


def hang_up(server: Server, prompt: str) -> socket.socket:
    """Send a request and keep the line open; closing it is hanging up."""
    body = f'{{"prompt": "{prompt}"}}'
    line = socket.create_connection(("127.0.0.1", server.port))
    line.sendall(
        f"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
    )
    return line


def test_G10_G11_a_client_that_hangs_up_frees_the_worker(awkward: Server) -> None:
    with hang_up(awkward, "gate shut gone"):
        awkward.until(lambda: awkward.happened("begin gate shut gone 1"))
    awkward.until(lambda: awkward.happened("cancelled gate shut gone"))
    awkward.until(lambda: awkward.status()["pending_tasks"] == 0)
    assert 'requests_total{outcome="gone",route="/generate"}' in awkward.client.get("/metrics").text


def test_G11_a_hundred_hang_ups_leave_no_slot_taken(awkward: Server) -> None:
    for number in range(100):
        line = hang_up(awkward, "gate shut crowd")
        if number % 2:  # half of them torn down, the other half closed in order
            line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        line.close()
    nothing = {"waiting": 0, "limit": 6, "held_bytes": 0}
    awkward.until(lambda: (s := awkward.status())["pending_tasks"] == 0 and s["queue"] == nothing)
    assert awkward.draw("a cat").status_code == 200


@pytest.mark.slow
def test_a_waiting_image_whose_client_hangs_up_is_never_drawn(start: StartServer) -> None:
    server = start(*AWKWARD, "--batch", "1")
    others = in_background(server, "gate go a", "gate go b")
    server.until(lambda: server.status()["pending_tasks"] == 2)
    with hang_up(server, "never"):
        server.until(lambda: server.status()["task_queue_size"] == 2)
    server.until(lambda: server.status()["task_queue_size"] == 1)
    assert server.status()["pending_tasks"] == 2  # it went before its turn came
    server.open_gate("go")
    assert [future.result().status_code for future in others] == [200, 200]
    assert not server.happened("begin never 1")


@pytest.mark.slow
def test_G05_a_full_queue_refuses_and_says_when_to_come_back(start: StartServer) -> None:
    server = start(*AWKWARD, "--batch", "1", "--queue", "2")
    accepted = in_background(server, "gate go a", "gate go b", "gate go c")
    server.until(lambda: server.status()["task_queue_size"] == 2)
    head = "POST /edit HTTP/1.1\r\nHost: localhost\r\nContent-Length: 10000000\r\n\r\n"
    refused = server.draw("one too many")  # before any of the others can be drawn
    assert refused.status_code == 429
    assert int(refused.headers["retry-after"]) >= 1
    assert "the queue is full" in refused.json()["detail"]
    with socket.create_connection(("127.0.0.1", server.port)) as line:
        line.sendall(head.encode() + bytes(10_000_000))  # all of it, though nobody looks at it
        assert line.recv(12) == b"HTTP/1.1 429"
    several = server.client.post("/v1/images/generations", json={"prompt": "x", "n": 3})
    assert several.status_code == 429
    server.open_gate("go")
    assert [future.result().status_code for future in accepted] == [200, 200, 200]
    assert server.happened("begin one too many 1") == 0


def test_G04_a_flood_is_refused_in_part_and_what_was_accepted_is_drawn(awkward: Server) -> None:
    with ThreadPoolExecutor(32) as threads:
        replies = list(threads.map(lambda n: awkward.draw(f"wait 0.01 flood{n}").status_code, range(200)))
    assert set(replies) <= {200, 429}
    drawn = {line.split()[3] for line in awkward.journal.read_text().splitlines() if " flood" in line}
    assert len(drawn) == replies.count(200) > 0


@pytest.mark.slow
def test_a_request_past_its_deadline_is_answered_and_its_drawing_stopped(start: StartServer) -> None:
    server = start(*AWKWARD, "--deadline", "1")
    reply = server.until(lambda: (reply := server.draw("gate shut")).status_code == 504 and reply)
    assert "not generated within 1 s" in reply.json()["detail"]
    server.until(lambda: server.happened("cancelled gate shut"))


def test_a_deadline_is_kept_to_the_second() -> None:
    async def draw(*, loaded: bool) -> tuple[int, float]:
        pool = Pool("solid", limits=Limits(deadline_seconds=30))
        began = clockwork.now()
        with pytest.raises(Refusal) as refusal:
            await (pool.draw([GenerationTask("x", 1)]) if loaded else pool.loaded_info())
        assert not pool.busy
        return refusal.value.status, clockwork.now() - began

    assert clockwork.run(draw(loaded=True)) == (504, 30)
    assert clockwork.run(draw(loaded=False)) == (503, 30)


@pytest.mark.slow
@pytest.mark.parametrize("how", ["fails", "dies"])
def test_a_generator_that_cannot_be_loaded_is_told_of_and_tried_again(start: StartServer, how: str) -> None:
    server = start("--generator", f"awkward?load={how}", ready=False)
    told = server.until(lambda: (status := server.status())["state"] == "dead" and status)
    assert told["workers"][0]["last_error"]
    reply = server.draw("a cat")
    assert reply.status_code == 503
    assert "no worker is running" in reply.json()["detail"]
    assert int(reply.headers["retry-after"]) >= 1
    assert server.client.get("/health").json()["status"] == "Dead"
    server.until(lambda: worker_of(server)["restarts"] >= 2)
    assert "restarting in 1.0 s" in server.until(
        lambda: (text := server.errors.read_text()).count("restarting in") >= 2 and text
    )


@pytest.mark.slow
def test_requests_wait_while_the_generator_is_loaded(start: StartServer) -> None:
    server = start("--generator", "awkward?load=gated", ready=False)
    (reply,) = in_background(server, "a cat")
    server.until(lambda: server.happened("loading -"))
    assert server.client.get("/health").json()["status"] == "Loading"
    assert not reply.done()
    server.open_gate("load")
    assert reply.result().status_code == 200


@pytest.mark.slow
def test_workers_end_with_their_server_even_when_it_is_killed(start: StartServer) -> None:
    server = start(*AWKWARD)
    worker = worker_of(server)["pid"]
    server.process.kill()
    server.process.wait()
    server.until(lambda: not os.path.exists(f"/proc/{worker}"))


@pytest.mark.slow
def test_G27_a_server_that_is_told_to_end_finishes_what_it_has_begun(start: StartServer) -> None:
    server = start(*AWKWARD, "--batch", "1", "--drain", "600")
    replies = in_background(server, "gate go a", "gate go b")
    server.until(lambda: server.status()["pending_tasks"] == 2)
    server.process.terminate()
    server.until(lambda: "shutting down: 2 images to finish" in server.errors.read_text())
    server.open_gate("go")
    assert [future.result().status_code for future in replies] == [200, 200]
    assert server.process.wait(timeout=120) == 0


@pytest.mark.slow
def test_G27_images_that_take_too_long_are_given_up_when_the_server_ends(start: StartServer) -> None:
    server = start(*AWKWARD, "--drain", "0.5")
    (reply,) = in_background(server, "gate shut")
    server.until(lambda: server.happened("begin gate shut 1"))
    server.process.terminate()
    assert reply.result().status_code == 503
    assert server.process.wait(timeout=120) == 0


@pytest.mark.slow
def test_G27_who_comes_while_the_server_is_ending_is_told_to_go_elsewhere(start: StartServer) -> None:
    """On connections that are new, that were kept, and that were in the middle of sending."""
    server = start(*AWKWARD, "--drain", "600")
    line = socket.create_connection(("127.0.0.1", server.port), timeout=120)
    line.sendall(b"POST /generate HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n")
    line.sendall(b"Content-Length: 17\r\n\r\n")
    (under_way,) = in_background(server, "gate go")
    server.until(lambda: server.happened("begin gate go 1"))
    server.process.terminate()
    server.until(lambda: "shutting down: 1 image to finish" in server.errors.read_text())
    with httpx.Client(base_url=server.url, timeout=120, trust_env=False) as newcomer:
        for client in (newcomer, server.client, newcomer):
            reply = client.post("/generate", json={"prompt": "new"})
            assert reply.status_code == 503
            assert (reply.headers["retry-after"], reply.headers["connection"]) == ("5", "close")
            assert client.get("/health").json()["status"] == "Draining"
    line.sendall(b'{"prompt": "new"}')
    with line:
        assert line.recv(100).startswith(b"HTTP/1.1 503 ")
    server.open_gate("go")
    assert under_way.result().status_code == 200
    assert server.process.wait(timeout=120) == 0


def test_G27_the_port_stays_open_until_images_are_finished_or_time_is_up() -> None:
    async def drain(seconds: float) -> tuple[float, int]:
        pool = Pool("solid", limits=Limits(drain_seconds=30))
        server = uvicorn.Server(uvicorn.Config(lambda: None))
        drawing = asyncio.create_task(pool.draw([GenerationTask("x", 1)]))
        await asyncio.sleep(0)
        (ticket,) = pool.waiting
        asyncio.get_running_loop().call_later(seconds, ticket.answer.cancel)
        began = clockwork.now()
        await _drain(server, pool)
        assert server.should_exit
        await asyncio.gather(drawing, return_exceptions=True)
        return round(clockwork.now() - began), server.config.timeout_graceful_shutdown or 0

    assert clockwork.run(drain(10)) == (10, 24)
    assert clockwork.run(drain(100)) == (30, 5)


@pytest.mark.slow
def test_a_worker_that_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    """Longer than any client waits, and deaf to being cancelled."""
    monkeypatch.setenv(
        "PYTHONPATH", os.pathsep.join(filter(None, (str(PLUGINS), os.environ.get("PYTHONPATH"))))
    )

    async def hang() -> tuple[int, int]:
        pool = Pool("awkward", limits=Limits(deadline_seconds=1, silence_seconds=1))
        pool.start()
        try:
            await pool.loaded_info(pool.deadline() + 120)
            with pytest.raises(Refusal) as late:
                await pool.draw([GenerationTask("block 600", 1)])
            async with asyncio.timeout(120):
                while pool.workers[0].state != "ready" or not pool.workers[0].restarts:
                    await asyncio.sleep(0.1)
            await pool.draw([GenerationTask("a cat", 1)], pool.deadline() + 120)
            return late.value.status, pool.workers[0].restarts
        finally:
            await pool.stop()

    assert asyncio.run(hang()) == (504, 1)

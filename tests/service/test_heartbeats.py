"""Workers that hang are seen within seconds; workers that draw for minutes are left alone."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any

import clockwork
import pytest
from serving import StartServer

from interleave.backends.protocols import GeneratorCapabilities
from interleave.service.generator import worker_process as workers
from interleave.service.generator import worker_protocol
from interleave.service.generator.config import Limits
from interleave.service.generator.messages import GeneratedImage, GenerationTask, GeneratorInfo
from interleave.service.generator.pool import Pool
from interleave.service.generator.worker_process import Ticket, Worker, WorkerState
from interleave.service.generator.worker_protocol import HeartbeatMonitor, processor_seconds
from interleave.service.http.refusals import Refusal

AWKWARD = ("--generator", "awkward")
SILENCE = 10.0


class Patient:
    """A worker process that does what a test says, by the test's own clock."""

    pid = 4711
    returncode = None

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.computed = 0.0
        self.beats, self.blocks, self.computes = True, False, False
        self.blocked_for = 0.0
        self.pulse = HeartbeatMonitor(clockwork.now())
        monkeypatch.setattr(worker_protocol, "processor_seconds", lambda pid: self.computed)

    def live(self, seconds: float) -> None:
        self.computed += seconds if self.computes else 0.0
        self.blocked_for = self.blocked_for + seconds if self.blocks else 0.0
        if self.beats:
            self.pulse.theirs.send(worker_protocol._BEAT.pack(self.blocked_for))


class Listener:
    """Who would be told."""

    def capacity_freed(self, worker: Worker) -> None: ...
    def task_ended(self, worker: Worker, ticket: Ticket) -> None: ...


async def watched(
    monkeypatch: pytest.MonkeyPatch, seconds: int, *, ends_after: float | None = None, **state: Any
) -> list[tuple[float, str]]:
    """When the state of a worker changed, in seconds; with an image that has so long, or without one."""
    patient = Patient(monkeypatch)
    vars(patient).update(state)
    worker = Worker(0, None, "solid", Listener(), silence_seconds=SILENCE)  # type: ignore[arg-type]
    worker.state, worker._heartbeats, worker._process = WorkerState.READY, patient.pulse, patient  # type: ignore[assignment]
    began = clockwork.now()
    monkeypatch.setattr(worker, "kill", lambda reason: told.append((clockwork.now() - began, "killed")))
    if ends_after is not None:
        worker.send(Ticket(0, GenerationTask("x", 1), asyncio.Future(), began + ends_after))
    told: list[tuple[float, str]] = []
    last = worker.state
    for _ in range(seconds):
        await asyncio.sleep(1)
        patient.live(1)
        worker.check(clockwork.now())
        if worker.state is not last:
            last = worker.state
            told.append((clockwork.now() - began, str(last)))
        if told and told[-1][1] == "killed":
            break
    patient.pulse.close()
    return told


CASES: dict[str, tuple[dict[str, Any], list[tuple[float, str]]]] = {
    "idle and well": ({}, []),
    "draws for minutes": ({"ends_after": 300.0, "computes": True}, []),
    "draws on a device": ({"ends_after": 300.0}, []),
    "draws and blocks its loop": ({"ends_after": 300.0, "blocks": True}, []),
    "draws and holds the interpreter": ({"ends_after": 300.0, "beats": False, "computes": True}, []),
    "is stopped, idle": ({"beats": False}, [(11, "hung"), (31, "killed")]),
    "is stopped while it draws": ({"ends_after": 300.0, "beats": False}, [(12, "hung"), (32, "killed")]),
    "blocks its loop with nothing to draw": ({"blocks": True}, [(11, "hung"), (31, "killed")]),
    "keeps a picture past its deadline": ({"ends_after": 20.0}, [(31, "hung"), (51, "killed")]),
}


@pytest.mark.parametrize(("state", "told"), CASES.values(), ids=CASES)
def test_a_worker_is_taken_for_hung_when_nothing_moves_and_not_when_it_draws(
    monkeypatch: pytest.MonkeyPatch, state: dict[str, Any], told: list[tuple[float, str]]
) -> None:
    assert clockwork.run(watched(monkeypatch, 290, **state)) == told


def test_a_worker_that_moves_again_is_well_again(monkeypatch: pytest.MonkeyPatch) -> None:
    async def pause() -> list[WorkerState]:
        patient = Patient(monkeypatch)
        worker = Worker(0, None, "solid", Listener(), silence_seconds=SILENCE)  # type: ignore[arg-type]
        worker.state, worker._heartbeats = WorkerState.READY, patient.pulse
        states = []
        for patient.beats in [True, *[False] * 12, True]:
            await asyncio.sleep(1)
            patient.live(1)
            worker.check(clockwork.now())
            states.append(worker.state)
        patient.pulse.close()
        return states

    states = clockwork.run(pause())
    assert states == [*[WorkerState.READY] * 11, *[WorkerState.HUNG] * 2, WorkerState.READY]


def test_a_generator_that_cannot_be_interrupted_may_finish_its_image(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """One that has taken 40 s for an image may take them again, though nobody waits for it any more."""

    async def late(longest: float) -> bool:
        patient = Patient(monkeypatch)
        worker = Worker(0, None, "solid", Listener(), silence_seconds=SILENCE)  # type: ignore[arg-type]
        worker.state, worker._heartbeats, worker._longest_draw = WorkerState.READY, patient.pulse, longest
        worker.send(Ticket(0, GenerationTask("x", 1), asyncio.Future(), clockwork.now()))
        await asyncio.sleep(30)
        patient.live(1)
        worker.check(clockwork.now())
        patient.pulse.close()
        return worker.state is WorkerState.HUNG

    assert clockwork.run(late(longest=0.0))
    assert not clockwork.run(late(longest=40.0))


def test_a_hung_worker_is_given_nothing_and_the_server_is_not_healthy() -> None:
    async def look() -> tuple[str, bool, str, bool]:
        pool = Pool("solid")
        (worker,) = pool.workers
        pool.info = GeneratorInfo(GeneratorCapabilities())
        ticket, told = Ticket(0, GenerationTask("x", 1), asyncio.Future(), 1e9), []
        for worker.state in (WorkerState.READY, WorkerState.HUNG):
            told += [pool.state, worker.can_take(ticket)]
        return tuple(told)  # type: ignore[return-value]

    assert clockwork.run(look()) == ("ready", True, "dead", False)


def test_an_image_that_takes_longer_than_a_draw_may_is_answered_in_time() -> None:
    """However long the request itself would have waited."""

    async def draw() -> tuple[int, float, list[str]]:
        pool = Pool("solid", limits=Limits(draw_seconds=20, deadline_seconds=300))
        (worker,) = pool.workers
        worker.state = WorkerState.READY
        worker._outbox = asyncio.Queue()
        began, watching = clockwork.now(), asyncio.create_task(pool._watch())
        with pytest.raises(Refusal) as refusal:
            await pool.draw([GenerationTask("x", 1)])
        watching.cancel()
        posted = [worker._outbox.get_nowait()[0]["event"] for _ in range(worker._outbox.qsize())]
        return refusal.value.status, clockwork.now() - began, posted

    assert clockwork.run(draw()) == (504, 20, ["draw", "cancel"])


def test_an_image_that_is_drawn_and_only_being_written_is_not_late() -> None:
    async def draw() -> GeneratedImage:
        pool = Pool("solid", limits=Limits(draw_seconds=20, deadline_seconds=300))
        (worker,) = pool.workers
        worker.state = WorkerState.READY
        watching, drawing = (
            asyncio.create_task(pool._watch()),
            asyncio.create_task(pool.draw([GenerationTask("x", 1)])),
        )
        await asyncio.sleep(10)
        (ticket,) = worker.in_flight.values()
        ticket.drawn = True
        await asyncio.sleep(30)
        image = GeneratedImage(b"", 1, 1, 1, 0, None, 10.0)
        ticket.answer.set_result(image)
        watching.cancel()
        return (await drawing)[0]

    assert clockwork.run(draw()).seconds == 10.0


def test_the_system_tells_how_long_a_process_has_computed() -> None:
    before = processor_seconds(os.getpid())
    if before is None:
        pytest.skip("does not apply: this system does not tell")
    used = time.process_time()
    while time.process_time() - used < 0.05:
        pass
    after = processor_seconds(os.getpid())
    assert after is not None
    assert after >= before + 0.03
    assert processor_seconds(2**22 + 1) is None


BLOCKED = """
import sys, time
from interleave.service.generator.worker_protocol import HeartbeatSender

HeartbeatSender(int(sys.argv[1])).start()
time.sleep(600)
"""


@pytest.mark.slow
def test_beats_come_while_the_main_thread_blocks_and_the_process_ends_when_nobody_hears_them() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    with theirs:
        command = [sys.executable, "-c", BLOCKED, str(theirs.fileno())]
        process = subprocess.Popen(command, pass_fds=[theirs.fileno()])
    with ours:
        ours.settimeout(120)
        beats = [worker_protocol._BEAT.unpack(ours.recv(8))[0] for _ in range(3)]
    assert 0 <= beats[0] < beats[1] < beats[2]  # the loop, which there is none, has not turned
    assert process.wait(120) == 0


@pytest.mark.slow
def test_a_stopped_worker_is_unhealthy_at_once_and_well_when_it_goes_on(start: StartServer) -> None:
    server = start(*AWKWARD, "--heartbeat", "5")
    pid = server.status()["workers"][0]["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        server.until(lambda: server.client.get("/health").status_code == 503)
        assert server.status()["workers"][0]["state"] == "hung"
    finally:
        os.kill(pid, signal.SIGCONT)
    server.until(lambda: server.client.get("/health").status_code == 200)
    worker = server.status()["workers"][0]
    assert (worker["pid"], worker["restarts"]) == (pid, 0)


@pytest.mark.slow
def test_a_worker_that_stays_stopped_is_replaced_and_its_image_drawn_by_the_next(
    start: StartServer,
) -> None:
    from test_workers import in_background

    server = start(*AWKWARD, "--heartbeat", "1")
    (reply,) = in_background(server, "gate a")
    server.until(lambda: server.happened("begin gate a 1"))
    os.kill(server.status()["workers"][0]["pid"], signal.SIGSTOP)
    server.until(lambda: server.happened("begin gate a 1") == 2)
    server.open_gate("a")
    assert reply.result().status_code == 200
    assert server.status()["workers"][0]["restarts"] == 1
    assert "killed after 3 s without progress" in server.errors.read_text()


@pytest.mark.slow
@pytest.mark.parametrize("prompt", ["block 6", "hold 150000000"], ids=["its loop", "the interpreter"])
def test_a_worker_that_draws_and_blocks_everything_is_left_alone(start: StartServer, prompt: str) -> None:
    """Much longer than it may be silent when it is idle."""
    server = start(*AWKWARD, "--heartbeat", "1")
    assert server.draw(prompt).status_code == 200
    assert server.status()["workers"][0]["restarts"] == 0
    assert "no progress" not in server.errors.read_text()


@pytest.mark.slow
def test_a_worker_ends_with_its_server_even_while_it_is_blocked(start: StartServer) -> None:
    from test_workers import in_background

    server = start(*AWKWARD)
    worker = server.status()["workers"][0]["pid"]
    (reply,) = in_background(server, "block 600")
    server.until(lambda: server.happened("begin block 600 1"))
    server.process.kill()
    server.process.wait()
    server.until(lambda: not os.path.exists(f"/proc/{worker}"))
    assert reply.exception() is not None


def test_the_limits_of_the_watch_fit_each_other() -> None:
    assert worker_protocol.BEAT_SECONDS * 4 < Limits().silence_seconds <= 10
    assert workers.KILLED_AFTER > 1

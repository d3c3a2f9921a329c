"""Many machines, played by processes: workers die and hang, Postgres is restarted, the shared folder is slow.

Nothing fails, nothing is lost, and no call is made again but those that were open: at most one per job.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from local_postgres import PostgresServer
from machines import REQUEST, Machines, until

from interleave import Ended
from interleave.runs.folder import comparable
from interleave.runs.journal import RequestPart
from interleave.runs.journal_files import Lease
from interleave.runs.resolve import Choices, resolve
from interleave.service.documents.folders import Folders
from interleave.service.documents.job_table import Claimed, JobTable
from interleave.service.documents.jobs import Job, new_job_id
from interleave.service.documents.model_cache import ModelCache
from interleave.service.documents.postgres import PostgresDatabase
from interleave.service.documents.worker import Worker, WorkerSettings

psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: pip install psycopg")
JOBS = 4


def repeated(machines: Machines, copies: int) -> int:
    """How many calls were made more often than once for each of so many equal jobs."""
    return sum(times - copies for times in machines.calls().values() if times > copies)


def check(machines: Machines, jobs: list[str], whole: tuple[dict[str, object], int], open_slots: int) -> None:
    record, calls = whole
    machines.wait_for(jobs)
    for job in jobs:
        assert comparable(machines.run(job)) == record
    made = machines.calls().total()
    assert made <= (len(jobs) + 1) * calls + open_slots
    assert repeated(machines, len(jobs) + 1) <= open_slots


def test_J11_a_worker_is_killed_and_another_takes_over(machines: Machines) -> None:
    machines.service()
    first = machines.worker()
    whole = machines.undisturbed()
    jobs = machines.submit(JOBS)
    with machines.holding(JOBS, after=3 * JOBS):
        second = machines.worker()
        first.signal(signal.SIGKILL)
    check(machines, jobs, whole, JOBS)
    assert second.says("stalled on")


def test_J12_a_paused_worker_that_wakes_up_counts_no_more(machines: Machines) -> None:
    machines.service()
    first = machines.worker()
    whole = machines.undisturbed()
    jobs = machines.submit(JOBS)
    with machines.holding(JOBS, after=3 * JOBS):
        first.signal(signal.SIGSTOP)
        machines.worker()
    machines.wait_for(jobs)
    made = machines.calls().total()
    ends = {job: machines.response(job) for job in jobs}
    first.signal(signal.SIGCONT)
    until(lambda: first.says("is left to another worker"))
    check(machines, jobs, whole, JOBS)
    assert machines.calls().total() == made, "the worker that woke up made a call"
    assert {job: machines.response(job) for job in jobs} == ends
    machines.workers[1].signal(signal.SIGKILL)
    machines.wait_for(machines.submit(1))  # the first one works again


def test_J13_postgres_is_restarted(machines: Machines, postgres: PostgresServer) -> None:
    machines.service()
    machines.worker(lease=30)
    machines.worker(lease=30)
    whole = machines.undisturbed()
    jobs = machines.submit(JOBS)
    with machines.holding(JOBS, after=2 * JOBS):
        postgres.stop("immediate")
    until(lambda: machines.models.in_flight == 0)
    postgres.start()
    check(machines, jobs, whole, 0)
    machines.wait_for(machines.submit(1))


def test_J18_postgres_is_read_only_for_longer_than_a_lease(
    machines: Machines, postgres: PostgresServer
) -> None:
    """Leases are lost and ends cannot be stored, but every loop goes on: nothing is left lying."""
    service = machines.service()
    workers = [machines.worker(lease=3) for _ in range(2)]
    whole = machines.undisturbed()
    jobs = machines.submit(JOBS)
    with machines.holding(JOBS, after=2 * JOBS):
        postgres.read_only(True)
        refused = service.client.post("/v1/responses", json={"input": REQUEST, "background": True})
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "storage_failed")
        until(lambda: all(each.says("is left to another worker") for each in workers))
    postgres.read_only(False)
    check(machines, jobs, whole, 3 * JOBS)
    machines.wait_for(machines.submit(1))
    assert all(each.process.poll() is None for each in workers)


class HeldWorker(Worker):
    """Its first answer waits for ever, and once interrupted it ends when the test lets it."""

    async def _answer(self, job: Job, lease: Lease | None) -> Ended:
        assert lease is not None
        self.tokens.append(lease.token)
        if len(self.tokens) == 1:
            await asyncio.Event().wait()
        return await super()._answer(job, lease)

    async def _cancelled(self, claimed: Claimed) -> None:
        await self.may_end.wait()
        await super()._cancelled(claimed)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.tokens: list[int] = []
        self.may_end = asyncio.Event()


def test_J12_a_worker_that_gets_its_own_job_again_keeps_the_new_lease(tmp_path: Path, database: str) -> None:
    """The task of the lost lease ends after the job was claimed again, as after an outage of the table."""
    table = JobTable(PostgresDatabase(database))
    choices = Choices(profile="dry-run")
    config, pack = resolve(choices)
    folders = Folders(tmp_path)
    folders.make()

    async def work() -> None:
        worker = HeldWorker(
            table, folders, ModelCache(config, pack, choices), WorkerSettings(lease_seconds=600)
        )
        parts = (RequestPart(text="a lake in one picture"),)
        job = await table.insert(Job(id=new_job_id(), created=1.0, parts=parts, config=config, model="m"))
        await worker.start()
        await reached(lambda: worker.tokens == [1])
        expired = "UPDATE jobs SET leased_until = now() - interval '1 second'"
        await table.run(lambda connection: connection.execute(expired).rowcount)
        worker._leases[job.id].lose()
        worker._interrupt(set())
        await reached(lambda: job.id in worker._leases and worker._leases[job.id].token == 2)
        assert worker.tokens == [1], "two tasks of one process worked on one job"
        worker.may_end.set()
        await reached(lambda: not worker.running())
        ended = await table.get(job.id)
        assert worker.tokens == [1, 2] and ended is not None and ended.status == "completed"
        await worker.stop()

    asyncio.run(work())
    table.close()


async def reached(fact: Callable[[], object]) -> None:
    while not fact():
        await asyncio.sleep(0.01)


def test_J20_without_postgres_nothing_is_stored_after_the_answer(
    machines: Machines, postgres: PostgresServer
) -> None:
    service = machines.service()
    postgres.stop("immediate")
    body = {"input": REQUEST, "background": True}
    answers = [service.client.post("/v1/responses", json=body) for _ in range(3)]
    assert {answer.status_code for answer in answers} == {503}
    assert service.client.get("/health").json()["status"] == "job table failing"
    postgres.start()
    until(lambda: service.client.get("/health").json()["status"] == "ready")
    assert service.client.get("/v1/documents").json()["data"] == []


def test_J14_a_slow_shared_folder_costs_no_lease(machines: Machines) -> None:
    """Each write takes a twelfth of the lease, and a run needs dozens, many of them in the event loop."""
    machines.service()
    workers = [machines.worker(lease=6, slow_disk=0.5) for _ in range(2)]
    whole = machines.undisturbed()
    jobs = machines.submit(1)
    check(machines, jobs, whole, 0)
    assert not any(each.says("stalled on") or each.says("left to another") for each in workers)


def test_a_worker_that_is_ended_leaves_its_jobs_at_once(machines: Machines) -> None:
    machines.service()
    first = machines.worker("--drain", "0", lease=600)
    whole = machines.undisturbed()
    jobs = machines.submit(JOBS)
    with machines.holding(JOBS, after=2 * JOBS):
        assert first.stop() == 0
        machines.worker(lease=600)
    check(machines, jobs, whole, JOBS)


def test_services_hear_of_jobs_that_workers_end(machines: Machines) -> None:
    """Two services on one table: a client of either waits, streams, and cancels what runs elsewhere."""
    first, second = machines.service(), machines.service()
    machines.worker()
    answered = second.client.post("/v1/responses", json={"input": "A lake in two pictures"}).json()
    assert answered["status"] == "completed"
    asked = {"input": "A lake in two pictures", "stream": True}
    with first.client.stream("POST", "/v1/responses", json=asked) as streamed:
        assert "response.completed" in streamed.read().decode()
    (job,) = machines.submit(1)
    with machines.holding(1, after=2):
        cancelled = second.client.post(f"/v1/responses/{job}/cancel").json()
        assert cancelled["status"] == "cancelled"
    assert machines.response(job)["status"] == "cancelled"


def test_a_queue_is_paused_and_reordered_for_all_machines(machines: Machines) -> None:
    first, second = machines.service().client, machines.service().client
    assert first.post("/v1/studio/queue/pause").json()["paused"]
    machines.worker("--concurrency", "1")
    jobs = machines.submit(3)
    moved = second.post(f"/v1/studio/queue/{jobs[2]}/move", json={"place": 0}).json()
    assert [item["id"] for item in moved["waiting"]] == [jobs[2], jobs[0], jobs[1]]
    assert not machines.calls()
    machines.models.free.clear()
    assert not second.post("/v1/studio/queue/resume").json()["paused"]
    running = until(lambda: first.get("/v1/studio/queue").json()["running"])
    assert [item["id"] for item in running] == [jobs[2]]
    machines.models.free.set()
    machines.wait_for(jobs)


def test_a_held_plan_is_released_and_drawn_by_a_worker(machines: Machines) -> None:
    """The decision goes into the journal of a later lease."""
    service = machines.service()
    machines.worker()
    body = {"input": "A lake in two pictures", "background": True, "interleave": {"hold_plan": True}}
    job = service.client.post("/v1/responses", json=body).json()["id"]
    until(lambda: service.client.get(f"/v1/documents/{job}").json()["status"] == "held")
    assert service.client.post(f"/v1/documents/{job}/plan/release").status_code == 200
    until(lambda: machines.response(job)["status"] == "completed")
    assert (machines.run(job) / "journal.2.jsonl").exists()


def test_J17_a_job_that_takes_every_worker_down_is_given_up(machines: Machines) -> None:
    machines.service()
    (job,) = machines.submit(1)
    with psycopg.connect(machines.database) as connection:
        connection.execute(
            "UPDATE interleave.jobs SET status = 'in_progress', worker = 'the fifth', stalls = 4, token = 5, "
            "leased_until = now() - interval '1 second'"
        )
    worker = machines.worker()
    ended = until(lambda: machines.response(job) if machines.response(job)["error"] else None)
    assert "5 workers in a row died or hung with it" in ended["error"]["message"]
    assert worker.says("stalled on the fifth") and not machines.calls()


def test_the_jobs_of_one_key_run_on_all_workers_at_once(machines: Machines) -> None:
    machines.service()
    for _ in range(2):
        machines.worker("--concurrency", "1")
    jobs = machines.submit(3)
    with machines.holding(2):
        assert machines.models.most_in_flight == 2
    machines.wait_for(jobs)

"""The job table in both databases: each job has one holder, keys take turns, quotas hold."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import threading
from collections import Counter
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from interleave.errors import ConfigurationError, RunError, StorageError
from interleave.runs.journal import RequestPart
from interleave.runs.journal_files import clock_that_never_stops
from interleave.runs.resolve import Choices, resolve
from interleave.service.documents.admission import HOUR, Admission
from interleave.service.documents.database import SqlConnection
from interleave.service.documents.deliveries import Deliveries, Delivery
from interleave.service.documents.job_table import (
    NEEDS,
    STATE,
    Claimed,
    IdempotencyConflict,
    JobTable,
    Load,
    fair_shares,
)
from interleave.service.documents.jobs import Job, end_of, new_file_id, new_job_id
from interleave.service.documents.keys import Caller
from interleave.service.documents.old_queue import FILE_NAME as QUEUE_FILE
from interleave.service.documents.old_queue import adopt_queue
from interleave.service.documents.postgres import PostgresDatabase
from interleave.service.documents.refusals import ApiRefusal
from interleave.service.documents.schema import POSTGRES_STEPS, SQLITE_STEPS
from interleave.service.documents.uploads import StoredFile, Uploads

CONFIG = resolve(Choices(profile="dry-run"))[0]
LEASE = 600.0


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.slow)])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[JobTable]:
    if request.param == "postgres":
        opened = JobTable(PostgresDatabase(request.getfixturevalue("database")))
    else:
        opened = JobTable(tmp_path / "jobs.sqlite")
    yield opened
    opened.close()


def job(key: str = "", **more: Any) -> Job:
    parts = (RequestPart(text="a lake"),)
    return Job(id=new_job_id(), key=key, created=1.0, parts=parts, config=CONFIG, model="m", **more)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


async def do(table: JobTable, statement: str, *values: Any) -> Any:
    return await table.run(lambda connection: connection.execute(statement, values).rowcount)


async def later(table: JobTable, seconds: float) -> None:
    """All stored times are so many seconds further in the past."""
    for name, column in (("jobs", "leased_until"), ("rates", "counted"), ("delivery_times", "due")):
        earlier = (
            f"{column} - make_interval(secs => ?)" if table.database.shared else f"{column} - CAST(? AS REAL)"
        )
        await do(table, f"UPDATE {name} SET {column} = {earlier}", seconds)


async def claim(table: JobTable, worker: str = "w", most: int = 1, **more: Any) -> list[Claimed]:
    return await table.claim(worker, most=most, seconds=LEASE, **more)


async def renew(table: JobTable, tokens: dict[str, int]) -> dict[str, bool]:
    return await table.run(lambda connection: table.renew(connection, tokens, LEASE))


def test_J10_many_workers_take_each_job_once(table: JobTable) -> None:
    """Sixteen workers, two hundred jobs of three keys."""

    async def work() -> None:
        for number in range(200):
            await table.insert(job(f"key {number % 3}"))
        taken: Counter[str] = Counter()

        async def worker(name: str) -> None:
            while claimed := await claim(table, name, 3):
                taken.update(each.job.id for each in claimed)

        await asyncio.gather(*(worker(f"w{number}") for number in range(16)))
        assert len(taken) == 200 and set(taken.values()) == {1}

    run(work())


def test_J12_a_lease_that_ran_out_counts_for_nothing_once_another_worker_has_the_job(
    table: JobTable,
) -> None:
    async def work() -> None:
        stored = await table.insert(job())
        (first,) = await claim(table, "one", 5)
        assert await claim(table, "two", 5) == []
        await later(table, LEASE + 1)
        assert await renew(table, {stored.id: first.token}) == {}
        (second,) = await claim(table, "two", 5)
        assert (second.token, second.stalled_worker, second.stalls) == (first.token + 1, "one", 1)
        assert await table.finish(stored.id, "failed", 2.0, token=first.token) is None
        await table.release(stored.id, first.token)
        assert await renew(table, {stored.id: second.token}) == {stored.id: False}
        ended = await table.finish(stored.id, "completed", 2.0, token=second.token)
        assert ended is not None and ended.status == "completed"
        assert await table.finish(stored.id, "failed", 3.0, token=second.token) is None

    run(work())


def test_keys_take_turns_and_keep_within_their_share(table: JobTable) -> None:
    async def work() -> None:
        for key in ("many", "many", "many", "many", "few"):
            await table.insert(job(key))
        first = await claim(table, most=2)
        assert [each.job.key for each in sorted(first, key=lambda each: each.job.number)] == ["many", "few"]
        more = await claim(table, most=5, per_key=2)
        assert [each.job.key for each in more] == ["many"]

    run(work())


@pytest.mark.parametrize(
    ("keys", "most", "per_key", "shares"),
    [
        ({}, 4, None, {}),
        ({"a": (0, 1)}, 3, None, {"a": 3}),
        ({"a": (0, 1)}, 3, 2, {"a": 2}),
        ({"a": (2, 1), "b": (0, 9)}, 3, None, {"b": 2, "a": 1}),
        ({"a": (0, 5), "b": (0, 1), "c": (3, 2)}, 2, None, {"b": 1, "a": 1}),
        ({"a": (2, 1), "b": (2, 2)}, 9, 2, {}),
    ],
)
def test_places_go_to_the_key_with_the_fewest_jobs(
    keys: dict[str, tuple[int, int]], most: int, per_key: int | None, shares: dict[str, int]
) -> None:
    assert fair_shares(keys, most, per_key) == shares


def test_J23_a_claim_looks_at_each_waiting_key_and_not_at_each_waiting_job(tmp_path: Path) -> None:
    """SQLite counts the steps of its virtual machine: they are the work, whatever the machine does."""
    table = JobTable(tmp_path / "jobs.sqlite")

    async def steps(waiting: int) -> int:
        row = (await table.insert(job("many"))).model_dump_json(exclude=STATE)
        more = (
            "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) "
            "INSERT INTO jobs (id, key, status, job) SELECT 'more ' || ? || i, 'many', 'queued', ? FROM n"
        )
        await do(table, more, waiting, waiting, row)
        taken = 0

        def step() -> int:
            nonlocal taken
            taken += 1
            return 0

        def watch(connection: SqlConnection) -> None:
            connection.set_progress_handler(step, 1)  # type: ignore[attr-defined]

        await table.run(watch)
        await claim(table, most=2)
        await table.run(lambda connection: connection.set_progress_handler(None, 1))  # type: ignore[attr-defined]
        return taken

    async def work() -> None:
        few, many = await steps(10), await steps(20_000)
        assert many < 1.5 * few + 100

    run(work())
    table.close()


def test_a_job_that_no_worker_holds_is_cancelled_by_the_service(table: JobTable) -> None:
    async def work() -> None:
        waiting, held = await table.insert(job()), await table.insert(job())
        ended = await table.finish_unclaimed(waiting.id, "cancelled", 2.0)
        assert ended is not None and ended.status == "cancelled"
        (claimed,) = await claim(table, most=5)
        assert claimed.job.id == held.id
        assert await table.finish_unclaimed(held.id, "cancelled", 2.0) is None
        await table.ask_to_cancel(held.id)
        assert await renew(table, {held.id: claimed.token}) == {held.id: True}

    run(work())


def test_the_same_request_at_the_same_moment_is_one_job(table: JobTable) -> None:
    async def work() -> None:
        ids = await asyncio.gather(*(table.insert(job("k"), idempotency=("once", "d")) for _ in range(20)))
        assert len({each.id for each in ids}) == 1
        with pytest.raises(IdempotencyConflict):
            await table.insert(job("k"), idempotency=("once", "other"))

    run(work())


def test_a_job_is_reopened_once_and_waits_behind_the_others(table: JobTable) -> None:
    async def work() -> None:
        stored = await table.insert(job())
        (claimed,) = await claim(table)
        ended = await table.finish(stored.id, "completed", 2.0, token=claimed.token)
        assert ended is not None
        other = await table.insert(job())
        again = await asyncio.gather(*(table.reopen(ended, end_of(ended, 5)) for _ in range(8)))
        assert sum(each is not None for each in again) == 1
        newer = await table.insert(job())
        assert [each.id for each in await table.waiting(None, limit=9)] == [other.id, stored.id, newer.id]
        taken = [(await claim(table))[0] for _ in range(2)]
        assert [each.job.id for each in taken] == [other.id, stored.id]
        assert (taken[1].token, taken[1].stalls) == (claimed.token + 1, 0)

    run(work())


def test_waiting_jobs_are_moved_and_interrupted_ones_come_first(table: JobTable) -> None:
    async def work() -> None:
        running, *jobs = [await table.insert(job("k")) for _ in range(5)]
        (claimed,) = await claim(table)
        ids = [each.id for each in jobs]
        assert await table.move(jobs[3], 0) and await table.move(jobs[0], 2)
        order = [ids[3], ids[1], ids[0], ids[2]]
        assert [each.id for each in await table.waiting("k", limit=9)] == order
        assert not await table.move(running, 0)
        await table.release(running.id, claimed.token)
        assert [each.job.id for each in await claim(table, most=9)] == [running.id, *order]

    run(work())


def test_a_paused_queue_gives_no_job_to_any_worker(table: JobTable) -> None:
    async def work() -> None:
        await table.insert(job())
        await table.pause(True)
        assert await table.is_paused() and await claim(table) == []
        await table.pause(False)
        assert len(await claim(table)) == 1

    run(work())


def test_J19_a_row_that_this_version_cannot_read_stops_no_other(table: JobTable) -> None:
    """Of a newer version: fields it may ignore, a format it must not run, and a row it cannot parse."""

    async def work() -> None:
        rows = [await table.insert(job()) for _ in range(4)]
        for row, changed in ((rows[0], {"mood": "new"}), (rows[2], {"config": {"odd": 1}})):
            stored = json.loads(row.model_dump_json(exclude=STATE)) | changed
            await do(table, "UPDATE jobs SET job = ? WHERE id = ?", json.dumps(stored), row.id)
        await do(table, "UPDATE jobs SET needs = ? WHERE id = ?", NEEDS + 1, rows[1].id)
        taken = await claim(table, most=9)
        assert [each.job.id for each in taken] == [rows[0].id, rows[3].id]
        assert await claim(table, most=9) == []
        ended = await table.finish(rows[0].id, "completed", 2.0, token=taken[0].token)
        assert ended is not None
        reopened = await table.reopen(ended, end_of(ended, 1))
        assert reopened is not None and reopened[0].model_dump()["mood"] == "new", "it is kept"
        assert rows[2].id not in {each.id for each in await table.newest(None, limit=9)}
        with pytest.raises(RunError, match="cannot be read by this version"):
            await table.get(rows[2].id)

    run(work())


def test_J19_rows_that_this_version_cannot_run_take_no_place(table: JobTable) -> None:
    """With one free place, as a busy worker has: it does not go to the key of the newer row."""

    async def work() -> None:
        newer, good = await table.insert(job("a")), await table.insert(job("b"))
        await do(table, "UPDATE jobs SET needs = ? WHERE id = ?", NEEDS + 1, newer.id)
        assert [each.job.id for each in await claim(table)] == [good.id]
        odd = [await table.insert(job("c")) for _ in range(2)]
        await do(table, "UPDATE jobs SET job = '{}' WHERE key = 'c'")
        goods = [await table.insert(job("c")) for _ in range(3)]
        taken = [each.job.id for _ in range(9) for each in await claim(table, per_key=2)]
        assert taken == [each.id for each in goods[:2]]
        assert (await table.load()).running == 3
        assert not {each.id for each in odd} & {each.id for each in await table.running(None, limit=9)}

    run(work())


def test_J17_only_workers_that_do_not_come_back_count_against_a_job(table: JobTable) -> None:
    """Outages of the table expire leases of workers that live: each reports so when it can."""

    async def work() -> None:
        stored = await table.insert(job())
        for _ in range(4):
            (alive,) = await claim(table)
            await later(table, LEASE + 1)
            (next_,) = await claim(table)
            assert next_.stalls == 1
            await table.release(stored.id, alive.token)
            await table.release(stored.id, next_.token)
        for stalls in range(4):
            (dead,) = await claim(table)
            assert dead.stalls == stalls
            await later(table, LEASE + 1)

    run(work())


def test_J22_quotas_hold_over_restarts_and_for_all_services(table: JobTable) -> None:
    caller = Caller(key="a", per_hour=2)
    second_service = JobTable(table.database)

    async def work() -> None:
        admission = Admission(caller, max_waiting=100)
        await table.insert(job("a"), admission=admission)
        await second_service.insert(job("a"), admission=admission)
        for each in (table, second_service):
            with pytest.raises(ApiRefusal) as refused:
                await each.insert(job("a"), admission=admission)
        assert refused.value.retry_after == pytest.approx(HOUR / 2, abs=60)
        assert len(await table.newest("a", limit=9)) == 2
        await later(table, HOUR / 2 + 1)
        await second_service.insert(job("a"), admission=admission)

    run(work())


def test_open_jobs_of_a_key_and_waiting_jobs_of_all_are_limited(table: JobTable) -> None:
    async def work() -> None:
        mine = Admission(Caller(key="a", max_jobs=2), max_waiting=3)
        tried = await asyncio.gather(
            *(table.insert(job("a"), admission=mine) for _ in range(6)), return_exceptions=True
        )
        assert [getattr(each, "status", "") for each in tried].count(429) == 4
        others = Admission(Caller(key="b"), max_waiting=3)
        await table.insert(job("b"), admission=others)
        with pytest.raises(ApiRefusal, match="the queue is full"):
            await table.check(others)
        assert await table.load() == Load(3, 0, pytest.approx(0, abs=600))

    run(work())


def test_J21_a_webhook_call_is_made_by_one_service_and_by_another_if_that_dies(table: JobTable) -> None:
    deliveries = Deliveries(table.database)

    async def work() -> None:
        stored = await table.insert(job())
        calls = [Delivery(id="evt", url="https://example.com/", body="{}")]
        await table.finish(stored.id, "completed", 2.0, deliveries=lambda job: calls)
        (due,) = await deliveries.due(limit=9)
        begun = await asyncio.gather(*(deliveries.begin(due, next_in=60) for _ in range(8)))
        assert begun.count(True) == 1
        assert await deliveries.due(limit=9) == []
        await later(table, 61)
        assert [each.attempts for each in await deliveries.due(limit=9)] == [1]
        await deliveries.remove("evt")
        assert await deliveries.due(limit=9) == []

    run(work())


def test_uploads_and_removals_are_kept(table: JobTable) -> None:
    uploads = Uploads(table.database)

    async def work() -> None:
        file = StoredFile(
            id=new_file_id(), key="k", image="a.png", filename="a", purpose="vision", bytes=1, created=1.0
        )
        await uploads.add(file)
        assert await uploads.get(file.id) == file
        assert await uploads.newest("k", limit=5) == await uploads.newest(None, limit=5) == [file]
        assert await uploads.newest("other", limit=5) == []
        assert await uploads.before(2.0, limit=5) == [file]
        assert await uploads.remove(file.id)
        stored = await table.insert(job())
        assert await table.remove(stored.id)
        assert await table.removals() == [stored.id]
        await table.removed(stored.id)
        assert await table.removals() == []

    run(work())


def test_a_table_of_the_first_format_is_migrated_once_and_can_still_be_used_by_its_version(
    tmp_path: Path,
) -> None:
    path = tmp_path / "jobs.sqlite"
    stored = [job("k") for _ in range(3)]
    old = sqlite3.connect(path)
    old.executescript(f"{SQLITE_STEPS[0]}; PRAGMA user_version=1;")
    insert = "INSERT INTO jobs (id, key, status, job) VALUES (?, ?, ?, ?)"
    for each, status in zip(stored, ("completed", "in_progress", "queued"), strict=True):
        old.execute(insert, (each.id, each.key, status, each.model_dump_json(exclude=STATE)))
    old.execute("INSERT INTO deliveries VALUES ('evt', 'https://example.com/', '{}', 0)")
    old.commit()
    old.close()
    (tmp_path / QUEUE_FILE).write_text(json.dumps({"paused": True, "order": [stored[2].id]}))

    async def work(table: JobTable) -> None:
        await adopt_queue(tmp_path, table)
        assert await table.is_paused() and not (tmp_path / QUEUE_FILE).exists()
        await table.pause(False)
        assert await table.free_all() == 2
        assert [each.job.id for each in await claim(table, most=9)] == [stored[1].id, stored[2].id]
        assert [each.id for each in await Deliveries(table.database).due(limit=9)] == ["evt"]

    for _ in range(2):
        table = JobTable(path)
        run(work(table))
        table.close()
        (tmp_path / QUEUE_FILE).write_text(json.dumps({"paused": True}))
        with sqlite3.connect(path) as rolled_back:  # what the first version writes
            rolled_back.execute(insert, (new_job_id(), "k", "cancelled", "{}"))
            rolled_back.execute("INSERT INTO deliveries VALUES (?, 'https://example.com/', '{}', 0)", ("x",))
            rolled_back.execute("DELETE FROM deliveries WHERE id = 'x'")
        rolled_back.close()


@pytest.mark.slow
def test_J20_a_transaction_that_ends_too_late_stores_nothing(database: str) -> None:
    """Its caller has been told that it failed."""
    postgres = PostgresDatabase(database)
    table = JobTable(postgres)
    ended = threading.Event()

    def slow(connection: SqlConnection) -> None:
        connection.execute("INSERT INTO removals VALUES ('late')")
        ended.wait(60)

    async def work() -> None:
        with pytest.raises(StorageError, match="does not answer"):
            await postgres.run(slow)
        ended.set()
        await asyncio.gather(*(table.removals() for _ in range(9)))  # the thread is free again
        assert await table.removals() == []

    run(work())
    table.close()


@pytest.mark.slow
def test_a_shared_table_of_the_first_format_is_migrated_below_its_workers(database: str) -> None:
    """One job of a live worker, one of a dead worker, and one reopened after its worker ended it."""
    psycopg = pytest.importorskip("psycopg")
    live, dead, reopened = (job("k") for _ in range(3))
    with psycopg.connect(database, autocommit=True) as old:
        old.execute("CREATE SCHEMA interleave")
        old.execute("SET search_path TO interleave")
        old.execute("CREATE TABLE format (version INTEGER NOT NULL)")
        old.execute("INSERT INTO format VALUES (1)")
        old.execute(POSTGRES_STEPS[0])
        insert = (
            "INSERT INTO jobs (id, key, status, job, token, worker, leased_until) "
            "VALUES (%s, 'k', %s, %s, 1, 'old', now() + make_interval(secs => %s))"
        )
        for each, status, seconds in (
            (live, "in_progress", 60),
            (dead, "in_progress", -1),
            (reopened, "queued", 60),
        ):
            old.execute(insert, (each.id, status, each.model_dump_json(exclude=STATE), seconds))

    async def work() -> None:
        table, again = JobTable(PostgresDatabase(database)), JobTable(PostgresDatabase(database))
        claimed = [(each.job.id, each.token, each.stalls) for each in await claim(table, most=9)]
        assert claimed == [(dead.id, 2, 1), (reopened.id, 2, 0)]
        assert await claim(again, most=9) == []
        table.close()
        again.close()

    run(work())


@pytest.mark.slow
def test_J18_a_read_only_table_can_be_opened_and_a_late_claim_is_a_whole_lease(
    postgres: Any, database: str
) -> None:
    """A claim that waits through an outage counts its lease from when it succeeds."""
    first = JobTable(PostgresDatabase(database))
    run(first.insert(job()))
    first.close()
    postgres.read_only(True)
    table = JobTable(PostgresDatabase(database)).patient

    async def work() -> None:
        before = clock_that_never_stops()
        claiming = asyncio.create_task(claim(table))
        while not claiming.done() and clock_that_never_stops() < before + 1:
            await asyncio.sleep(0.01)
        assert not claiming.done()
        written_at = clock_that_never_stops()
        await asyncio.to_thread(postgres.read_only, False)
        (claimed,) = await claiming
        assert claimed.leased_until is not None and claimed.leased_until > written_at + LEASE

    run(work())
    table.close()


def test_a_database_that_is_not_there_is_reported_before_anything_starts() -> None:
    with pytest.raises(ConfigurationError, match="cannot open the job table postgres://nobody@127"):
        PostgresDatabase("postgres://nobody:secret-word@127.0.0.1:1/none")

"""The job table in Postgres: each job has one holder, whatever happens to the others."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from interleave.errors import ConfigurationError
from interleave.runs.journal import RequestPart
from interleave.runs.resolve import Choices, resolve
from interleave.service.documents.jobs import Delivery, IdempotencyConflict, Job, end_of, new_job_id
from interleave.service.documents.shared_jobs import SharedJobTable

CONFIG = resolve(Choices(profile="dry-run"))[0]


@pytest.fixture
def table(database: str) -> Iterator[SharedJobTable]:
    opened = SharedJobTable(database)
    yield opened
    opened.close()


def job(key: str = "", **more: Any) -> Job:
    parts = (RequestPart(text="a lake"),)
    return Job(id=new_job_id(), key=key, created=1.0, parts=parts, config=CONFIG, model="m", **more)


def run(work: Coroutine[Any, Any, Any]) -> Any:
    return asyncio.run(work)


async def expire(table: SharedJobTable, id_: str) -> None:
    """The lease runs out now."""
    late = "UPDATE jobs SET leased_until = now() - interval '1 second' WHERE id = ?"
    await table.database.run(lambda connection: connection.execute(late, (id_,)).rowcount)


def test_J10_many_workers_take_each_job_once(table: SharedJobTable, database: str) -> None:
    """Sixteen workers with tables of their own, four hundred jobs of three keys."""

    async def work() -> None:
        for number in range(400):
            await table.insert(job(f"key {number % 3}"))
        others = [SharedJobTable(database) for _ in range(3)]
        taken: Counter[str] = Counter()

        async def worker(number: int) -> None:
            mine = [table, *others][number % 4]
            while claimed := await mine.claim(f"w{number}", most=3, seconds=600):
                taken.update(each.job.id for each in claimed)

        await asyncio.gather(*(worker(number) for number in range(16)))
        for other in others:
            other.close()
        assert len(taken) == 400 and set(taken.values()) == {1}

    run(work())


def test_J12_a_lease_that_ran_out_counts_for_nothing_once_another_worker_has_the_job(
    table: SharedJobTable,
) -> None:
    async def work() -> None:
        stored = await table.insert(job())
        (first,) = await table.claim("one", most=5, seconds=600)
        assert await table.claim("two", most=5, seconds=600) == []
        await expire(table, stored.id)
        assert table.renew({stored.id: first.token}, seconds=600, within=5) == {}
        (second,) = await table.claim("two", most=5, seconds=600)
        assert (second.token, second.stalled_worker, second.stalls) == (first.token + 1, "one", 1)
        assert await table.start(stored.id, token=first.token) is None
        assert await table.finish(stored.id, "failed", 2.0, token=first.token) is None
        await table.release(stored.id, first.token)
        assert table.renew({stored.id: second.token}, seconds=600, within=5) == {stored.id: False}
        ended = await table.finish(stored.id, "completed", 2.0, token=second.token)
        assert ended is not None and ended.status == "completed"
        assert await table.finish(stored.id, "failed", 3.0, token=second.token) is None

    run(work())


def test_keys_take_turns_and_keep_within_their_places(table: SharedJobTable) -> None:
    async def work() -> None:
        for key in ("many", "many", "many", "many", "few"):
            await table.insert(job(key))
        first = await table.claim("w", most=2, seconds=600)
        assert [each.job.key for each in sorted(first, key=lambda each: each.job.number)] == ["many", "few"]
        more = await table.claim("w", most=5, seconds=600, per_key=2)
        assert [each.job.key for each in more] == ["many"]

    run(work())


def test_a_job_that_no_worker_holds_is_cancelled_by_the_service(table: SharedJobTable) -> None:
    async def work() -> None:
        waiting, held = await table.insert(job()), await table.insert(job())
        ended = await table.finish_unclaimed(waiting.id, "cancelled", 2.0)
        assert ended is not None and ended.status == "cancelled"
        (claimed,) = await table.claim("w", most=5, seconds=600)
        assert claimed.job.id == held.id
        assert await table.finish_unclaimed(held.id, "cancelled", 2.0) is None
        await table.ask_to_cancel(held.id)
        assert table.renew({held.id: claimed.token}, seconds=600, within=5) == {held.id: True}

    run(work())


def test_the_same_request_at_the_same_moment_is_one_job(table: SharedJobTable) -> None:
    async def work() -> None:
        ids = await asyncio.gather(*(table.insert(job("k"), idempotency=("once", "d")) for _ in range(20)))
        assert len({each.id for each in ids}) == 1
        with pytest.raises(IdempotencyConflict):
            await table.insert(job("k"), idempotency=("once", "other"))

    run(work())


def test_a_job_is_reopened_once(table: SharedJobTable) -> None:
    async def work() -> None:
        stored = await table.insert(job())
        (claimed,) = await table.claim("w", most=1, seconds=600)
        ended = await table.finish(stored.id, "completed", 2.0, token=claimed.token)
        assert ended is not None
        again = await asyncio.gather(*(table.reopen(ended, end_of(ended, 5)) for _ in range(8)))
        assert sum(each is not None for each in again) == 1
        (next_,) = await table.claim("w", most=1, seconds=600)
        assert next_.token == claimed.token + 1 and next_.stalls == 0

    run(work())


def test_a_webhook_call_is_made_by_one_service(table: SharedJobTable) -> None:
    async def work() -> None:
        stored = await table.insert(job())
        calls = [Delivery(id="evt", url="https://example.com/", body="{}")]
        await table.finish(stored.id, "completed", 2.0, deliveries=lambda job: calls)
        begun = await asyncio.gather(*(table.begin_delivery("evt", 0) for _ in range(8)))
        assert begun.count(True) == 1
        assert [each.attempts for each in await table.deliveries()] == [1]
        await table.delivered("evt")
        assert await table.deliveries() == []

    run(work())


def test_files_and_removals_are_kept(table: SharedJobTable) -> None:
    from interleave.service.documents.jobs import StoredFile, new_file_id

    async def work() -> None:
        file = StoredFile(
            id=new_file_id(), key="k", image="a.png", filename="a", purpose="vision", bytes=1, created=1.0
        )
        await table.add_file(file)
        assert await table.file(file.id) == file
        assert await table.files("k", limit=5) == await table.files(None, limit=5) == [file]
        assert await table.files("other", limit=5) == []
        assert await table.remove_file(file.id)
        stored = await table.insert(job())
        assert await table.remove(stored.id)
        assert await table.removals() == [stored.id]
        await table.removed(stored.id)
        assert await table.removals() == []

    run(work())


def test_a_database_that_is_not_there_is_said_before_anything_starts() -> None:
    with pytest.raises(ConfigurationError, match="cannot open the job table postgres://nobody@127"):
        SharedJobTable("postgres://nobody:secret-word@127.0.0.1:1/none")

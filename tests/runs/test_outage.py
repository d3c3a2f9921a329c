"""Models that are away are waited out: no clock of this machine is asked, waits are counted."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import interleave
from interleave.backends.fakes import ScriptedVlm
from interleave.backends.protocols import Reply, Sampling, VlmCapabilities
from interleave.batches.batch import Batch, Ended, read_index, run_folder
from interleave.batches.requests import Item, items_of
from interleave.config.specs import parse_spec
from interleave.errors import BackendError, Failure
from interleave.runs.outage import (
    LONGEST_DELAY_SECONDS,
    LONGEST_OUTAGE_SECONDS,
    MOST_RETRIES,
    OutageRetry,
    TryResult,
    backoff_delays,
)

HOUR = 3600.0
Logged = pytest.LogCaptureFixture


@dataclass
class OurTime:
    """A clock that only moves while somebody sleeps."""

    now: float = 0.0
    pauses: list[float] = field(default_factory=list)

    def clock(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self.now += seconds
        await asyncio.sleep(0)

    def patience(self, seconds: float | None = None) -> OutageRetry:
        return OutageRetry(seconds, clock=self.clock, sleep=self.sleep)


@pytest.fixture
def time() -> OurTime:
    return OurTime()


@dataclass
class Executor:
    """Carries requests out as it is told, and counts how often."""

    outcome: Callable[[Item, int], Ended]
    takes: Counter[str] = field(default_factory=Counter)
    notes: tuple[str, ...] = ()

    async def execute(self, item: Item) -> Ended:
        self.takes[item.id] += 1
        await asyncio.sleep(0)
        return self.outcome(item, self.takes[item.id])


def done(item: Item, calls: int = 3) -> Ended:
    return Ended(id=item.id, digest=item.digest, folder=run_folder(item.id), status="done", calls=calls)


def away(item: Item, calls: int = 0) -> Ended:
    return Ended(
        id=item.id, digest=item.digest, folder=run_folder(item.id), status="failed",
        reason="the planner: cannot be reached", calls=calls, passing=True,
    )  # fmt: skip


def assignment() -> Any:
    from interleave.batches.assignment import Assignment
    from interleave.runs.resolve import resolve, split_choices

    return Assignment(config=resolve(split_choices({})[0])[0])


def carry_out(
    executor: Executor, patience: OutageRetry, count: int, *, concurrency: int = 64
) -> dict[str, Ended]:
    """So many requests, named by their numbers; returns how they ended."""
    batch = Batch(Path("many"), assignment(), executor, outage_retry=patience)
    given = items_of((str(number), f"Story {number}") for number in range(count))

    async def all_of_them() -> dict[str, Ended]:
        return {ended.id: ended async for ended in batch.run(given, concurrency=concurrency)}

    return asyncio.run(all_of_them())


def statuses(ended: dict[str, Ended]) -> set[str]:
    return {each.status for each in ended.values()}


def test_pauses_double_up_to_the_longest_and_last_no_longer_than_they_may() -> None:
    assert list(backoff_delays(2, 10, 30)) == [2, 4, 8, 10, 6]
    assert list(backoff_delays(5, 60, 0)) == []


@pytest.mark.parametrize("concurrency", [1, 8, 64])
def test_C13_an_outage_of_an_hour_fails_nothing_and_is_not_answered_with_a_storm(
    time: OurTime, concurrency: int, caplog: Logged
) -> None:
    executor = Executor(lambda item, take: done(item) if time.now >= HOUR else away(item))
    ended = carry_out(executor, time.patience(), 100, concurrency=concurrency)
    assert statuses(ended) == {"done"}
    assert time.now >= HOUR
    needed, tries = 100 + concurrency, sum(executor.takes.values())
    assert tries - needed <= 130  # one in half a minute at most, however many wait
    assert max(time.pauses) <= 1.5 * LONGEST_DELAY_SECONDS
    assert time.pauses[0] < 5 < 25 < max(time.pauses)
    told = [record.getMessage() for record in caplog.records]
    assert 2 <= len(told) <= 35  # a line now and then
    assert "waiting for an unavailable model (0 s so far, 90 min at most)" in told[0]
    assert "the planner: cannot be reached" in told[0]
    assert "no call has succeeded yet: check the address" in told[0]
    assert "the model is available again after" in told[-1]


def test_C13_what_stays_away_is_given_up_after_more_than_an_hour_all_at_once(time: OurTime) -> None:
    executor = Executor(lambda item, take: away(item))
    with pytest.raises(BackendError, match=r"5\d requests in a row have failed"):
        carry_out(executor, time.patience(), 500, concurrency=8)
    assert HOUR < LONGEST_OUTAGE_SECONDS <= time.now < LONGEST_OUTAGE_SECONDS + LONGEST_DELAY_SECONDS
    assert len(read_index(Path("many"))) < 70
    assert {ended.passing for ended in read_index(Path("many"))} == {True}


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time is not waited for: where all sleep, it is at once the moment one wakes."""

    def __init__(self) -> None:
        super().__init__()
        self._now = 0.0
        selector: Any = self._selector  # type: ignore[attr-defined]
        poll = selector.select

        def select(timeout: float | None = None) -> Any:
            self._now += timeout or 0.0
            return poll(0 if timeout is not None else None)

        selector.select = select

    def time(self) -> float:
        return self._now


def test_what_fails_while_others_get_through_is_given_up_soon() -> None:
    takes = 0

    async def failing() -> TryResult[str]:
        nonlocal takes
        takes += 1
        assert takes < 100, "it is never given up"
        await asyncio.sleep(1)
        return TryResult("given up", transient=True, reason="no answer within 1 s")

    async def fine() -> TryResult[str]:
        await asyncio.sleep(1)
        return TryResult("done", succeeded=True)

    async def all_of_them() -> float:
        loop = asyncio.get_running_loop()
        patience = OutageRetry(clock=loop.time)

        async def others() -> None:
            while True:
                assert await patience.run(fine) == "done"

        at_work = [asyncio.create_task(others()) for _ in range(3)]
        assert await patience.run(failing) == "given up"
        for task in at_work:
            task.cancel()
        return loop.time()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert 30 < runner.run(all_of_them()) < 300
    assert takes <= 2 * MOST_RETRIES + 2


def test_what_gets_further_each_time_is_never_given_up(time: OurTime) -> None:
    executor = Executor(lambda item, take: away(item, calls=take) if take < 300 else done(item))
    assert statuses(carry_out(executor, time.patience(), 2)) == {"done"}
    assert time.now < LONGEST_OUTAGE_SECONDS


def test_those_that_had_begun_before_an_outage_do_not_make_it_look_over(time: OurTime) -> None:
    """The planner is away; requests that are planned already go on ending, which says nothing about it."""

    class Slow(Executor):
        async def execute(self, item: Item) -> Ended:
            self.takes[item.id] += 1
            planned = int(item.id) < 30
            while planned and time.now < 60 * int(item.id):  # they end one by one
                await asyncio.sleep(0)
            return done(item) if planned or time.now >= HOUR else away(item)

    executor = Slow(away)
    assert statuses(carry_out(executor, time.patience(), 64)) == {"done"}
    assert sum(executor.takes.values()) < 64 + 200


def test_a_generator_that_is_away_is_waited_for_though_others_get_through_to_another() -> None:
    async def drawn_by_a() -> TryResult[str]:
        here = asyncio.get_running_loop().time() >= HOUR
        return TryResult("done" if here else "failed", transient=not here, succeeded=here)

    async def drawn_by_b() -> TryResult[str]:
        await asyncio.sleep(10)
        return TryResult("done", succeeded=True)

    async def all_of_them() -> None:
        patience = OutageRetry(clock=asyncio.get_running_loop().time)

        async def others() -> None:
            while True:
                assert await patience.run(drawn_by_b, "b") == "done"

        at_work = asyncio.create_task(others())
        assert await patience.run(drawn_by_a, "a") == "done"
        at_work.cancel()

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.run(all_of_them())


def test_one_tries_for_all_while_a_model_is_away_and_all_go_on_when_it_is_back() -> None:
    takes, ended = 0, list[float]()

    async def piece() -> TryResult[str]:
        nonlocal takes
        takes += 1
        here = (now := asyncio.get_running_loop().time()) >= HOUR
        if here:
            ended.append(now)
        return TryResult("done" if here else "failed", transient=not here, succeeded=here)

    async def all_of_them() -> set[str]:
        patience = OutageRetry(clock=asyncio.get_running_loop().time)
        return set(await asyncio.gather(*(patience.run(piece) for _ in range(64))))

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        assert runner.run(all_of_them()) == {"done"}
    assert takes <= 64 + 130 + 64
    assert ended[-1] <= HOUR + 1.5 * LONGEST_DELAY_SECONDS + 5


def test_a_limit_of_seconds_ends_the_waiting(time: OurTime) -> None:
    executor = Executor(lambda item, take: away(item))
    ended = carry_out(executor, time.patience(100.0), 3)
    assert statuses(ended) == {"failed"}
    assert 100 <= time.now < 200


def test_max_seconds_of_a_command_is_that_limit() -> None:
    from interleave.api import open_batch

    assert open_batch(Path("a"), max_seconds=7).outage_retry.seconds == 7
    assert open_batch(Path("b"), max_seconds=1e9).outage_retry.seconds == LONGEST_OUTAGE_SECONDS


def test_interrupting_ends_the_waiting_at_once() -> None:
    waiting = asyncio.Event()

    async def sleep(seconds: float) -> None:
        waiting.set()
        await asyncio.Event().wait()  # for ever

    executor = Executor(lambda item, take: away(item))
    batch = Batch(Path("many"), assignment(), executor, outage_retry=OutageRetry(sleep=sleep))

    async def interrupted() -> None:
        async def work() -> None:
            async for _ in batch.run(items_of(["a story", "another"])):
                pass

        task = asyncio.create_task(work())
        await waiting.wait()
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()
        assert len(asyncio.all_tasks()) == 1

    asyncio.run(interrupted())


class AwayPlanner(ScriptedVlm):
    """The double, which cannot be reached for an hour."""

    def __init__(self, time: OurTime) -> None:
        super().__init__(spec=parse_spec("scripted"), options=self.Options(), role="planner")
        self.time = time
        self.capabilities = VlmCapabilities(repeatable=True)
        self.refused = 0

    async def complete(self, messages: Any, sampling: Sampling) -> Reply:
        if 10 <= self.time.now < 10 + HOUR:
            self.refused += 1
            raise BackendError("connection refused", transient=True, kind=Failure.UNREACHABLE)
        if not self.time.now:
            self.time.now = 10.0  # the first request gets through, then the planner goes
        return await super().complete(messages, sampling)


def test_C13_a_planner_away_for_an_hour_is_waited_out_by_real_runs(
    time: OurTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("interleave.backends.retries.RetryPolicy._delay", lambda *_: 0.0)
    monkeypatch.setattr("interleave.backends.retries.BUDGET_PER_SECOND", 1e6)
    monkeypatch.setattr("interleave.runs.outage.OutageRetry", time.patience)
    planner = AwayPlanner(time)
    stories = [f"Story {number}, in 1 picture" for number in range(12)]
    summary = interleave.generate_many(
        stories, out="many", planner=planner, generator="solid?size=64", concurrency=6
    )
    assert (summary.done, summary.failed) == (12, 0)
    assert time.now > HOUR
    assert planner.refused <= 5 * (6 + len(time.pauses))  # one request tries, five times a turn
    assert len(time.pauses) <= 130


def test_the_address_is_doubted_only_where_nothing_has_ever_got_through(
    time: OurTime, caplog: Logged
) -> None:
    executor = Executor(lambda item, take: done(item) if item.id == "0" or take > 3 else away(item, calls=1))
    carry_out(executor, time.patience(), 2, concurrency=1)
    (line,) = [record.getMessage() for record in caplog.records]
    assert "waiting for an unavailable model" in line
    assert "is the address right" not in line

"""Deadlines stand still while a call waits for its turn, on a clock that jumps."""

from __future__ import annotations

import asyncio

import pytest

from clocks import now
from clocks import run_jumping as run
from interleave.backends.concurrency import CallLimit, Deadline, waiting
from interleave.backends.retries import RetryPolicy
from interleave.errors import BackendError, Failure
from interleave.types import Slot


def test_time_in_a_queue_does_not_count() -> None:
    async def working() -> float:
        deadline = Deadline(10)
        async with deadline.running():
            await asyncio.sleep(4)
            with waiting():
                await asyncio.sleep(1000)
            await asyncio.sleep(5)
        return deadline.elapsed

    assert run(working()) == pytest.approx(9)


def test_the_time_left_after_a_wait_is_what_was_left_before_it() -> None:
    async def working() -> float:
        deadline = Deadline(10)
        with pytest.raises(TimeoutError):
            async with deadline.running():
                await asyncio.sleep(4)
                with waiting():
                    await asyncio.sleep(1000)
                await asyncio.sleep(1000)
        assert deadline.expired
        return now()

    assert run(working()) == pytest.approx(1010)


def test_every_deadline_of_a_call_stands_still_and_waits_may_be_nested() -> None:
    async def working() -> tuple[float, float]:
        outer, inner = Deadline(20), Deadline(10)
        async with outer.running():
            await asyncio.sleep(1)
            async with inner.running():
                with waiting():
                    await asyncio.sleep(100)
                    with waiting():
                        await asyncio.sleep(100)
                    await asyncio.sleep(100)
                await asyncio.sleep(9)
        return outer.elapsed, inner.elapsed

    assert run(working()) == pytest.approx((10, 9))


def test_a_deadline_counts_over_several_stretches() -> None:
    async def working() -> float:
        deadline = Deadline(10)
        async with deadline.running():
            await asyncio.sleep(6)
        await asyncio.sleep(100)
        with pytest.raises(TimeoutError):
            async with deadline.running():
                await asyncio.sleep(6)
        return now()

    assert run(working()) == pytest.approx(110)


def test_a_call_that_waits_for_its_place_is_not_late() -> None:
    """Ten calls of 50 s with 120 s each, one at a time: the last one begins after 450 s."""

    async def working() -> list[str]:
        policy, limit = RetryPolicy(), CallLimit(1)

        async def answer() -> str:
            await asyncio.sleep(50)
            return "done"

        calls = (policy.call("the planner", answer, deadline=120, limit=limit) for _ in range(10))
        return await asyncio.gather(*calls)

    assert run(working()) == ["done"] * 10


def test_a_call_that_waits_to_be_tried_again_holds_no_place() -> None:
    async def working() -> list[str]:
        policy, limit, said = RetryPolicy(), CallLimit(1), []

        async def busy() -> str:
            said.append("busy")
            if said.count("busy") == 1:
                raise BackendError("busy", transient=True, retry_after=60)
            return "done"

        async def quick() -> str:
            said.append("quick")
            return "done"

        await asyncio.gather(
            policy.call("the planner", busy, deadline=120, limit=limit),
            policy.call("the planner", quick, deadline=120, limit=limit),
        )
        return said

    assert run(working()) == ["busy", "quick", "busy"]


class SerialServer:
    """A server that works on one call at a time, and forgets calls that were given up."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.turn = asyncio.Lock()
        self.most = self.in_flight = self.timeouts = 0

    async def answer(self, timeout: float) -> str:
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            async with asyncio.timeout(timeout), self.turn:
                await asyncio.sleep(self.seconds)
                return "done"
        except TimeoutError:
            self.timeouts += 1
            raise BackendError("too slow", transient=True, kind=Failure.TIMEOUT) from None
        finally:
            self.in_flight -= 1


def on_a_jumping_clock(most: int | None, *, first: int | None = None, timeout: float = 20) -> CallLimit:
    return CallLimit(most, first=first, timeout=timeout, clock=now)


async def hold(limit: CallLimit, server: SerialServer, timeout: float) -> bool:
    try:
        async with limit.acquire(Slot(1, 1)):
            await server.answer(timeout)
    except BackendError:
        return False
    return True


async def until_done(limit: CallLimit, server: SerialServer, timeout: float) -> None:
    while not await hold(limit, server, timeout):
        pass


def test_a_server_that_does_one_thing_at_a_time_is_not_drowned() -> None:
    """Sixty-four calls of 15 s with 20 s each: together they would all time out, for ever."""

    async def working() -> tuple[int, float, float]:
        limit, server = on_a_jumping_clock(None), SerialServer(15)
        await asyncio.gather(*(until_done(limit, server, 20) for _ in range(64)))
        return server.timeouts, limit.limit, now()

    timeouts, ended_with, seconds = run(working())
    assert ended_with == 1
    assert timeouts < 130
    assert seconds < 64 * 15 * 1.3


def test_a_small_beginning_spares_the_timeouts() -> None:
    async def working() -> tuple[int, int]:
        limit, server = on_a_jumping_clock(None, first=4, timeout=120), SerialServer(10)
        await asyncio.gather(*(until_done(limit, server, 120) for _ in range(64)))
        return server.timeouts, server.most

    timeouts, most = run(working())
    assert timeouts == 0
    assert 4 <= most <= 8  # about six wait for half of their time


def test_a_server_that_does_many_things_at_once_is_soon_asked_for_many() -> None:
    class ParallelServer(SerialServer):
        async def answer(self, timeout: float) -> str:
            self.turn = asyncio.Lock()
            return await super().answer(timeout)

    async def working() -> tuple[int, float]:
        limit, server = on_a_jumping_clock(None, first=4, timeout=120), ParallelServer(10)
        await asyncio.gather(*(until_done(limit, server, 120) for _ in range(640)))
        return server.most, now()

    most, seconds = run(working())
    assert most >= 64
    assert seconds <= 100  # 640 calls of 10 s, four at a time, would take 1600


def test_the_limit_rises_again_when_the_server_is_quick_again() -> None:
    async def working() -> tuple[float, float]:
        limit, server = on_a_jumping_clock(8), SerialServer(15)
        await asyncio.gather(*(until_done(limit, server, 20) for _ in range(8)))
        fallen = limit.limit
        server.seconds = 0.1
        for _ in range(20):
            await asyncio.gather(*(hold(limit, server, 20) for _ in range(8)))
        return fallen, limit.limit

    assert run(working()) == (1, 8)


def test_calls_made_before_a_fall_do_not_count_again() -> None:
    """All eight time out together: that is one sign, not eight."""

    async def working() -> float:
        limit, server = on_a_jumping_clock(8), SerialServer(1000)
        await asyncio.gather(*(hold(limit, server, 20) for _ in range(8)))
        return limit.limit

    assert run(working()) == 4


def test_one_timeout_says_nothing() -> None:
    async def working() -> float:
        limit, server = on_a_jumping_clock(8), SerialServer(12)
        await asyncio.gather(*(hold(limit, server, 20) for _ in range(2)))
        assert server.timeouts == 1
        return limit.limit

    assert run(working()) == 8


def test_a_model_that_says_it_takes_no_call_at_all_gets_one_at_a_time() -> None:
    async def working() -> bool:
        return await hold(on_a_jumping_clock(0), SerialServer(1), 20)

    assert run(working())

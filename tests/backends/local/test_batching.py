"""The queue that turns calls into batches: what is computed together, what never, and what failure means."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from lanes import at_once

from interleave.backends.local import batching
from interleave.backends.local.batching import BatchQueue, Ticket, lane_of
from interleave.errors import OutOfMemory
from work import HANGS_AFTER

Queue = BatchQueue[int, int]


class Doubler:
    """Doubles numbers, slowly enough for others to queue up; can be held, and can be made to fail."""

    def __init__(
        self,
        *,
        fails: Callable[[Sequence[int]], bool] = lambda jobs: False,
        error: Exception | None = None,
    ) -> None:
        self.batches: list[list[int]] = []
        self.fails = fails
        self.error = error
        self.go = threading.Event()
        self.go.set()
        self.busy = threading.Event()

    def __call__(self, batch: Sequence[Ticket[int, int]]) -> list[int]:
        jobs = [ticket.job for ticket in batch]
        self.batches.append(jobs)
        self.busy.set()
        assert self.go.wait(HANGS_AFTER)
        if self.fails(jobs):
            raise self.error or ValueError(f"cannot double {jobs}")
        return [2 * job for job in jobs]


@pytest.fixture
def lane() -> ThreadPoolExecutor:
    return lane_of("test")


async def all_of(queue: Queue, jobs: Sequence[int]) -> list[int | BaseException]:
    """The results of jobs that all wait when the lane has time for the first."""
    return await at_once(queue._lane, [queue.do(job) for job in jobs])


class LoopTime:
    """A clock for a queue on which a wait is as long as the event loop has something to do."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 0.0
        self.loop: asyncio.AbstractEventLoop | None = None
        monkeypatch.setattr(batching, "time", self)

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert self.loop is not None
        asyncio.run_coroutine_threadsafe(self._rounds(), self.loop).result(HANGS_AFTER)
        self.now += seconds

    async def _rounds(self) -> None:
        for _ in range(50):
            await asyncio.sleep(0)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> LoopTime:
    return LoopTime(monkeypatch)


def test_calls_that_wait_are_computed_together(lane: ThreadPoolExecutor) -> None:
    model = Doubler()
    assert asyncio.run(all_of(Queue(model, lane=lane, most=8), range(6))) == [0, 2, 4, 6, 8, 10]
    assert model.batches == [[0, 1, 2, 3, 4, 5]]


def test_a_batch_has_at_most_so_many(lane: ThreadPoolExecutor) -> None:
    model = Doubler()
    assert asyncio.run(all_of(Queue(model, lane=lane, most=4), range(10))) == [2 * job for job in range(10)]
    assert model.batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_only_calls_that_fit_together_share_a_batch_and_the_oldest_is_never_overtaken(
    lane: ThreadPoolExecutor,
) -> None:
    model = Doubler()
    queue = Queue(model, lane=lane, most=8, together=lambda job: job % 2)
    asyncio.run(all_of(queue, range(5)))
    assert model.batches == [[0, 2, 4], [1, 3]]


def test_calls_that_have_come_together_are_waited_for(lane: ThreadPoolExecutor, clock: LoopTime) -> None:
    sizes: list[int] = []

    def slow(batch: Sequence[Ticket[int, int]]) -> list[int]:
        clock.now += 0.4  # a fifth of it is waited for the next ones
        sizes.append(len(batch))
        return [0 for _ in batch]

    async def work() -> None:
        clock.loop = asyncio.get_running_loop()
        queue = Queue(slow, lane=lane, most=8, patience=0.2)
        await all_of(queue, range(3))
        began = clock.now
        first = asyncio.create_task(queue.do(1))
        while clock.now - began < 3 * batching.LINGER_SECONDS:  # longer than strangers are waited for
            await asyncio.sleep(0)
        await asyncio.gather(first, queue.do(2))

    asyncio.run(asyncio.wait_for(work(), HANGS_AFTER))
    assert sizes == [3, 2]


def judged_and_drawn(lane: ThreadPoolExecutor, clock: LoopTime, **judging: Any) -> list[str]:
    """What is computed when pictures are drawn two at a time, and each is judged when it is there."""
    told: list[str] = []

    def model(name: str) -> Any:
        def run(batch: Sequence[Ticket[int, int]]) -> list[int]:
            told.append(f"{name} {len(batch)}")
            clock.sleep(0.03)
            return [0 for _ in batch]

        return run

    draw = Queue(model("draw"), lane=lane, most=2)
    judge = Queue(model("judge"), lane=lane, **judging)

    async def attempt(gate: asyncio.Semaphore) -> None:
        async with gate:
            await draw.do(1)
        await judge.do(1)

    async def work() -> None:
        clock.loop = asyncio.get_running_loop()
        gate = asyncio.Semaphore(2)  # of pictures as many are asked for at once as are drawn together
        await asyncio.gather(*(attempt(gate) for _ in range(6)))

    asyncio.run(asyncio.wait_for(work(), HANGS_AFTER))
    return told


def test_questions_let_pictures_go_first_until_nobody_else_waits(
    lane: ThreadPoolExecutor, clock: LoopTime
) -> None:
    assert judged_and_drawn(lane, clock, most=8, yields=True) == ["draw 2"] * 3 + ["judge 6"]


def test_questions_go_when_their_batch_is_full(lane: ThreadPoolExecutor, clock: LoopTime) -> None:
    told = judged_and_drawn(lane, clock, most=2, yields=True)
    assert sorted(told) == ["draw 2"] * 3 + ["judge 2"] * 3
    assert told != sorted(told), "all pictures were drawn first"


def test_questions_are_not_kept_back_for_ever(
    lane: ThreadPoolExecutor, clock: LoopTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "YIELD_SECONDS", -1.0)
    told = judged_and_drawn(lane, clock, most=8, yields=True)
    assert told.index("draw 2") == 0 and told[1].startswith("judge")


def test_a_call_that_is_cancelled_while_it_waits_is_never_computed(lane: ThreadPoolExecutor) -> None:
    model = Doubler()
    queue = Queue(model, lane=lane)

    async def work() -> int:
        model.go.clear()
        first, second, third = (asyncio.create_task(queue.do(job)) for job in (1, 2, 3))
        await asyncio.to_thread(model.busy.wait, HANGS_AFTER)
        second.cancel()
        await asyncio.sleep(0)
        model.go.set()
        assert await first == 2
        with pytest.raises(asyncio.CancelledError):
            await second
        return await third

    assert asyncio.run(work()) == 6
    assert model.batches == [[1], [3]]


def test_a_call_that_is_cancelled_while_it_is_computed_ends_at_once_and_is_marked(
    lane: ThreadPoolExecutor,
) -> None:
    seen: list[bool] = []
    started, go = threading.Event(), threading.Event()

    def model(batch: Sequence[Ticket[int, int]]) -> list[int]:
        started.set()
        assert go.wait(HANGS_AFTER)
        seen.append(batch[0].cancelled)
        return [0]

    async def work() -> None:
        call = asyncio.create_task(Queue(model, lane=lane).do(1))
        await asyncio.to_thread(started.wait, HANGS_AFTER)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(call, HANGS_AFTER)
        go.set()

    asyncio.run(work())
    lane.submit(lambda: None).result(HANGS_AFTER)
    assert seen == [True]


def test_where_a_batch_fails_only_those_fail_that_fail_alone(lane: ThreadPoolExecutor) -> None:
    model = Doubler(fails=lambda jobs: 2 in jobs)
    recovered: list[int] = []
    queue = Queue(model, lane=lane, most=8, recover=lambda: recovered.append(1))
    results = asyncio.run(all_of(queue, range(4)))
    assert [results[0], results[1], results[3]] == [0, 2, 6]
    assert isinstance(results[2], ValueError)
    assert model.batches == [[0, 1, 2, 3], [0], [1], [2], [3]]
    assert len(recovered) == 2


def test_what_is_too_much_at_once_is_computed_one_by_one(lane: ThreadPoolExecutor) -> None:
    model = Doubler(fails=lambda jobs: len(jobs) > 1)
    assert asyncio.run(all_of(Queue(model, lane=lane, most=8), range(4))) == [0, 2, 4, 6]


def test_what_does_not_fit_in_memory_is_halved_and_so_are_later_batches(
    lane: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    model = Doubler(fails=lambda jobs: len(jobs) > 2, error=OutOfMemory("too much"))
    queue = Queue(model, lane=lane, most=8)
    assert asyncio.run(all_of(queue, range(7))) == [2 * job for job in range(7)]
    assert model.batches == [[*range(7)], [0, 1, 2, 3], [0, 1], [2, 3], [4, 5], [6]]
    assert "4 calls at once need more memory than there is: from here on 2" in caplog.text
    model.batches.clear()
    queue.most = 8  # as another that uses the same model says
    asyncio.run(all_of(queue, range(4)))
    assert model.batches == [[0, 1], [2, 3]]


def test_before_a_call_fails_for_lack_of_memory_all_models_of_the_lane_let_go_of_theirs(
    lane: ThreadPoolExecutor,
) -> None:
    held = ["keys and values"]
    other = Queue(Doubler(), lane=lane, recover=held.clear)  # must live: queues are known by weak references
    model = Doubler(fails=lambda jobs: bool(held), error=OutOfMemory("too much"))
    assert asyncio.run(all_of(Queue(model, lane=lane, most=8), [1])) == [2]
    assert model.batches == [[1], [1]]
    hungry = Doubler(fails=lambda jobs: True, error=OutOfMemory("too much"))
    (failure,) = asyncio.run(all_of(Queue(hungry, lane=lane, most=8), [1]))
    assert isinstance(failure, OutOfMemory) and len(hungry.batches) == 2
    del other


def test_a_call_that_fails_with_others_and_then_for_lack_of_memory_has_its_second_try(
    lane: ThreadPoolExecutor,
) -> None:
    tries: list[int] = []

    def model(batch: Sequence[Ticket[int, int]]) -> list[int]:
        tries.append(len(batch))
        if len(batch) > 1:
            raise ValueError("not together")
        if tries == [2, 1]:
            raise OutOfMemory("too much")
        return [ticket.job for ticket in batch]

    assert asyncio.run(all_of(Queue(model, lane=lane, most=8), [1, 2])) == [1, 2]
    assert tries == [2, 1, 1, 1]


def test_nobody_waits_for_ever_when_memory_cannot_be_let_go_of(
    lane: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise RuntimeError("the device is gone")

    for error in (ValueError("no"), OutOfMemory("too much")):
        model = Doubler(fails=lambda jobs: True, error=error)
        queue = Queue(model, lane=lane, recover=broken)
        (failure,) = asyncio.run(asyncio.wait_for(all_of(queue, [1]), HANGS_AFTER))
        assert failure is error
    assert "memory could not be let go of: the device is gone" in caplog.text


def test_what_a_failed_batch_held_is_let_go_of_before_its_calls_are_run_again(
    lane: ThreadPoolExecutor,
) -> None:
    class Activations:
        pass

    held: list[weakref.ref[Activations]] = []
    alive: list[bool] = []

    def model(batch: Sequence[Ticket[int, int]]) -> list[int]:
        alive.extend(each() is not None for each in held)
        activations = Activations()
        held.append(weakref.ref(activations))
        if len(batch) > 1:
            raise ValueError("not together")
        return [0 for _ in batch]

    asyncio.run(all_of(Queue(model, lane=lane, most=8), [1, 2]))
    assert alive == [False] * 3


@pytest.mark.parametrize("patience, share", [(0.0, 0.01), (0.5, 0.05), (1000.0, 0.6)])
def test_how_long_they_are_waited_for_is_a_share_within_bounds(
    lane: ThreadPoolExecutor, clock: LoopTime, patience: float, share: float
) -> None:
    def slow(batch: Sequence[Ticket[int, int]]) -> list[int]:
        clock.now += 0.1
        return [0 for _ in batch]

    async def work(*jobs: int) -> None:
        clock.loop = asyncio.get_running_loop()
        await all_of(queue, jobs)
        await asyncio.wrap_future(lane.submit(lambda: None))

    queue = Queue(slow, lane=lane, most=8, patience=patience)
    asyncio.run(work(1))
    assert queue._wait == batching.LINGER_SECONDS, "one that came alone is waited for"
    asyncio.run(work(1, 2, 3))
    assert queue._wait == pytest.approx(share)


def test_a_model_that_brings_too_few_results_is_an_error_and_nobody_waits_for_ever(
    lane: ThreadPoolExecutor,
) -> None:
    queue: Queue = Queue(lambda batch: [], lane=lane)
    with pytest.raises(RuntimeError, match="a batch of 1 brought 0 results"):
        asyncio.run(asyncio.wait_for(queue.do(1), HANGS_AFTER))


def test_everything_on_a_device_is_computed_by_one_thread_and_event_loops_may_come_and_go() -> None:
    threads: set[int] = set()

    def model(batch: Sequence[Ticket[int, int]]) -> list[int]:
        threads.add(threading.get_ident())
        return [ticket.job for ticket in batch]

    for number in range(3):
        queue = Queue(model, lane=lane_of("test"))
        assert asyncio.run(queue.do(number)) == number
    assert len(threads) == 1
    assert lane_of("test") is not lane_of("another")

"""The queue that turns calls into batches: which calls share one, and what happens when one fails."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from concurrent_calls import at_once

from clocks import SkippingLoop, run_skipping
from interleave.backends.concurrency import Deadline
from interleave.errors import OutOfMemory
from interleave.local import batching
from interleave.local.batching import BatchQueue, QueuedCall, device_executor
from work import HANGS_AFTER

Queue = BatchQueue[int, int]


class Doubler:
    """Doubles numbers; can be made to wait, and to fail."""

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

    def __call__(self, batch: Sequence[QueuedCall[int, int]]) -> list[int]:
        jobs = [call.input for call in batch]
        self.batches.append(jobs)
        self.busy.set()
        assert self.go.wait(HANGS_AFTER)
        if self.fails(jobs):
            raise self.error or ValueError(f"cannot double {jobs}")
        return [2 * job for job in jobs]


@pytest.fixture
def executor() -> ThreadPoolExecutor:
    return device_executor("test")


async def all_of(queue: Queue, jobs: Sequence[int]) -> list[int | BaseException]:
    """The results of jobs that all wait when the executor takes the first."""
    return await at_once(queue._executor, [queue.submit(job) for job in jobs])


class LoopTime:
    """A clock for a queue on which a wait lasts as long as the event loop has something to do."""

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


def test_waiting_calls_share_a_batch(executor: ThreadPoolExecutor) -> None:
    model = Doubler()
    assert asyncio.run(all_of(Queue(model, executor=executor, max_batch=8), range(6))) == [0, 2, 4, 6, 8, 10]
    assert model.batches == [[0, 1, 2, 3, 4, 5]]


def test_a_batch_has_at_most_max_batch_calls(executor: ThreadPoolExecutor) -> None:
    model = Doubler()
    assert asyncio.run(all_of(Queue(model, executor=executor, max_batch=4), range(10))) == [
        2 * job for job in range(10)
    ]
    assert model.batches == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]


def test_only_calls_of_one_key_share_a_batch_and_the_oldest_call_goes_first(
    executor: ThreadPoolExecutor,
) -> None:
    model = Doubler()
    queue = Queue(model, executor=executor, max_batch=8, batch_key=lambda job: job % 2)
    asyncio.run(all_of(queue, range(5)))
    assert model.batches == [[0, 2, 4], [1, 3]]


def test_a_batch_waits_longer_after_concurrent_calls(executor: ThreadPoolExecutor, clock: LoopTime) -> None:
    sizes: list[int] = []

    def slow(batch: Sequence[QueuedCall[int, int]]) -> list[int]:
        clock.now += 0.4  # the next batch waits a fifth of it
        sizes.append(len(batch))
        return [0 for _ in batch]

    async def work() -> None:
        clock.loop = asyncio.get_running_loop()
        queue = Queue(slow, executor=executor, max_batch=8, wait_share=0.2)
        await all_of(queue, range(3))
        began = clock.now
        first = asyncio.create_task(queue.submit(1))
        # longer than the wait without concurrent callers
        while clock.now - began < 3 * batching.BATCH_WAIT_SECONDS:
            await asyncio.sleep(0)
        await asyncio.gather(first, queue.submit(2))

    asyncio.run(asyncio.wait_for(work(), HANGS_AFTER))
    assert sizes == [3, 2]


def judged_and_drawn(executor: ThreadPoolExecutor, clock: LoopTime, **judging: Any) -> list[str]:
    """The batches when images are drawn two at a time, and each is judged when it is drawn."""
    told: list[str] = []

    def model(name: str) -> Any:
        def run(batch: Sequence[QueuedCall[int, int]]) -> list[int]:
            told.append(f"{name} {len(batch)}")
            clock.sleep(0.03)
            return [0 for _ in batch]

        return run

    draw = Queue(model("draw"), executor=executor, max_batch=2)
    judge = Queue(model("judge"), executor=executor, **judging)

    async def attempt(gate: asyncio.Semaphore) -> None:
        async with gate:
            await draw.submit(1)
        await judge.submit(1)

    async def work() -> None:
        clock.loop = asyncio.get_running_loop()
        gate = asyncio.Semaphore(2)  # as many images at once as share a batch
        await asyncio.gather(*(attempt(gate) for _ in range(6)))

    asyncio.run(asyncio.wait_for(work(), HANGS_AFTER))
    return told


def test_low_priority_defers_until_no_other_queue_has_calls(
    executor: ThreadPoolExecutor, clock: LoopTime
) -> None:
    assert judged_and_drawn(executor, clock, max_batch=8, low_priority=True) == ["draw 2"] * 3 + ["judge 6"]


def test_low_priority_does_not_defer_a_full_batch(executor: ThreadPoolExecutor, clock: LoopTime) -> None:
    told = judged_and_drawn(executor, clock, max_batch=2, low_priority=True)
    assert sorted(told) == ["draw 2"] * 3 + ["judge 2"] * 3
    assert told != sorted(told), "all pictures were drawn first"


def test_low_priority_defers_only_for_a_while(
    executor: ThreadPoolExecutor, clock: LoopTime, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batching, "MAX_DEFER_SECONDS", -1.0)
    told = judged_and_drawn(executor, clock, max_batch=8, low_priority=True)
    names = [batch.split()[0] for batch in told]
    # a call that is already scheduled may be computed first, so the judge is not always second
    assert names[0] == "draw" and "judge" in names[:3], told


def test_a_call_cancelled_in_the_queue_is_never_computed(executor: ThreadPoolExecutor) -> None:
    model = Doubler()
    queue = Queue(model, executor=executor)

    async def work() -> int:
        model.go.clear()
        first, second, third = (asyncio.create_task(queue.submit(job)) for job in (1, 2, 3))
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


def test_a_call_cancelled_while_it_is_computed_returns_at_once_and_is_marked(
    executor: ThreadPoolExecutor,
) -> None:
    seen: list[bool] = []
    started, go = threading.Event(), threading.Event()

    def model(batch: Sequence[QueuedCall[int, int]]) -> list[int]:
        started.set()
        assert go.wait(HANGS_AFTER)
        seen.append(batch[0].cancelled)
        return [0]

    async def work() -> None:
        call = asyncio.create_task(Queue(model, executor=executor).submit(1))
        await asyncio.to_thread(started.wait, HANGS_AFTER)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(call, HANGS_AFTER)
        go.set()

    asyncio.run(work())
    executor.submit(lambda: None).result(HANGS_AFTER)
    assert seen == [True]


def test_of_a_failed_batch_only_the_calls_that_fail_alone_fail(executor: ThreadPoolExecutor) -> None:
    model = Doubler(fails=lambda jobs: 2 in jobs)
    recovered: list[int] = []
    queue = Queue(model, executor=executor, max_batch=8, free_memory=lambda: recovered.append(1))
    results = asyncio.run(all_of(queue, range(4)))
    assert [results[0], results[1], results[3]] == [0, 2, 6]
    assert isinstance(results[2], ValueError)
    assert model.batches == [[0, 1, 2, 3], [0], [1], [2], [3]]
    assert len(recovered) == 2


def test_a_batch_that_fails_as_a_whole_is_computed_one_by_one(executor: ThreadPoolExecutor) -> None:
    model = Doubler(fails=lambda jobs: len(jobs) > 1)
    assert asyncio.run(all_of(Queue(model, executor=executor, max_batch=8), range(4))) == [0, 2, 4, 6]


def test_a_batch_that_runs_out_of_memory_is_halved_and_so_are_later_ones(
    executor: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    model = Doubler(fails=lambda jobs: len(jobs) > 2, error=OutOfMemory("too much"))
    queue = Queue(model, executor=executor, max_batch=8)
    assert asyncio.run(all_of(queue, range(7))) == [2 * job for job in range(7)]
    assert model.batches == [[*range(7)], [0, 1, 2, 3], [0, 1], [2, 3], [4, 5], [6]]
    assert "a batch of 4 calls ran out of memory: using batches of 2 from now on" in caplog.text
    model.batches.clear()
    queue.max_batch = 8  # as another backend with the same model sets it
    asyncio.run(all_of(queue, range(4)))
    assert model.batches == [[0, 1], [2, 3]]


def test_before_a_call_fails_out_of_memory_all_models_of_the_device_free_theirs(
    executor: ThreadPoolExecutor,
) -> None:
    held = ["keys and values"]
    # kept alive, because queues are registered by weak references
    other = Queue(Doubler(), executor=executor, free_memory=held.clear)
    model = Doubler(fails=lambda jobs: bool(held), error=OutOfMemory("too much"))
    assert asyncio.run(all_of(Queue(model, executor=executor, max_batch=8), [1])) == [2]
    assert model.batches == [[1], [1]]
    hungry = Doubler(fails=lambda jobs: True, error=OutOfMemory("too much"))
    (failure,) = asyncio.run(all_of(Queue(hungry, executor=executor, max_batch=8), [1]))
    assert isinstance(failure, OutOfMemory) and len(hungry.batches) == 2
    del other


def test_a_call_that_fails_in_a_batch_and_then_out_of_memory_is_tried_once_more(
    executor: ThreadPoolExecutor,
) -> None:
    tries: list[int] = []

    def model(batch: Sequence[QueuedCall[int, int]]) -> list[int]:
        tries.append(len(batch))
        if len(batch) > 1:
            raise ValueError("not together")
        if tries == [2, 1]:
            raise OutOfMemory("too much")
        return [call.input for call in batch]

    assert asyncio.run(all_of(Queue(model, executor=executor, max_batch=8), [1, 2])) == [1, 2]
    assert tries == [2, 1, 1, 1]


def test_no_call_hangs_when_memory_cannot_be_freed(
    executor: ThreadPoolExecutor, caplog: pytest.LogCaptureFixture
) -> None:
    def broken() -> None:
        raise RuntimeError("the device is gone")

    for error in (ValueError("no"), OutOfMemory("too much")):
        model = Doubler(fails=lambda jobs: True, error=error)
        queue = Queue(model, executor=executor, free_memory=broken)
        (failure,) = asyncio.run(asyncio.wait_for(all_of(queue, [1]), HANGS_AFTER))
        assert failure is error
    assert "memory could not be freed: the device is gone" in caplog.text


def test_the_memory_of_a_failed_batch_is_freed_before_its_calls_are_computed_again(
    executor: ThreadPoolExecutor,
) -> None:
    class Activations:
        pass

    held: list[weakref.ref[Activations]] = []
    alive: list[bool] = []

    def model(batch: Sequence[QueuedCall[int, int]]) -> list[int]:
        alive.extend(each() is not None for each in held)
        activations = Activations()
        held.append(weakref.ref(activations))
        if len(batch) > 1:
            raise ValueError("not together")
        return [0 for _ in batch]

    asyncio.run(all_of(Queue(model, executor=executor, max_batch=8), [1, 2]))
    assert alive == [False] * 3


@pytest.mark.parametrize("wait_share, expected", [(0.0, 0.01), (0.5, 0.05), (1000.0, 0.6)])
def test_the_wait_is_a_share_of_the_last_batch_within_bounds(
    executor: ThreadPoolExecutor, clock: LoopTime, wait_share: float, expected: float
) -> None:
    def slow(batch: Sequence[QueuedCall[int, int]]) -> list[int]:
        clock.now += 0.1
        return [0 for _ in batch]

    async def work(*jobs: int) -> None:
        clock.loop = asyncio.get_running_loop()
        await all_of(queue, jobs)
        await asyncio.wrap_future(executor.submit(lambda: None))

    queue = Queue(slow, executor=executor, max_batch=8, wait_share=wait_share)
    asyncio.run(work(1))
    assert queue._batch_wait == batching.BATCH_WAIT_SECONDS, (
        "a call without concurrent ones made the next wait longer"
    )
    asyncio.run(work(1, 2, 3))
    assert queue._batch_wait == pytest.approx(expected)


def test_too_few_results_are_an_error_and_no_call_hangs(
    executor: ThreadPoolExecutor,
) -> None:
    queue: Queue = Queue(lambda batch: [], executor=executor)
    with pytest.raises(RuntimeError, match="a batch of 1 returned 0 results"):
        asyncio.run(asyncio.wait_for(queue.submit(1), HANGS_AFTER))


def test_a_device_has_one_thread_for_all_queues_and_event_loops() -> None:
    threads: set[int] = set()

    def model(batch: Sequence[QueuedCall[int, int]]) -> list[int]:
        threads.add(threading.get_ident())
        return [call.input for call in batch]

    for number in range(3):
        queue = Queue(model, executor=device_executor("test"))
        assert asyncio.run(queue.submit(number)) == number
    assert len(threads) == 1
    assert device_executor("test") is not device_executor("another")


async def until_counted(deadline: Deadline) -> None:
    """Until the loop knows that the call has been taken out of the queue."""
    while deadline._waits or deadline._window is None:
        await asyncio.sleep(0.001)


def test_time_in_the_queue_does_not_count_against_a_deadline(executor: ThreadPoolExecutor) -> None:
    """The first call is computed for 110 s and the second waits as long; each has 120 s."""
    loop, model = SkippingLoop(), Doubler()
    queue = Queue(model, executor=executor)

    async def timed(number: int, deadline: Deadline) -> int:
        async with deadline.running():
            return await queue.submit(number)

    async def story() -> None:
        model.go.clear()
        one, two = Deadline(120), Deadline(120)
        first = asyncio.create_task(timed(1, one))
        await asyncio.to_thread(model.busy.wait, HANGS_AFTER)
        await until_counted(one)
        second = asyncio.create_task(timed(2, two))
        await asyncio.sleep(0.01)
        loop.ahead += 110
        model.go.set()
        assert (await first, await second) == (2, 4)
        assert one.elapsed >= 110 > two.elapsed

    run_skipping(loop, story())


def test_time_in_which_a_call_is_computed_counts(executor: ThreadPoolExecutor) -> None:
    loop, model = SkippingLoop(), Doubler()
    queue = Queue(model, executor=executor)

    async def story() -> None:
        model.go.clear()
        deadline = Deadline(120)
        with pytest.raises(TimeoutError):
            async with deadline.running():
                call = asyncio.create_task(queue.submit(1))
                await asyncio.to_thread(model.busy.wait, HANGS_AFTER)
                await until_counted(deadline)
                loop.ahead += 121
                await call
        model.go.set()

    run_skipping(loop, story())

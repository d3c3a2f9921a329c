"""The queue and its workers, with a clock of their own and no processes: who draws, who waits, who goes."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import clockwork
import pytest

from interleave.service.generator.config import Limits
from interleave.service.generator.messages import GeneratedImage, GenerationTask
from interleave.service.generator.pool import Pool
from interleave.service.generator.worker_process import Worker, WorkerState
from interleave.service.generator.worker_protocol import Frame
from interleave.service.http.refusals import Refusal


def ready_pool(workers: int = 1, *, batch: int = 1, queue: int = 2, **limits: Any) -> Pool:
    """A pool whose workers are there, as far as it knows."""
    pool = Pool("solid", [None] * workers, limits=Limits(queue=queue, batch=batch, **limits))
    for worker in pool.workers:
        worker.state = WorkerState.READY
    return pool


def ask(pool: Pool, *prompts: str) -> asyncio.Task[list[GeneratedImage]]:
    return asyncio.create_task(pool.draw([GenerationTask(prompt, 1) for prompt in prompts]))


def drawn_by(worker: Worker) -> list[str]:
    return [ticket.task.prompt for ticket in worker.in_flight.values()]


def finish(worker: Worker) -> None:
    """The worker gives back what it has been given first."""
    number = next(iter(worker.in_flight))
    worker._handle_frame(Frame({"event": "drawn", "id": number, "size": [1, 1], "seconds": 1.0}, b"png"))


def die(pool: Pool, worker: Worker) -> None:
    worker.state = WorkerState.RESTARTING
    pool.worker_died(worker, worker._take_in_flight())
    worker.state = WorkerState.READY
    pool.capacity_freed(worker)


async def statuses(tasks: Sequence[asyncio.Task[Any]]) -> list[int]:
    results = await asyncio.gather(*tasks, return_exceptions=True)
    return [result.status if isinstance(result, Refusal) else 200 for result in results]


def test_a_full_queue_refuses_and_what_was_accepted_is_drawn_in_order() -> None:
    async def flood() -> tuple[list[int], list[str], float | None]:
        pool, order = ready_pool(), []
        tasks = [ask(pool, prompt) for prompt in "abcd"]
        several = ask(pool, "x", "y", "z")
        await asyncio.sleep(0)
        retry_after = tasks[3].exception().retry_after  # type: ignore[union-attr]
        while pool.busy:
            order += drawn_by(pool.workers[0])
            finish(pool.workers[0])
            await asyncio.sleep(0)
        return await statuses([*tasks, several]), order, retry_after

    assert clockwork.run(flood()) == ([200, 200, 200, 429, 429], ["a", "b", "c"], 1.0)


def test_a_newcomer_is_refused_before_its_body_is_read_and_one_that_is_read_has_its_place() -> None:
    async def crowd() -> None:
        pool = ready_pool(queue=2, batch=1)
        with pool.arriving(), pool.arriving(), pool.arriving():  # one to be drawn at once, two to wait
            with pytest.raises(Refusal, match="the queue is full"):
                pool.check_admission()
            with pytest.raises(Refusal), pool.arriving():
                pass
        pool.check_admission()

    clockwork.run(crowd())


def test_an_image_whose_worker_dies_is_drawn_once_more_and_then_given_up() -> None:
    async def deaths() -> list[int]:
        pool = ready_pool(batch=4, queue=9)
        (worker,) = pool.workers
        innocent, killer, other = ask(pool, "a"), ask(pool, "die"), ask(pool, "b")
        await asyncio.sleep(0)
        assert drawn_by(worker) == ["a", "die", "b"]
        die(pool, worker)
        assert drawn_by(worker) == ["a"]  # alone, in its turn
        finish(worker)
        assert drawn_by(worker) == ["die"]
        die(pool, worker)
        assert drawn_by(worker) == ["b"]
        finish(worker)
        return await statuses([innocent, killer, other])

    assert clockwork.run(deaths()) == [200, 503, 200]


def test_a_waiting_image_that_nobody_wants_any_more_is_never_drawn() -> None:
    async def leave() -> list[str]:
        pool = ready_pool(queue=9)
        (worker,), order = pool.workers, []
        tasks = [ask(pool, prompt) for prompt in ("a", "never", "b")]
        await asyncio.sleep(0)
        tasks[1].cancel()
        await asyncio.sleep(0)
        while pool.busy:
            order += drawn_by(worker)
            finish(worker)
            await asyncio.sleep(0)
        await asyncio.gather(*tasks, return_exceptions=True)
        return order

    assert clockwork.run(leave()) == ["a", "b"]


def test_images_go_to_the_worker_that_is_least_busy() -> None:
    async def spread() -> list[list[str]]:
        pool = ready_pool(workers=2, batch=2, queue=9)
        tasks = [ask(pool, prompt) for prompt in "abcde"]
        await asyncio.sleep(0)
        found = [drawn_by(worker) for worker in pool.workers]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return found

    assert clockwork.run(spread()) == [["a", "c"], ["b", "d"]]


def test_everybody_is_told_when_the_last_worker_is_beyond_hope() -> None:
    async def end() -> list[int]:
        pool = ready_pool(queue=9)
        (worker,) = pool.workers
        tasks = [ask(pool, prompt) for prompt in "ab"]
        await asyncio.sleep(0)
        worker.state, worker._could_not_load = WorkerState.FAILED, True
        pool.worker_died(worker, worker._take_in_flight())
        with pytest.raises(Refusal, match="no worker is running"):
            pool.check_admission()
        return await statuses(tasks)

    assert clockwork.run(end()) == [503, 503]

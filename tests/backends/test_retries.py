"""The retry policy, on an event loop whose clock jumps over every wait: minutes of outage in milliseconds."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

import pytest

from clocks import now
from clocks import run_jumping as run
from interleave.backends.protocols import Message, Reply, Sampling, VlmCapabilities
from interleave.backends.retries import RetriedVlm, RetryBudget, RetryPolicy
from interleave.errors import BackendError, Failure, ReplyError

T = TypeVar("T")


class Server:
    """A model that answers with what it is told to, one thing a call, the last one for ever."""

    def __init__(self, *answers: Exception | str) -> None:
        self.answers = list(answers)
        self.asked_at: list[float] = []

    async def __call__(self) -> str:
        self.asked_at.append(now())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def waits(self) -> list[float]:
        return [later - earlier for earlier, later in zip(self.asked_at, self.asked_at[1:], strict=False)]


def busy(retry_after: float | None = None) -> BackendError:
    return BackendError("the server is busy", transient=True, retry_after=retry_after)


def call(server: Callable[[], Awaitable[T]], *, deadline: float = 120.0) -> T:
    async def working() -> T:
        policy = RetryPolicy(budget=RetryBudget(now))
        return await policy.call("the planner", server, deadline=deadline)

    return run(working())


def test_a_transient_failure_is_tried_again() -> None:
    server = Server(busy(), busy(), "done")
    assert call(server) == "done"
    assert len(server.asked_at) == 3


def test_a_call_is_tried_five_times_in_all_and_then_fails_with_the_last_error() -> None:
    server = Server(busy(), busy(), busy(), busy(), BackendError("still busy", transient=True), "too late")
    with pytest.raises(BackendError, match="still busy"):
        call(server)
    assert len(server.asked_at) == 5


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (TimeoutError("no bytes for 9 s"), "the planner timed out (TimeoutError: no bytes for 9 s)"),
        (TimeoutError(), "the planner timed out (TimeoutError without a message)"),
    ],
)
def test_a_timeout_that_a_model_raises_itself_is_tried_again_and_named(error: Exception, said: str) -> None:
    assert call(Server(error, "done")) == "done"
    with pytest.raises(BackendError) as raised:
        call(Server(error))
    assert str(raised.value) == said
    assert (raised.value.transient, raised.value.kind) == (True, Failure.TIMEOUT)


@pytest.mark.parametrize(
    "error", [BackendError("no such model"), ReplyError("not a plan"), ValueError("a bug")]
)
def test_nothing_but_a_transient_failure_is_tried_again(error: Exception) -> None:
    server = Server(error, "done")
    with pytest.raises(type(error)) as raised:
        call(server)
    assert raised.value is error
    assert len(server.asked_at) == 1


def test_waits_grow_and_are_jittered() -> None:
    server, other = Server(busy()), Server(busy())
    for each in (server, other):
        with pytest.raises(BackendError):
            call(each)
    for wait, longest in zip(server.waits, (0.75, 1.5, 3.0, 6.0), strict=True):
        assert longest / 3 <= wait <= longest
    assert server.waits != other.waits


@pytest.mark.parametrize(
    ("retry_after", "shortest", "longest"),
    [
        (7.0, 7.0, 7.7),
        (0.0, 0.0, 0.0),
        (1e9, 300.0, 300.0),
        (float("inf"), 300.0, 300.0),
        (-5.0, 0.25, 0.75),
        (float("nan"), 0.25, 0.75),
        (None, 0.25, 0.75),
    ],
)
def test_the_servers_wish_is_honoured_within_reason(
    retry_after: float | None, shortest: float, longest: float
) -> None:
    server = Server(busy(retry_after), "done")
    assert call(server, deadline=1000.0) == "done"
    assert shortest <= server.waits[0] <= longest


def test_a_wait_that_would_outlast_the_deadline_is_not_begun() -> None:
    async def working() -> float:
        with pytest.raises(BackendError, match="the server is busy"):
            await RetryPolicy().call("the planner", Server(busy(1e9), "done"), deadline=120.0)
        return now()

    assert run(working()) == 0.0


def test_a_call_that_hangs_ends_at_its_deadline() -> None:
    async def working() -> float:
        with pytest.raises(BackendError, match="the planner: no answer within 120 s") as ended:
            await RetryPolicy().call("the planner", asyncio.Event().wait, deadline=120.0)
        assert ended.value.transient
        return now()

    assert run(working()) == pytest.approx(120.0)


def test_the_deadline_is_for_all_tries_together() -> None:
    async def fails_slowly() -> None:
        await asyncio.sleep(50)
        raise busy()

    async def working() -> float:
        with pytest.raises(BackendError):
            await RetryPolicy().call("the critic", fails_slowly, deadline=120.0)
        return now()

    assert run(working()) <= 120.0


def test_a_deadline_on_the_real_clock_ends_a_call_that_hangs() -> None:
    async def working() -> None:
        await RetryPolicy().call("the planner", asyncio.Event().wait, deadline=0.05)

    with pytest.raises(BackendError, match=r"no answer within 0\.05 s"):
        asyncio.run(working())


@pytest.mark.parametrize("server", [asyncio.Event().wait, Server(busy(60.0))], ids=["in a call", "in a wait"])
def test_cancellation_goes_through_at_once(server: Callable[[], Awaitable[Any]]) -> None:
    async def working() -> float:
        task = asyncio.create_task(RetryPolicy().call("the planner", server, deadline=120.0))
        await asyncio.sleep(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return now()

    assert run(working()) == pytest.approx(1.0)


def test_every_further_try_is_logged_once_with_its_reason(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        call(Server(busy(), busy(2.0), "done"))
    assert len(caplog.messages) == 2
    assert all(line.startswith("the planner: the server is busy; retrying") for line in caplog.messages)


def test_the_budget_is_a_fifth_of_the_calls_and_ten_a_second() -> None:
    time = 0.0
    budget = RetryBudget(lambda: time)
    for _ in range(52):
        budget.call_made()
    assert taken(budget) == 10 + 10
    time = 3.0
    assert taken(budget) == 30


def test_an_unspent_budget_does_not_pile_up_for_ever() -> None:
    time = 0.0
    budget = RetryBudget(lambda: time)
    time = 86_400.0
    assert taken(budget) == 100


def taken(budget: RetryBudget) -> int:
    return next(count for count in range(1_000) if not budget.take())


def test_a_call_waits_for_an_empty_budget() -> None:
    async def working() -> Server:
        server, policy = Server(busy(0.0), "done"), RetryPolicy(budget=RetryBudget(now))
        taken(policy.budget)
        assert await policy.call("the planner", server, deadline=120.0) == "done"
        return server

    assert 0.1 < run(working()).waits[0] < 1.0


def test_a_call_does_not_wait_for_the_budget_beyond_its_deadline() -> None:
    async def working() -> float:
        policy = RetryPolicy(budget=RetryBudget(lambda: 0.0))
        taken(policy.budget)
        with pytest.raises(BackendError, match="the server is busy"):
            await policy.call("the planner", Server(busy(0.0)), deadline=5.0)
        return now()

    assert run(working()) == pytest.approx(5.0, abs=0.5)


class Outage:
    """A server that fails a share of what it is asked, and many calls to it."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.calls = 0
        self.answered = 0
        self.retries_at: list[float] = []
        self.random = random.Random(7)

    async def storm(self, calls: int, calls_per_second: float) -> None:
        policy = RetryPolicy(budget=RetryBudget(now))
        await asyncio.gather(*(self.call(policy, number / calls_per_second) for number in range(calls)))

    async def call(self, policy: RetryPolicy, start: float) -> None:
        await asyncio.sleep(start)
        self.calls += 1
        tries = 0

        async def attempt() -> None:
            nonlocal tries
            tries += 1
            if tries > 1:
                self.retries_at.append(now())
                self.check_budget()
            if self.random.random() < self.share:
                raise busy()

        try:
            await policy.call("the planner", attempt, deadline=120.0)
            self.answered += 1
        except BackendError:
            pass

    def check_budget(self) -> None:
        allowed = 0.2 * self.calls + 10 * now() + 10
        assert len(self.retries_at) <= allowed + 1e-6


@pytest.mark.parametrize(
    "calls_per_second", [1e9, 100.0, 4.0], ids=["all at once", "100 a second", "4 a second"]
)
def test_half_of_a_thousand_calls_failing_never_makes_more_extra_calls_than_the_budget(
    calls_per_second: float,
) -> None:
    outage = Outage(share=0.5)
    run(outage.storm(1000, calls_per_second))
    assert outage.answered > 950
    assert len(outage.retries_at) > 500


@pytest.mark.slow
def test_a_full_outage_is_not_answered_with_a_storm() -> None:
    outage = Outage(share=1.0)
    run(outage.storm(400, calls_per_second=1e9))
    assert outage.answered == 0
    assert len(outage.retries_at) > 1000


class Moody:
    """A vision-language model that fails once."""

    capabilities = VlmCapabilities(token_probabilities=True)

    def __init__(self) -> None:
        self.calls = 0

    async def complete(self, messages: object, sampling: Sampling) -> Reply:
        self.calls += 1
        if self.calls == 1:
            raise busy()
        return Reply("done")


def test_a_model_outside_a_run_is_retried_by_the_same_policy() -> None:
    vlm = RetriedVlm("the planner", Moody(), RetryPolicy())
    assert run(vlm.complete([Message("user", ())], Sampling())) == Reply("done")
    assert vlm.capabilities.token_probabilities

"""The one retry policy. Backends switch the retries of their SDK off; nothing else retries a call.

Only transient `BackendError`s are retried, with at most five tries in all, after jittered backoff or after
the time the server asked for. Every try takes a place within the limit on calls in flight; waiting for it
does not count against the deadline. Retries come out of a shared budget, a fifth of the calls made plus ten a
second, so that an outage does not cause a storm; when it is empty, a call waits for it within its deadline.
Every call to a model goes through here, so its result is checked and keys are removed here.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Awaitable, Callable, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from interleave.backends.concurrency import CallLimit
from interleave.backends.deadlines import TIMEOUT_ADVICE, Deadline
from interleave.backends.protocols import (
    GeneratorCapabilities,
    ImageGenerator,
    ImageRequest,
    Message,
    Reply,
    Sampling,
    VisionLanguageModel,
    VlmCapabilities,
    check_extras,
)
from interleave.backends.result_checks import checked, clean_errors
from interleave.errors import BackendError, Failure
from interleave.types import Slot

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")
log = logging.getLogger(__name__)

VLM_DEADLINE_SECONDS = 120.0
IMAGE_DEADLINE_SECONDS = 300.0
MOST_TRIES = 5
FIRST_DELAY_SECONDS = 0.5
LONGEST_DELAY_SECONDS = 30.0
LONGEST_RETRY_AFTER_SECONDS = 300.0
BUDGET_SHARE = 0.2
BUDGET_PER_SECOND = 10.0
BUDGET_RESERVE_SECONDS = 10.0
"""How many seconds of budget can be saved up."""
BUDGET_POLL_SECONDS = 0.5
"""How often a call checks an empty budget; a thousand may be waiting."""


class RetryBudget:
    """A token bucket of retries, filled by a share of the calls made and a few every second."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tokens = BUDGET_PER_SECOND
        self._filled_at = clock()

    def call_made(self) -> None:
        self._add(BUDGET_SHARE)

    def take(self) -> bool:
        """Take one retry, if there is one."""
        now = self._clock()
        self._add((now - self._filled_at) * BUDGET_PER_SECOND)
        self._filled_at = now
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def _add(self, tokens: float) -> None:
        self._tokens = min(self._tokens + tokens, BUDGET_PER_SECOND * BUDGET_RESERVE_SECONDS)


class RetryPolicy:
    """Calls a model until it answers, fails for good, or its deadline has passed."""

    def __init__(
        self,
        *,
        tries: int = MOST_TRIES,
        first_delay: float = FIRST_DELAY_SECONDS,
        budget: RetryBudget | None = None,
    ) -> None:
        self.tries = tries
        self.first_delay = first_delay
        self.budget = budget or RetryBudget()

    async def call(
        self,
        what: str,
        attempt: Callable[[], Awaitable[T]],
        *,
        deadline: float | Deadline,
        limit: CallLimit | None = None,
        slot: Slot = Slot(),
    ) -> T:
        """Await `attempt()` until it succeeds; `deadline` is for all tries and the delays between them."""
        deadline = deadline if isinstance(deadline, Deadline) else Deadline(deadline)
        limit = limit or CallLimit(None)
        self.budget.call_made()
        for number in range(1, self.tries + 1):
            try:
                async with limit.acquire(slot):  # a try that waits for its place holds none
                    return await self._try(what, attempt, deadline)
            except BackendError as error:
                if not error.transient or number == self.tries or deadline.expired:
                    raise
                await self._wait(what, error, number, deadline)
        raise AssertionError("unreachable: the last try returns or raises")

    async def _try(self, what: str, attempt: Callable[[], Awaitable[T]], deadline: Deadline) -> T:
        try:
            async with deadline.running():
                with clean_errors(what):
                    return checked(await attempt(), what)
        except TimeoutError as error:  # of this deadline: one of the attempt's own is a `BackendError` by now
            raise BackendError(
                f"{what}: no answer within {deadline.seconds:g} s{TIMEOUT_ADVICE}",
                transient=True,
                kind=Failure.TIMEOUT,
            ) from error

    async def _wait(self, what: str, error: BackendError, number: int, deadline: Deadline) -> None:
        delay = self._delay(error, number)
        if delay >= deadline.left:
            raise error
        log.warning("%s: %s; trying again in %.1f s", what, error, delay)
        try:
            async with deadline.running():
                await asyncio.sleep(delay)
                while not self.budget.take():
                    await asyncio.sleep(BUDGET_POLL_SECONDS)
        except TimeoutError:
            raise error from None

    def _delay(self, error: BackendError, number: int) -> float:
        if error.retry_after is not None and error.retry_after >= 0:
            return min(error.retry_after * random.uniform(1.0, 1.1), LONGEST_RETRY_AFTER_SECONDS)
        return min(self.first_delay * 2.0 ** (number - 1), LONGEST_DELAY_SECONDS) * random.uniform(0.5, 1.5)


class RetriedVlm:
    """A vision-language model under the policy, for calls outside a run."""

    def __init__(self, what: str, vlm: VisionLanguageModel, policy: RetryPolicy | None = None) -> None:
        self.what = what
        self.vlm = vlm
        self.policy = policy or RetryPolicy()

    @property
    def capabilities(self) -> VlmCapabilities:
        return self.vlm.capabilities

    @cached_property
    def limit(self) -> CallLimit:
        return CallLimit.of(self.capabilities, seconds=VLM_DEADLINE_SECONDS, what=self.what)

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        return await self.policy.call(
            self.what,
            lambda: self.vlm.complete(messages, sampling),
            deadline=self.capabilities.deadline or VLM_DEADLINE_SECONDS,
            limit=self.limit,
            slot=sampling.slot,
        )


class RetriedGenerator:
    """An image generator under the policy, for calls outside a run."""

    def __init__(self, what: str, generator: ImageGenerator, policy: RetryPolicy | None = None) -> None:
        self.what = what
        self.generator = generator
        self.policy = policy or RetryPolicy()

    @property
    def capabilities(self) -> GeneratorCapabilities:
        return self.generator.capabilities

    @cached_property
    def limit(self) -> CallLimit:
        return CallLimit.of(self.capabilities, seconds=IMAGE_DEADLINE_SECONDS, what=self.what)

    async def generate(self, request: ImageRequest) -> Image:
        check_extras(request, self.capabilities)
        return await self.policy.call(
            self.what,
            lambda: self.generator.generate(request),
            deadline=self.capabilities.deadline or IMAGE_DEADLINE_SECONDS,
            limit=self.limit,
            slot=request.slot,
        )

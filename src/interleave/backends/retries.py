"""The only retry policy. Backends turn off the retries of their SDK, and nothing else retries a call.

Only transient `BackendError`s are retried, with at most five tries, after jittered backoff or after the delay
that the server requests. Every try takes a slot of the limit on concurrent calls. Waiting for the slot does
not count against the deadline. Retries use a shared budget, a fifth of the calls made plus ten per second, so
that an outage does not cause a storm. When it is empty, a call waits for it within its deadline. Every model
call passes through here, so results are checked and keys are removed here.
"""

from __future__ import annotations

import asyncio
import logging
import math
import random
import time
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar, cast

from pydantic import BaseModel

from interleave.backends.concurrency import TIMEOUT_ADVICE, CallLimit, Deadline
from interleave.backends.protocols import (
    DocumentModel,
    GeneratorCapabilities,
    ImageGenerator,
    ImageRequest,
    Message,
    Reply,
    Sampling,
    Token,
    VisionLanguageModel,
    VlmCapabilities,
    check_extras,
)
from interleave.config.specs import BackendOptions
from interleave.errors import BackendError, Failure, class_and_message
from interleave.redaction import redacted, redacted_model
from interleave.text import storable
from interleave.types import Slot

if TYPE_CHECKING:
    from PIL.Image import Image


T = TypeVar("T")


def checked(result: T, who: str) -> T:
    """Return the result of a model in the form that is used and journalled, so that a replay is identical.

    Raises `BackendError` for a malformed reply.
    """
    if isinstance(result, Reply):
        return cast(T, _checked_reply(result, who))
    return cast(T, redacted_model(result)) if isinstance(result, BaseModel) else result


def is_price(value: object) -> bool:
    """Return whether this is a valid price. A negative one or NaN would never reach a limit."""
    return _is_between(value, 0, math.inf) and value != math.inf


def explained_by(error: BaseException) -> BaseException | None:
    """Return the error as the cause of another, or `None` if its traceback would show a key."""
    shown = "".join(traceback.format_exception(error))
    return error if redacted(shown, message=True) == shown else None


@contextmanager
def clean_errors(who: str) -> Iterator[None]:
    """Remove keys, and text that a journal cannot store, from the errors of a model.

    A `TimeoutError` of a user's own model becomes a transient failure.
    """
    try:
        yield
    except TimeoutError as error:
        message = storable(redacted(f"{who} timed out ({class_and_message(error)})", message=True))
        raise BackendError(message, transient=True, kind=Failure.TIMEOUT) from explained_by(error)
    except BackendError as error:
        message = str(error)
        if (clean := storable(redacted(message, message=True))) != message:
            error.args = (clean,)
        for cause in filter(None, (error.__cause__, error.__context__)):
            if explained_by(cause) is None:
                error.__cause__, error.__context__ = None, None
        raise


def _checked_reply(reply: Reply, who: str) -> Reply:
    for name in ("text", "finish_reason"):
        if not isinstance(value := getattr(reply, name), str):
            raise _bad(f"{who} answered with a {name} that is a {type(value).__name__}")
    if reply.cost is not None and not is_price(reply.cost):
        raise _bad(f"{who} says its answer cost {reply.cost!r} US dollars")
    text = redacted(storable(reply.text))
    return Reply(
        text,
        redacted(storable(reply.finish_reason)),
        _counts(reply.usage),
        reply.cost,
        _usable(reply.tokens) if text == storable(reply.text) else (),
    )


def _usable(tokens: tuple[Token, ...]) -> tuple[Token, ...]:
    """Return the tokens. Empty if one has an invalid probability, because no confidence follows from them."""
    if not all(_is_between(token.probability, 0, 1) for token in tokens):
        return ()
    return tuple(Token(storable(token.text), token.probability) for token in tokens)


def _is_between(value: object, low: float, high: float) -> bool:
    return isinstance(value, int | float) and low <= value <= high  # False for NaN


def _counts(usage: object) -> dict[str, int]:
    found = usage.items() if isinstance(usage, Mapping) else ()
    return {str(name): count for name, count in found if isinstance(count, int) and count >= 0}


def _bad(problem: str) -> BackendError:
    return BackendError(problem, kind=Failure.BAD_REPLY)


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
"""Seconds of budget that can accumulate."""
BUDGET_POLL_SECONDS = 0.5
"""Interval at which a call checks an empty budget. A thousand calls may be waiting."""


class RetryBudget:
    """Token bucket of retries, filled by a share of the calls made and at a fixed rate."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tokens = BUDGET_PER_SECOND
        self._filled_at = clock()

    def call_made(self) -> None:
        self._add(BUDGET_SHARE)

    def take(self) -> bool:
        """Take one retry. Returns whether there was one."""
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
    """Policy that calls a model until it answers, fails for good, or its deadline has passed."""

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
        """Await `attempt()` until it succeeds. `deadline` covers all tries and the delays between them."""
        deadline = deadline if isinstance(deadline, Deadline) else Deadline(deadline)
        limit = limit or CallLimit(None)
        self.budget.call_made()
        for number in range(1, self.tries + 1):
            try:
                async with limit.acquire(slot):  # a try that waits for its slot holds none
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
        except TimeoutError as error:  # of this deadline: `clean_errors` converts those of the attempt
            raise BackendError(
                f"{what}: no answer within {deadline.seconds:g} s{TIMEOUT_ADVICE}",
                transient=True,
                kind=Failure.TIMEOUT,
            ) from error

    async def _wait(self, what: str, error: BackendError, number: int, deadline: Deadline) -> None:
        delay = self._delay(error, number)
        if delay >= deadline.left:
            raise error
        log.warning("%s: %s; retrying in %.1f s", what, error, delay)
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
    """A vision-language model with retries, for calls outside a run."""

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
    """An image generator with retries, for calls outside a run."""

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


def keep_limits(backend: object, options: BackendOptions, name: str) -> object:
    """Return the backend, wrapped if it does not enforce the concurrency or timeout of its spec.

    A backend that enforces such an option reports it in its capabilities and is not wrapped. Another one,
    such as a plugin that ignores the option, is wrapped: its capabilities then report the concurrency, which
    all callers respect, and the wrapper ends a try that exceeds the timeout.
    """
    capabilities = getattr(backend, "capabilities", None)
    if not isinstance(capabilities, GeneratorCapabilities | VlmCapabilities) or isinstance(
        backend, DocumentModel
    ):
        return backend  # an agent that computes, or not a backend, which the contract reports
    concurrency, timeout = options.concurrency, options.timeout
    if concurrency in (None, capabilities.concurrency) and timeout in (None, capabilities.timeout):
        return backend
    draws = isinstance(capabilities, GeneratorCapabilities)
    usual = capabilities.deadline or (IMAGE_DEADLINE_SECONDS if draws else VLM_DEADLINE_SECONDS)
    changed = replace(
        capabilities,
        concurrency=concurrency or capabilities.concurrency,
        timeout=timeout or capabilities.timeout,
        deadline=timeout if timeout is not None and timeout > usual else capabilities.deadline,
    )
    seconds = timeout if timeout != capabilities.timeout else None
    if draws:
        return LimitedGenerator(cast(ImageGenerator, backend), changed, seconds, name)
    return LimitedVlm(cast(VisionLanguageModel, backend), changed, seconds, name)


class _Limited:
    def __init__(self, backend: Any, capabilities: Any, seconds: float | None, name: str) -> None:
        self.backend = backend
        self.capabilities = capabilities
        self._seconds = seconds
        self._name = name

    def __getattr__(self, name: str) -> Any:
        if name == "backend":  # not set yet while copying
            raise AttributeError(name)
        return getattr(self.backend, name)

    @asynccontextmanager
    async def _in_time(self) -> AsyncGenerator[None]:
        if self._seconds is None:
            yield
            return
        deadline = Deadline(self._seconds)
        try:
            async with deadline.running():
                yield
        except TimeoutError as error:
            if not deadline.expired:
                raise
            raise BackendError(
                f"{self._name} gave no answer within {self._seconds:g} s{TIMEOUT_ADVICE}",
                transient=True,
                kind=Failure.TIMEOUT,
            ) from error


class LimitedGenerator(_Limited):
    """An image generator with the concurrency and the timeout of its spec."""

    async def generate(self, request: ImageRequest) -> Image:
        async with self._in_time():
            return cast("Image", await self.backend.generate(request))


class LimitedVlm(_Limited):
    """A vision-language model with the concurrency and the timeout of its spec."""

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        async with self._in_time():
            return cast(Reply, await self.backend.complete(messages, sampling))

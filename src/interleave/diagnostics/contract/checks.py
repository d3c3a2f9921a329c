"""What all checks of the contract are made of: `Check`, `Result`, and helpers for trials."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from interleave import BackendError, Failure, GeneratorCapabilities, VlmCapabilities

CHECK_SECONDS = 1800.0
"""The time limit of a check."""
CANCEL_SECONDS = 5.0
MAX_CALLS_AT_ONCE = 16
"""A check of the limit on concurrency makes no more calls than this."""
AWAY = {Failure.UNREACHABLE, Failure.TIMEOUT, Failure.BUSY}
"""Failures that say nothing about a promise, because the backend did not answer."""

PROMPTS = {
    "one letter": "x",
    "only spaces": "   ",
    "empty": "",
    "long": "a very long corridor, " * 1000,
    "one long word": "a" * 30_000,
    "lines and tabs": "a\tcat\r\non\n\n\na mat",
    "emoji family": "👩‍👩‍👧‍👦 at the 🏖️",
    "Arabic": "قطة تجلس على الحصيرة",
    "mixed directions": "the cat קטט says \u202eolleh\u202c 3 times",
    "Zalgo": "z̸̢̛̙a̵̧͓l̴̡̛g̶̢͝o̷̧͘",
    "control characters": "a\x07\x1b[31mred\x85\x9b cat",
    "slots and tags": "{{prompt}} <image> {0.__class__} %s $HOME `id` <answer>",
}
"""Prompts as users write them; a backend must accept them all."""
REFUSABLE = {"only spaces", "empty", "long", "one long word"}
"""Prompts that a backend may refuse, without `transient`, because they are empty or too long."""


class Status(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Known:
    """Facts about a backend beyond its capabilities."""

    role: str = "generator"
    size: tuple[int, int] | None = None
    """The size of all its images, if it is known."""
    repeatable: bool | None = None
    """Whether equal requests give equal results; None: as its capabilities say."""
    concurrency: int | None = None
    timeout: float | None = None
    """What its spec asks for, if it does."""


@dataclass(frozen=True)
class Result:
    """The result of one check."""

    check: str
    status: Status
    reason: str = ""
    seconds: float = 0.0
    unreachable: bool = False
    """Whether it failed because the backend did not answer, which says nothing about the promise."""


class BrokenPromise(Exception):
    """A trial found that the backend does not keep the promise."""


class NotPromised(Exception):
    """The check does not apply to the backend."""


Trial = Callable[[Any, Known], Awaitable[None]]


@dataclass(frozen=True)
class Check:
    """A promise, and the trial that checks it."""

    promise: str
    trial: Trial
    thorough: bool = False
    """Whether `--quick` skips it."""

    def __str__(self) -> str:
        return self.promise

    async def on(self, backend: object, known: Known = Known(), *, has_answered: bool = False) -> Result:
        """Run the trial; any exception becomes a result.

        A backend that `has_answered` fails by itself; before that, any failure that may pass counts as one of
        reaching it.
        """
        started = time.monotonic()

        def ended(status: Status, reason: str = "", *, unreachable: bool = False) -> Result:
            seconds = round(time.monotonic() - started, 3)
            return Result(self.promise, status, reason, seconds, unreachable)

        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self.trial(backend, known)
        except NotPromised as reason:
            return ended(Status.SKIPPED, str(reason))
        except BrokenPromise as broken:
            return ended(Status.FAILED, str(broken))
        except TimeoutError:
            return ended(Status.FAILED, f"not done within {CHECK_SECONDS:g} s", unreachable=True)
        except BackendError as error:
            away = error.kind in AWAY or (error.transient and not has_answered)
            return ended(Status.FAILED, str(error), unreachable=away)
        except Exception as error:  # a backend may raise anything, but only BackendError is allowed
            wrong = f"raised {type(error).__name__} instead of BackendError: {error}"
            return ended(Status.FAILED, wrong)
        return ended(Status.PASSED)


def must(kept: bool, otherwise: str) -> None:
    """Fail the check, with this reason, unless the promise is kept."""
    if not kept:
        raise BrokenPromise(otherwise)


def limits_said(capabilities: GeneratorCapabilities | VlmCapabilities, known: Known) -> None:
    """Fail unless capabilities have sensible limits, and those that the spec asks for.

    Raises `NotPromised` where there is no limit on concurrency that a trial could reach.
    """
    concurrency, timeout = capabilities.concurrency, capabilities.timeout
    whole = isinstance(concurrency, int) and not isinstance(concurrency, bool)
    must(concurrency is None or (whole and concurrency > 0), f"its concurrency is {concurrency!r}")
    must(timeout is None or (isinstance(timeout, int | float) and timeout > 0), f"its timeout is {timeout!r}")
    for name, asked, said in (
        ("concurrency", known.concurrency, concurrency),
        ("timeout", known.timeout, timeout),
    ):
        must(asked in (None, said), f"its spec asks for {name}={asked}, and its capabilities say {said}")
    if concurrency is None:
        raise NotPromised("it takes any number of calls at once: ?concurrency=N limits them")
    if concurrency >= MAX_CALLS_AT_ONCE:
        raise NotPromised(f"it takes {concurrency} calls at once, more than are tried")


@contextmanager
def refusal_allowed(name: str) -> Iterator[None]:
    """Skip the check if the backend refuses a prompt that it may refuse."""
    try:
        yield
    except BackendError as error:
        if error.transient or name not in REFUSABLE:
            raise
        raise NotPromised(f"it refuses this: {error}") from error


async def ends_when_cancelled(work: Coroutine[Any, Any, object]) -> None:
    """Cancel a running call: it must end soon, as cancelled or as done, and not with another error."""
    task = asyncio.create_task(work)
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait([task], timeout=CANCEL_SECONDS)
    must(task.done(), f"a cancelled call was still going {CANCEL_SECONDS:g} s later")
    if not task.cancelled() and (error := task.exception()) is not None:
        raise BrokenPromise(f"a cancelled call ended with {type(error).__name__}: {error}")

"""The parts of all contract checks: `Check`, `Result`, and helpers for trials."""

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
MAX_CONCURRENT_CALLS = 16
"""Maximum calls of a concurrency check."""
AWAY = {Failure.UNREACHABLE, Failure.TIMEOUT, Failure.BUSY}
"""Failures that say nothing about the contract, because the backend did not respond."""

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
"""Prompts that users may write; a backend must accept them all."""
REFUSABLE = {"only spaces", "empty", "long", "one long word"}
"""Prompts that a backend may reject, without `transient`, because they are empty or too long."""


class Status(StrEnum):
    """The outcome of a check."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Known:
    """Facts about a backend beyond its capabilities."""

    role: str = "generator"
    size: tuple[int, int] | None = None
    """The size of all its images, if known."""
    repeatable: bool | None = None
    """Whether equal requests give equal results; None: by its capabilities."""
    concurrency: int | None = None
    timeout: float | None = None
    """The limits set in its spec, if any."""


@dataclass(frozen=True)
class Result:
    """The result of one check."""

    check: str
    status: Status
    reason: str = ""
    seconds: float = 0.0
    unreachable: bool = False
    """Whether it failed because the backend did not respond, which says nothing about the contract."""


class CheckFailed(Exception):
    """The backend does not meet the requirement of a check."""


class NotApplicable(Exception):
    """The check does not apply to the backend."""


Trial = Callable[[Any, Known], Awaitable[None]]


@dataclass(frozen=True)
class Check:
    """A named requirement, and the trial that tests it."""

    name: str
    trial: Trial
    thorough: bool = False
    """Whether `--quick` skips it."""

    def __str__(self) -> str:
        return self.name

    async def on(self, backend: object, known: Known = Known(), *, has_answered: bool = False) -> Result:
        """Run the trial and turn any exception into a result.

        Until the backend `has_answered`, a transient failure counts as unreachable.
        """
        started = time.monotonic()

        def ended(status: Status, reason: str = "", *, unreachable: bool = False) -> Result:
            seconds = round(time.monotonic() - started, 3)
            return Result(self.name, status, reason, seconds, unreachable)

        try:
            async with asyncio.timeout(CHECK_SECONDS):
                await self.trial(backend, known)
        except NotApplicable as reason:
            return ended(Status.SKIPPED, str(reason))
        except CheckFailed as broken:
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


def must(met: bool, otherwise: str) -> None:
    """Fail the check with the reason `otherwise` unless the requirement is met."""
    if not met:
        raise CheckFailed(otherwise)


def check_limits(capabilities: GeneratorCapabilities | VlmCapabilities, known: Known) -> None:
    """Fail unless the limits in the capabilities are valid and match the spec.

    Raises `NotApplicable` if a trial cannot reach the concurrency limit.
    """
    concurrency, timeout = capabilities.concurrency, capabilities.timeout
    whole = isinstance(concurrency, int) and not isinstance(concurrency, bool)
    must(concurrency is None or (whole and concurrency > 0), f"its concurrency is {concurrency!r}")
    must(timeout is None or (isinstance(timeout, int | float) and timeout > 0), f"its timeout is {timeout!r}")
    for name, asked, said in (
        ("concurrency", known.concurrency, concurrency),
        ("timeout", known.timeout, timeout),
    ):
        must(asked in (None, said), f"its spec sets {name}={asked}, but its capabilities have {said}")
    if concurrency is None:
        raise NotApplicable("its concurrency is unlimited: ?concurrency=N limits it")
    if concurrency >= MAX_CONCURRENT_CALLS:
        raise NotApplicable(f"its concurrency {concurrency} is higher than this check tries")


@contextmanager
def refusal_allowed(name: str) -> Iterator[None]:
    """Skip the check if the backend rejects a prompt that it may reject."""
    try:
        yield
    except BackendError as error:
        if error.transient or name not in REFUSABLE:
            raise
        raise NotApplicable(f"it rejects this prompt: {error}") from error


async def ends_when_cancelled(work: Coroutine[Any, Any, object]) -> None:
    """Cancel a running call and fail unless it ends soon, cancelled or done, without another error."""
    task = asyncio.create_task(work)
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait([task], timeout=CANCEL_SECONDS)
    must(task.done(), f"a cancelled call was still running after {CANCEL_SECONDS:g} s")
    if not task.cancelled() and (error := task.exception()) is not None:
        raise CheckFailed(f"a cancelled call ended with {type(error).__name__}: {error}")

"""A promise and how it is tried: the parts that all checks are made of."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from interleave.errors import BackendError

CHECK_SECONDS = 1800.0
"""No check takes longer, whatever a backend does."""
CANCEL_SECONDS = 5.0

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
"""Things people write, all of which must be taken."""
REFUSABLE = {"only spaces", "empty", "long", "one long word"}
"""Of these, what a backend may refuse for good instead: it has nothing to draw, or it has a limit."""


class Status(StrEnum):
    """How a check ended."""

    PASSED = "passed"
    FAILED = "failed"
    SKIPPED = "skipped"


@dataclass(frozen=True)
class Known:
    """What is known of a backend besides what it says itself."""

    role: str = "generator"
    size: tuple[int, int] | None = None
    """The size of its pictures, where it is known; they must always have the same."""
    repeatable: bool | None = None
    """Whether equal requests give equal results, where that is better known than its capabilities say."""


@dataclass(frozen=True)
class Result:
    """One check of one backend."""

    check: str
    status: Status
    reason: str = ""
    seconds: float = 0.0
    unreachable: bool = False
    """Whether it failed because the backend never answered, so that nothing was learnt."""


class BrokenPromise(Exception):
    """What a backend did instead of what it must do."""


class NotPromised(Exception):
    """Why a check does not apply to a backend."""


Trial = Callable[[Any, Known], Awaitable[None]]


@dataclass(frozen=True)
class Check:
    """A promise, and how it is tried."""

    promise: str
    trial: Trial
    thorough: bool = False
    """Whether it is left out of a quick examination."""

    def __str__(self) -> str:
        return self.promise

    async def on(self, backend: object, known: Known = Known()) -> Result:
        """Try it; whatever happens is a result."""
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
            return ended(Status.FAILED, str(error), unreachable=error.transient)
        except Exception as error:  # anybody's backend may raise anything; only BackendError is right
            wrong = f"raised {type(error).__name__} instead of BackendError: {error}"
            return ended(Status.FAILED, wrong)
        return ended(Status.PASSED)


def must(kept: bool, otherwise: str) -> None:
    """A promise is kept, or this is what happened."""
    if not kept:
        raise BrokenPromise(otherwise)


@contextmanager
def refusal_allowed(name: str) -> Iterator[None]:
    """What may be refused, refused for good, is no broken promise."""
    try:
        yield
    except BackendError as error:
        if error.transient or name not in REFUSABLE:
            raise
        raise NotPromised(f"it refuses this: {error}") from error


async def ends_when_cancelled(work: Coroutine[Any, Any, object]) -> None:
    """A call that has begun ends as cancelled, or was done already; never late or as an error of its own."""
    task = asyncio.create_task(work)
    await asyncio.sleep(0.01)
    task.cancel()
    await asyncio.wait([task], timeout=CANCEL_SECONDS)
    must(task.done(), f"a cancelled call was still going {CANCEL_SECONDS:g} s later")
    if not task.cancelled() and (error := task.exception()) is not None:
        raise BrokenPromise(f"a cancelled call ended with {type(error).__name__}: {error}")

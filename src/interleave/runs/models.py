"""The loaded models of a run, their shared limits, the meter of their calls, and their cost."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TypeVar

from interleave.agents.critic import Critic
from interleave.agents.loading import LoadedAgent
from interleave.agents.planner import Planner
from interleave.agents.safety import Safety
from interleave.backends.concurrency import CallLimit
from interleave.backends.protocols import ImageGenerator
from interleave.backends.retries import IMAGE_DEADLINE_SECONDS, VLM_DEADLINE_SECONDS, RetryPolicy, is_price
from interleave.config.run_config import Limits, RoleConfig, RunConfig
from interleave.drift.measures import NamedMeasure
from interleave.errors import ConfigurationError, LimitReached, RunError, StorageError
from interleave.runs.journal import Journal, Role
from interleave.step_counts import named_step_count
from interleave.text import count
from interleave.types import Plan, Request

T = TypeVar("T")
IMAGE_THREADS = 4


class Disk:
    """Threads for disk work off the event loop, shared by all runs of a process.

    Journals are synced by group commit: requests that arrive during one round of syncs are collected for the
    next round. A hundred runs then cost little more than one: one handover to a thread and one wake-up for
    all. Images are compressed in separate threads.
    """

    def __init__(self) -> None:
        self._images = ThreadPoolExecutor(IMAGE_THREADS, thread_name_prefix="images")
        self._journals = ThreadPoolExecutor(1, thread_name_prefix="journals")
        self._waiting: list[tuple[Journal, asyncio.Future[None]]] = []
        self._round: asyncio.Task[None] | None = None

    async def run(self, work: Callable[[], T]) -> T:
        """Run `work` on an image in a thread and return its result."""
        return await asyncio.get_running_loop().run_in_executor(self._images, work)

    async def sync(self, journal: Journal) -> None:
        """Wait until every line of the journal so far is on disk; raise `StorageError` if that fails."""
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((journal, done))
        if self._round is None or self._round.done():
            self._round = asyncio.create_task(self._sync_rounds())
        await done

    async def _sync_rounds(self) -> None:
        loop = asyncio.get_running_loop()
        while self._waiting:
            batch, self._waiting = self._waiting, []
            journals = [journal for journal, _ in batch]
            failures = await loop.run_in_executor(self._journals, _sync_all, journals)
            for (_, done), failure in zip(batch, failures, strict=True):
                if done.done():
                    continue  # the call that waited was cancelled
                if failure is None:
                    done.set_result(None)
                else:
                    done.set_exception(failure)


def _sync_all(journals: list[Journal]) -> list[StorageError | None]:
    return [_sync(journal) for journal in journals]


def _sync(journal: Journal) -> StorageError | None:
    try:
        journal.sync()
    except StorageError as error:
        return error
    return None


@dataclass
class Models:
    """The models of a run. Runs that share them also share their concurrency limits."""

    planner: LoadedAgent[Planner]
    critic: LoadedAgent[Critic]
    generator: ImageGenerator
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    disk: Disk = field(default_factory=Disk)
    others: dict[str, ImageGenerator] = field(default_factory=dict)
    """Generators chosen for single steps, by identity."""
    identity: NamedMeasure | None = None
    """Measure of whether assets keep their identity; `None` compares colours."""
    safety: Safety = field(default_factory=lambda: Safety(()))
    limits: dict[Role, CallLimit] = field(init=False)

    def __post_init__(self) -> None:
        self.limits = {
            "planner": _limit_of(self.planner, "the planner"),
            "critic": _limit_of(self.critic, "the critic"),
            "generator": CallLimit.of(
                self.generator.capabilities, seconds=IMAGE_DEADLINE_SECONDS, what="the generator"
            ),
        }

    def with_generator(self, generator: ImageGenerator) -> Models:
        """Return the same models with another generator; planner and critic keep their concurrency limits."""
        others = replace(self, generator=generator)
        others.limits |= {role: self.limits[role] for role in _AGENT_ROLES}
        return others

    def for_generator(self, wanted: RoleConfig) -> Models:
        """Return the same models with the generator chosen for a step."""
        generator = self.others.get(wanted.identity)
        if generator is None:
            raise RunError(
                f"a step of this run needs generator {wanted.spec!r}: continue it with 'interleave resume'"
            )
        return self.with_generator(generator)

    def prices_known(self, *, planner_is_asked: bool) -> dict[str, bool]:
        """Return, for every model that will be called, whether it knows its price."""
        generators = (self.generator, *self.others.values())
        known = {
            "generator": all(is_price(each.capabilities.price_per_image) for each in generators),
            "critic": self.critic.knows_its_price,
        }
        return known | ({"planner": self.planner.knows_its_price} if planner_is_asked else {})


def _limit_of(agent: LoadedAgent[Planner] | LoadedAgent[Critic], what: str) -> CallLimit:
    if agent.model is None:
        return CallLimit(agent.concurrency)
    return CallLimit.of(agent.model.capabilities, seconds=VLM_DEADLINE_SECONDS, what=what)


_AGENT_ROLES: tuple[Role, ...] = ("planner", "critic")


class Meter:
    """Counts model calls against the limits. Earlier sessions count for calls and cost, not for time."""

    def __init__(self, limits: Limits, *, calls: int = 0, cost: float = 0.0) -> None:
        self.limits = limits
        self.calls = calls
        self.cost = max(0.0, cost)  # read from a folder: a negative cost would raise the limit
        self.reserved = 0.0
        """Total price of the calls in flight."""
        self.started_at = time.monotonic()

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started_at

    async def call(self, call: Callable[[], Awaitable[T]], *, price: float | None = None) -> T:
        """Make a call within the limits. `price` is an estimate; the caller reports the cost with `spend`."""
        async with self._under_way(price or 0.0):
            return await call()

    @asynccontextmanager
    async def counted(self, price: float | None = None) -> AsyncGenerator[None]:
        """Count one call, made in the body, and its price if it is known beforehand and the call succeeds.

        Raises `LimitReached` if the limits do not allow the call.
        """
        async with self._under_way(price or 0.0):
            yield
            self.cost += price or 0.0

    @asynccontextmanager
    async def _under_way(self, price: float) -> AsyncGenerator[None]:
        """Count one call and reserve its price, so that concurrent calls cannot exceed the limit."""
        self._refuse_beyond_limits(price)
        self.calls += 1
        self.reserved += price
        try:
            async with self._within_time():
                yield
        finally:
            self.reserved -= price

    @asynccontextmanager
    async def _within_time(self) -> AsyncGenerator[None]:
        if self.limits.max_seconds is None:
            yield
            return
        try:
            async with asyncio.timeout(self.limits.max_seconds - self.seconds) as window:
                yield
        except TimeoutError:
            if window.expired():
                raise self._out_of_time() from None
            raise

    def spend(self, cost: float | None) -> None:
        self.cost += cost or 0.0

    def _refuse_beyond_limits(self, price: float) -> None:
        limits = self.limits
        if limits.max_calls is not None and self.calls >= limits.max_calls:
            raise LimitReached(
                f"the limit of {count(limits.max_calls, 'model call')} is reached (max_calls=)"
            )
        if limits.max_seconds is not None and self.seconds >= limits.max_seconds:
            raise self._out_of_time()
        cost = self.cost + self.reserved
        if limits.max_cost is not None and (cost >= limits.max_cost > 0 or cost + price > limits.max_cost):
            raise LimitReached(f"the limit of {limits.max_cost:g} US dollars is reached (max_cost=)")

    def _out_of_time(self) -> LimitReached:
        return LimitReached(f"the limit of {self.limits.max_seconds:g} seconds is reached (max_seconds=)")


def refuse_unpriced(limits: Limits, priced: dict[str, bool]) -> None:
    """Refuse a cost limit if a backend does not know its price."""
    unknown = [role for role, known in priced.items() if not known]
    if limits.max_cost is not None and unknown:
        raise ConfigurationError(
            f"max_cost= needs backends that know their price, and the {unknown[0]} does not: add it to the "
            "spec if the backend takes one (?price=0.04), or limit the run with max_calls="
        )


def cost_note(models: Models, config: RunConfig, limits: Limits, *, steps: int | None = None) -> str | None:
    """Describe the cost: a bound for images and an estimate for the critic; `None` if it is 0 or unknown.

    `steps` is the number of images, if known.
    """
    per_image = models.generator.capabilities.price_per_image
    per_verdict = models.critic.typical_price
    if not per_image and not per_verdict:
        return None
    attempts = config.max_attempts
    times = steps or 1
    drawn = f"{count(steps, 'image')} in" if steps else "an image in"
    words = [f"cost at list prices: {drawn} at most {count(attempts, 'attempt')} each"]
    if per_image is None:
        words.append("the generator's price is not known")
    else:
        words.append(f"{_dollars(per_image)} an attempt, at most {_dollars(times * attempts * per_image)}")
    if per_verdict:
        words.append(f"the critic about {_dollars(times * attempts * per_verdict)} at most")
    if limits.max_cost is not None:
        words.append(f"max_cost= ends it at {_dollars(limits.max_cost)}")
    return "; ".join(words)


def images_asked_for(request: Request, config: RunConfig) -> int | None:
    """Return the number of images of a run, if it is known before planning."""
    return images_planned(config.plan) if config.plan else named_step_count(request.text)


def images_planned(plan: Plan) -> int:
    return sum(step.prompt is not None for step in plan.steps)


def _dollars(amount: float) -> str:
    """Format dollars with two decimals, or with two significant digits below 10 cents."""
    return f"${amount:.2f}" if amount >= 0.1 or amount == 0 else f"${amount:.2g}"

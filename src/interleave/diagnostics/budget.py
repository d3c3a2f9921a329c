"""Limits of a trial of a model: calls, seconds and dollars, enforced before every call."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from interleave import (
    BackendError,
    DocumentEnd,
    Failure,
    ImageRequest,
    Message,
    Reply,
    Request,
    Sampling,
)
from interleave.plugin import backends

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")


class OutOfBudget(BackendError):
    """A limit of the trial is reached; nothing more is called."""

    MESSAGE = "not tried: the limit of"


@dataclass
class Budget:
    """What a trial may use, and has used."""

    max_cost: float
    max_seconds: float
    max_calls: int
    cost: float = 0.0
    is_cost_known: bool = True
    calls: int = 0
    tokens: dict[str, int] = field(default_factory=dict)
    started: float = field(default_factory=time.monotonic)

    @property
    def seconds(self) -> float:
        return time.monotonic() - self.started

    @property
    def reached(self) -> str:
        """The limit that is reached; empty if none is."""
        if self.cost >= self.max_cost > 0 or (self.max_cost == 0 and self.cost > 0):
            return f"${self.max_cost:g}"
        if self.seconds >= self.max_seconds:
            return f"{self.max_seconds:g} seconds"
        return f"{self.max_calls} calls" if self.calls >= self.max_calls else ""

    async def call(self, call: Callable[[], Awaitable[T]], *, price: float | None) -> T:
        """Make a call within the limits. `price` is known beforehand and counts if the call succeeds."""
        limit = self.reached
        if not limit and price and self.cost + price > self.max_cost:
            limit = f"${self.max_cost:g}"
        if limit:
            raise OutOfBudget(f"{OutOfBudget.MESSAGE} {limit} is reached", kind=Failure.INVALID)
        self.calls += 1
        made = await call()
        self.cost += price or 0.0
        return made

    def note(self, cost: float | None, usage: dict[str, int]) -> None:
        """Add the cost and tokens that a reply reports."""
        self.is_cost_known &= cost is not None
        self.cost += cost or 0.0
        for name, count in usage.items():
            self.tokens[name] = self.tokens.get(name, 0) + count


class _Budgeted:
    def __init__(self, backend: Any, budget: Budget) -> None:
        self.backend = backend
        self.budget = budget
        self.capabilities = backend.capabilities


class BudgetedGenerator(_Budgeted):
    """A generator within a budget."""

    async def generate(self, request: ImageRequest) -> Image:
        price = self.capabilities.price_per_image
        self.budget.is_cost_known &= price is not None
        return await self.budget.call(lambda: self.backend.generate(request), price=price)


class BudgetedVlm(_Budgeted):
    """A vision-language model within a budget."""

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        made: Reply = await self.budget.call(lambda: self.backend.complete(messages, sampling), price=None)
        self.budget.note(made.cost, made.usage)
        return made


class BudgetedDocuments(_Budgeted):
    """A native system within a budget."""

    async def write(self, request: Request) -> AsyncIterator[backends.DocumentEvent]:
        async def collect() -> list[backends.DocumentEvent]:
            return [event async for event in self.backend.write(request)]

        for event in await self.budget.call(collect, price=None):
            if isinstance(event, DocumentEnd):
                self.budget.note(event.cost, event.usage)
            yield event

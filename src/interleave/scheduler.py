"""Dependencies between steps: each step begins as soon as the steps that it needs are finished.

Events are yielded as they happen. A step continues only after its last event is consumed, so that the event
is journalled on disk before the step's next call. If a step fails, no other one begins, running ones finish
and their images are kept. The backends limit concurrent calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import suppress

from interleave.events import Event
from interleave.types import Plan, PlanStep

Needs = Mapping[int, frozenset[int]]
"""Steps that must finish before each step begins, by its number."""


def named_needs(plan: Plan) -> dict[int, tuple[int, ...]]:
    """Return the steps that each step needs according to the plan, by default the previous one."""
    first = plan.steps[0].number
    return {step.number: _named(step, first) for step in plan.steps}


def _named(step: PlanStep, first: int) -> tuple[int, ...]:
    if step.needs is not None:
        return step.needs
    return (step.number - 1,) if step.number > first else ()


def parents_of(plan: Plan) -> dict[int, tuple[int, ...]]:
    """Return the steps with images that each step needs. Text-only steps pass on their own needs."""
    parents: dict[int, tuple[int, ...]] = {}
    drawn = {step.number for step in plan.steps if step.prompt is not None}
    for number, named in named_needs(plan).items():
        found = [each for need in named for each in ((need,) if need in drawn else parents[need])]
        parents[number] = tuple(dict.fromkeys(found))
    return parents


def ancestors_of(plan: Plan) -> dict[int, frozenset[int]]:
    """Return the steps with images that each step needs, directly or indirectly."""
    parents, found = parents_of(plan), dict[int, frozenset[int]]()
    for number, direct in parents.items():
        found[number] = frozenset(direct).union(*(found[each] for each in direct))
    return found


def roots_of(plan: Plan) -> dict[int, int]:
    """Return the first step of the chain of images that each step belongs to."""
    roots: dict[int, int] = {}
    for number, direct in parents_of(plan).items():
        roots[number] = roots[direct[-1]] if direct else number
    return roots


def in_line(needs: Needs) -> dict[int, frozenset[int]]:
    """Return the needs with all connected steps in sequence.

    A run that may return to an earlier step requires this: no other step may start from an image that is
    redrawn.
    """
    part = {number: number for number in needs}

    def part_of(number: int) -> int:
        while part[number] != number:
            part[number] = part[part[number]]
            number = part[number]
        return number

    for number, needed in needs.items():
        for each in needed:
            part[part_of(number)] = part_of(each)
    last: dict[int, int] = {}
    lined: dict[int, frozenset[int]] = {}
    for number in sorted(needs):
        mine = part_of(number)
        lined[number] = needs[number] | ({last[mine]} if mine in last else frozenset())
        last[mine] = number
    return lined


MOST_AT_ONCE = 32
"""Maximum concurrent steps. Each holds images in memory."""

Draw = Callable[[PlanStep], AsyncGenerator[Event]]
MayBegin = Callable[[frozenset[int]], bool]
"""Function that returns whether a step with these needs may begin now."""


async def as_needed(
    steps: Sequence[PlanStep], needs: Needs, draw: Draw, may_begin: MayBegin = lambda needed: True
) -> AsyncGenerator[Event]:
    """Yield the events of all steps. A step that may not begin waits; it is skipped if no step runs."""
    work = _Work(draw)
    waiting = {step.number: step for step in steps}
    try:
        while True:
            for number in list(waiting):
                is_free = not any(each in waiting or each in work.running for each in needs[number])
                if is_free and work.has_room and may_begin(needs[number]):
                    work.begin(waiting.pop(number))
            if not work.running:
                break
            for event in await work.next_events():
                yield event
    finally:
        await work.stop()
    if work.failures:
        raise work.failures[min(work.failures)]


class _Work:
    """The running steps."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self.running: dict[int, AsyncGenerator[Event]] = {}
        self.failures: dict[int, Exception] = {}
        self._tasks: dict[int, asyncio.Task[Event | None]] = {}

    @property
    def has_room(self) -> bool:
        return not self.failures and len(self.running) < MOST_AT_ONCE

    def begin(self, step: PlanStep) -> None:
        self.running[step.number] = self._draw(step)

    async def next_events(self) -> list[Event]:
        """Return the next events, and remove finished steps."""
        if len(self.running) == 1 and not self._tasks:  # a plain chain needs no tasks
            [(number, steps)] = self.running.items()
            with suppress(StopAsyncIteration):
                return [await anext(steps)]
            del self.running[number]
            return []
        for number in self.running.keys() - self._tasks.keys():
            self._tasks[number] = asyncio.create_task(self._next(number))
        await asyncio.wait(self._tasks.values(), return_when=asyncio.FIRST_COMPLETED)
        done = sorted(number for number, task in self._tasks.items() if task.done())
        return [event for number in done if (event := await self._result(number)) is not None]

    async def _next(self, number: int) -> Event | None:
        return await anext(self.running[number], None)

    async def _result(self, number: int) -> Event | None:
        try:
            event = await self._tasks.pop(number)
        except Exception as failure:
            self.failures[number] = failure
            event = None
        if event is None:
            del self.running[number]
        return event

    async def stop(self) -> None:
        """Cancel the running steps, if any."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        for steps in self.running.values():
            await steps.aclose()

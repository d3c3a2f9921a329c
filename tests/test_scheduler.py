"""Steps that do not need each other: drawn at once, each as soon as what it needs is finished."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest

from interleave.backends.protocols import GeneratorCapabilities
from interleave.config.run_config import SourceRule
from interleave.errors import BackendError
from interleave.events import Event, StepFinished
from interleave.scheduler import as_needed, in_line, parents_of, roots_of
from interleave.sources import SourceImages, anchored_steps, steps_that_follow
from interleave.types import Plan, PlanStep


def plan_of(*needs: tuple[int, ...] | None, text: tuple[int, ...] = (), scene: str | None = None) -> Plan:
    return Plan(
        steps=tuple(
            PlanStep(
                number=number,
                prompt=None if number in text else f"part {number}",
                caption="words",
                needs=each,
                scene=scene,
            )
            for number, each in enumerate(needs, start=1)
        )
    )


TWO_LINES = plan_of(None, (1,), (), (3,), (2, 4))
"""1 → 2 and 3 → 4, which come together in 5."""


def needs_of(plan: Plan, given: tuple[str, ...] = ()) -> dict[int, frozenset[int]]:
    images: SourceImages[str] = SourceImages(given, SourceRule.PREVIOUS, GeneratorCapabilities())
    images.check_plan(plan)
    return images.needs_of(plan)


class Studio:
    """Draws steps when it is told to, and notes which are under way."""

    def __init__(self, plan: Plan) -> None:
        self.plan = plan
        self.begun: list[int] = []
        self.doors = {step.number: asyncio.Event() for step in plan.steps}
        self.fails: set[int] = set()

    async def draw(self, step: PlanStep) -> AsyncGenerator[Event]:
        self.begun.append(step.number)
        await self.doors[step.number].wait()
        if step.number in self.fails:
            raise BackendError(f"step {step.number} failed")
        yield StepFinished(step, None)

    async def finish(self, *order: int, needs: dict[int, frozenset[int]] | None = None) -> list[list[int]]:
        """Finish steps in this order; returns which had begun before each."""
        seen = []

        async def consume() -> None:
            events = as_needed(self.plan.steps, needs or needs_of(self.plan), self.draw)
            async with aclosing(events):
                async for _ in events:
                    pass

        running = asyncio.create_task(consume())
        for number in order:
            for _ in range(10):
                await asyncio.sleep(0)
            seen.append(sorted(self.begun))
            self.doors[number].set()
        await running
        return seen


def test_independent_steps_are_under_way_at_once() -> None:
    seen = asyncio.run(Studio(TWO_LINES).finish(3, 4, 1, 2, 5))
    assert seen == [[1, 3], [1, 3, 4], [1, 3, 4], [1, 2, 3, 4], [1, 2, 3, 4, 5]]


def test_a_plan_without_needs_is_drawn_one_after_another() -> None:
    assert asyncio.run(Studio(plan_of(None, None, None)).finish(1, 2, 3)) == [[1], [1, 2], [1, 2, 3]]


def test_when_a_step_fails_no_other_begins_and_those_under_way_are_finished() -> None:
    studio = Studio(TWO_LINES)
    studio.fails = {1}
    with pytest.raises(BackendError, match="step 1 failed"):
        asyncio.run(studio.finish(1, 3))
    assert studio.begun == [1, 3]


def test_stopped_from_outside_all_steps_under_way_are_stopped() -> None:
    async def stop() -> list[int]:
        studio = Studio(plan_of((), (), ()))
        events = as_needed(studio.plan.steps, needs_of(studio.plan), studio.draw)
        waiting = asyncio.ensure_future(anext(events))
        for _ in range(5):
            await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert len(asyncio.all_tasks()) == 1
        return studio.begun

    assert asyncio.run(stop()) == [1, 2, 3]


def test_a_step_needs_the_one_before_it_unless_it_says_otherwise() -> None:
    assert needs_of(TWO_LINES) == {
        1: frozenset(),
        2: frozenset({1}),
        3: frozenset(),
        4: frozenset({3}),
        5: frozenset({2, 4}),
    }
    assert needs_of(plan_of(None, None))[2] == {1}


def test_a_step_starts_from_the_image_of_the_last_step_it_needs() -> None:
    images: SourceImages[str] = SourceImages((), SourceRule.PREVIOUS, GeneratorCapabilities())
    images.check_plan(TWO_LINES)
    found = {}
    for step in TWO_LINES.steps:
        found[step.number] = images.start_of(step).sources
        images.add(step.number, str(step.number))
    assert found == {1: (), 2: ("1",), 3: (), 4: ("3",), 5: ("4",)}


def test_a_step_that_needs_none_starts_from_the_users_image() -> None:
    plan = plan_of((), (), ())
    images: SourceImages[str] = SourceImages(("own",), SourceRule.PREVIOUS, GeneratorCapabilities())
    images.check_plan(plan)
    assert [images.start_of(step).sources for step in plan.steps] == [("own",)] * 3


def test_with_the_whole_history_a_step_sees_only_what_it_comes_after() -> None:
    many = GeneratorCapabilities(max_sources=9)
    images: SourceImages[str] = SourceImages((), SourceRule.HISTORY, many)
    images.check_plan(TWO_LINES)
    for number in range(1, 5):
        images.add(number, str(number))
    assert images.start_of(TWO_LINES.steps[3]).sources == ("3",)
    assert images.start_of(TWO_LINES.steps[4]).sources == ("1", "2", "3", "4")


def test_a_step_of_text_passes_on_the_image_before_it() -> None:
    assert parents_of(plan_of(None, None, (2,), text=(2,))) == {1: (), 2: (1,), 3: (1,)}


def test_lines_have_their_own_beginning_and_their_own_anchors() -> None:
    assert roots_of(TWO_LINES) == {1: 1, 2: 1, 3: 3, 4: 3, 5: 3}
    plan = plan_of(None, (1,), (2,), (), (4,), (5,), scene="all")
    assert anchored_steps(plan, 2) == {3, 6}
    assert steps_that_follow(TWO_LINES, SourceRule.PREVIOUS, 1) == {2}
    assert steps_that_follow(TWO_LINES, SourceRule.PREVIOUS, 3) == {4, 5}


def test_steps_that_hang_together_can_be_put_in_line() -> None:
    plan = plan_of(None, (1,), (1,), (), (4,))
    assert in_line(needs_of(plan)) == {
        1: frozenset(),
        2: frozenset({1}),
        3: frozenset({1, 2}),
        4: frozenset(),
        5: frozenset({4}),
    }


@pytest.mark.parametrize("needs", [(2,), (3,), (7,)])
def test_a_step_can_only_need_earlier_ones(needs: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="no step before it"):
        plan_of(None, needs)


def test_images_are_dropped_when_no_step_starts_from_them_any_more() -> None:
    plan = plan_of(None, (1,), (1,), (3,))
    images: SourceImages[str] = SourceImages((), SourceRule.PREVIOUS, GeneratorCapabilities())
    images.check_plan(plan)
    kept = []
    for step in plan.steps:
        images.add(step.number, str(step.number))
        kept.append(sorted(images._by_step))
    assert kept == [[1], [1], [3], []]

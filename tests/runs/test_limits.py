"""Limits end a run in order, with what it has."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import interleave
from interleave.backends.protocols import GeneratorCapabilities, ImageRequest
from interleave.errors import ConfigurationError, LimitReached
from interleave.runs.journal import Called, read_journal

REQUEST = "How a frog grows up, in four pictures"
SMALL = "solid?size=64"


class Priced:
    """A generator that costs two cents an image."""

    capabilities = GeneratorCapabilities(price_per_image=0.02)

    async def generate(self, request: ImageRequest) -> Image.Image:
        return Image.new("RGB", (32, 32))


def calls_made(folder: Path) -> int:
    return sum(isinstance(entry, Called) for entry in read_journal(folder))


@pytest.mark.parametrize("limit", range(1, 14))
def test_M07_no_run_ever_makes_more_calls_than_allowed(limit: int) -> None:
    run = interleave.generate(REQUEST, out="run", generator=SMALL, max_calls=limit)
    assert calls_made(run.folder) == limit
    assert run.status == ("done" if limit == 13 else "short")
    assert isinstance(run.error, LimitReached if limit < 13 else type(None))
    assert run.document.exists()


def test_a_step_cut_off_by_a_limit_shows_its_best_attempt_as_forced() -> None:
    run = interleave.generate(
        REQUEST, out="run", generator=SMALL, max_calls=5
    )  # plan, draw, judge, draw, judge: refused
    assert run.record.forced_steps == (2,)
    assert run.steps[1].image is not None
    assert run.steps[2].image is None


def test_a_short_run_goes_on_with_a_higher_limit_and_ends_as_one_without() -> None:
    interleave.generate(REQUEST, out="whole", generator=SMALL)
    interleave.generate(REQUEST, out="run", generator=SMALL, max_calls=6)
    run = interleave.generate(REQUEST, out="run", generator=SMALL, max_calls=13)
    assert run.status == "done"
    assert calls_made(run.folder) == 13
    assert interleave.comparable(Path("run")) == interleave.comparable(Path("whole"))


def test_a_short_run_with_the_same_limit_stays_short_without_a_call() -> None:
    interleave.generate(REQUEST, out="run", generator=SMALL, max_calls=6)
    run = interleave.generate(REQUEST, out="run", generator=SMALL, max_calls=6)
    assert run.status == "short"
    assert calls_made(run.folder) == 6


def test_the_time_limit_ends_the_call_that_is_under_way() -> None:
    run = interleave.generate(REQUEST, out="run", generator="solid?delay=3600", max_seconds=0.3)
    assert run.status == "short"
    assert "max_seconds=" in str(run.error)


def test_the_cost_limit_stops_before_the_call_that_would_exceed_it() -> None:
    run = interleave.generate(REQUEST, out="run", generator=Priced(), max_cost=0.05)
    assert run.status == "short"
    assert run.record.calls.generator == 2
    assert run.record.cost == pytest.approx(0.04)


def test_a_cost_limit_counts_what_was_spent_before() -> None:
    interleave.generate(REQUEST, out="run", generator=Priced(), max_cost=0.05)
    run = interleave.generate(REQUEST, out="run", generator=Priced(), max_cost=0.08)
    assert run.record.cost == pytest.approx(0.08)


def test_a_cost_limit_without_a_price_is_refused_before_anything_is_written() -> None:
    class Unpriced(Priced):
        capabilities = GeneratorCapabilities()

    with pytest.raises(ConfigurationError, match="generator does not"):
        interleave.generate(REQUEST, out="run", generator=Unpriced(), max_cost=1)
    assert not Path("run").exists()


@pytest.mark.parametrize(
    "choices",
    [
        {"max_calls": 0},
        {"max_seconds": 0},
        {"max_seconds": float("nan")},
        {"max_cost": -1},
        {"max_attempts": 0},
        {"max_steps": 0},
        {"seed": -1},
        {"sources": "all"},
        {"colour": "red"},
    ],
    ids=str,
)
def test_limits_and_rules_that_make_no_sense_are_refused(choices: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError):
        interleave.generate(REQUEST, out="run", **choices)
    assert not Path("run").exists()


def test_cancellation_is_felt_within_the_call_under_way() -> None:
    class Endless(Priced):
        def __init__(self) -> None:
            self.asked = asyncio.Event()

        async def generate(self, request: ImageRequest) -> Image.Image:
            self.asked.set()
            await asyncio.Event().wait()
            raise AssertionError("unreachable")

    async def cancelled() -> None:
        painter = Endless()

        async def work() -> None:
            async for _ in interleave.stream(REQUEST, out="run", generator=painter):
                pass

        task = asyncio.create_task(work())
        await painter.asked.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(cancelled())
    assert interleave.read_record(Path("run")).status == "interrupted"

"""Runs whose steps are drawn at once: whatever the order in which calls end, the record is the same."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

import interleave
from interleave.agents.critic import CriticInput
from interleave.backends.protocols import GeneratorCapabilities, ImageRequest
from interleave.errors import BackendError, RunError
from interleave.runs.folder import comparable
from interleave.runs.journal import Called, RedrawDecided, StepFinished, read_journal
from interleave.runs.models import Meter
from interleave.runs.record import read_record
from interleave.runs.replay import Replay
from interleave.types import Outcome, Plan, PlanStep, Slot, Verdict

NEEDS: list[tuple[int, ...] | None] = [None, (1,), (), (3,), (1,), (4,), (2, 6)]
"""1 → 2, 3 → 4 → 6, 1 → 5; and 7 after both lines."""


def plan_of(needs: list[tuple[int, ...] | None], *, scenes: bool = False) -> Plan:
    steps = (
        PlanStep(
            number=number,
            prompt=f"part {number}",
            needs=each,
            scene=f"all of part {number}" if scenes else None,
        )
        for number, each in enumerate(needs, start=1)
    )
    return Plan(steps=tuple(steps))


@dataclass
class Painter:
    """Paints a colour that follows from the request; how long that takes depends on the order wanted."""

    order: int = 0
    capabilities: GeneratorCapabilities = field(default_factory=lambda: GeneratorCapabilities(max_sources=4))
    asked: list[ImageRequest] = field(default_factory=list)
    most_at_once: int = 0
    fails_at: int | None = None
    _now: int = 0

    async def generate(self, request: ImageRequest) -> Image.Image:
        self.asked.append(request)
        self._now += 1
        self.most_at_once = max(self.most_at_once, self._now)
        try:
            for _ in range(1 + (request.slot.step * 7 + self.order * 5) % 11):
                await asyncio.sleep(0.001)
            if request.slot.step == self.fails_at:
                raise BackendError("no more ink")
        finally:
            self._now -= 1
        inked = sum(source.getpixel((0, 0))[0] for source in request.sources)  # type: ignore[index,misc]
        return Image.new("RGB", (16, 16), ((request.seed + inked) % 251, len(request.sources), 9))


class Critic:
    """Refuses the first images of some steps."""

    def __init__(self, refuses: dict[int, int] | None = None) -> None:
        self.refuses = refuses or {}

    async def judge(self, seen: CriticInput) -> Verdict:
        await asyncio.sleep(0)
        refused = seen.slot.attempt <= self.refuses.get(seen.slot.step, 0)
        if refused:
            return Verdict(outcome=Outcome.REJECTED, confidence=0.1 * min(seen.slot.attempt, 9))
        return Verdict(outcome=Outcome.ACCEPTED, confidence=0.9)


def run(folder: Path, painter: Painter, refuses: dict[int, int] | None = None, **options: Any) -> Painter:
    options.setdefault("plan", plan_of(NEEDS))
    options.setdefault("max_attempts", 2)
    interleave.generate("a story", out=folder, generator=painter, critic=Critic(refuses), **options)
    return painter


def test_independent_steps_are_drawn_at_once_within_what_the_generator_does(tmp_path: Path) -> None:
    assert run(tmp_path / "free", Painter()).most_at_once > 1
    one = Painter(capabilities=GeneratorCapabilities(max_sources=4, concurrency=1))
    assert run(tmp_path / "one", one).most_at_once == 1
    assert comparable(tmp_path / "free") == comparable(tmp_path / "one")
    document = (tmp_path / "free" / "document.html").read_text("utf-8")
    assert [step.plan.number for step in read_record(tmp_path / "free").steps] == list(range(1, 8))
    assert document.index("part 2") < document.index("part 6")


@pytest.mark.parametrize("order", range(1, 5))
@pytest.mark.parametrize(
    ("refuses", "remedies"),
    [({2: 1, 4: 1}, "none"), ({2: 99, 6: 99, 5: 3}, "rollback=4"), ({4: 2}, "rollback=2,anchor=2")],
)
def test_the_order_in_which_calls_end_changes_nothing(
    tmp_path: Path, order: int, refuses: dict[int, int], remedies: str
) -> None:
    run(tmp_path / "one", Painter(0), refuses, drift_control=remedies, plan=plan_of(NEEDS, scenes=True))
    run(tmp_path / "other", Painter(order), refuses, drift_control=remedies, plan=plan_of(NEEDS, scenes=True))
    assert comparable(tmp_path / "other") == comparable(tmp_path / "one")


def test_lines_that_share_no_image_go_on_while_another_one_goes_back(tmp_path: Path) -> None:
    needs: list[tuple[int, ...] | None] = [None, (1,), (), (3,), (4,)]
    painter = run(tmp_path / "run", Painter(), {2: 2}, plan=plan_of(needs), drift_control="rollback=1")
    assert painter.most_at_once == 2
    entries = read_journal(tmp_path / "run")
    assert sum(isinstance(each, RedrawDecided) for each in entries) == 1
    assert read_record(tmp_path / "run").forced_steps == ()
    assert [len(step.attempts) for step in read_record(tmp_path / "run").steps] == [1, 3, 1, 1, 1]


@pytest.mark.parametrize("kept", range(3, 44, 5))
@pytest.mark.parametrize("remedies", ["none", "rollback=3"])
def test_a_journal_cut_anywhere_goes_on_to_the_same_end(tmp_path: Path, kept: int, remedies: str) -> None:
    refuses = {2: 3, 4: 1}
    run(tmp_path / "run", Painter(), refuses, drift_control=remedies)
    whole, journal = comparable(tmp_path / "run"), tmp_path / "run" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    if kept >= len(lines):
        pytest.skip("the journal is shorter")
    journal.write_bytes(b"".join(lines[:kept]))
    (tmp_path / "run" / "run.json").unlink()
    drawn = sum(b'"drawn"' in line for line in lines[:kept])
    all_drawn = sum(b'"drawn"' in line for line in lines)
    painter = run(tmp_path / "run", Painter(3), refuses, drift_control=remedies)
    assert comparable(tmp_path / "run") == whole
    assert len(painter.asked) == all_drawn - drawn


def test_a_call_that_is_made_again_keeps_its_number() -> None:
    lines = [Called(role="generator", call=call, step=call, attempt=1) for call in (1, 2)]
    replay = Replay.of(lines)
    assert replay.number_of(None, "generator", Slot(3, 1)) == 3
    assert replay.number_of(None, "generator", Slot(2, 1)) == 2
    assert replay.number_of(None, "generator", Slot(1, 1)) == 1
    assert replay.number_of(None, "generator", Slot(1, 2)) == 4


def test_what_other_steps_draw_while_one_fails_is_not_lost(tmp_path: Path) -> None:
    needs: list[tuple[int, ...] | None] = [(), (), ()]
    with pytest.raises(BackendError, match="no more ink"):
        run(tmp_path / "run", Painter(fails_at=1), plan=plan_of(needs))
    finished = [each.step for each in read_journal(tmp_path / "run") if isinstance(each, StepFinished)]
    assert sorted(finished) == [2, 3]
    assert len(run(tmp_path / "run", Painter(), plan=plan_of(needs)).asked) == 1
    assert read_record(tmp_path / "run").status == "done"


@pytest.mark.parametrize("most", [1, 3, 5, 8])
def test_limits_hold_for_calls_that_are_made_at_once(tmp_path: Path, most: int) -> None:
    options: dict[str, Any] = {"plan": plan_of([()] * 4), "generator": Painter(), "critic": Critic()}
    result = interleave.generate("a story", out=tmp_path / "run", max_calls=most, **options)
    assert result.record.calls.total == most
    assert result.status == ("done" if most == 8 else "short")
    assert interleave.generate("a story", out=tmp_path / "run", **options).status == "done"


def test_the_prices_of_calls_under_way_count(tmp_path: Path) -> None:
    priced = Painter(capabilities=GeneratorCapabilities(price_per_image=0.04))
    options: dict[str, Any] = {"plan": plan_of([()] * 6), "critic": "none", "generator": priced}
    result = interleave.generate("a story", out=tmp_path / "run", max_cost=0.1, **options)
    assert result.status == "short"
    assert len(priced.asked) == 2
    assert result.record.cost == pytest.approx(0.08)


def test_a_meter_counts_a_price_once_and_not_for_a_call_that_failed() -> None:
    from interleave.config.run_config import Limits

    async def calls() -> Meter:
        meter = Meter(Limits(max_cost=1.0))
        async with meter.counted(0.25):
            assert (meter.cost, meter.reserved) == (0.0, 0.25)
        await meter.call(lambda: asyncio.sleep(0), price=0.5)  # expected only: its caller spends what it was
        with pytest.raises(ValueError, match="x"):
            async with meter.counted(0.25):
                raise ValueError("x")
        return meter

    meter = asyncio.run(calls())
    assert (meter.cost, meter.reserved, meter.calls) == (0.25, 0.0, 3)


def test_redraws_reach_only_the_steps_that_follow(tmp_path: Path) -> None:
    plan = plan_of(NEEDS)
    interleave.generate("a story", out=tmp_path / "run", plan=plan, generator="solid?size=64", critic="none")
    interleave.redraw_step(tmp_path / "run", 3)
    interleave.resume(tmp_path / "run")
    attempts = [len(step.attempts) for step in read_record(tmp_path / "run").steps]
    assert attempts == [1, 1, 2, 2, 1, 2, 2]
    before = comparable(tmp_path / "run")
    interleave.undo_decision(tmp_path / "run")
    interleave.resume(tmp_path / "run")
    assert [step.shown for step in read_record(tmp_path / "run").steps] == [1] * 7
    assert before != comparable(tmp_path / "run")
    interleave.branch_run(tmp_path / "run", tmp_path / "branch", 1)
    interleave.resume(tmp_path / "branch")
    attempts = [len(step.attempts) for step in read_record(tmp_path / "branch").steps]
    assert attempts == [2, 2, 2, 2, 2, 2, 2]


def test_an_old_plan_cannot_be_continued_with_other_needs(tmp_path: Path) -> None:
    run(tmp_path / "run", Painter())
    with pytest.raises(RunError, match="plan"):
        run(tmp_path / "run", Painter(), plan=plan_of([None] * 7))


def test_needs_move_with_the_steps_of_an_edited_plan() -> None:
    from interleave.errors import InputError
    from interleave.runs.plan_file import numbered_steps

    edited = [{"number": 3, "needs": []}, {"number": 1, "needs": [3]}, {"number": 9, "needs": [1]}]
    assert [step["needs"] for step in numbered_steps(edited, 1)] == [[], [1], [2]]
    with pytest.raises(InputError, match="needs step 7"):
        numbered_steps([{"number": 1, "needs": [7]}], 1)


def test_a_planner_can_say_what_steps_need() -> None:
    from interleave.agents.replies import parse_plan, render_plan

    plan = plan_of(NEEDS)
    assert parse_plan(render_plan(plan)) == plan
    steps = '{"step_number": 2, "prompt": "a"}, {"step_number": 5, "prompt": "b", "needs": [2]}'
    assert parse_plan(f'{{"execution_plan": [{steps}]}}').steps[1].needs == (2,)


def any_run_of(rng: random.Random, folder: Path) -> None:
    """A random plan with random refusals, drawn in two orders, cut and continued: always the same end."""
    needs: list[tuple[int, ...] | None] = []
    for number in range(1, rng.randint(3, 8) + 1):
        some = tuple(sorted(rng.sample(range(1, number), min(number - 1, rng.randint(1, 2)))))
        needs.append(rng.choice([None, (), some, some]))
    refuses = {rng.randint(1, len(needs)): rng.choice([1, 2, 3, 99]) for _ in range(rng.randint(0, 3))}
    remedies = rng.choice(["none", "rollback=3", "rollback=3,anchor=2", "rollback=2,drift=0.5", "drift=0.5"])
    options: dict[str, Any] = {"drift_control": remedies, "sources": rng.choice(["previous", "history"])}
    options["plan"] = plan_of(needs, scenes=True)
    ends = []
    for name in ("one", "other"):
        run(folder / name, Painter(rng.randint(0, 10)), refuses, **options)
        ends.append(comparable(folder / name))
    journal = folder / "other" / "journal.jsonl"
    lines = journal.read_bytes().splitlines(keepends=True)
    journal.write_bytes(b"".join(lines[: rng.randint(1, len(lines) - 1)]))
    (folder / "other" / "run.json").unlink()
    run(folder / "other", Painter(rng.randint(0, 10)), refuses, **options)
    assert [*ends, comparable(folder / "other")] == [ends[0]] * 3, (needs, refuses, options)


@pytest.mark.parametrize("seed", range(4))
def test_any_plan_ends_the_same_in_any_order_and_after_any_cut(tmp_path: Path, seed: int) -> None:
    any_run_of(random.Random(seed), tmp_path)


@pytest.mark.slow
def test_many_plans_end_the_same_in_any_order_and_after_any_cut(tmp_path: Path) -> None:
    for seed in range(4, 60):
        any_run_of(random.Random(seed), tmp_path / str(seed))

"""Assets without an image are drawn first as sheets, and are the references of all other steps."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

from PIL import Image

from interleave import GivenAsset, Request, Text, generate, resume
from interleave.agents.prompts import load_pack
from interleave.agents.reference_sheets import (
    reference_sheets_of,
    sheet_prompt,
    with_reference_sheets,
    without_reference_sheets,
)
from interleave.agents.replies import parse_plan
from interleave.backends.registry import load_generator
from interleave.runs.folder import comparable
from interleave.runs.record import read_record
from interleave.train.data.export.planner_rows import HAS_SHEETS, planner_rows
from interleave.train.data.trajectories import Trajectory
from interleave.types import Asset, Plan, PlanStep

FOX = Asset(name="fox", description="a little fox with a red scarf")
PLAN = Plan(
    assets=(
        FOX,
        Asset(name="hut", kind="place", description="a wooden hut", step=1),
        Asset(name="ink", kind="style", description="drawn in ink"),
    ),
    steps=(
        PlanStep(number=1, prompt="A hut"),
        PlanStep(number=2, prompt="The fox comes"),
        PlanStep(number=3, prompt="The fox sleeps", sources=(1,)),
    ),
)
ASKED = Request((Text("A fox and a hut, in three pictures"),))
OPTIONS: Any = {"profile": "dry-run", "reference_sheets": True, "critic": "none"}


class Solid:
    """The double, which keeps what it was asked for."""

    def __init__(self) -> None:
        self.solid = load_generator("solid?size=64")
        self.capabilities = self.solid.capabilities
        self.calls: list[Any] = []

    async def generate(self, request: Any) -> Any:
        self.calls.append(request)
        return await self.solid.generate(request)


def test_sheets_come_first_and_everything_else_moves_with_its_number() -> None:
    plan = with_reference_sheets(PLAN, ASKED)
    assert [step.prompt for step in plan.steps] == [
        sheet_prompt(FOX),
        "A hut",
        "The fox comes",
        "The fox sleeps",
    ]
    assert [(asset.name, asset.step) for asset in plan.assets] == [("fox", 1), ("hut", 2), ("ink", None)]
    assert (plan.steps[1].needs, plan.steps[2].needs, plan.steps[3].sources) == ((), None, (2,))
    Plan.model_validate(plan.model_dump())
    assert with_reference_sheets(plan, ASKED) is plan
    assert without_reference_sheets(plan) == PLAN
    assert without_reference_sheets(PLAN) is PLAN and not reference_sheets_of(PLAN)


def test_an_asset_with_an_image_needs_no_sheet() -> None:
    given = Request(ASKED.parts, (GivenAsset("Fox", Image.new("RGB", (8, 8))),))
    assert with_reference_sheets(PLAN, given) is PLAN


def test_a_run_draws_sheets_first_and_shows_them_to_the_steps_that_need_them(tmp_path: Path) -> None:
    generator = Solid()
    run = generate(ASKED, out=tmp_path / "run", plan=PLAN, generator=generator, **OPTIONS)
    prompts = [call.prompt for call in generator.calls]
    assert prompts[0] == sheet_prompt(FOX)
    sources = {call.slot.step: len(call.sources) for call in generator.calls}
    assert sources[1] == sources[2] == 0  # neither the sheet nor the first image starts from another
    assert sources[3] == 1 or generator.capabilities.max_sources > 1
    assert run.record.config.sheets
    drift = run.record.steps[2].drift
    assert drift is not None and "fox" in drift.identity
    assert "What fox looks like" in run.document.read_text("utf-8")


def test_a_run_that_was_stopped_goes_on_with_its_sheets(tmp_path: Path) -> None:
    options: Any = {**OPTIONS, "generator": "solid?size=64", "plan": PLAN}
    whole = generate(ASKED, out=tmp_path / "whole", **options)
    generate(ASKED, out=tmp_path / "short", max_calls=2, **options)
    assert read_record(tmp_path / "short").status == "short"
    assert resume(tmp_path / "short").status == "done"
    assert comparable(tmp_path / "short") == comparable(tmp_path / "whole")
    assert reference_sheets_of(whole.record.plan or PLAN) == {1}


def test_rows_for_training_have_the_plan_without_sheets(tmp_path: Path) -> None:
    generate(ASKED, out=tmp_path / "run", plan=PLAN, generator="solid?size=64", **OPTIONS)
    record, skipped = read_record(tmp_path / "run"), Counter[str]()
    [row] = planner_rows("a", Trajectory("run", tmp_path / "run", record), load_pack(), skipped)
    assert parse_plan(row.completion or "") == PLAN
    assert skipped == {HAS_SHEETS: 1}


def test_without_the_option_nothing_is_added(tmp_path: Path) -> None:
    options: Any = {**OPTIONS, "reference_sheets": None, "generator": "solid?size=64"}
    record = generate(ASKED, out=tmp_path / "run", plan=PLAN, **options).record
    assert record.plan == PLAN
    assert "sheets" not in record.config.model_dump()

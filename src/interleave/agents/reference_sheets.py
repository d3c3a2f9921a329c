"""Assets in a plan: those of the user, and reference sheets for those with a description and no image.

A reference sheet is drawn first and is then the reference of its asset. It is a step like any other: judged,
journalled, shown and redrawn on request. No step edits it, but steps with its asset receive its image.
"""

from __future__ import annotations

from interleave.agents.planner import ChapterPlanner, Planner, StorySoFar
from interleave.types import Asset, GivenAsset, Plan, PlanStep, Request

VIEWS = {
    "character": "A character sheet on a plain white background: the same figure four times side by side, "
    "whole, in one size and with the same colours, from the front, at an angle, in profile and from behind.",
    "prop": "A reference sheet on a plain white background: the same object three times side by side, in one "
    "size and with the same colours, from the front, from the side and from behind.",
    "place": "A wide view of a place, empty, so that all of it can be seen.",
}
"""Prompt of the sheet for each kind. A style has no sheet, because it belongs to all images."""


def sheet_prompt(asset: Asset) -> str:
    said = asset.description.strip().rstrip(".")
    return f"{VIEWS[asset.kind]} It is {asset.name}: {said}. No writing in the picture."


def with_reference_sheets(plan: Plan, request: Request) -> Plan:
    """Return the plan with a reference sheet first for each asset that needs one, or `plan` itself."""
    pictured = {asset.name.lower() for asset in request.assets if asset.image is not None}
    wanted = [
        asset
        for asset in plan.assets
        if asset.step is None
        and asset.kind in VIEWS
        and asset.description.strip()
        and asset.name.lower() not in pictured
    ]
    if not wanted:
        return plan
    first = plan.steps[0].number
    numbers = {asset.name: first + place for place, asset in enumerate(wanted)}
    sheets = [_sheet(asset, numbers[asset.name]) for asset in wanted]
    story = [_moved(step, len(wanted)) for step in plan.steps]
    if story[0].needs is None:
        story[0] = story[0].model_copy(update={"needs": ()})
    assets = [_placed(asset, numbers.get(asset.name), len(wanted)) for asset in plan.assets]
    return plan.model_copy(update={"steps": (*sheets, *story), "assets": tuple(assets)})


def without_reference_sheets(plan: Plan) -> Plan:
    """Return the plan as its planner wrote it."""
    sheets = reference_sheets_of(plan)
    if not sheets:
        return plan
    story = [_moved(step, -len(sheets)) for step in plan.steps if step.number not in sheets]
    if story[0].needs == ():
        story[0] = story[0].model_copy(update={"needs": None})
    assets = [
        asset.model_copy(update={"step": None})
        if asset.step in sheets
        else _placed(asset, None, -len(sheets))
        for asset in plan.assets
    ]
    return plan.model_copy(update={"steps": tuple(story), "assets": tuple(assets)})


def reference_sheets_of(plan: Plan) -> set[int]:
    """Return the numbers of the first steps that are reference sheets."""
    wanted = {asset.step: sheet_prompt(asset) for asset in plan.assets if asset.step and asset.kind in VIEWS}
    found: set[int] = set()
    for step in plan.steps:
        if step.needs != () or wanted.get(step.number) != step.prompt:
            break
        found.add(step.number)
    return found


def _sheet(asset: Asset, number: int) -> PlanStep:
    return PlanStep(
        number=number,
        name=asset.name,
        instruction=f"What {asset.name} looks like, for all pictures",
        prompt=sheet_prompt(asset),
        assets=(),
        needs=(),
    )


def _moved(step: PlanStep, by: int) -> PlanStep:
    """Return a step moved by `by` places, with the steps that it names."""
    named = {
        name: tuple(number + by for number in numbers)
        for name, numbers in (("sources", step.sources), ("needs", step.needs))
        if numbers is not None
    }
    return step.model_copy(update={"number": step.number + by, **named})


def _placed(asset: Asset, sheet: int | None, by: int) -> Asset:
    step = sheet if sheet is not None else None if asset.step is None else asset.step + by
    return asset.model_copy(update={"step": step})


class AssetPlanner:
    """A planner whose plans include the assets described in the request."""

    def __init__(self, planner: Planner, *, reference_sheets: bool = False) -> None:
        self.planner = planner
        self.reference_sheets = reference_sheets
        """Whether to draw reference sheets of assets without an image."""

    async def plan(self, request: Request) -> Plan:
        plan = with_given_assets(await self.planner.plan(request), request)
        return with_reference_sheets(plan, request) if self.reference_sheets else plan


class AssetChapterPlanner(AssetPlanner):
    """The same for a planner that writes chapters. Sheets are drawn for the first chapter's assets."""

    def __init__(self, planner: ChapterPlanner, *, reference_sheets: bool = False) -> None:
        super().__init__(planner, reference_sheets=reference_sheets)
        self.chapters = planner

    async def next_chapter(self, story: StorySoFar) -> Plan:
        return with_given_assets(await self.chapters.next_chapter(story), story.request)


def asset_planner(planner: Planner, *, reference_sheets: bool = False) -> Planner:
    """Return a planner whose plans include the assets of the request, and reference sheets if wanted."""
    if isinstance(planner, ChapterPlanner):
        return AssetChapterPlanner(planner, reference_sheets=reference_sheets)
    return AssetPlanner(planner, reference_sheets=reference_sheets)


def with_given_assets(plan: Plan, request: Request) -> Plan:
    """Return the plan with the user's descriptions of assets, which override the planner's.

    An asset that was given only as an image is bound by its name and is not added to the plan. A plan that
    needs no change is returned itself.
    """
    said = {
        asset.name.lower(): asset
        for asset in request.assets
        if asset.description or asset.kind != "character"
    }
    if not said:
        return plan
    assets = [_described(asset, said.pop(asset.name.lower(), None)) for asset in plan.assets]
    assets += [Asset(name=each.name, kind=each.kind, description=each.description) for each in said.values()]
    return plan if tuple(assets) == plan.assets else plan.model_copy(update={"assets": tuple(assets)})


def _described(planned: Asset, given: GivenAsset | None) -> Asset:
    if given is None or not given.description:
        return planned
    return planned.model_copy(update={"kind": given.kind, "description": given.description})

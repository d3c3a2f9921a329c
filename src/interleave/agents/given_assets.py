"""The assets that a user gives with a request, as part of the plan."""

from __future__ import annotations

from interleave.agents.chapters import ChapterPlanner, StorySoFar
from interleave.agents.planner import Planner
from interleave.agents.reference_sheets import with_sheets
from interleave.types import Asset, GivenAsset, Plan, Request


class AssetPlanner:
    """A planner whose plans have the assets that were described with the request."""

    def __init__(self, planner: Planner, *, sheets: bool = False) -> None:
        self.planner = planner
        self.sheets = sheets
        """Whether assets without a picture are drawn first."""

    async def plan(self, request: Request) -> Plan:
        plan = with_given_assets(await self.planner.plan(request), request)
        return with_sheets(plan, request) if self.sheets else plan


class AssetChapterPlanner(AssetPlanner):
    """The same for a planner that writes its plan in chapters; sheets are those of the first one's assets."""

    def __init__(self, planner: ChapterPlanner, *, sheets: bool = False) -> None:
        super().__init__(planner, sheets=sheets)
        self.chapters = planner

    async def next_chapter(self, story: StorySoFar) -> Plan:
        return with_given_assets(await self.chapters.next_chapter(story), story.request)


def asset_planner(planner: Planner, *, sheets: bool = False) -> Planner:
    """A planner whose plans have the assets that were described with the request, and sheets of them."""
    if isinstance(planner, ChapterPlanner):
        return AssetChapterPlanner(planner, sheets=sheets)
    return AssetPlanner(planner, sheets=sheets)


def with_given_assets(plan: Plan, request: Request) -> Plan:
    """The plan with what the user said about assets: those words are fixed, whatever the planner wrote.

    An asset that was given as a picture alone is bound by its name, and needs no place in the plan. A plan
    that has all this already is returned as it is.
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

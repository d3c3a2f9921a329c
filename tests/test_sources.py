"""What steps are drawn from: chains, assets and anchors, within what a generator can take."""

from __future__ import annotations

import pytest

from interleave.backends.protocols import GeneratorCapabilities
from interleave.config.run_config import DriftControl, SourceRule, parse_drift_control
from interleave.errors import ConfigurationError
from interleave.sources import SourceImages, Start, anchored_steps, steps_that_follow
from interleave.types import Asset, Plan, PlanStep

FOX = Asset(name="fox", description="a little fox with a red scarf")


def plan_of(count: int, *, assets: tuple[Asset, ...] = (FOX,), scenes: bool = False) -> Plan:
    steps = [
        PlanStep(
            number=number,
            prompt=f"the fox does thing {number}",
            scene=f"the whole of {number}" if scenes else None,
        )
        for number in range(1, count + 1)
    ]
    return Plan(steps=tuple(steps), assets=assets)


def starts(
    plan: Plan, *, sources: int = 1, every: int | None = None, given: dict[str, str] | None = None
) -> list[Start[str]]:
    """What each step starts from, where the image of step 3 is called "3"."""
    images: SourceImages[str] = SourceImages(
        (),
        SourceRule.PREVIOUS,
        GeneratorCapabilities(max_sources=sources),
        assets=given,
        anchor_every=every,
        sheet_of="+".join,
    )
    images.check_plan(plan)
    found = []
    for step in plan.steps:
        found.append(images.start_of(step))
        images.add(step.number, str(step.number))
    return found


def test_without_assets_and_anchors_a_step_starts_from_the_image_before_it() -> None:
    found = starts(plan_of(3, assets=()))
    assert [start.sources for start in found] == [(), ("1",), ("2",)]
    assert [start.before for start in found] == [(), ("1",), ("2",)]
    assert found[1].prompt == "the fox does thing 2"


def test_prompts_carry_the_descriptions_of_the_assets_they_name() -> None:
    [first, *_] = starts(plan_of(1))
    assert first.prompt == "the fox does thing 1. fox: a little fox with a red scarf."
    said = PlanStep(number=1, prompt="Draw a little fox with a red scarf")
    assert starts(Plan(steps=(said,), assets=(FOX,)))[0].prompt == said.prompt


def test_a_step_may_say_itself_what_it_shows() -> None:
    shown = PlanStep(number=1, prompt="he sleeps", assets=("fox",))
    hidden = PlanStep(number=2, prompt="no fox here", assets=())
    found = starts(Plan(steps=(shown, hidden), assets=(FOX,)))
    assert "red scarf" in found[0].prompt
    assert "red scarf" not in found[1].prompt


@pytest.mark.parametrize(
    ("most", "wanted"),
    [(1, ("2",)), (2, ("fox.png", "2")), (3, ("1", "fox.png", "2")), (8, ("1", "fox.png", "2"))],
)
def test_assets_come_before_the_first_image_and_the_latest_is_last(
    most: int, wanted: tuple[str, ...]
) -> None:
    found = starts(plan_of(3), sources=most, given={"Fox": "fox.png"})[2]
    assert found.sources == wanted
    assert found.before == ("2",)


def test_a_given_asset_that_no_planner_named_is_bound_by_its_name() -> None:
    found = starts(plan_of(2, assets=()), sources=4, given={"fox": "fox.png"})
    assert found[0].sources == ("fox.png",)
    assert found[0].before == ()  # the reference is nothing that the step changes
    assert dict(found[1].references) == {"fox": "fox.png"}


def test_an_asset_can_be_taken_from_a_step() -> None:
    sheet = Asset(name="fox", step=1)
    found = starts(plan_of(3, assets=(sheet,)), sources=4)
    assert [start.sources for start in found] == [(), ("1",), ("1", "2")]


def test_a_generator_that_takes_one_source_gets_one_sheet_of_several_assets() -> None:
    assets = (FOX, Asset(name="thing"))
    [first, *_] = starts(plan_of(1, assets=assets), given={"fox": "fox.png", "thing": "thing.png"})
    assert first.sources == ("fox.png+thing.png",)


def test_every_few_steps_an_image_is_drawn_anew_from_its_whole_scene() -> None:
    found = starts(plan_of(7, assets=(), scenes=True), every=3)
    assert [start.sources for start in found] == [(), ("1",), ("2",), (), ("4",), ("5",), ()]
    assert found[3].prompt == "the whole of 4"
    assert found[3].before == ()


def test_steps_without_a_scene_stay_in_the_chain() -> None:
    assert anchored_steps(plan_of(9), 3) == set()
    assert anchored_steps(plan_of(9, scenes=True), None) == set()


def test_what_follows_an_image_ends_at_an_anchor() -> None:
    plan = plan_of(7, assets=(), scenes=True)
    assert steps_that_follow(plan, SourceRule.PREVIOUS, 2) == {3, 4, 5, 6, 7}
    assert steps_that_follow(plan, SourceRule.PREVIOUS, 2, anchor_every=3) == {3}


def test_steps_that_show_an_asset_follow_from_its_sheet() -> None:
    plan = plan_of(5, assets=(Asset(name="fox", step=2),), scenes=True)
    assert steps_that_follow(plan, SourceRule.PREVIOUS, 2, anchor_every=2) == {3, 4, 5}


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", DriftControl()),
        ("none", DriftControl()),
        ("keep, align", DriftControl(keep=True, align=True)),
        (
            "anchor=5,rollback=2,audit=1,drift=8.5",
            DriftControl(anchor_every=5, rollbacks=2, audits=1, drift_limit=8.5),
        ),
    ],
)
def test_remedies_are_named_on_the_command_line(text: str, wanted: DriftControl) -> None:
    assert parse_drift_control(text) == wanted


@pytest.mark.parametrize("text", ["kep", "anchor", "anchor=x", "anchor=0", "keep=1", "drift=300"])
def test_a_remedy_that_is_none_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigurationError, match=r"drift.control"):
        parse_drift_control(text)

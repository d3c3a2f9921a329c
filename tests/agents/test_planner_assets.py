"""Planners are asked for assets and whole scenes where a run needs them, and only then."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from interleave import GivenAsset, Request, Text, generate
from interleave.agents.planner import VlmPlanner, planner_messages
from interleave.agents.prompts import load_pack, read_pack
from interleave.agents.reference_sheets import with_given_assets
from interleave.agents.replies import parse_plan, render_plan
from interleave.backends.protocols import Message, Reply, Sampling, VlmCapabilities
from interleave.runs.record import read_record
from interleave.train.data.export.planner_rows import planner_rows
from interleave.train.data.trajectories import Trajectory
from interleave.types import Asset, Plan, PlanStep

ASKED = Request((Text("A fox, in two pictures"),))
FOX = GivenAsset("fox", description="a little fox with a red scarf")
PLAN = Plan(
    assets=(Asset(name="fox", description="red"),),
    steps=(
        PlanStep(number=1, prompt="A fox", assets=("fox",), scene="A red fox on grass"),
        PlanStep(number=2, prompt="It sleeps", assets=("fox",), scene="A red fox asleep on grass"),
    ),
)


class Asked:
    """A model that keeps what it was asked, and answers with a plan."""

    def __init__(self, plan: Plan = PLAN) -> None:
        self.plan = plan
        self.capabilities = VlmCapabilities()
        self.words = ""
        self.schema: Any = None

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        self.words = "\n".join(
            part.text for each in messages for part in each.parts if isinstance(part, Text)
        )
        self.schema = sampling.schema
        return Reply(render_plan(self.plan))


def asked(request: Request, pack: str = "default", *, scenes: bool = False) -> Asked:
    model = Asked()
    planner = VlmPlanner(model, load_pack(pack), scenes=scenes)
    assert asyncio.run(planner.plan(request)).assets == PLAN.assets
    return model


def test_a_plain_run_asks_as_before() -> None:
    model = asked(ASKED)
    assert '"scene"' not in model.words
    assert list(model.schema["properties"]) == ["execution_plan"]
    assert planner_messages(ASKED, load_pack()) == planner_messages(ASKED, load_pack(), with_assets=False)


@pytest.mark.parametrize(
    ("request_", "scenes"), [(ASKED, True), (Request(ASKED.parts, (FOX,)), False)], ids=["remedies", "assets"]
)
def test_remedies_and_assets_ask_for_assets_and_scenes(request_: Request, scenes: bool) -> None:
    model = asked(request_, scenes=scenes)
    assert '"scene"' in model.words
    assert list(model.schema["properties"]) == ["assets", "execution_plan"]
    assert "scene" in model.schema["properties"]["execution_plan"]["items"]["properties"]


def test_what_the_user_says_about_an_asset_is_told_to_the_planner() -> None:
    image = GivenAsset("hut", Image.new("RGB", (8, 8)), "place", "a wooden hut.")
    words = asked(Request(ASKED.parts, (image, FOX))).words
    assert "“fox” (character) must always look the same: a little fox with a red scarf." in words
    assert "This is “hut” (place): a wooden hut. It must always look like this: " in words


def test_packs_with_words_of_their_own_are_not_changed(tmp_path: Path) -> None:
    folder = tmp_path / "own"
    folder.mkdir()
    (folder / "pack.toml").write_text('name = "own"\nversion = "1"\nextends = "default"\n')
    assert read_pack(folder, base=load_pack()).description.assets is True
    (folder / "planner_text.md").write_text("plan {{request}}")
    assert read_pack(folder, base=load_pack()).description.assets is False
    (folder / "pack.toml").write_text('name = "own"\nversion = "1"\nextends = "default"\nassets = true\n')
    pack = read_pack(folder, base=load_pack())
    [message] = planner_messages(ASKED, pack, with_assets=True)  # without a system message
    assert isinstance(message.parts[0], Text) and "What must stay the same" in message.parts[0].text


def test_the_users_words_win_over_the_planners_and_are_added_once() -> None:
    request = Request(ASKED.parts, (FOX, GivenAsset("ink", None, "style", "drawn in ink")))
    plan = with_given_assets(PLAN, request)
    assert [(each.name, each.kind, each.description) for each in plan.assets] == [
        ("fox", "character", "a little fox with a red scarf"),
        ("ink", "style", "drawn in ink"),
    ]
    assert with_given_assets(plan, request) is plan
    assert with_given_assets(PLAN, ASKED) is PLAN


def test_rows_carry_assets_and_scenes_and_plain_rows_stay_as_they_were(tmp_path: Path) -> None:
    options: Any = {"profile": "dry-run", "generator": "solid?size=64"}
    asset = GivenAsset("fox", Image.new("RGB", (16, 16), "red"), description="a little fox")
    generate(Request(ASKED.parts, (asset,)), out=tmp_path / "with", plan=PLAN, **options)
    generate(ASKED, out=tmp_path / "plain", **options)
    pack = load_pack()
    plan, rest, *_ = planner_rows("a", trajectory(tmp_path / "with"), pack, Counter())
    assert "What must stay the same" in words_of(plan.prompt)
    assert parse_plan(plan.completion or "").steps == PLAN.steps
    assert len(plan.images) == 1
    assert [each.name for each in parse_plan(rest.completion or "").assets] == ["fox"]
    [plain, *_] = planner_rows("b", trajectory(tmp_path / "plain"), pack, Counter())
    assert plain.prompt == planner_messages(ASKED, pack)
    assert "assets" not in json.loads((plain.completion or "").split("<answer>")[1].split("</answer>")[0])


def trajectory(folder: Path) -> Trajectory:
    return Trajectory(folder.name, folder, read_record(folder))


def words_of(messages: Sequence[Message]) -> str:
    return "\n".join(part.text for each in messages for part in each.parts if isinstance(part, Text))

"""The planner and critic that ship with the package, with their real weights, beside the real generator."""

from __future__ import annotations

import asyncio
import re
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any

import pytest

pytest.importorskip("diffusers")

from interleave.agents.critic import VlmCritic, critic_input
from interleave.agents.planner import VlmPlanner
from interleave.agents.prompts import load_pack
from interleave.agents.replies import render_plan, render_verdict
from interleave.api import generate, generate_many
from interleave.backends.registry import load_vlm, note_for
from interleave.config.profiles import load_profile
from interleave.errors import ConfigurationError, InputError
from interleave.types import Plan, PlanStep
from interleave_mini import WEIGHTS
from interleave_mini.bench.runner import Settings, run_mini
from interleave_mini.oracle import judge_attempt
from interleave_mini.world.drawing import draw
from interleave_mini.world.mistakes import with_mistake
from miniature.grammar.tasks import tasks

pytestmark = pytest.mark.filterwarnings("ignore")  # of the libraries, while they load
PACK = load_pack("mini")


@pytest.fixture(scope="module")
def planner() -> Any:
    return load_vlm("mini?device=cpu", "planner")


@pytest.fixture(scope="module")
def critic() -> Any:
    return load_vlm("mini?device=cpu", "critic")


def test_plans_can_be_drawn_without_a_check() -> None:
    assert load_vlm("mini", "planner").plan_check is not None  # type: ignore[attr-defined]
    assert load_vlm("mini?check=false", "planner").plan_check is None  # type: ignore[attr-defined]


def test_the_learned_trio_answers_four_short_tasks(tmp_path: Path) -> None:
    """Riddles: one image each, planned, drawn and judged by learned models."""
    settings = Settings(suite="know", items=4, concurrency=4, choices={"profile": "mini"})
    result, _ = run_mini(settings, tmp_path)
    assert result.coverage == 1
    assert result.scores.strict.mean >= 0.5


def test_the_planner_writes_true_plans_of_stories_it_has_never_seen(planner: Any) -> None:
    wanted = list(islice(tasks("story", "test", seed=5), 2))
    plans = [asyncio.run(VlmPlanner(planner, PACK).plan(task.request())) for task in wanted]
    right = [
        [step.prompt for step in plan.steps] == [step.prompt for step in task.plan().steps]
        for plan, task in zip(plans, wanted, strict=True)
    ]
    assert any(right)


def test_the_critic_tells_right_images_from_wrong_ones(critic: Any) -> None:
    rng, right = Random("critic"), []
    for task in islice(tasks("edit", "test", seed=5), 8):
        step = task.steps[0]
        assert step.before is not None
        wrong = rng.random() < 0.5
        image = draw(with_mistake(step.scene, rng) if wrong else step.scene)
        seen = critic_input(step.prompt, step.prompt, (draw(step.before),), image)
        right.append(asyncio.run(VlmCritic(critic, PACK).judge(seen)).accepted is not wrong)
    assert sum(right) >= 6


@pytest.mark.slow
def test_plans_and_verdicts_are_short_for_their_tokenizer(planner: Any) -> None:
    tokenizer = planner.backend.loaded.model.tokenizer
    stories = [task for task in islice(tasks("story", "test", seed=2), 60) if len(task.steps) == 4]
    lengths = [len(tokenizer.encode(render_plan(task.plan()))) for task in stories]
    assert sum(lengths) / len(lengths) <= 250
    step = stories[0].steps[1]
    assert step.before is not None
    wrong = critic_input(step.prompt, step.prompt, (draw(step.before),), draw(step.before))
    assert len(tokenizer.encode(render_verdict(judge_attempt(wrong, refine="varied")))) <= 90


def test_the_default_is_the_learned_trio(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("INTERLEAVE_PROFILE")  # tests take the doubles
    profile = load_profile()
    roles = (profile.planner, profile.critic, profile.generator)
    assert [role.spec for role in roles if role] == ["mini"] * 3
    assert profile.prompts == "mini"


def test_they_are_not_compiled_unless_asked_to_be() -> None:
    planner: Any = load_vlm("mini?device=cpu&runtime=torch", "planner")
    assert planner.backend.options.compile is False


def test_they_are_small_and_in_half_precision() -> None:
    sizes = {role: (WEIGHTS / role / "model.safetensors").stat().st_size for role in ("planner", "critic")}
    assert sizes["planner"] <= 15_000_000
    assert sizes["critic"] <= 11_600_000


def test_of_many_requests_those_of_another_world_are_refused_one_by_one(tmp_path: Path) -> None:
    asked = [("unicorn", "A purple unicorn eats a giraffe"), ("pie", "Bake a pie")]
    summary = generate_many(asked, out=tmp_path, profile="mini")
    assert (summary.failed, summary.bad_requests, summary.done) == (2, 2, 0)
    reasons = {each.id: each.reason for each in summary.failures}
    assert re.search(r"does not know “unicorn” \(it has .+\), “giraffe” \(it has .+\)", reasons["unicorn"])
    assert re.search(r"does not know “pie” \(it has .+\)", reasons["pie"])
    assert not list(tmp_path.rglob("*.png"))


def test_a_plan_with_a_prompt_of_another_world_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    steps = (PlanStep(number=1, name="A", caption="A giraffe comes.", prompt="Add a giraffe on the right."),)
    with pytest.raises(InputError, match="does not know “giraffe”"):
        generate("A giraffe", plan=Plan(steps=steps), out=tmp_path / "run", profile="mini")
    assert not (tmp_path / "run").exists()


def test_every_document_says_that_small_models_made_it() -> None:
    assert "can be wrong" in (note_for("mini", role="planner") or "")
    assert note_for("mini", role="planner") == note_for("mini", role="critic")  # said once


@pytest.mark.parametrize("spec", ["mini:other", "mini@http://127.0.0.1:1/v1"])
def test_the_model_in_the_package_takes_no_name_and_no_address(spec: str) -> None:
    with pytest.raises(ConfigurationError, match="takes no name and no address"):
        load_vlm(spec, "planner")


def test_it_is_no_scorer() -> None:
    with pytest.raises(ConfigurationError, match="'mini' is no scorer"):
        load_vlm("mini", "scorer")

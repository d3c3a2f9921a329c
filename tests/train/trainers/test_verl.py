"""verl on its export: the launch file composes, rows load, a failed reward is left out by its own tables."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from driven import Material, Trainer

from interleave.train.trainers.verl import unmarked

LAUNCH = Path(__file__).parents[3] / "launch" / "verl-grpo.sh"


@pytest.fixture(scope="module")
def found(
    trainer: Callable[[str], Trainer], material: Material, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, object]:
    return trainer("verl").start(
        LAUNCH,
        "python",
        "verl_program.py",
        DATA=material.export / "verl",
        MODEL=material.model,
        GENERATOR="faulty?mistakes=0",
        SCORER="oracle",
        TMPDIR=tmp_path_factory.mktemp("verl"),
    )


def test_the_launch_file_composes_with_options_in_its_specs(found: dict[str, object]) -> None:
    assert found["generator"] == "faulty?mistakes=0"
    assert found["estimator"] == "interleave.train.trainers.verl_advantages.interleave_grpo"


def test_every_row_loads_with_its_images(found: dict[str, object], material: Material) -> None:
    assert found["rows"] == material.rows("easyr1/critic_rl.jsonl")
    assert str(found["asked"]).count("<|vision_start|>") == 2


def test_a_failed_reward_has_no_advantage(found: dict[str, object]) -> None:
    scores = {name: found[name]["reward_score"] for name in ("taken", "drawn", "failed")}  # type: ignore[index]
    assert unmarked(scores["failed"]) == (None, False)
    assert scores["drawn"] > scores["taken"]
    advantages = found["advantages"]
    assert isinstance(advantages, list)
    assert advantages[5] == 0
    assert advantages[0] < 0 < advantages[1]

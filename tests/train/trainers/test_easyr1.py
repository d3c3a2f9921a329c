"""EasyR1 on its export, from a checkout that EASYR1 names: no row is dropped, its GRPO takes our rewards."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
from driven import Material, Trainer


@pytest.fixture(scope="module")
def found(
    trainer: Callable[[str], Trainer], material: Material, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, object]:
    easyr1 = trainer("easyr1")
    checkout = Path(os.environ["EASYR1"]).absolute()
    return easyr1.start(
        material.export / "easyr1" / "train_critic_rl.sh",
        "python",
        "easyr1_program.py",
        MODEL=material.model,
        GENERATOR="faulty",
        SCORER="oracle",
        PYTHONPATH=os.pathsep.join([str(Path(__file__).parent / "drivers"), str(checkout)]),
        IN=checkout,
        TMPDIR=tmp_path_factory.mktemp("easyr1"),
    )


def test_no_row_is_dropped(found: dict[str, object], material: Material) -> None:
    assert found["rows"] == material.rows("easyr1/critic_rl.jsonl")
    assert found["kept_by_stock"] == 0, "at a short length EasyR1 drops them all without a word"
    assert str(found["asked"]).count("<|vision_start|>") == 2


def test_a_failed_reward_has_no_advantage(found: dict[str, object]) -> None:
    advantages = found["advantages"]
    assert isinstance(advantages, list)
    assert advantages[5] == pytest.approx(0, abs=1e-3)
    assert advantages[0] < 0 < advantages[1]

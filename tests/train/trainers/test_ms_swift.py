"""ms-swift on its export: its run files start, its template keeps rows whole, its GRPO takes our reward."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from driven import Material, Trainer


@pytest.mark.parametrize("kind", ["planner_sft", "critic_sft"])
def test_rows_are_whole_and_only_answers_are_learned(
    kind: str, trainer: Callable[[str], Trainer], material: Material, tmp_path: Path
) -> None:
    found = trainer("ms-swift").start(
        material.export / "swift" / f"train_{kind}.sh",
        "swift",
        "swift_program.py",
        MODEL=material.model,
        FOUND_OUT=tmp_path / "out",
        TMPDIR=tmp_path,
    )
    assert found["version"] == "4.6.0"
    assert found["rows"] == material.rows(f"swift/{kind}.jsonl")
    assert found["longest"] <= found["limit"]
    assert all(answer.startswith("<think>") for answer in found["learned"])
    assert all("</answer><|im_end|>" in answer for answer in found["learned"])
    assert not any("<|im_start|>" in answer for answer in found["learned"])
    assert found["steps"] == 1


def test_grpo_makes_a_step_with_our_reward(
    trainer: Callable[[str], Trainer], material: Material, tmp_path: Path
) -> None:
    found = trainer("ms-swift").start(
        material.export / "swift" / "train_critic_rl.sh",
        "swift",
        "swift_program.py",
        MODEL=material.model,
        GENERATOR="world",
        SCORER="oracle",
        FOUND_OUT=tmp_path / "out",
        TMPDIR=tmp_path,
    )
    assert found["rows"] == material.rows("swift/critic_rl.jsonl")
    assert {"planned_prompt", "used_prompt", "sources", "success"} <= set(found["columns"])
    assert found["asked"].rstrip().endswith("<|im_start|>assistant"), "no thinking is begun for the model"
    assert found["steps"] == 1
    assert "reward" in found["log"][0]


def test_a_failed_reward_has_no_advantage(
    trainer: Callable[[str], Trainer], material: Material, tmp_path: Path
) -> None:
    found = trainer("ms-swift").drive(
        "swift_advantages.py",
        material.export / "swift" / "critic_rl.jsonl",
        INTERLEAVE_GENERATOR="faulty",
        INTERLEAVE_SCORER="oracle",
        TMPDIR=tmp_path,
    )
    assert found["advantages"][5] == pytest.approx(0, abs=1e-3)
    assert found["advantages"][0] < 0, "accepting a wrong image is still the worst"
    assert found["with_none"][5] < -1, "without our filling, ms-swift would punish the refusal"

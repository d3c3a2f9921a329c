"""LLaMA-Factory on its export: rows are loaded by it, tokenised, masked and trained on for a step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from driven import Material, Trainer


@pytest.mark.parametrize("kind", ["planner_sft", "critic_sft"])
def test_rows_are_whole_and_only_answers_are_learned(
    kind: str, trainer: Callable[[str], Trainer], material: Material, tmp_path: Path
) -> None:
    folder = material.export / "llamafactory"
    found = trainer("llamafactory").drive(
        "llamafactory_rows.py", folder, material.model, kind, tmp_path / "out", TMPDIR=tmp_path
    )
    assert found["version"] == "0.9.5"
    assert found["rows"] == material.rows(f"llamafactory/{kind}.json")
    assert found["longest"] <= found["limit"]
    assert found["cut"] == 0
    assert all(answer.startswith("<think>") for answer in found["learned"])
    assert all(answer.endswith("</answer><|im_end|>\n") for answer in found["learned"])
    assert not any("<|im_start|>" in answer for answer in found["learned"])
    assert found["asked"].count("<think>") >= 1, "nothing is added before the answer's own thinking"
    assert "<think>\n\n</think>" not in found["asked"]
    assert found["trained"]


def test_its_stock_length_would_cut_the_planners_rows(
    trainer: Callable[[str], Trainer], material: Material, tmp_path: Path
) -> None:
    folder = material.export / "llamafactory"
    found = trainer("llamafactory").drive(
        "llamafactory_rows.py", folder, material.model, "planner_sft", tmp_path / "out", TMPDIR=tmp_path
    )
    assert found["cut_by_stock"] > 0

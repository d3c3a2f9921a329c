"""The benchmark of training runs at toy size, with every part it has."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "perf"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not all(map(importlib.util.find_spec, ("diffusers", "trl"))),
        reason="needs the extras 'local' and 'train'",
    ),
]


def test_every_part_runs_at_toy_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import gpu_training

    results = tmp_path / "results.json"
    sizes = ["--variants", "1", "--steps", "2", "--rows", "8", "--tokens", "40", "--prompts", "2"]
    try:
        gpu_training.main(["--toy", "--results", str(results), *sizes, "--grpo-steps", "1", "--servers", "2"])
    finally:
        for path in BENCHMARKS.glob("*.py"):
            sys.modules.pop(path.stem, None)
    rows = json.loads(results.read_text())
    assert [row for row in rows if row["what"] == "failed"] == []
    by_name = {row["what"]: row for row in rows}
    assert by_name["sft, LoRA"]["tokens_a_second"] > 0 and by_name["sft, all weights"]["seconds"] > 0
    losses = by_name["overfit"]["losses"]
    assert losses[-1] < losses[0]
    ours = [row for row in rows if row["what"] == "rollouts" and row["by"] == "ours"]
    assert all(row["expected"] == row["answers"] for row in ours)
    step = next(row for row in rows if row["what"] == "grpo step")
    assert step["answers"] == 16 and 0 < step["pictures"] <= 8 and step["gradient"] > 0
    assert step["drawing"] > 0 and step["scoring"] > 0 and step["update"] > 0
    served = next(row for row in rows if row.get("drawn_by") == "2 over HTTP")
    assert (served["pictures"], served["reward_mean"]) == (step["pictures"], step["reward_mean"])
    killed = by_name["kill -9"]
    assert killed["killed_by"] == -9 and killed["returned"] == 0 and killed["equal"]

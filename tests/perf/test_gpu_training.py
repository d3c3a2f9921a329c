"""The benchmark of training runs at toy size, with every part it has."""

from __future__ import annotations

import importlib.util
import json
import math
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "perf"

VLLM = """
from types import SimpleNamespace as Made

__version__ = "0"


class SamplingParams:
    def __init__(self, **options):
        self.options = options


class LLM:
    def __init__(self, model, **options):
        pass

    def generate(self, prompts, sampling, use_tqdm):
        assert all(each["prompt"].count("<|image_pad|>") == 2 for each in prompts)
        assert all(len(each["multi_modal_data"]["image"]) == 2 for each in prompts)
        answer = Made(token_ids=[0] * sampling.options["max_tokens"])
        return [Made(prompt_token_ids=[0], outputs=[answer] * sampling.options["n"]) for _ in prompts]
"""
"""Stands for vLLM, which is not installed here."""

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
    (tmp_path / "vllm.py").write_text(VLLM)
    sizes = ["--variants", "1", "--steps", "2", "--rows", "16", "--tokens", "40", "--prompts", "2"]
    parts = ["--parts", ",".join((*gpu_training.PARTS, "vllm")), "--vllm-path", str(tmp_path)]
    try:
        gpu_training.main(
            ["--toy", "--results", str(results), *sizes, *parts, "--grpo-steps", "1", "--servers", "2"]
        )
    finally:
        for path in BENCHMARKS.glob("*.py"):
            sys.modules.pop(path.stem, None)
    rows = json.loads(results.read_text())
    assert [row for row in rows if row["what"] == "failed"] == []
    by_name = {row["what"]: row for row in rows}
    assert by_name["sft, LoRA"]["tokens_a_second"] > 0 and by_name["sft, all weights"]["seconds"] > 0
    losses = by_name["overfit"]["losses"]
    assert losses[-1] < losses[0]
    written = {row["by"]: row for row in rows if row["what"] == "rollouts"}
    assert [written[by]["answers"] for by in ("ours", "library", "vLLM")] == [16, 16, 16]
    assert written["ours"]["tokens"] == written["vLLM"]["tokens"] == 16 * 40
    step = next(row for row in rows if row["what"] == "grpo step")
    assert step["answers"] == 16 and 0 < step["pictures"] <= 8 and step["gradient"] > 0
    assert step["length"] == 40 and step["answers_as_said"] == "16 of 16"
    assert step["drawing"] > 0 and step["scoring"] > 0 and step["update"] > 0
    served = next(row for row in rows if row.get("drawn_by") == "2 over HTTP")
    assert (served["pictures"], served["reward_mean"]) == (step["pictures"], step["reward_mean"])
    killed = by_name["kill -9"]
    assert killed["killed_by"] == -9 and killed["returned"] == 0 and killed["equal"]
    assert killed["same_data"] and killed["same_steps"] and killed["adapter_after"] == 0
    drawn = [row for row in rows if str(row.get("drawn_by")).startswith("elsewhere")]
    assert [row["during_rollout"] for row in drawn] == [False, True, False, True]
    assert all(row["pictures"] == 8 for row in drawn)


def test_each_part_has_its_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import gpu_training

    try:
        assert gpu_training.limit_of("", "lora") == math.inf
        assert gpu_training.limit_of("60", "lora") == 60
        assert gpu_training.limit_of("lora=20,full=30", "full") == 30
        assert gpu_training.limit_of("lora=20", "full") == math.inf
    finally:
        for path in BENCHMARKS.glob("*.py"):
            sys.modules.pop(path.stem, None)

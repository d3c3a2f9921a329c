"""ms-swift's own arithmetic on our reward: rows of the export, replies of ours, one redraw that fails.

Argument: the rows for GRPO. INTERLEAVE_GENERATOR is `faulty`. The
reward is taken from ms-swift's table, where our plugin has put it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import cuda_builds_on_cpu  # noqa: F401  (before transformers)
import torch
from answer import give
from faulty import FAILS
from replies import ACCEPTS, refusal
from swift.rewards import orms
from swift.rl_core.advantage import compute_advantages
from swift.rl_core.data import GRPOSample
from swift.rl_core.grpo_algorithm import score_completions

import interleave.train.trainers.ms_swift as plugin

GROUP = 6


def sample(row: dict[str, Any], reply: str) -> GRPOSample:
    extra = {name: value for name, value in row.items() if name not in ("messages", "images")}
    messages = [*row["messages"], {"role": "assistant", "content": reply}]
    return GRPOSample(messages=messages, images=row["images"], extra=extra)


def advantages(rewards: torch.Tensor) -> list[float]:
    found, _ = compute_advantages(rewards, torch.ones(1), GROUP)
    return [round(float(value), 4) for value in found]


rows = [json.loads(line) for line in Path(sys.argv[1]).read_text("utf-8").splitlines()]
os.environ["ROOT_IMAGE_DIR"] = str(Path(sys.argv[1]).parent)
wrong, other = [row for row in rows if not row["success"]][:2]
drawn = [refusal(wrong["planned_prompt"])] * 4
group = [sample(wrong, reply) for reply in (ACCEPTS, *drawn, refusal(FAILS))]
second = [sample(other, reply) for reply in (ACCEPTS, *[refusal(other["planned_prompt"])] * 5)]
assert orms["interleave"] is plugin.InterleaveReward
rewards = score_completions(
    [*group, *second],
    reward_funcs=[orms["interleave"]()],
    reward_model_plugins=[None],
    use_gym_env=False,
    device=torch.device("cpu"),
)
unfilled = rewards.clone()
unfilled[GROUP - 1] = torch.nan  # what ms-swift makes of None
give(rewards=rewards[:, 0].tolist(), advantages=advantages(rewards), with_none=advantages(unfilled))

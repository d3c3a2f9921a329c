"""Stands for `python -m verl.trainer.main` when the run file is started in a checkout of EasyR1: no GPU.

The settings are merged and checked as its main does; its loader reads the rows; its reward manager calls our
reward function; its GRPO makes advantages of the result, with one redraw that failed.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import cuda_builds_on_cpu  # noqa: F401  (before transformers)
import numpy as np
import torch
import without_vllm  # noqa: F401
from answer import give
from faulty import FAILS
from omegaconf import OmegaConf
from replies import ACCEPTS, refusal
from verl.protocol import DataProto
from verl.trainer.config import PPOConfig
from verl.trainer.core_algos import compute_grpo_outcome_advantage
from verl.utils.dataset import RLHFDataset
from verl.utils.tokenizer import get_processor, get_tokenizer
from verl.workers.reward.function import AutoRewardManager


def settings(arguments: list[str]) -> PPOConfig:
    given = OmegaConf.from_cli(arguments)
    merged = OmegaConf.merge(OmegaConf.structured(PPOConfig()), OmegaConf.load(given.pop("config")), given)
    config = OmegaConf.to_object(merged)
    config.deep_post_init()
    return config


def dataset(config: PPOConfig, tokenizer: Any, processor: Any, **changes: Any) -> RLHFDataset:
    """The rows as its `create_dataloader` reads them, in one process."""
    names = ("prompt_key", "answer_key", "image_key", "image_dir", "max_prompt_length", "format_prompt")
    given = {name: getattr(config.data, name) for name in (*names, "min_pixels", "max_pixels")}
    options = {**given, "filter_overlong_prompts_workers": 1, **changes}
    return RLHFDataset(config.data.train_files, tokenizer, processor, truncation="right", **options)


def scored(manager: AutoRewardManager, truths: list[str], replies: list[str]) -> torch.Tensor:
    tokens = [manager.tokenizer(reply)["input_ids"] for reply in replies]
    longest = max(map(len, tokens))
    responses = torch.tensor([each + [0] * (longest - len(each)) for each in tokens])
    mask = torch.tensor([[1] * len(each) + [0] * (longest - len(each)) for each in tokens])
    data = DataProto.from_dict(
        tensors={"responses": responses, "response_mask": mask},
        non_tensors={"ground_truth": np.array(truths, dtype=object)},
    )
    rewards, _ = manager.compute_reward(data)
    return rewards


config = settings(sys.argv[1:])
tokenizer = get_tokenizer(config.worker.actor.model.model_path)
processor = get_processor(config.worker.actor.model.model_path)
rows = dataset(config, tokenizer, processor)
stock = dataset(config, tokenizer, processor, max_prompt_length=512)

wrong, other = [row["ground_truth"] for row in rows if not json.loads(row["ground_truth"])["success"]][:2]
prompt, second = (json.loads(truth)["planned_prompt"] for truth in (wrong, other))
manager = AutoRewardManager(config.worker.reward, tokenizer)
replies = [ACCEPTS, *[refusal(prompt)] * 4, refusal(FAILS), *[refusal(second)] * 12]
rewards = scored(manager, [wrong] * 6 + [other] * 12, replies)
groups = ["a"] * 6 + ["b"] * 12
advantages, _ = compute_grpo_outcome_advantage(rewards, torch.ones_like(rewards), groups)

give(
    rows=len(rows),
    kept_by_stock=len(stock),
    limit=config.data.max_prompt_length,
    longest=max(int(row["attention_mask"].sum()) for row in rows),
    asked=tokenizer.decode(rows[0]["raw_prompt_ids"]),
    rewards=[round(float(value), 4) for value in rewards.sum(-1)],
    advantages=[round(float(value), 4) for value in advantages[:, 0]],
)

"""Stands for `python -m verl.trainer.main_ppo` when the launch file is started: verl's own parts, no GPU.

The arguments are composed by Hydra and checked by verl; its dataset reads the rows; its reward manager calls
our reward function for three replies to a row, one of which has a redraw that fails; its table of estimators
gives ours, which calls its GRPO.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import cuda_builds_on_cpu  # noqa: F401  (before transformers)
import torch
import verl
from answer import give
from faulty import FAILS
from hydra import compose, initialize_config_dir
from replies import ACCEPTS, refusal
from transformers import AutoProcessor
from verl import DataProto
from verl.trainer.ppo import core_algos
from verl.trainer.ppo.reward import load_reward_manager
from verl.trainer.ppo.utils import need_critic, need_reference_policy
from verl.utils.config import validate_config
from verl.utils.dataset.rl_dataset import RLHFDataset


def composed(arguments: list[str]) -> Any:
    with initialize_config_dir(str(Path(verl.__file__).parent / "trainer" / "config"), version_base=None):
        config = compose("ppo_trainer", overrides=arguments)
    validate_config(config, need_reference_policy(config), need_critic(config))
    return config


def scored(manager: Any, row: dict[str, Any], reply: str) -> dict[str, Any]:
    """The reward of a reply to a row, as verl's reward workers get it."""
    tokens = manager.tokenizer(reply, return_tensors="pt")["input_ids"]
    named = ("data_source", "reward_model", "extra_info")
    data = DataProto.from_single_dict(
        {
            "responses": tokens,
            "attention_mask": torch.ones_like(tokens),
            **{name: as_objects(row[name]) for name in named},
        }
    )
    return dict(manager.loop.run_until_complete(manager.run_single(data)))


def as_objects(value: Any) -> Any:
    import numpy as np

    held = np.empty(1, dtype=object)
    held[0] = value
    return held


PATIENCE = (
    "+reward.custom_reward_function.reward_kwargs.patience=0"  # a failure is not tried again for minutes
)
config = composed([*sys.argv[1:], PATIENCE])
processor = AutoProcessor.from_pretrained(config.actor_rollout_ref.model.path)
rows = RLHFDataset(config.data.train_files, processor.tokenizer, config.data, processor)
wrong = next(row for row in rows if not row["reward_model"]["ground_truth"]["success"])
prompt = wrong["extra_info"]["planned_prompt"]

manager = load_reward_manager(config, processor.tokenizer)
taken, drawn = scored(manager, wrong, ACCEPTS), scored(manager, wrong, refusal(prompt))
failed = scored(manager, wrong, refusal(FAILS))

estimator = core_algos.get_adv_estimator_fn(config.algorithm.adv_estimator)
others = [drawn["reward_score"]] * 12
step = [taken["reward_score"], *[drawn["reward_score"]] * 4, failed["reward_score"], *others]
rewards = torch.zeros(len(step), 3)
rewards[:, 2] = torch.tensor(step)
advantages, _ = estimator(
    token_level_rewards=rewards,
    response_mask=torch.ones_like(rewards),
    index=["a"] * 6 + ["b"] * 12,
    config=config.algorithm,
)

give(
    version=verl.__version__,
    rows=len(rows),
    asked=processor.apply_chat_template(rows[0]["raw_prompt"], tokenize=False, add_generation_prompt=True),
    images=sum(part["type"] == "image" for turn in rows[0]["raw_prompt"] for part in turn["content"])
    if isinstance(rows[0]["raw_prompt"][-1]["content"], list)
    else 0,
    generator=config.reward.custom_reward_function.reward_kwargs.generator,
    estimator=f"{estimator.__module__}.{estimator.__name__}",
    taken=taken,
    drawn=drawn,
    failed=failed,
    advantages=[round(float(value), 4) for value in advantages[:, 0]],
)

"""verl: the advantage estimator `interleave_grpo`, which is verl's GRPO without samples whose reward failed.

verl's default trainer drops a sample whose reward function raises and learns from the rest of its group. Only
redraws can fail, so that teaches the critic to accept wrong images. Here the reward function marks a failure
instead. The estimator receives the whole step and treats failures as the rewards for other trainers do: a
failed sample counts as the mean of its group and has advantage zero, and so has every sample of a group with
many failures. A step in which more than a tenth of all redraws failed ends the training with an error. verl
imports this module if VERL_USE_EXTERNAL_MODULES names it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Hashable, Sequence
from typing import Any

from interleave.train.trainers.shared import filled_rewards
from interleave.train.trainers.verl import unmarked

NAME = "interleave_grpo"
ALGORITHMS = "verl.trainer.ppo.core_algos"
WHY = "the log of verl's reward workers says why"


def interleave_grpo(
    token_level_rewards: Any,
    response_mask: Any,
    index: Sequence[Hashable],
    config: Any = None,
    grpo: Callable[..., tuple[Any, Any]] | None = None,
    **others: Any,
) -> tuple[Any, Any]:
    """Compute the advantages of verl's GRPO, and zero for masked samples."""
    scores = [unmarked(float(score)) for score in token_level_rewards.sum(dim=-1)]
    totals, drawn = [total for total, _ in scores], [was_drawn for _, was_drawn in scores]
    filled, kept = filled_rewards(totals, drawn, list(index), [WHY] * totals.count(None), "verl")
    rewards = token_level_rewards.new_zeros(token_level_rewards.shape)
    rewards[:, 0] = token_level_rewards.new_tensor(filled)
    compute = grpo or importlib.import_module(ALGORITHMS).compute_grpo_outcome_advantage
    scaled = True if config is None else bool(config.get("norm_adv_by_std_in_grpo", True))
    advantages, _ = compute(
        token_level_rewards=rewards,
        response_mask=response_mask,
        index=index,
        norm_adv_by_std_in_grpo=scaled,
    )
    masked = [place for place, total in enumerate(kept) if total is None]
    advantages[masked] = 0.0  # verl divides the rounding error of equal rewards by 1e-6
    return advantages, advantages


def register() -> bool:
    """Add the estimator to verl's table, if verl is installed."""
    try:
        algorithms = importlib.import_module(ALGORITHMS)
    except ImportError:
        return False
    algorithms.register_adv_est(NAME)(interleave_grpo)
    return True


register()

"""verl: the advantage estimator `interleave_grpo`, which is its GRPO without the samples whose reward failed.

verl's default trainer drops a sample whose reward function raises and learns from the rest of its group: only
redraws can fail, so that teaches to accept wrong images. Here the reward function marks a failure instead,
and the estimator, which sees a step whole, does as the rewards for other trainers do: a failed sample counts
as the mean of its group and has no advantage, a group of which much failed has none throughout, and a step in
which more than a tenth of all redraws failed ends the training with an error. verl imports this module where
VERL_USE_EXTERNAL_MODULES names it.
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
    """The advantages of verl's own GRPO, and zero for samples that nothing is to be learned from."""
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
    advantages[masked] = 0.0  # a group of equal rewards has none but for rounding, which verl divides by 1e-6
    return advantages, advantages


def register() -> bool:
    """Put the estimator into verl's table, where it is installed."""
    try:
        algorithms = importlib.import_module(ALGORITHMS)
    except ImportError:
        return False
    algorithms.register_adv_est(NAME)(interleave_grpo)
    return True


register()

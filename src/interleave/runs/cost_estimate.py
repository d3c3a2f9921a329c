"""The cost of a run, estimated before the first call: a bound for pictures, a guess for the critic."""

from __future__ import annotations

from interleave.config.run_config import Limits, RunConfig
from interleave.runs.models import Models
from interleave.step_counts import named_step_count
from interleave.text import count
from interleave.types import Plan, Request


def cost_note(models: Models, config: RunConfig, limits: Limits, *, steps: int | None = None) -> str | None:
    """The estimate in words; None for a run that costs nothing, or whose prices are not known.

    `steps` is the number of pictures, where that is known.
    """
    per_picture = models.generator.capabilities.price_per_image
    per_verdict = models.critic.typical_price
    if not per_picture and not per_verdict:
        return None
    attempts = config.max_attempts
    times = steps or 1
    drawn = f"{count(steps, 'picture')} in" if steps else "a picture in"
    words = [f"cost at list prices: {drawn} at most {count(attempts, 'attempt')} each"]
    if per_picture is None:
        words.append("the generator's price is not known")
    else:
        words.append(
            f"{_dollars(per_picture)} an attempt, at most {_dollars(times * attempts * per_picture)}"
        )
    if per_verdict:
        words.append(f"the critic about {_dollars(times * attempts * per_verdict)} at most")
    if limits.max_cost is not None:
        words.append(f"--max-cost ends it at {_dollars(limits.max_cost)}")
    return "; ".join(words)


def pictures_asked_for(request: Request, config: RunConfig) -> int | None:
    """The number of pictures of a run, where it is known before the plan."""
    return pictures_planned(config.plan) if config.plan else named_step_count(request.text)


def pictures_planned(plan: Plan) -> int:
    return sum(step.prompt is not None for step in plan.steps)


def _dollars(amount: float) -> str:
    """Two decimals, or as many as it takes for one significant digit."""
    return f"${amount:.2f}" if amount >= 0.1 or amount == 0 else f"${amount:.2g}"

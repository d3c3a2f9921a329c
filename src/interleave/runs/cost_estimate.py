"""What a run may cost, said before the first call: a bound for pictures, a guess for the other calls."""

from __future__ import annotations

from interleave.backends.protocols import VisionLanguageModel
from interleave.config.run_config import Limits, RunConfig
from interleave.runs.models import Models
from interleave.step_counts import named_step_count
from interleave.text import count
from interleave.types import Plan, Request


def cost_note(models: Models, config: RunConfig, limits: Limits, *, steps: int | None = None) -> str | None:
    """The estimate in words; None for a run that costs nothing, or whose prices nobody knows.

    `steps` is how many pictures are to be made, where that is known.
    """
    per_picture = models.generator.capabilities.price_per_image
    per_verdict = _typical_price(models.critic)
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
    """How many pictures a run will make, where that can be known before it is planned."""
    return pictures_planned(config.plan) if config.plan else named_step_count(request.text)


def pictures_planned(plan: Plan) -> int:
    return sum(step.prompt is not None for step in plan.steps)


def _typical_price(agent: object) -> float | None:
    return agent.capabilities.typical_price if isinstance(agent, VisionLanguageModel) else None


def _dollars(amount: float) -> str:
    """Two digits, or as many as it takes to see one."""
    return f"${amount:.2f}" if amount >= 0.1 or amount == 0 else f"${amount:.2g}"

"""Whether the generators of a run can draw the steps of its plan from the images that these start from.

The pipeline refuses the same when it comes to a step. This is for checking it before anything is on disk.
"""

from __future__ import annotations

from interleave.config.run_config import RunConfig
from interleave.images import white_canvas
from interleave.runs.calls import refuse_sources
from interleave.runs.models import Models
from interleave.runs.steering import Steering
from interleave.sources import pictures_of
from interleave.types import Plan, Request


def refuse_undrawable_steps(
    request: Request, config: RunConfig, models: Models, steering: Steering | None
) -> None:
    """Raise `ConfigurationError` for a step whose generator does not take what the step starts from."""
    plan = _plan_of(config, steering)
    if plan is None:
        return
    pictures = pictures_of(request, config.rules, models.generator.capabilities)
    pictures.check_plan(plan)
    left = steering.left_to_draw() if steering else set()
    for step in plan.steps:
        other = steering.generator_of(step.number) if steering and step.number in left else None
        if steering and other is not None:
            capabilities = models.for_generator(other).generator.capabilities
            anew = step.number in steering.anew
            start = pictures.start_of(step, most=capabilities.max_sources, anew=anew)
            refuse_sources(step.number, len(start.sources), capabilities, other.identity)
        if step.prompt is not None:
            pictures.add(step.number, white_canvas((1, 1)))


def _plan_of(config: RunConfig, steering: Steering | None) -> Plan | None:
    """The plan that will be drawn, where it is known; sheets of assets are steps that are added to it."""
    if steering is not None and steering.plan is not None:
        return steering.plan
    return None if config.sheets else config.plan

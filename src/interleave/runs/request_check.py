"""What can be told of a request and a plan before any model is loaded: whether those chosen can take them."""

from __future__ import annotations

from interleave.agents.planner import wanted_steps
from interleave.backends.registry import refuse_undrawable, suited
from interleave.config.run_config import OBJECT, RunConfig
from interleave.errors import ConfigurationError
from interleave.types import Request


def suited_request(request: Request, config: RunConfig) -> Request:
    """The request as its planner reads it best; raises for what can be told beforehand not to work."""
    if config.plan is None:
        wanted_steps(request, config.max_steps)
        return request if config.planner.spec.startswith(OBJECT) else suited(request, config.planner.spec)
    if (count := len(config.plan.steps)) > config.max_steps:
        raise ConfigurationError(
            f"the plan has {count} steps, and the limit is {config.max_steps}: "
            f"raise it with --max-steps {count}"
        )
    if not config.generator.spec.startswith(OBJECT):
        refuse_undrawable((step.prompt for step in config.plan.steps if step.prompt), config.generator.spec)
    return request

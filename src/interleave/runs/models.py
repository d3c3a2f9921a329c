"""The loaded models of a run, with what all calls to them share: retries, limits, disk threads."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from interleave.agents.critic import Critic
from interleave.agents.loading import LoadedAgent
from interleave.agents.planner import Planner
from interleave.backends.concurrency import CallLimit
from interleave.backends.protocols import ImageGenerator
from interleave.backends.result_checks import is_price
from interleave.backends.retries import IMAGE_DEADLINE_SECONDS, VLM_DEADLINE_SECONDS, RetryPolicy
from interleave.config.run_config import RoleConfig
from interleave.drift.measures import NamedMeasure
from interleave.errors import RunError
from interleave.runs.disk import Disk
from interleave.runs.journal import Role


@dataclass
class Models:
    """The models of a run. Many runs may share them, and then share their limits."""

    planner: LoadedAgent[Planner]
    critic: LoadedAgent[Critic]
    generator: ImageGenerator
    retries: RetryPolicy = field(default_factory=RetryPolicy)
    disk: Disk = field(default_factory=Disk)
    others: dict[str, ImageGenerator] = field(default_factory=dict)
    """Generators that a person wants for single steps, by identity."""
    identity: NamedMeasure | None = None
    """What says whether assets are still themselves; None: their colours do."""
    limits: dict[Role, CallLimit] = field(init=False)

    def __post_init__(self) -> None:
        self.limits = {
            "planner": _limit_of(self.planner, "the planner"),
            "critic": _limit_of(self.critic, "the critic"),
            "generator": CallLimit.of(
                self.generator.capabilities, seconds=IMAGE_DEADLINE_SECONDS, what="the generator"
            ),
        }

    def with_generator(self, generator: ImageGenerator) -> Models:
        """The same models with another generator; planner and critic share their concurrency limits."""
        others = replace(self, generator=generator)
        others.limits |= {role: self.limits[role] for role in _AGENT_ROLES}
        return others

    def for_generator(self, wanted: RoleConfig) -> Models:
        """The same models with the generator that a person wants for a step."""
        generator = self.others.get(wanted.identity)
        if generator is None:
            raise RunError(
                f"a step of this run is to be drawn by {wanted.spec!r}: continue it with 'interleave resume'"
            )
        return self.with_generator(generator)

    def prices_known(self, *, planner_is_asked: bool) -> dict[str, bool]:
        """For every model that will be called, whether it knows what a call costs."""
        generators = (self.generator, *self.others.values())
        known = {
            "generator": all(is_price(each.capabilities.price_per_image) for each in generators),
            "critic": self.critic.knows_its_price,
        }
        return known | ({"planner": self.planner.knows_its_price} if planner_is_asked else {})


def _limit_of(agent: LoadedAgent[Planner] | LoadedAgent[Critic], what: str) -> CallLimit:
    if agent.vlm is None:
        return CallLimit(agent.concurrency)
    return CallLimit.of(agent.vlm.capabilities, seconds=VLM_DEADLINE_SECONDS, what=what)


_AGENT_ROLES: tuple[Role, ...] = ("planner", "critic")

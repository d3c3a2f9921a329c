"""What a run is made with: the models, the prompts, the rules and the limits."""

from __future__ import annotations

from typing import Any

from pydantic import Field

from interleave.config.rules import Rules, SourceRule
from interleave.config.specs import parse_spec, without_tuning
from interleave.types import Plan, Value

OBJECT = "object:"
"""How a run names a model that was given as a Python object, which no spec can name."""
MOST_ATTEMPTS = 100
"""How often a step may be drawn."""


class RoleConfig(Value):
    """A model as it was named."""

    spec: str
    note: str | None = None
    """What a reader of the document must be told about it."""

    @property
    def identity(self) -> str:
        """The spec without options that only change how fast it goes."""
        return self.spec if self.spec.startswith(OBJECT) else str(without_tuning(parse_spec(self.spec)))


class PackConfig(Value):
    """The words the models were asked with."""

    name: str
    version: str
    digest: str


class RunConfig(Value):
    """Everything that decides how a run comes out. A folder is continued only with an equal one."""

    planner: RoleConfig
    critic: RoleConfig
    generator: RoleConfig
    prompts: PackConfig
    max_attempts: int = Field(default=5, ge=1, le=MOST_ATTEMPTS)
    max_steps: int = Field(default=50, ge=1, le=10_000)
    seed: int = Field(default=0, ge=0, lt=2**63)
    sources: SourceRule = SourceRule.PREVIOUS
    plan: Plan | None = None
    """The plan, where the user gave it and no planner is asked."""

    @property
    def rules(self) -> Rules:
        return Rules(self.max_attempts, self.seed, self.sources)

    @property
    def notes(self) -> tuple[str, ...]:
        """What readers must be told, each thing once."""
        roles = (self.critic, self.generator) if self.plan else (self.planner, self.critic, self.generator)
        return tuple(dict.fromkeys(role.note for role in roles if role.note))


class Limits(Value):
    """When to stop early. They end a run; they do not change what it would have become."""

    max_calls: int | None = Field(default=None, ge=1)
    max_seconds: float | None = Field(default=None, gt=0)
    max_cost: float | None = Field(default=None, ge=0)
    """US dollars."""


def differences(ours: RunConfig, theirs: RunConfig) -> list[str]:
    """What differs between two configurations, in words, for a person; how fast they go does not count."""
    left, right = _deciding(ours), _deciding(theirs)
    return [_contrast(name, left[name], right[name]) for name in left if left[name] != right[name]]


def _contrast(name: str, ours: Any, theirs: Any) -> str:
    here, there = _brief(ours), _brief(theirs)
    return f"{name} is {there} there and {here} here" if here != there else f"{name} is not the same"


def _deciding(config: RunConfig) -> dict[str, Any]:
    values = config.model_dump(mode="json")
    for role in ("planner", "critic", "generator"):
        values[role]["spec"] = getattr(config, role).identity
    return values


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("spec") or value.get("digest") or "given"
    return "none" if value is None else repr(value)

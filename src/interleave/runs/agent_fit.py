"""Whether the planner and critic of a run were made for the generator that draws for them.

A large model plans and judges for any generator. A small one may know the pictures of a few alone, which its
`BackendInfo` names: its verdicts on others mean nothing. So it works for another generator only where a user
names it for that, and then the document says so.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping

from interleave.backends.registry import AGENT_KINDS, find_backend
from interleave.config.run_config import RoleConfig
from interleave.errors import ConfigurationError

TRIAL = {"planner": "scripted", "critic": "none"}
"""What stands in for an agent where a generator is only tried: both work with every generator."""


Roles = Mapping[str, RoleConfig]
"""Who works in a run, by role; no planner where the plan is given."""


def unfit_agents(roles: Roles) -> list[str]:
    """The roles whose agent was made for other generators."""
    return [role for role in roles if role != "generator" and not _fits(roles[role], roles["generator"])]


def refuse_unfit(roles: Roles, profile: str, *, named: Collection[str]) -> None:
    """Refuse agents that came with the profile while the generator did not, unless they fit it."""
    unfit = [role for role in unfit_agents(roles) if role not in named]
    if not unfit or "generator" not in named:
        return
    were, them = ("was", "it") if len(unfit) == 1 else ("were", "them")
    raise ConfigurationError(
        f"the {_joined(unfit)} of the profile {profile!r} {were} made for the pictures of "
        f"{_known_to(roles, unfit)}, and {roles['generator'].shown!r} draws others. "
        f"Try it out with: {_options(TRIAL, unfit)}; for real work name models, e.g. "
        f"{_options(dict.fromkeys(unfit, 'openai:MODEL@http://host/v1'), unfit)}; "
        f"to use {them} nevertheless: {_options({role: roles[role].spec for role in unfit}, unfit)}"
    )


def unfit_note(roles: Roles) -> str | None:
    """What readers must be told where agents work for a generator that they do not know."""
    if not (unfit := unfit_agents(roles)):
        return None
    agents = _joined(f"{role} “{roles[role].shown}”" for role in unfit)
    work = _joined({"planner": "the plan", "critic": "the verdicts"}[role] for role in unfit)
    return (
        f"The {agents} {'was' if len(unfit) == 1 else 'were'} made for the pictures of "
        f"{_known_to(roles, unfit)}; these come from “{roles['generator'].shown}”, so {work} may be wrong."
    )


def _fits(agent: RoleConfig, generator: RoleConfig) -> bool:
    known = _generators_known_to(agent)
    return not known or (not generator.is_object and generator.parsed.name in known)


def _generators_known_to(agent: RoleConfig) -> tuple[str, ...]:
    info = None if agent.is_object else find_backend(agent.parsed.name, *AGENT_KINDS)
    return info.generators if info else ()


def _known_to(roles: Roles, agents: Iterable[str]) -> str:
    names = dict.fromkeys(name for role in agents for name in _generators_known_to(roles[role]))
    return _joined(f"“{name}”" for name in names)


def _options(specs: Mapping[str, str], roles: Iterable[str]) -> str:
    return " ".join(f"--{role} {specs[role]}" for role in roles)


def _joined(words: Iterable[str]) -> str:
    return " and ".join(words)

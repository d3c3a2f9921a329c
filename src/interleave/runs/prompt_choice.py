"""Which prompt pack a run uses: a profile's words go with its models, not with others put in their place."""

from __future__ import annotations

from typing import Any

from interleave.agents.prompts.library import DEFAULT_PACK
from interleave.backends.registry import is_agent
from interleave.config.profiles import Profile
from interleave.config.specs import Spec, parse_spec
from interleave.errors import ConfigurationError


def words_for(profile: Profile, *, prompts: str | None, planner: Any, critic: Any) -> str:
    """The pack's name, from what a user chose: None where it is the profile's.

    Small models understand only the words they were trained with, and large ones nothing of those.
    """
    if prompts is not None:
        return prompts
    if profile.prompts == DEFAULT_PACK:
        return DEFAULT_PACK
    own = {"planner": profile.planner.as_spec("planner"), "critic": profile.critic.as_spec("critic")}
    chosen = {"planner": planner, "critic": critic}
    asked = {role: _is_another(chosen[role], own[role]) for role in own if _is_asked(chosen[role], own[role])}
    if not any(asked.values()):
        return profile.prompts
    if all(asked.values()):
        return DEFAULT_PACK
    other = next(role for role, another in asked.items() if another)
    same = next(role for role, another in asked.items() if not another)
    raise ConfigurationError(
        f"the {same} {str(own[same])!r} understands the words of the pack {profile.prompts!r} only, and the "
        f"{other} would not: name a {same} too (--{same} SPEC), or the words for both (--prompts PACK)"
    )


def _is_asked(chosen: Any, own: Spec) -> bool:
    """Whether this is a model that is asked in words; some agents compute."""
    if chosen is not None and not isinstance(chosen, str):
        return hasattr(chosen, "complete")
    return not is_agent(own if chosen is None else chosen)


def _is_another(chosen: Any, own: Spec) -> bool:
    if chosen is None:
        return False
    if not isinstance(chosen, str):
        return True
    spec = parse_spec(chosen)
    return (spec.name, spec.model, spec.base_url) != (own.name, own.model, own.base_url)

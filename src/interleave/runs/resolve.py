"""From a user's options to a configuration, and from a configuration to loaded models.

A large model plans and judges for any generator. A small one may know the images of a few alone, which its
`BackendInfo` names: its verdicts on others mean nothing. So it works for another generator only where a user
names it for that, and then the document says so.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from interleave.agents.critic import Critic
from interleave.agents.loading import (
    critic_from,
    described,
    has_async,
    is_prompted,
    planner_from,
    refuse_unusable_object,
)
from interleave.agents.planner import GivenPlan, Planner, wanted_steps
from interleave.agents.prompts import (
    DEFAULT_PACK,
    PromptPack,
    load_pack,
    names_of_models,
    pack_trained_for,
)
from interleave.agents.prompts.import_checkout import HOW_TO_IMPORT, RELEASED_MODELS
from interleave.backends import registry
from interleave.backends.protocols import ImageGenerator, VisionLanguageModel
from interleave.backends.registry import (
    AGENT_KINDS,
    adapt_request,
    find_backend,
    load_generator,
    note_for,
    refuse_undrawable,
)
from interleave.config.profiles import DRY_RUN_PROFILE, Profile, default_profile, load_profile
from interleave.config.run_config import Limits, RoleConfig, RunConfig, parse_remedies
from interleave.config.specs import Spec, parse_spec
from interleave.drift.control import checked_identity, identity_model
from interleave.errors import ConfigurationError, MissingDependency, RunError, did_you_mean
from interleave.runs.journal import read_journal
from interleave.runs.journal_files import has_journal
from interleave.runs.models import Models
from interleave.runs.steering import steering_after
from interleave.types import Plan, Request

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Choices:
    """What a user chose; None means the profile's choice."""

    profile: str = field(default_factory=default_profile)
    planner: str | VisionLanguageModel | Planner | None = None
    critic: str | VisionLanguageModel | Critic | None = None
    generator: str | ImageGenerator | None = None
    prompts: str | None = None
    plan: Plan | None = None
    max_attempts: int | None = None
    max_steps: int | None = None
    chapter_steps: int | None = None
    sources: str | None = None
    choose: str | None = None
    remedies: str | None = None
    identity: str | None = None
    sheets: bool | None = None
    seed: int = 0


def split_choices(choices: dict[str, Any]) -> tuple[Choices, Limits]:
    """Keyword arguments, split into what decides how a run comes out and the limits that end it early."""
    limits = {name: value for name, value in choices.items() if name in Limits.model_fields}
    rest = {name: value for name, value in choices.items() if name not in limits}
    if rest.get("profile") is None:
        rest.pop("profile", None)
    try:
        return Choices(**rest), Limits(**limits)
    except ValidationError as error:
        raise _bad_option(error) from None
    except TypeError:
        known = [*(each.name for each in fields(Choices)), *Limits.model_fields]
        unknown = next((name for name in rest if name not in known), "?")
        raise ConfigurationError(f"there is no option {unknown!r}. {did_you_mean(unknown, known)}") from None


def resolve(chosen: Choices, *, only_plans: bool = False) -> tuple[RunConfig, PromptPack]:
    """The whole configuration: the user's choices, and the profile's where there is none.

    With `only_plans` no critic is asked, so the prompts need not suit the profile's, and nothing is drawn.
    """
    if chosen.plan and chosen.chapter_steps is not None:
        raise ConfigurationError("--chapter-steps is for a planner, and with --plan none is asked: drop one")
    profile = _profile(chosen, only_plans)
    planner, critic, generator = map(_spec_or_object, (chosen.planner, chosen.critic, chosen.generator))
    asked = GivenPlan(chosen.plan) if chosen.plan else planner  # with a plan, no planner is asked
    judge = planner if only_plans and critic is None else critic
    given = {"planner": planner, "critic": critic, "generator": generator}
    roles = {role: _role(each, profile, role) for role, each in given.items()}
    if not only_plans:
        named = [role for role, each in given.items() if each is not None]
        roles["generator"] = _fitted(roles, chosen, named)
    pack = load_pack(choose_pack(profile, prompts=chosen.prompts, planner=asked, critic=judge))
    values = {
        **roles,
        "prompts": pack.identity,
        "max_attempts": _first(chosen.max_attempts, profile.max_attempts),
        "max_steps": _first(chosen.max_steps, profile.max_steps),
        "chapter_steps": None if chosen.plan else _first(chosen.chapter_steps, profile.chapter_steps),
        "sources": _first(chosen.sources, profile.sources),
        "choose": _first(chosen.choose, profile.choose),
        "remedies": parse_remedies(_first(chosen.remedies, profile.remedies)),
        "identity": checked_identity(_first(chosen.identity, profile.identity)),
        "sheets": _first(chosen.sheets, profile.sheets),
        "seed": chosen.seed,
        "plan": chosen.plan,
    }
    try:
        return RunConfig.model_validate(values), pack
    except ValidationError as error:
        raise _bad_option(error) from None


def _profile(chosen: Choices, only_plans: bool) -> Profile:
    """The chosen profile; where every model is named, the default one need not be installed."""
    try:
        return load_profile(chosen.profile)
    except MissingDependency:
        models = [chosen.plan or chosen.planner, *(() if only_plans else (chosen.critic, chosen.generator))]
        if any(model is None for model in models):
            raise
        return load_profile(DRY_RUN_PROFILE)


def choose_pack(profile: Profile, *, prompts: str | None, planner: Any, critic: Any) -> str:
    """The name of the prompt pack; planner and critic are specs or objects, None for the profile's own.

    A profile's prompts go with its models. Small models understand only the words they were trained with,
    and large ones understand nothing of those. Large ones that were trained with a pack get it where it is
    installed; another large model beside them understands it too.
    """
    if prompts is not None:
        return prompts
    own = {"planner": profile.planner.as_spec("planner"), "critic": profile.critic.as_spec("critic")}
    used = {role: _first(_spec_or_object(given), own[role]) for role, given in _roles(planner, critic)}
    if profile.prompts == DEFAULT_PACK:
        return _pack_of_models(used.values())
    replaced = {role: not _same_model(used[role], own[role]) for role in own if is_prompted(used[role])}
    if not any(replaced.values()):
        return profile.prompts
    if all(replaced.values()):
        return _pack_of_models(used.values())
    other = next(role for role, is_replaced in replaced.items() if is_replaced)
    same = next(role for role, is_replaced in replaced.items() if not is_replaced)
    raise ConfigurationError(
        f"the {same} {str(own[same])!r} understands the words of the pack {profile.prompts!r} only, and the "
        f"{other} would not: name a {same} too (--{same} SPEC), or the words for both (--prompts PACK)"
    )


def _pack_of_models(used: Iterable[Any]) -> str:
    """The pack that these specs or objects were trained with, where it is installed, else the default."""
    models = [spec.model for spec in used if isinstance(spec, Spec) and spec.model and is_prompted(spec)]
    trained = pack_trained_for(models)
    if trained is None and not names_of_models(models).isdisjoint(names_of_models(RELEASED_MODELS)):
        _say_how_to_import()
    return trained or DEFAULT_PACK


@cache
def _say_how_to_import() -> None:
    """Once in a process: a batch resolves its configuration for every generator and worker."""
    log.warning(HOW_TO_IMPORT)


def _roles(planner: Any, critic: Any) -> tuple[tuple[str, Any], ...]:
    return (("planner", planner), ("critic", critic))


def _same_model(used: Any, own: Spec) -> bool:
    if not isinstance(used, Spec):
        return False
    return (used.name, used.model, used.base_url) == (own.name, own.model, own.base_url)


def adapted_request(request: Request, config: RunConfig) -> Request:
    """The request as its planner reads it best; raises for what is known not to work before models load."""
    if config.plan is None:
        wanted_steps(request, config.max_steps)
        return request if config.planner.is_object else adapt_request(request, config.planner.parsed)
    if (count := len(config.plan.steps)) > config.max_steps:
        raise ConfigurationError(
            f"the plan has {count} steps, and the limit is {config.max_steps}: "
            f"raise it with --max-steps {count}"
        )
    if not config.generator.is_object:
        prompts = (step.prompt for step in config.plan.steps if step.prompt)
        refuse_undrawable(prompts, config.generator.parsed)
    return request


def decided_generators(folder: Path) -> tuple[RoleConfig, ...]:
    """The generators that a person wants for single steps of the run in this folder, if there is one."""
    if not has_journal(folder):
        return ()
    entries = read_journal(folder)
    return steering_after(entries).generators if entries else ()


def load_models(
    config: RunConfig, pack: PromptPack, chosen: Choices, others: Iterable[RoleConfig] = ()
) -> Models:
    """The models of a configuration: objects as they were given, the others by their specs.

    `others` are the generators that single steps are drawn by.
    """
    planner = GivenPlan(config.plan) if config.plan else load_agent(chosen.planner, config.planner, "planner")
    return Models(
        planner=planner_from(
            planner,
            pack,
            max_steps=config.max_steps,
            chapter_steps=config.chapter_steps,
            scenes=config.remedies.need_scenes,
        ),
        critic=critic_from(
            load_agent(chosen.critic, config.critic, "critic"), pack, strict=strictness(config.critic)
        ),
        generator=_load_generator(chosen.generator, config.generator),
        others={other.identity: load_generator(other.parsed) for other in others},
        identity=identity_model(config.identity) if config.identity else None,
    )


def strictness(critic: RoleConfig) -> float | None:
    """The acceptance probability that a critic's spec asks for, if it names one."""
    return None if critic.is_object else registry.critic_options(critic.parsed).strict


def load_agent(chosen: Any, role: RoleConfig, name: str) -> Any:
    """The backend of a planner or critic: the object that was given, or what its spec names."""
    if chosen is None or isinstance(chosen, str):
        return registry.load_agent(role.parsed, name)
    refuse_unusable_object(chosen, name)
    return chosen


def _load_generator(chosen: str | ImageGenerator | None, role: RoleConfig) -> ImageGenerator:
    if chosen is None or isinstance(chosen, str):
        return load_generator(role.parsed)
    if has_async(chosen, "generate") and hasattr(chosen, "capabilities"):
        return chosen
    raise ConfigurationError(
        "the generator must be an object with 'capabilities' and 'async def generate(request)' that returns "
        f"a PIL image; this is {described(chosen)}"
    )


def refuse_objects(config: RunConfig) -> None:
    """A run made with Python objects cannot be continued from its folder alone."""
    for role in (config.planner, config.critic, config.generator):
        if role.is_object:
            raise RunError(
                f"this run was made with a Python object ({role.object_name}): continue it "
                "from Python, with interleave.generate(…, out=…)"
            )


def unchanged_pack(config: RunConfig) -> PromptPack:
    """The prompt pack of a run; refuses one whose prompts have changed since the run was started."""
    pack = load_pack(config.prompts.name)
    if pack.digest != config.prompts.digest:
        raise RunError(
            f"the prompt pack {pack.name!r} has changed since this run was started: "
            "restore it, or start again"
        )
    return pack


def _spec_or_object(chosen: Any) -> Any:
    return parse_spec(chosen) if isinstance(chosen, str) else chosen


def _role(chosen: Any, profile: Profile, role: str) -> RoleConfig:
    spec = getattr(profile, role).as_spec(role) if chosen is None else chosen
    if not isinstance(spec, Spec):
        return RoleConfig.of_object(spec)
    return RoleConfig(spec=str(spec), note=note_for(spec, role=role))


def _fitted(roles: dict[str, RoleConfig], chosen: Choices, named: list[str]) -> RoleConfig:
    """The generator with what readers must be told where its planner or critic was made for others."""
    asked = {role: each for role, each in roles.items() if role != "planner" or not chosen.plan}
    refuse_unfit(asked, chosen.profile, named=named)
    generator = roles["generator"]
    notes = filter(None, [generator.note, unfit_note(asked)])
    return generator.model_copy(update={"note": " ".join(notes) or None})


def _first(chosen: Any, default: Any) -> Any:
    return default if chosen is None else chosen


def _bad_option(error: ValidationError) -> ConfigurationError:
    first = error.errors()[0]
    option = str(first["loc"][0]).replace("_", "-")
    return ConfigurationError(f"--{option} {first['input']}: {first['msg'][:1].lower()}{first['msg'][1:]}")


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
        f"the {_joined(unfit)} of the profile {profile!r} {were} made for the images of "
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
        f"The {agents} {'was' if len(unfit) == 1 else 'were'} made for the images of "
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

"""From a user's options to a configuration, and from a configuration to loaded models.

A large model plans and judges for any generator. A small one may know only the images of the generators
that its `BackendInfo` lists, and its verdicts on others are unreliable. It is used with another generator
only if a user names it explicitly, and the document then says so.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
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
from interleave.agents.safety import Safety
from interleave.backends import registry
from interleave.backends.protocols import DocumentModel, ImageGenerator, VisionLanguageModel
from interleave.backends.registry import (
    AGENT_KINDS,
    adapt_request,
    find_backend,
    load_generator,
    note_for,
    refuse_undrawable,
)
from interleave.config.profiles import DRY_RUN_PROFILE, Profile, default_profile, load_profile
from interleave.config.run_config import Limits, RoleConfig, RunConfig, parse_drift_control
from interleave.config.specs import CriticOptions, Spec, parse_spec
from interleave.drift.control import checked_identity, identity_model
from interleave.errors import ConfigurationError, MissingDependency, RunError, did_you_mean
from interleave.runs.journal import read_journal
from interleave.runs.journal_files import has_journal
from interleave.runs.models import Models
from interleave.runs.steering import steering_after
from interleave.types import Plan, Request

log = logging.getLogger(__name__)
NO_GENERATOR = "none"
OLD_OPTIONS = {"remedies": "drift_control", "sheets": "reference_sheets"}


@dataclass(frozen=True)
class Choices:
    """Choices of a user; `None` means the profile's choice."""

    profile: str = field(default_factory=default_profile)
    planner: str | VisionLanguageModel | Planner | DocumentModel | None = None
    critic: str | VisionLanguageModel | Critic | None = None
    generator: str | ImageGenerator | None = None
    prompts: str | None = None
    plan: Plan | None = None
    max_attempts: int | None = None
    max_steps: int | None = None
    chapter_steps: int | None = None
    sources: str | None = None
    choose: str | None = None
    drift_control: str | None = None
    identity: str | None = None
    safety: tuple[str, ...] = ()
    reference_sheets: bool | None = None
    seed: int = 0
    nearest: bool = False


def split_choices(choices: dict[str, Any]) -> tuple[Choices, Limits]:
    """Split keyword arguments into the choices that determine a run and the limits that end it early."""
    choices = {_current_name(name): value for name, value in choices.items()}
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
        raise ConfigurationError(f"no option {unknown!r}. {did_you_mean(unknown, known)}") from None


def _current_name(name: str) -> str:
    """Return the name of an option. Old names warn and are removed in 1.0."""
    if name in OLD_OPTIONS:
        warnings.warn(f"{name}= is now {OLD_OPTIONS[name]}=", DeprecationWarning, stacklevel=4)
    return OLD_OPTIONS.get(name, name)


def resolve(chosen: Choices, *, only_plans: bool = False) -> tuple[RunConfig, PromptPack]:
    """Return the whole configuration: the user's choices, completed by those of the profile.

    With `only_plans` nothing is drawn or judged, so the prompts need not suit the profile's critic.
    """
    if chosen.plan and chosen.chapter_steps is not None:
        raise ConfigurationError("chapter_steps= cannot be combined with plan= (no planner is asked)")
    chosen = _native_choices(chosen, only_plans)
    profile = _profile(chosen, only_plans)
    planner, critic, generator = map(_spec_or_object, (chosen.planner, chosen.critic, chosen.generator))
    asked = GivenPlan(chosen.plan) if chosen.plan else planner  # with a plan, no planner is called
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
        "remedies": parse_drift_control(_first(chosen.drift_control, profile.remedies)),
        "identity": checked_identity(_first(chosen.identity, profile.identity)),
        "safety": tuple(dict.fromkeys((*profile.safety, *chosen.safety))),
        "sheets": _first(chosen.reference_sheets, profile.sheets),
        "seed": chosen.seed,
        "plan": chosen.plan,
        "nearest": chosen.nearest,
    }
    try:
        return RunConfig.model_validate(values), pack
    except ValidationError as error:
        raise _bad_option(error) from None


def is_native(planner: Any) -> bool:
    """Return whether a planner, as a spec or an object, is a native system that writes whole documents."""
    if isinstance(planner, str | Spec):
        return registry.writes_documents(planner)
    return isinstance(planner, DocumentModel)


def _native_choices(chosen: Choices, only_plans: bool) -> Choices:
    """Return the choices, completed for a native system; raise for those that it cannot follow.

    Its document stays as it is, unless a critic, a generator or a profile is named to judge and redraw it.
    """
    if chosen.plan is not None or not is_native(chosen.planner):
        if not only_plans and chosen.generator == NO_GENERATOR and chosen.plan is None:
            raise ConfigurationError(
                "generator=none generates nothing: name a native system as planner, e.g. "
                "planner=document:gemini:gemini-3-pro-image, or name a generator"
            )
        return chosen
    if only_plans:
        raise ConfigurationError(
            "a native system writes text and images in one answer: hold its plan instead (hold_plan=True)"
        )
    for name in ("chapter_steps", "reference_sheets"):
        if getattr(chosen, name):
            raise ConfigurationError(f"{name}= cannot be combined with a native system as planner")
    if chosen.critic is None and chosen.generator is None and chosen.profile == default_profile():
        return replace(chosen, critic="none", generator=NO_GENERATOR)
    return chosen


def _profile(chosen: Choices, only_plans: bool) -> Profile:
    """Return the chosen profile; it need not be installed if every model is named."""
    try:
        return load_profile(chosen.profile)
    except MissingDependency:
        models = [chosen.plan or chosen.planner, *(() if only_plans else (chosen.critic, chosen.generator))]
        if any(model is None for model in models):
            raise
        return load_profile(DRY_RUN_PROFILE)


def choose_pack(profile: Profile, *, prompts: str | None, planner: Any, critic: Any) -> str:
    """Return the name of the prompt pack; planner and critic are specs, objects or `None` (the profile's).

    A profile's prompts belong to its models. Small models understand only the prompts they were trained with,
    and large models do not understand those. Large models trained with a pack use it if it is installed;
    another large model in the same run understands it too.
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
        f"the {same} {str(own[same])!r} understands only the prompt pack {profile.prompts!r}, and the "
        f"{other} would not: name a {same} too ({same}=SPEC), or the prompts for both (prompts=PACK)"
    )


def _pack_of_models(used: Iterable[Any]) -> str:
    """Return the pack that these models were trained with if it is installed, else the default."""
    models = [spec.model for spec in used if isinstance(spec, Spec) and spec.model and is_prompted(spec)]
    trained = pack_trained_for(models)
    if trained is None and not names_of_models(models).isdisjoint(names_of_models(RELEASED_MODELS)):
        _warn_how_to_import()
    return trained or DEFAULT_PACK


@cache
def _warn_how_to_import() -> None:
    """Log once per process: a batch resolves its configuration for every generator and worker."""
    log.warning(HOW_TO_IMPORT)


def _roles(planner: Any, critic: Any) -> tuple[tuple[str, Any], ...]:
    return (("planner", planner), ("critic", critic))


def _same_model(used: Any, own: Spec) -> bool:
    if not isinstance(used, Spec):
        return False
    return (used.name, used.model, used.base_url) == (own.name, own.model, own.base_url)


def adapted_request(request: Request, config: RunConfig) -> Request:
    """Adapt a request to its planner; raise for known problems before models are loaded."""
    if config.plan is None:
        wanted_steps(request, config.max_steps)
        if config.planner.is_object:
            return request
        return adapt_request(request, config.planner.parsed, nearest=config.nearest)
    if (count := len(config.plan.steps)) > config.max_steps:
        raise ConfigurationError(
            f"the plan has {count} steps, more than the limit of {config.max_steps}: "
            f"raise it with max_steps={count}"
        )
    if not config.generator.is_object:
        prompts = (step.prompt for step in config.plan.steps if step.prompt)
        refuse_undrawable(prompts, config.generator.parsed)
    return request


def decided_generators(folder: Path) -> tuple[RoleConfig, ...]:
    """Return the generators chosen for single steps of the run in `folder`, if it holds one."""
    if not has_journal(folder):
        return ()
    entries = read_journal(folder)
    return steering_after(entries).generators if entries else ()


def load_models(
    config: RunConfig, pack: PromptPack, chosen: Choices, others: Iterable[RoleConfig] = ()
) -> Models:
    """Load the models of a configuration from their specs; objects are used as given.

    `others` are the generators of single steps.
    """
    safety = Safety(config.safety)
    planner = GivenPlan(config.plan) if config.plan else load_agent(chosen.planner, config.planner, "planner")
    return Models(
        safety=safety,
        planner=planner_from(
            planner,
            pack,
            max_steps=config.max_steps,
            chapter_steps=config.chapter_steps,
            scenes=config.remedies.need_scenes,
        ),
        critic=critic_from(
            load_agent(chosen.critic, config.critic, "critic"),
            pack,
            **critic_options(config.critic).model_dump(),
        ),
        generator=safety.generator(_load_generator(chosen.generator, config.generator)),
        others={other.identity: safety.generator(load_generator(other.parsed)) for other in others},
        identity=identity_model(config.identity) if config.identity else None,
    )


def critic_options(critic: RoleConfig) -> CriticOptions:
    """Return the options in a critic's spec about how it judges."""
    return CriticOptions() if critic.is_object else registry.critic_options(critic.parsed)


def load_agent(chosen: Any, role: RoleConfig, name: str) -> Any:
    """Return the backend of a planner or critic: the given object, or the one that its spec names."""
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
    """Refuse to continue a run made with Python objects from its folder alone."""
    for role in (config.planner, config.critic, config.generator):
        if role.is_object:
            raise RunError(
                f"this run was made with a Python object ({role.object_name}): continue it "
                "from Python, with interleave.generate(…, out=…)"
            )


def unchanged_pack(config: RunConfig) -> PromptPack:
    """Return the prompt pack of a run; refuse one that has changed since the run was started."""
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
    """Return the generator, with a note for readers if planner or critic were made for other generators."""
    asked = {role: each for role, each in roles.items() if role != "planner" or not chosen.plan}
    refuse_unfit(asked, chosen.profile, named=named)
    generator = roles["generator"]
    notes = filter(None, [generator.note, unfit_note(asked)])
    return generator.model_copy(update={"note": " ".join(notes) or None})


def _first(chosen: Any, default: Any) -> Any:
    return default if chosen is None else chosen


def _bad_option(error: ValidationError) -> ConfigurationError:
    first = error.errors()[0]
    problem = first["msg"].removeprefix("Value error, ").replace("Input should be", "it must be")
    return ConfigurationError(f"{first['loc'][0]}={first['input']}: {problem}")


TRIAL = {"planner": "scripted", "critic": "none"}
"""Agents for trying out a generator: both work with every generator."""


Roles = Mapping[str, RoleConfig]
"""Models of a run, by role; without a planner if the plan is given."""


def unfit_agents(roles: Roles) -> list[str]:
    """Return the roles whose agent was made for other generators."""
    return [role for role in roles if role != "generator" and not _fits(roles[role], roles["generator"])]


def refuse_unfit(roles: Roles, profile: str, *, named: Collection[str]) -> None:
    """Refuse agents of the profile that do not fit a generator named by the user."""
    unfit = [role for role in unfit_agents(roles) if role not in named]
    if not unfit or "generator" not in named:
        return
    generator = roles["generator"]
    if not generator.is_object and find_backend(generator.parsed.name, "generator") is None:
        registry.check_generator(generator.parsed)  # a misspelled name: refused with its neighbours
    were, them = ("was", "it") if len(unfit) == 1 else ("were", "them")
    raise ConfigurationError(
        f"the {_joined(unfit)} of the profile {profile!r} {were} made for the images of "
        f"{_known_to(roles, unfit)}, not for those of {generator.shown!r}. "
        f"To try the generator: {_options(TRIAL, unfit)}; for production name models, e.g. "
        f"{_options(dict.fromkeys(unfit, 'openai:MODEL@http://host/v1'), unfit)}; "
        f"to use {them} anyway: {_options({role: roles[role].spec for role in unfit}, unfit)}"
    )


def unfit_note(roles: Roles) -> str | None:
    """Return a note for readers if agents work with a generator that they were not made for."""
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
    return " ".join(f"{role}={specs[role]}" for role in roles)


def _joined(words: Iterable[str]) -> str:
    return " and ".join(words)

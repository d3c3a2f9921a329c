"""From a user's choices to a configuration and loaded models."""

from __future__ import annotations

import inspect
from dataclasses import dataclass, field, fields
from typing import Any

from pydantic import ValidationError

from interleave.agents.critic import Critic
from interleave.agents.planner import GivenPlan, Planner
from interleave.agents.prompts import PromptPack
from interleave.agents.prompts.library import load_pack
from interleave.backends import registry
from interleave.backends.protocols import ImageGenerator, VisionLanguageModel
from interleave.backends.registry import load_generator, note_for
from interleave.config.profiles import Profile, default_profile, load_profile
from interleave.config.run_config import OBJECT, Limits, PackConfig, RoleConfig, RunConfig
from interleave.config.specs import parse_spec
from interleave.errors import ConfigurationError, RunError, did_you_mean
from interleave.runs.models import Models
from interleave.runs.prompt_choice import words_for
from interleave.types import Plan


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
    sources: str | None = None
    seed: int = 0


def split_choices(choices: dict[str, Any]) -> tuple[Choices, Limits]:
    """Keyword arguments, sorted into what decides a run and what only ends it early."""
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


def resolve(chosen: Choices) -> tuple[RunConfig, PromptPack]:
    """The whole configuration: the choices, and the profile's where there is none."""
    profile = load_profile(chosen.profile)
    planner = GivenPlan(chosen.plan) if chosen.plan else chosen.planner  # who has the plan asks nobody
    pack = load_pack(words_for(profile, prompts=chosen.prompts, planner=planner, critic=chosen.critic))
    values = {
        "planner": _role(chosen.planner, profile, "planner"),
        "critic": _role(chosen.critic, profile, "critic"),
        "generator": _role(chosen.generator, profile, "generator"),
        "prompts": PackConfig(name=pack.name, version=pack.description.version, digest=pack.digest),
        "max_attempts": _first(chosen.max_attempts, profile.max_attempts),
        "max_steps": _first(chosen.max_steps, profile.max_steps),
        "sources": _first(chosen.sources, profile.sources),
        "seed": chosen.seed,
        "plan": chosen.plan,
    }
    try:
        return RunConfig.model_validate(values), pack
    except ValidationError as error:
        raise _bad_option(error) from None


def load_models(config: RunConfig, pack: PromptPack, chosen: Choices) -> Models:
    """The models of a configuration: objects as they were given, the others by their specs."""
    return Models(
        planner=GivenPlan(config.plan)
        if config.plan
        else load_agent(chosen.planner, config.planner, "planner"),
        critic=load_agent(chosen.critic, config.critic, "critic"),
        generator=_generator(chosen.generator, config.generator),
        pack=pack,
    )


def load_agent(chosen: Any, role: RoleConfig, name: str) -> Any:
    """A planner or critic, or the model that plays one."""
    if not _is_object(chosen):
        return registry.load_agent(role.spec, name)
    verb = {"planner": "plan", "critic": "judge"}[name]
    if _answers(chosen, verb) or (_answers(chosen, "complete") and hasattr(chosen, "capabilities")):
        return chosen
    raise ConfigurationError(
        f"the {name} must be an object with 'async def {verb}(…)', or a model with 'capabilities' and "
        f"'async def complete(messages, sampling)'; this is {_described(chosen)}"
    )


def _generator(chosen: str | ImageGenerator | None, role: RoleConfig) -> ImageGenerator:
    if chosen is None or isinstance(chosen, str):
        return load_generator(role.spec)
    if _answers(chosen, "generate") and hasattr(chosen, "capabilities"):
        return chosen
    raise ConfigurationError(
        "the generator must be an object with 'capabilities' and 'async def generate(request)' that returns "
        f"a PIL image; this is {_described(chosen)}"
    )


def _answers(model: object, verb: str) -> bool:
    return not isinstance(model, type) and inspect.iscoroutinefunction(getattr(model, verb, None))


def _described(model: object) -> str:
    return (
        f"the class {model.__name__}, not an object of it"
        if isinstance(model, type)
        else f"a {type(model).__name__}"
    )


def refuse_objects(config: RunConfig) -> None:
    """A run made with Python objects cannot be continued from its folder alone."""
    for role in (config.planner, config.critic, config.generator):
        if role.spec.startswith(OBJECT):
            raise RunError(
                f"this run was made with a Python object ({role.spec.removeprefix(OBJECT)}): continue it "
                "from Python, with interleave.generate(…, out=…)"
            )


def same_pack(config: RunConfig) -> PromptPack:
    """The prompt pack of a run, if its words are still those the run was started with."""
    pack = load_pack(config.prompts.name)
    if pack.digest != config.prompts.digest:
        raise RunError(
            f"the prompt pack {pack.name!r} has changed since this run was started: "
            "restore it, or start again"
        )
    return pack


def _role(chosen: Any, profile: Profile, role: str) -> RoleConfig:
    if _is_object(chosen):
        return RoleConfig(spec=f"{OBJECT}{type(chosen).__qualname__}")
    spec = parse_spec(chosen) if chosen is not None else getattr(profile, role).as_spec(role)
    return RoleConfig(spec=str(spec), note=note_for(spec, role=role))


def _is_object(chosen: Any) -> bool:
    return chosen is not None and not isinstance(chosen, str)


def _first(chosen: Any, default: Any) -> Any:
    return default if chosen is None else chosen


def _bad_option(error: ValidationError) -> ConfigurationError:
    first = error.errors()[0]
    option = str(first["loc"][0]).replace("_", "-")
    return ConfigurationError(f"--{option} {first['input']}: {first['msg'][:1].lower()}{first['msg'][1:]}")

"""What a run is made with: the models, the prompts, the rules and the limits."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache, partial
from inspect import signature
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import (
    AfterValidator,
    Field,
    ValidationError,
)

from interleave.config.specs import Spec, parse_spec, without_tuning
from interleave.errors import ConfigurationError, did_you_mean
from interleave.types import WRITTEN_IF_GIVEN, Plan, Value, Verdict

DEFAULT_CHOICE = "best"
MARGIN = 0.1


class HasVerdict(Protocol):
    @property
    def number(self) -> int: ...
    @property
    def verdict(self) -> Verdict | None: ...


Judgeable = TypeVar("Judgeable", bound=HasVerdict)


class Policy(Protocol):
    """The attempt that counts, of the one that counted so far and the next one."""

    def __call__(self, best: Judgeable | None, latest: Judgeable) -> Judgeable: ...


def best_attempt(best: Judgeable | None, latest: Judgeable) -> Judgeable:
    """The accepted one; else the one with the higher confidence; else the latest."""
    if best is None or _accepted(latest):
        return latest
    before, now = _confidence(best), _confidence(latest)
    if before is None:
        return latest
    return latest if now is not None and now >= before else best


def first_unless_better(best: Judgeable | None, latest: Judgeable, *, margin: float = MARGIN) -> Judgeable:
    """The first, unless a later one is accepted with a confidence that is higher by the margin.

    Where the critic gives no confidence, its acceptance is enough.
    """
    if best is None:
        return latest
    before, now = _confidence(best), _confidence(latest)
    clear = before is None or now is None or now >= before + margin
    return latest if _accepted(latest) and clear else best


def last_attempt(best: Judgeable | None, latest: Judgeable) -> Judgeable:
    """The latest, whatever the critic says."""
    return latest


POLICIES: Mapping[str, Callable[..., Any]] = {
    DEFAULT_CHOICE: best_attempt,
    "first-unless-better": first_unless_better,
    "last": last_attempt,
}


@cache
def policy_named(text: str) -> Policy:
    """The policy of a name with options; raises `ValueError` for one that does not exist."""
    name, _, query = text.partition("?")
    if name not in POLICIES:
        raise ValueError(f"no way to choose is named {name!r}. {did_you_mean(name, POLICIES)}")
    policy = POLICIES[name]
    known = [each for each in signature(policy).parameters if each not in ("best", "latest")]
    options: dict[str, float] = {}
    for piece in query.split("&") if query else ():
        key, _, value = piece.partition("=")
        if key not in known:
            raise ValueError(f"{name!r} has no option {key!r}. {did_you_mean(key, known)}")
        options[key] = _share(key, value)
    return partial(policy, **options) if options else policy


def checked_choice(text: str) -> str:
    """The name itself, where it names a policy."""
    policy_named(text)
    return text


def _share(key: str, value: str) -> float:
    try:
        number = float(value)
    except ValueError:
        number = -1.0
    if not 0 <= number <= 1:
        raise ValueError(f"{key!r} must be a number from 0 to 1, not {value!r:.40}")
    return number


def _accepted(attempt: HasVerdict) -> bool:
    return attempt.verdict is not None and attempt.verdict.accepted


def _confidence(attempt: HasVerdict) -> float | None:
    return attempt.verdict.confidence if attempt.verdict else None


OBJECT = "object:"
"""How a run names a model that was given as a Python object: no spec can name it."""
MOST_ATTEMPTS = 100
"""How often a step may be drawn."""
DEFAULT_CONCURRENCY = 64
"""How many of many runs are under way at the same time."""


Choice = Annotated[str, AfterValidator(checked_choice)]
"""The name of the policy that says which attempt of a step counts."""


class SourceRule(StrEnum):
    """Which images a step starts from when its plan does not say."""

    PREVIOUS = "previous"
    """The image before it."""
    HISTORY = "history"
    """All images so far, the user's first; the latest ones when the generator cannot take all."""


class Remedies(Value):
    """What is done against drift and contradictions; nothing by default, as in the paper."""

    keep: bool = False
    """Whether what a step has not changed is taken from the image that it starts from."""
    align: bool = False
    """Whether brightness and tint are aligned to that image."""
    anchor_every: int | None = Field(default=None, ge=1, le=10_000)
    """Every so many steps an image is drawn from the description of its whole scene."""
    rollbacks: int = Field(default=0, ge=0, le=100)
    """How often a run may go back to an earlier step, where one stays refused."""
    drift_limit: float | None = Field(default=None, gt=0, le=255)
    """A step whose unchanged part has moved by more levels of 255 counts as refused, for rollbacks."""
    audits: int = Field(default=0, ge=0, le=10)
    """How often the whole document is looked at, and the steps redone that contradict the others."""

    @property
    def need_scenes(self) -> bool:
        """Whether they work with the whole scene of a step, which a planner then has to write."""
        return self.anchor_every is not None or self.audits > 0 or self.drift_limit is not None

    @property
    def decides_under_way(self) -> bool:
        """Whether a run may go back before all steps are drawn."""
        return self.rollbacks > 0 or self.drift_limit is not None

    def re_anchors(self, place: int) -> bool:
        """Whether the image at this place of a chain, from 1, is drawn from its whole description."""
        return self.anchor_every is not None and place > 1 and (place - 1) % self.anchor_every == 0


NO_REMEDIES = Remedies()
_REMEDY_NUMBERS = {
    "anchor": ("anchor_every", int),
    "rollback": ("rollbacks", int),
    "drift": ("drift_limit", float),
    "audit": ("audits", int),
}
_REMEDY_SWITCHES = ("keep", "align")


def parse_remedies(text: str) -> Remedies:
    """Remedies from their names, such as `keep,anchor=5,rollback=2`; `none` is none."""
    found: dict[str, Any] = {}
    for piece in filter(None, (each.strip() for each in text.split(","))):
        name, _, number = piece.partition("=")
        if name in _REMEDY_SWITCHES and not number:
            found[name] = True
        elif name in _REMEDY_NUMBERS and number:
            field, kind = _REMEDY_NUMBERS[name]
            try:
                found[field] = kind(number)
            except ValueError:
                raise ConfigurationError(f"--remedies {text}: {piece!r} needs a number") from None
        elif name in _REMEDY_NUMBERS:
            raise ConfigurationError(f"--remedies {text}: {name} needs a number, such as {name}=2")
        elif piece != "none":
            known = (*_REMEDY_SWITCHES, *_REMEDY_NUMBERS, "none")
            raise ConfigurationError(f"no remedy is named {name!r}. {did_you_mean(name, known)}")
    try:
        return Remedies(**found)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigurationError(f"--remedies {text}: {first['loc'][0]}: {first['msg'].lower()}") from None


def written_remedies(remedies: Remedies) -> str:
    """Remedies as `parse_remedies` reads them."""
    values = remedies.model_dump(exclude_defaults=True)
    numbers = {field: name for name, (field, _) in _REMEDY_NUMBERS.items()}
    said = [f"{numbers[name]}={value}" if name in numbers else name for name, value in values.items()]
    return ",".join(said) or "none"


@dataclass(frozen=True)
class Rules:
    """What decides how a run comes out, besides its models and prompts."""

    max_attempts: int = 5
    seed: int = 0
    sources: SourceRule = SourceRule.PREVIOUS
    choose: str = DEFAULT_CHOICE
    """The policy that says which attempt of a step counts."""
    anchor_every: int | None = None
    """Every so many steps an image is drawn from the description of its whole scene."""
    in_line: bool = False
    """Whether steps that hang together are drawn one after another, because the run may go back."""

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ConfigurationError("max_attempts must be at least 1: a step is drawn before it is judged")

    def better_of(self, best: Judgeable | None, latest: Judgeable) -> Judgeable:
        """Of the attempt that counted so far and the latest one, the one that counts."""
        return policy_named(self.choose)(best, latest)


class RoleConfig(Value):
    """The model that plays one role."""

    spec: str
    """A spec string; for a Python object, `object:` and the name of its class."""
    note: str | None = None
    """What a reader of the document must be told about it."""

    @classmethod
    def of_object(cls, model: object) -> RoleConfig:
        return cls(spec=f"{OBJECT}{type(model).__qualname__}")

    @property
    def is_object(self) -> bool:
        return self.spec.startswith(OBJECT)

    @property
    def object_name(self) -> str:
        return self.spec.removeprefix(OBJECT)

    @property
    def shown(self) -> str:
        """Its name for readers: the spec, or the class of an object."""
        return self.object_name if self.is_object else self.spec

    @property
    def parsed(self) -> Spec:
        """The spec as a value; raises for a model that was given as an object."""
        return parse_spec(self.spec)

    @property
    def identity(self) -> str:
        """The spec without the options that only change how fast it goes."""
        return self.spec if self.is_object else str(without_tuning(self.parsed))


class PackConfig(Value):
    """The prompt pack that the models were asked with."""

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
    choose: Choice = DEFAULT_CHOICE
    chapter_steps: int | None = Field(default=None, ge=1, le=1000, exclude_if=lambda value: value is None)
    """The most steps of a chapter, where the plan is written in chapters."""
    plan: Plan | None = None
    """The plan, where the user gave it and no planner is asked."""
    remedies: Remedies = Field(default=NO_REMEDIES, exclude_if=lambda value: value == NO_REMEDIES)
    """Written only where there are any, so that earlier versions can read all other runs."""
    sheets: bool = Field(default=False, exclude_if=lambda value: not value)
    """Whether assets that are described, and have no image, are drawn first."""
    identity: str | None = WRITTEN_IF_GIVEN
    """The model that says whether assets are still themselves; None: their colours do."""

    @property
    def rules(self) -> Rules:
        return Rules(
            self.max_attempts,
            self.seed,
            self.sources,
            self.choose,
            self.remedies.anchor_every,
            in_line=self.remedies.decides_under_way,
        )

    @property
    def notes(self) -> tuple[str, ...]:
        """What readers must be told about the models, without repeats."""
        return tuple(dict.fromkeys(role.note for role in self.asked.values() if role.note))

    @property
    def asked(self) -> dict[str, RoleConfig]:
        """Who works in the run, by role; no planner where the plan is given."""
        planner = {} if self.plan else {"planner": self.planner}
        return {**planner, "critic": self.critic, "generator": self.generator}


class Limits(Value):
    """When to stop early. Limits end a run; they do not change how it would have come out."""

    max_calls: int | None = Field(default=None, ge=1)
    max_seconds: float | None = Field(default=None, gt=0)
    max_cost: float | None = Field(default=None, ge=0)
    """US dollars."""


def differences(ours: RunConfig, theirs: RunConfig) -> list[str]:
    """What differs between two configurations, for an error message; tuning options do not count."""
    left, right = _deciding(ours), _deciding(theirs)
    names = dict.fromkeys([*left, *right])
    return [
        _contrast(name, left.get(name), right.get(name))
        for name in names
        if left.get(name) != right.get(name)
    ]


def _contrast(name: str, ours: Any, theirs: Any) -> str:
    here, there = _brief(ours), _brief(theirs)
    return f"{name} is {there} there and {here} here" if here != there else f"{name} is not the same"


def _deciding(config: RunConfig) -> dict[str, Any]:
    values = config.model_dump(mode="json")
    for role in ("planner", "critic", "generator"):
        values[role] = {"spec": getattr(config, role).identity}  # its note follows from this
    return values


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("spec") or value.get("digest") or "given"
    return "none" if value is None else repr(value)

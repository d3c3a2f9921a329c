"""Configuration of a run: models, prompts, rules and limits."""

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
    """Function that returns the attempt to show: the best so far or the latest."""

    def __call__(self, best: Judgeable | None, latest: Judgeable) -> Judgeable: ...


def best_attempt(best: Judgeable | None, latest: Judgeable) -> Judgeable:
    """Return the accepted attempt, else the one with the higher confidence, else the latest."""
    if best is None or _accepted(latest):
        return latest
    before, now = _confidence(best), _confidence(latest)
    if before is None:
        return latest
    return latest if now is not None and now >= before else best


def first_unless_better(best: Judgeable | None, latest: Judgeable, *, margin: float = MARGIN) -> Judgeable:
    """Return the first attempt, unless a later one is accepted with a confidence higher by `margin`.

    If the critic gives no confidence, its acceptance is enough.
    """
    if best is None:
        return latest
    before, now = _confidence(best), _confidence(latest)
    clear = before is None or now is None or now >= before + margin
    return latest if _accepted(latest) and clear else best


def last_attempt(best: Judgeable | None, latest: Judgeable) -> Judgeable:
    """Return the latest attempt, whatever the verdicts."""
    return latest


POLICIES: Mapping[str, Callable[..., Any]] = {
    DEFAULT_CHOICE: best_attempt,
    "first-unless-better": first_unless_better,
    "last": last_attempt,
}


@cache
def policy_named(text: str) -> Policy:
    """Return the policy of a name with options. Raises `ValueError` for an unknown name or option."""
    name, _, query = text.partition("?")
    if name not in POLICIES:
        raise ValueError(f"no policy {name!r}. {did_you_mean(name, POLICIES)}")
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
    """Return `text` if it names a policy, else raise `ValueError`."""
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
"""Prefix of a model that was given as a Python object, which no spec can name."""
MOST_ATTEMPTS = 100
"""Maximum attempts per step."""
DEFAULT_CONCURRENCY = 64
"""Default number of runs of a batch that run concurrently."""


Choice = Annotated[str, AfterValidator(checked_choice)]
"""Name of the policy that selects the attempt to show."""


class SourceRule(StrEnum):
    """Images that a step starts from if its plan does not name them."""

    PREVIOUS = "previous"
    """The image before it."""
    HISTORY = "history"
    """All images so far, the user's first. Only the latest if the generator takes fewer."""


class DriftControl(Value):
    """Measures against drift and contradictions. All are off by default, as in the paper."""

    keep: bool = False
    """Whether to copy unchanged areas from the image that a step starts from."""
    align: bool = False
    """Whether to align brightness and tint to that image."""
    anchor_every: int | None = Field(default=None, ge=1, le=10_000)
    """Number of steps after which an image is drawn from the description of its whole scene."""
    rollbacks: int = Field(default=0, ge=0, le=100)
    """Maximum returns to an earlier step after a step stays rejected."""
    drift_limit: float | None = Field(default=None, gt=0, le=255)
    """Drift of the unchanged area, in levels of 255, above which a step is redrawn once from its scene."""
    audits: int = Field(default=0, ge=0, le=10)
    """Maximum audits of the whole document. Each redraws the steps that contradict the others."""

    @property
    def need_scenes(self) -> bool:
        """Whether the planner must describe the whole scene of each step."""
        return self.anchor_every is not None or self.audits > 0 or self.drift_limit is not None

    @property
    def decides_under_way(self) -> bool:
        """Whether a run may return to earlier steps before all steps are drawn."""
        return self.rollbacks > 0 or self.drift_limit is not None

    def re_anchors(self, place: int) -> bool:
        """Return whether the image at this place of a chain, from 1, is drawn from its scene."""
        return self.anchor_every is not None and place > 1 and (place - 1) % self.anchor_every == 0


NO_DRIFT_CONTROL = DriftControl()
_NUMBERS = {
    "anchor": ("anchor_every", int),
    "rollback": ("rollbacks", int),
    "drift": ("drift_limit", float),
    "audit": ("audits", int),
}
_SWITCHES = ("keep", "align")


def parse_drift_control(text: str) -> DriftControl:
    """Parse drift control such as `keep,anchor=5,rollback=2`. `none` and an empty text turn it off."""
    found: dict[str, Any] = {}
    for piece in filter(None, (each.strip() for each in text.split(","))):
        name, _, number = piece.partition("=")
        if name in _SWITCHES and not number:
            found[name] = True
        elif name in _NUMBERS and number:
            field, kind = _NUMBERS[name]
            try:
                found[field] = kind(number)
            except ValueError:
                raise ConfigurationError(f"drift_control={text}: {piece!r} needs a number") from None
        elif name in _NUMBERS:
            raise ConfigurationError(f"drift_control={text}: {name} needs a number, such as {name}=2")
        elif piece != "none":
            known = (*_SWITCHES, *_NUMBERS, "none")
            raise ConfigurationError(f"no drift control {piece!r}. {did_you_mean(name, known)}")
    try:
        return DriftControl(**found)
    except ValidationError as error:
        first = error.errors()[0]
        raise ConfigurationError(f"drift_control={text}: {first['loc'][0]}: {first['msg'].lower()}") from None


def format_drift_control(drift_control: DriftControl) -> str:
    """Return the text that `parse_drift_control` reads."""
    values = drift_control.model_dump(exclude_defaults=True)
    numbers = {field: name for name, (field, _) in _NUMBERS.items()}
    said = [f"{numbers[name]}={value}" if name in numbers else name for name, value in values.items()]
    return ",".join(said) or "none"


@dataclass(frozen=True)
class Rules:
    """Settings that determine the result of a run, besides its models and prompts."""

    max_attempts: int = 5
    seed: int = 0
    sources: SourceRule = SourceRule.PREVIOUS
    choose: str = DEFAULT_CHOICE
    """Policy that selects the attempt to show."""
    anchor_every: int | None = None
    """Number of steps after which an image is drawn from the description of its whole scene."""
    in_line: bool = False
    """Whether dependent steps are drawn strictly in order, because the run may return to an earlier one."""

    def __post_init__(self) -> None:
        if self.max_attempts < 1:
            raise ConfigurationError("max_attempts must be at least 1: a step is drawn before it is judged")

    def better_of(self, best: Judgeable | None, latest: Judgeable) -> Judgeable:
        """Return the attempt to show: the best so far or the latest."""
        return policy_named(self.choose)(best, latest)


class RoleConfig(Value):
    """The model of one role."""

    spec: str
    """Spec string. For a Python object, `object:` and the name of its class."""
    note: str | None = None
    """Note about the model for readers of the document."""

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
        """Display name: the spec, or the class of an object."""
        return self.object_name if self.is_object else self.spec

    @property
    def parsed(self) -> Spec:
        """The parsed spec. Raises for a model that was given as an object."""
        return parse_spec(self.spec)

    @property
    def identity(self) -> str:
        """The spec without options that only affect speed."""
        return self.spec if self.is_object else str(without_tuning(self.parsed))


class PackConfig(Value):
    """Prompt pack of a run."""

    name: str
    version: str
    digest: str


class RunConfig(Value):
    """Everything that determines the result of a run. A folder is continued only with an equal one."""

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
    """Maximum steps per chapter, if the plan is written in chapters."""
    plan: Plan | None = None
    """Plan given by the user. No planner is asked then."""
    remedies: DriftControl = Field(
        default=NO_DRIFT_CONTROL, exclude_if=lambda value: value == NO_DRIFT_CONTROL
    )
    """Drift control. Omitted if off, so that earlier versions can read the run."""
    sheets: bool = Field(default=False, exclude_if=lambda value: not value)
    """Whether to draw a reference sheet first for each asset that has a description and no image."""
    identity: str | None = WRITTEN_IF_GIVEN
    """Model that measures the identity of assets. `None`: compare their colours."""
    safety: tuple[str, ...] = Field(default=(), exclude_if=lambda value: not value)
    """Specs of the safety checks."""
    nearest: bool = Field(default=False, exclude_if=lambda value: not value)
    """Whether words that the planner does not know are exchanged for their neighbours."""

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
        """Notes about the models for readers, without duplicates."""
        return tuple(dict.fromkeys(role.note for role in self.asked.values() if role.note))

    @property
    def asked(self) -> dict[str, RoleConfig]:
        """Models of the run by role, without a planner if the plan is given."""
        planner = {} if self.plan else {"planner": self.planner}
        return {**planner, "critic": self.critic, "generator": self.generator}


class Limits(Value):
    """Limits that end a run early. They do not change its content up to that point."""

    max_calls: int | None = Field(default=None, ge=1)
    max_seconds: float | None = Field(default=None, gt=0)
    max_cost: float | None = Field(default=None, ge=0)
    """US dollars."""


def differences(ours: RunConfig, theirs: RunConfig) -> list[str]:
    """Return the differences between two configurations for an error message, ignoring tuning options."""
    left, right = _deciding(ours), _deciding(theirs)
    names = dict.fromkeys([*left, *right])
    return [
        _contrast(name, left.get(name), right.get(name))
        for name in names
        if left.get(name) != right.get(name)
    ]


def _contrast(name: str, ours: Any, theirs: Any) -> str:
    here, there = _brief(ours), _brief(theirs)
    return f"{name} is {there} there and {here} here" if here != there else f"{name} differs"


def _deciding(config: RunConfig) -> dict[str, Any]:
    values = config.model_dump(mode="json")
    for role in ("planner", "critic", "generator"):
        values[role] = {"spec": getattr(config, role).identity}  # the note follows from the spec
    return values


def _brief(value: Any) -> str:
    if isinstance(value, dict):
        value = value.get("spec") or value.get("digest") or "given"
    return "none" if value is None else repr(value)

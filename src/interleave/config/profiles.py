"""Profiles: named sets of models, prompts and rules, as TOML files.

# interleave generate "…" --profile dry-run
prompts = "default"
[planner]
spec = "scripted"              # a spec string, or its parts as keys:
[generator]
backend = "solid"              # backend, model, base_url, and every option of the backend
delay = 0.2
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from pydantic import AliasChoices, ConfigDict, Field, ValidationError, model_validator

from interleave import entry_points
from interleave.config.run_config import DEFAULT_CHOICE, Choice, SourceRule
from interleave.config.specs import Spec, parse_spec
from interleave.errors import ConfigurationError, MissingDependency, did_you_mean
from interleave.files import parse_toml, read_text, why
from interleave.types import Value

SHIPPED = Path(__file__).parent.parent / "profiles"
DEFAULT_PROFILE = "mini"
DRY_RUN_PROFILE = "dry-run"


class RoleTable(Value):
    """One model of a profile. Other keys are options of its backend."""

    model_config = ConfigDict(frozen=True, extra="allow")

    spec: str | None = None
    backend: str | None = None
    model: str | None = None
    base_url: str | None = None

    @model_validator(mode="before")
    @classmethod
    def a_text_is_a_spec(cls, value: Any) -> Any:
        return {"spec": value} if isinstance(value, str) else value

    def as_spec(self, role: str) -> Spec:
        if (self.spec is None) == (self.backend is None):
            raise ConfigurationError(f"[{role}] of a profile needs either 'spec' or 'backend'")
        base = parse_spec(self.spec) if self.spec is not None else Spec(self.backend or "")
        options = {key: _as_text(value, key, role) for key, value in (self.model_extra or {}).items()}
        spec = Spec(
            base.name, self.model or base.model, self.base_url or base.base_url, base.options | options
        )
        # A run records its models as spec strings, so values that a spec string cannot express are refused.
        if (self.spec is None or spec != base) and parse_spec(str(spec)) != spec:
            raise ConfigurationError(
                f"[{role}] of a profile: the spec {str(spec)!r} would be parsed differently: "
                "a backend or model cannot contain '?' or an address (write a whole spec as spec = …)"
            )
        return spec


class Profile(Value):
    """A named set of models, prompts and rules."""

    description: str = ""
    prompts: str = "default"
    planner: RoleTable
    critic: RoleTable
    generator: RoleTable
    max_attempts: int = Field(default=5, ge=1, le=100)
    max_steps: int = Field(default=50, ge=1, le=10_000)
    sources: SourceRule = SourceRule.PREVIOUS
    choose: Choice = DEFAULT_CHOICE
    chapter_steps: int | None = Field(default=None, ge=1, le=1000)
    """Maximum steps per chapter, if the plan is written in chapters."""
    remedies: str = Field(default="", validation_alias=AliasChoices("drift_control", "remedies"))
    """Drift control, such as `keep,anchor=5`. Written as `drift_control` or `remedies`."""
    sheets: bool = Field(default=False, validation_alias=AliasChoices("reference_sheets", "sheets"))
    """Whether to draw reference sheets. Written as `reference_sheets` or `sheets`."""
    identity: str = ""
    """Model that measures the identity of assets."""
    safety: tuple[str, ...] = ()
    """Specs of safety checks, made before those of the user."""


def config_folder() -> Path | None:
    """Return the folder of a user's profiles and prompt packs. `None` if the user has no home folder.

    It is `$INTERLEAVE_CONFIG`, else `interleave` in the configuration folder of the platform.
    """
    if own := os.environ.get("INTERLEAVE_CONFIG"):
        return Path(own)
    if xdg := os.environ.get("XDG_CONFIG_HOME"):
        return Path(xdg) / "interleave"
    try:
        return Path.home() / ".config" / "interleave"
    except RuntimeError:
        return None


def default_profile() -> str:
    """Return the default profile: `$INTERLEAVE_PROFILE`, else `mini`."""
    return os.environ.get("INTERLEAVE_PROFILE") or DEFAULT_PROFILE


def load_profile(name: str | None = None) -> Profile:
    """Return the profile with this name or in this `.toml` file."""
    name = name or default_profile()
    path = Path(name) if name.endswith(".toml") else profile_files().get(name)
    if path is None and name == DEFAULT_PROFILE:
        raise MissingDependency(
            f"the default profile {name!r} needs the miniature, which is not installed: choose "
            "another profile with profile=NAME, or go to a clone. Install it with: pip install . ./mini"
        )
    if path is None:
        raise ConfigurationError(f"no profile named {name!r}. {did_you_mean(name, profile_files())}")
    return _read(path)


def profile_files() -> dict[str, Path]:
    """Return profile names and their files. A user's profile hides a shipped one of the same name."""
    own = config_folder()
    folders = [*entry_points.folders("profiles"), SHIPPED, *([own / "profiles"] if own else [])]
    return {path.stem: path for folder in folders for path in sorted(folder.glob("*.toml"))}


def _as_text(value: Any, key: str, role: str) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str | int | float):
        return str(value)
    raise ConfigurationError(f"[{role}] of a profile: {key!r} must be text, a number, true or false")


def _read(path: Path) -> Profile:
    try:
        return Profile.model_validate(parse_toml(read_text(path)))
    except FileNotFoundError:
        raise ConfigurationError(f"the profile {str(path)!r} does not exist") from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"the profile {str(path)!r} cannot be read ({why(error)})") from None
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"the profile {str(path)!r} is not valid TOML: {error}") from None
    except ValidationError as error:
        first = min(
            error.errors(), key=lambda each: each["type"] != "extra_forbidden"
        )  # a typo explains the rest
        key = ".".join(str(place) for place in first["loc"])
        if first["type"] == "extra_forbidden":
            hint = did_you_mean(key, (*Profile.model_fields, "drift_control", "reference_sheets"))
            raise ConfigurationError(f"the profile {str(path)!r} has no key {key!r}. {hint}") from None
        raise ConfigurationError(f"the profile {str(path)!r}: {key}: {first['msg'].lower()}") from None

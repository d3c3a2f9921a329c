"""Actions of a run folder that need its user's permission.

A run is continued with the models that its folder names, and a folder may come from anywhere. Typing a spec
grants permission; a spec read from a folder has none. Without permission, a folder may name any model and any
address, with these exceptions:

    NAME@https://host    send a key to an address, except the usual key of a well-known service
    FILE@https://host    send a file of this machine to another one (a ComfyUI workflow), or let a file
                         define what is sent to an address, including keys (an API description)
    addresses@FILE       let a file of this machine define which servers are called
    code@MODEL           run code that comes with a model
    price=0@https://host set the price of a service that is paid with the usual key
    SPEC                 give an address to a backend of an installed package, whose keys are unknown here

A permission is one of the texts on the left, exactly as written, passed with `--allow` or INTERLEAVE_ALLOW.
"""

from __future__ import annotations

import os
import pkgutil
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from interleave.backends.registry import GENERATORS, GROUPS, VLMS, find_backend
from interleave.config.run_config import RoleConfig, RunConfig
from interleave.config.specs import Spec, parse_spec
from interleave.errors import ConfigurationError, InputError, RunError
from interleave.redaction import secret_in
from interleave.types import Request

ALLOW_VARIABLE = "INTERLEAVE_ALLOW"
_FALSE = {"false", "0", "no", "off", "n", "f"}


@dataclass(frozen=True)
class Permission:
    """An action that a folder may take only if its user allows it."""

    text: str
    """Value that the user passes to `--allow`."""
    meaning: str


def required_permissions(config: RunConfig, generators: Iterable[RoleConfig] = ()) -> tuple[Permission, ...]:
    """Return the permissions that the specs of a configuration need, without duplicates.

    `generators` are the additional generators of single steps.
    """
    roles = (*(() if config.plan else (config.planner,)), config.critic, config.generator, *generators)
    specs = [role.parsed for role in roles if not role.is_object]
    specs += [parse_spec(each.removeprefix("ask:")) for each in config.safety if each.startswith("ask:")]
    return tuple(dict.fromkeys(permission for spec in specs for permission in _permissions(spec)))


def permissions_of(spec: str) -> tuple[str, ...]:
    """Return the permissions that typing a spec grants."""
    return tuple(permission.text for permission in _permissions(parse_spec(spec)))


def refuse_unallowed(
    folder: Path,
    config: RunConfig,
    allowed: Iterable[str],
    *,
    generators: Iterable[RoleConfig] = (),
    decides: bool = False,
) -> None:
    """Raise `RunError` for missing permissions of a folder; the message has the command that allows them.

    With `decides`, the command also makes a decision, which is not recorded yet: it must be repeated.
    """
    given, generators = {*allowed, *_allowed_everywhere()}, tuple(generators)
    missing = [each for each in required_permissions(config, generators) if each.text not in given]
    if missing:
        asked = ", ".join(each.meaning for each in missing)
        command = resume_command(folder, config, generators)
        advice = f", repeat this with allow={[each.text for each in missing]}" if decides else f": {command}"
        raise RunError(f"{folder} asks to {asked}, which needs your permission. If you trust it{advice}")


def refuse_keys_in(request: Request, config: RunConfig) -> None:
    """Refuse a request or plan that contains a key in use: it would reach models and the run folder."""
    described = "\n".join((request.text, *(asset.description for asset in request.assets)))
    if variable := secret_in(described) or secret_in(config.model_dump_json()):
        raise InputError(f"the request or its plan contains the key in {variable}: remove it")


def resume_command(
    folder: Path, config: RunConfig, generators: Iterable[RoleConfig] = (), action: str = ""
) -> str:
    """Return the command that continues a run, or edits it, with the permissions that its specs need."""
    needed = required_permissions(config, generators)
    allowed = [option for each in needed for option in ("--allow", each.text)]
    words = ["edit", str(folder), action] if action else ["resume", str(folder)]
    return shlex.join(["interleave", *words, *allowed])


def way_back(folder: Path, config: RunConfig) -> str:
    """Return a sentence with the command that undoes the last decision, and so the need for its generator."""
    return f"To undo the last decision instead: {resume_command(folder, config, action='undo')}"


def _allowed_everywhere() -> list[str]:
    try:
        return shlex.split(os.environ.get(ALLOW_VARIABLE, ""))
    except ValueError as error:
        raise ConfigurationError(
            f"{ALLOW_VARIABLE} cannot be read ({error}): quote its words as in a shell"
        ) from None


def _permissions(spec: Spec) -> Iterator[Permission]:
    info = find_backend(spec.name, *GROUPS)
    if info is not None and info.asks:
        if not info.missing:  # without its packages it cannot be loaded
            yield from (Permission(*asked) for asked in pkgutil.resolve_name(info.asks)(spec))
    elif spec.name not in GENERATORS | VLMS and "://" in str(spec):
        yield Permission(str(spec), f"use the backend {spec.name!r} of another package as {str(spec)!r}")
    if spec.options.get("trust_remote_code", "false").lower() not in _FALSE:
        model = "@".join(filter(None, [spec.model, spec.options.get("revision")]))
        yield Permission(f"code@{model}", f"run code that comes with the model {model!r}")

"""What a run folder may do only with its user's permission.

A run is continued with the models that its folder names, and a folder may come from anywhere. Typing a spec
gives permission; a spec that is read from a folder has none. Without permission it may name any model and any
address, but

    NAME@https://host    no key goes to an address, but for the usual key of a well-known service
    FILE@https://host    no file of this machine goes to another one (a workflow for ComfyUI), and no
                         file says what goes to an address, keys included (the description of an API)
    addresses@FILE       no file of this machine says which servers are called
    code@MODEL           no code that comes with a model is run
    price=0@https://host no price is taken from it for a service that is paid with the usual key
    SPEC                 no backend of an installed package gets an address: its keys are not known here

A permission is one of the texts on the left, exactly as written, with `--allow` or in INTERLEAVE_ALLOW.
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
    """Something that a folder may do only if its user allows it."""

    text: str
    """What the user passes to `--allow`."""
    meaning: str


def required_permissions(config: RunConfig, generators: Iterable[RoleConfig] = ()) -> tuple[Permission, ...]:
    """The permissions that the specs of a configuration need, without repeats.

    `generators` are those that single steps of the run are drawn by, besides its own.
    """
    roles = (*(() if config.plan else (config.planner,)), config.critic, config.generator, *generators)
    specs = [role.parsed for role in roles if not role.is_object]
    return tuple(dict.fromkeys(permission for spec in specs for permission in _permissions(spec)))


def permissions_of(spec: str) -> tuple[str, ...]:
    """The words that allow a spec, for a user who has typed it."""
    return tuple(permission.text for permission in _permissions(parse_spec(spec)))


def refuse_unallowed(
    folder: Path,
    config: RunConfig,
    allowed: Iterable[str],
    *,
    generators: Iterable[RoleConfig] = (),
    decides: bool = False,
) -> None:
    """Refuse what a folder needs and its user has not allowed; the error has the command that allows it.

    A command that also decides something is not recorded yet: it has to be repeated with the permissions.
    """
    given, generators = {*allowed, *_allowed_everywhere()}, tuple(generators)
    missing = [each for each in required_permissions(config, generators) if each.text not in given]
    if missing:
        asked = ", ".join(each.meaning for each in missing)
        options = shlex.join(option for each in missing for option in ("--allow", each.text))
        command = resume_command(folder, config, generators)
        advice = f"If you trust it, repeat this with {options}" if decides else f"If you trust it: {command}"
        raise RunError(f"{folder} asks to {asked}, which no folder may without your word. {advice}")


def refuse_keys_in(request: Request, config: RunConfig) -> None:
    """Refuse a request or plan that contains a key in use: it would go to models, and into the folder."""
    described = "\n".join((request.text, *(asset.description for asset in request.assets)))
    if variable := secret_in(described) or secret_in(config.model_dump_json()):
        raise InputError(f"the request or its plan contains the key in {variable}: take it out")


def resume_command(folder: Path, config: RunConfig, generators: Iterable[RoleConfig] = ()) -> str:
    """The command that continues a run, with the permissions of the user who typed its specs."""
    needed = required_permissions(config, generators)
    allowed = [option for each in needed for option in ("--allow", each.text)]
    return shlex.join(["interleave", "resume", str(folder), *allowed])


def way_back(folder: Path, config: RunConfig) -> str:
    """How to undo the last decision about a run, as a sentence; the generator it named is then not needed."""
    return f"To undo the last decision instead: {resume_command(folder, config)} --undo"


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
        if not info.missing:  # without its packages it is not going to be loaded
            yield from (Permission(*asked) for asked in pkgutil.resolve_name(info.asks)(spec))
    elif spec.name not in GENERATORS | VLMS and "://" in str(spec):
        yield Permission(str(spec), f"use the backend {spec.name!r} of another package as {str(spec)!r}")
    if spec.options.get("trust_remote_code", "false").lower() not in _FALSE:
        model = "@".join(filter(None, [spec.model, spec.options.get("revision")]))
        yield Permission(f"code@{model}", f"run code that comes with the model {model!r}")

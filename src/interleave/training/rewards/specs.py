"""Are generator and scorer named rightly? Found out before anything is loaded or called."""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping

from pydantic import ValidationError

from interleave.backends.registry import AGENTS, Row, known_generators, known_vlms
from interleave.backends.specs import parse_spec
from interleave.errors import ConfigurationError, MissingDependency, did_you_mean
from interleave.training.wording import first_problem


def check_specs(generator: str, scorer: str) -> None:
    """Refuse names that nobody has, options that they do not take, and packages that are not there."""
    named = {"generator": generator, "scorer": scorer}
    if missing := [role for role, spec in named.items() if not spec]:
        wanted = " and ".join(f"--{role} SPEC" for role in missing)
        raise ConfigurationError(f"which {' and which '.join(missing)}? Name it with {wanted}")
    _check(generator, known_generators(), "image generator")
    _check(scorer, known_vlms() | AGENTS, "scorer")


def _check(spec: str, rows: Mapping[str, Row], kind: str) -> None:
    parsed = parse_spec(spec)
    row = rows.get(parsed.name)
    if row is None:
        raise ConfigurationError(
            f"no {kind} named {parsed.name!r} (from {spec!r}). {did_you_mean(parsed.name, rows)}"
        )
    if row.missing:
        raise MissingDependency(
            f"the {kind} {parsed.name!r} needs the package {row.missing[0]!r}, which is not installed. "
            f"Install it with: {row.install}"
        )
    options = getattr(pkgutil.resolve_name(row.target.partition("[")[0].strip()), "Options", None)
    if options is None:
        return  # no backend: loading it says so
    for key in parsed.options:
        if key not in options.model_fields:
            known = did_you_mean(key, options.model_fields)
            raise ConfigurationError(f"{parsed.name!r} has no option {key!r}. {known}")
    try:
        options.model_validate(parsed.options)
    except ValidationError as error:
        raise ConfigurationError(f"{spec!r}: the option {first_problem(error)}") from None

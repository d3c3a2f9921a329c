"""Models that say whether an asset is still itself: backends with a class for it, by their specs."""

from __future__ import annotations

import pkgutil
from functools import lru_cache
from typing import Any

from interleave.backends.registry import find_backend
from interleave.config.specs import Spec, parse_spec
from interleave.drift.measures import NamedMeasure
from interleave.errors import ConfigurationError

COLOURS = "colours"
"""The name of the measure that is built in."""


def checked_identity(text: str | None) -> str | None:
    """The spec of a model for identities, checked but not loaded; None for the colours."""
    if not text or text == COLOURS:
        return None
    spec = parse_spec(text)
    _measure_of(spec).check(spec)
    return text


@lru_cache(maxsize=4)
def identity_model(text: str) -> NamedMeasure:
    """The measure of a spec, loaded once for all runs of a process."""
    spec = parse_spec(text)
    measure: NamedMeasure = _measure_of(spec)(spec)
    return measure


def _measure_of(spec: Spec) -> Any:
    info = find_backend(spec.name, "vlm")
    if info is None or not info.identity:
        raise ConfigurationError(
            f"identity is measured by {COLOURS!r}, or by a model such as "
            f"'transformers:facebook/dinov2-small', not by {str(spec)!r}"
        )
    return pkgutil.resolve_name(info.identity)

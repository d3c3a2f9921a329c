"""Backends by name: tables of the shipped ones, and entry points of plugins.

A package adds a backend with an entry point in one of the groups `interleave.generators`, `interleave.vlms`
and `interleave.agents` (see `interleave.entry_points`). It names a class, or a `BackendInfo` that describes
one. The class is built with the keyword arguments `spec`, `options` and, if it has such a parameter, `role`.
`options` is an instance of its inner `Options` model, which lists its keys. `concurrency` and `timeout` are
accepted and enforced for every backend, `strict` for every model that is a critic.
"""

from __future__ import annotations

import inspect
import logging
import pkgutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import EntryPoint
from typing import Any, Literal, cast

from pydantic import BaseModel, ValidationError

from interleave import entry_points
from interleave.backends.protocols import ImageGenerator, VisionLanguageModel
from interleave.backends.retries import keep_limits
from interleave.config.specs import BackendOptions, CriticOptions, Spec, parse_spec
from interleave.errors import (
    ConfigurationError,
    InterleaveError,
    MissingDependency,
    did_you_mean,
    problem_with,
)
from interleave.types import Request

logger = logging.getLogger(__name__)

Kind = Literal["generator", "vlm", "agent"]


@dataclass(frozen=True)
class BackendInfo:
    """One backend: its class, its requirements, and notes for readers of its results."""

    target: str
    """The class, as `package.module:Class`."""
    summary: str
    needs: tuple[str, ...] = ()
    """Packages that must be importable."""
    extra: str | None = None
    """The extra of this distribution that installs them."""
    takes: str | None = None
    """Function of a request and the spec's options that returns the request, with a `Reading` that suits this
    planner, or raises `InputError`. Called before the backend is loaded. With the option `nearest`, it
    exchanges unknown words for their neighbours."""
    suggests: str | None = None
    """Function of a text and `n` that returns up to `n` example requests this planner accepts: the nearest to
    the text first, or varied ones for an empty text. Called before the backend is loaded."""
    finds: str | None = None
    """Function of a spec that raises `ConfigurationError` if its model is unavailable. Loads nothing."""
    tiny: str | None = None
    """Function of a spec, a role and a folder that writes a tiny model of the same class with random weights
    there and returns its spec, for `backends check --tiny`."""
    identity: str | None = None
    """Class built from a spec that measures how much an asset resembles its reference image, for `identity=`.
    Its `check` refuses a spec without loading anything."""
    draws: str | None = None
    """Function that raises `InputError` for a prompt this generator cannot follow."""
    chains: str | None = None
    """Class that makes chains of edits with known ground truth for this generator, for `bench drift`."""
    asks: str | None = None
    """Function of a spec that yields the permissions a run folder needs for it, each as the text for `allow=`
    and its meaning. `None`: a spec with an address needs one permission for the whole spec."""
    light: bool = False
    """Whether it can be built without weights or calls, so that a check may build it."""
    writes: bool = False
    """Whether it is a native system: a `DocumentModel`, used in place of a planner."""
    generators: tuple[str, ...] = ()
    """For a planner or critic: names of the generators that it was made for. Empty: any."""
    key: str | None = None
    """Environment variable with the key of its vendor's service."""
    note: str | None = None
    """Note on every document made with it, if readers could be misled. {} is replaced by its contribution."""
    notes_on: Mapping[str, str] = field(default_factory=dict)
    """Additional notes, by the option of the spec that they apply to."""

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(package for package in self.needs if not entry_points.is_importable(package))

    @property
    def install(self) -> str:
        """Command that installs its requirements."""
        if self.extra:
            return f'pip install "interleavethinker[{self.extra}]"'
        return f"pip install {' '.join(self.needs)}" if self.needs else ""


WORK_OF = {"planner": "The plan comes", "critic": "The verdicts come", "generator": "The images come"}

GENERATORS = {
    "solid": BackendInfo(
        "interleave.backends.fakes:SolidGenerator",
        "paints a simple pattern that builds on its source; a fake for dry runs and tests",
        note="{} from the built-in fake “solid”; no image model took part.",
        light=True,
    ),
    "none": BackendInfo(
        "interleave.backends.fakes:NoGenerator",
        "keeps a native system's document as it is",
        light=True,
    ),
}

VLMS = {
    "scripted": BackendInfo(
        "interleave.backends.fakes:ScriptedVlm",
        "answers from a JSONL file, or by a fixed rule; a fake for dry runs and tests",
        note="{} from the built-in fake “scripted”; no language model took part.",
        light=True,
    ),
}

AGENTS = {
    "none": BackendInfo(
        "interleave.agents.critic:NoAgent",
        "omits a role: the planner (one image of the request) or the critic (accepts all)",
        note="{} from “none”, which omits this role; no model took part.",
        light=True,
    ),
    "solid-document": BackendInfo(
        "interleave.backends.fakes:SolidDocument",
        "writes a whole document; a fake of a native system",
        note="Text and images come from the built-in fake “solid-document”; no model took part.",
        light=True,
        writes=True,
    ),
}

SHIPPED: dict[Kind, Mapping[str, BackendInfo]] = {"generator": GENERATORS, "vlm": VLMS, "agent": AGENTS}
GROUPS: dict[Kind, str] = {"generator": "generators", "vlm": "vlms", "agent": "agents"}
"""Entry-point group of each kind. Agents compute plans, verdicts or scores without prompts."""
AGENT_KINDS: tuple[Kind, ...] = ("vlm", "agent")
"""Kinds of backend that can be a planner, critic or scorer."""


def load_generator(spec: str | Spec) -> ImageGenerator:
    """Build an image generator from a spec such as ``"solid?delay=0.2"``."""
    return cast(ImageGenerator, _load(spec, ("generator",), "image generator", role="generator"))


def load_vlm(spec: str | Spec, role: str) -> VisionLanguageModel:
    """Build a vision-language model for a role (`planner`, `critic`, `scorer`, …) from a spec."""
    return cast(VisionLanguageModel, _load(spec, ("vlm",), "vision-language model", role=role))


def load_agent(spec: str | Spec, role: str) -> Any:
    """Build the backend of a role: an agent that computes, or a vision-language model to prompt."""
    return _load(spec, AGENT_KINDS, role, role=role)


def check_generator(spec: str | Spec) -> None:
    """Refuse an unknown name, unknown options or a missing package, without loading weights."""
    _look_up(spec, ("generator",), "image generator", "generator")


def check_agent(spec: str | Spec, role: str) -> None:
    """Check the backend of a planner, critic or scorer like `check_generator`."""
    _look_up(spec, AGENT_KINDS, role, role)


def refuse_unloadable(spec: str | Spec, role: str) -> None:
    """Raise the errors of `load_generator` or `load_agent`, such as a missing key; loads no weights."""
    what, kinds = ("image generator", ("generator",)) if role == "generator" else (role, AGENT_KINDS)
    info = find_backend(_parsed(spec).name, *kinds)
    if info is not None and info.light:
        _load(spec, kinds, what, role=role)
        return
    _look_up(spec, kinds, what, role)
    if role == "generator":
        look_for_model(spec)


def require_backend(spec: str | Spec, role: str) -> None:
    """Check a backend like `refuse_unloadable`, without importing heavy packages."""
    info = find_backend(_parsed(spec).name, *(("generator",) if role == "generator" else AGENT_KINDS))
    if info is None or info.light or info.missing:
        refuse_unloadable(spec, role)


def look_for_model(generator: str | Spec) -> None:
    """Raise `ConfigurationError` if the model of a generator is unavailable, without loading weights."""
    parsed = _parsed(generator)
    info = find_backend(parsed.name, "generator")
    if info is not None and info.finds:
        pkgutil.resolve_name(info.finds)(parsed)


def writes_documents(spec: str | Spec) -> bool:
    """Return whether a spec names a native system."""
    info = find_backend(_parsed(spec).name, "agent")
    return info is not None and info.writes


def is_agent(spec: str | Spec) -> bool:
    """Return whether a spec names an agent that computes, rather than a model to prompt."""
    return _parsed(spec).name in known_names("agent")


def adapt_request(request: Request, planner: str | Spec, *, nearest: bool = False) -> Request:
    """Return the request with the reading that suits this planner. Raises `InputError` if it is unusable."""
    parsed = _parsed(planner)
    info = find_backend(parsed.name, *AGENT_KINDS)
    if info is None or not info.takes:
        return request
    options = {**parsed.options, **({"nearest": "true"} if nearest else {})}
    return cast(Request, pkgutil.resolve_name(info.takes)(request, options))


def suggested_requests(text: str, planner: str | Spec, number: int) -> list[str]:
    """Return up to `number` example requests this planner accepts. Empty if it accepts any request."""
    info = find_backend(_parsed(planner).name, *AGENT_KINDS)
    if info is None or not info.suggests:
        return []
    return cast(list[str], pkgutil.resolve_name(info.suggests)(text, number))


def refuse_undrawable(prompts: Iterable[str], generator: str | Spec) -> None:
    """Raise `InputError` for a prompt that this generator is known not to follow."""
    info = find_backend(_parsed(generator).name, "generator")
    if info is not None and info.draws:
        refuse = pkgutil.resolve_name(info.draws)
        for prompt in prompts:
            refuse(prompt)


def known_names(*kinds: Kind) -> list[str]:
    """Return the names of backends, without importing any."""
    return sorted(
        {name for kind in kinds for name in (*SHIPPED[kind], *entry_points.installed(GROUPS[kind]))}
    )


def known_backends(kind: Kind) -> dict[str, BackendInfo]:
    """Return every backend of a kind. A plugin that cannot be loaded is skipped with a warning."""
    found = dict(SHIPPED[kind])
    for name, point in entry_points.installed(GROUPS[kind]).items():
        try:
            entry_points.load(point, f"the backend {name!r}")
        except ConfigurationError as error:
            logger.warning("interleave: %s (left out)", error)
        else:
            found.setdefault(name, _plugin(point))
    return dict(sorted(found.items()))


def find_backend(name: str, *kinds: Kind) -> BackendInfo | None:
    """Return the backend with this name. A plugin cannot replace a shipped one."""
    for kind in kinds:
        if name in SHIPPED[kind]:
            return SHIPPED[kind][name]
        if (point := entry_points.installed(GROUPS[kind]).get(name)) is not None:
            return _plugin(point)
    return None


@cache
def _plugin(point: EntryPoint) -> BackendInfo:
    """Return the `BackendInfo` that an entry names, or a minimal one for the class that it names."""
    plain = BackendInfo(point.value, f"from the package {entry_points.package_of(point)}")
    try:
        named = entry_points.load(point, f"the backend {point.name!r}")
    except ConfigurationError:  # reported when the backend is used
        return plain
    return named if isinstance(named, BackendInfo) else plain


def _parsed(spec: str | Spec) -> Spec:
    return spec if isinstance(spec, Spec) else parse_spec(spec)


def note_for(spec: str | Spec, *, role: str) -> str | None:
    """Return the note about this backend for readers of a document, if any."""
    parsed = _parsed(spec)
    info = find_backend(parsed.name, *(("generator",) if role == "generator" else AGENT_KINDS))
    if info is None or info.note is None:
        return None
    more = (said for option, said in info.notes_on.items() if option in parsed.options)
    return " ".join([info.note.format(WORK_OF.get(role, "This comes")), *more])


def _load(spec: str | Spec, kinds: tuple[Kind, ...], what: str, *, role: str) -> object:
    backend, parsed, options = _look_up(spec, kinds, what, role)
    parameters = inspect.signature(backend).parameters.values()
    takes_role = any(each.name == "role" or each.kind is each.VAR_KEYWORD for each in parameters)
    built = backend(spec=parsed, options=options, **({"role": role} if takes_role else {}))
    return keep_limits(built, shared_options(parsed), parsed.name)


def _look_up(spec: str | Spec, kinds: tuple[Kind, ...], what: str, role: str) -> tuple[Any, Spec, BaseModel]:
    """Return the class that a spec names, and the spec's options as an instance of its `Options`."""
    parsed = _parsed(spec)
    info = find_backend(parsed.name, *kinds)
    if info is None:
        raise unknown_backend(spec, what, *kinds)
    backend = _import(info, f"the {what} {parsed.name!r}")
    return backend, parsed, _options(backend, parsed, role)


def unknown_backend(spec: str | Spec, what: str, *kinds: Kind) -> ConfigurationError:
    """Return the error for an unknown backend."""
    name = _parsed(spec).name
    return ConfigurationError(
        f"no {what} named {name!r} (from {str(spec)!r}). {did_you_mean(name, known_names(*kinds))}"
    )


def _import(info: BackendInfo, what: str) -> Any:
    if info.missing:
        raise MissingDependency(
            f"{what} needs the package {info.missing[0]!r}, which is not installed. "
            f"Install it with: {info.install}"
        )
    # another package may raise any exception on import
    try:
        backend = pkgutil.resolve_name(info.target.partition("[")[0].strip())
    except InterleaveError:
        raise
    except Exception as error:
        raise ConfigurationError(
            f"{what} ({info.summary}) cannot be loaded from {info.target!r}: {type(error).__name__}: {error}"
        ) from error
    if not hasattr(backend, "Options"):
        raise ConfigurationError(
            f"{what}: {info.target!r} has no inner class Options(BackendOptions); a backend has one, and is "
            "constructed with (*, spec, options): see docs/tutorial/add-a-generator.md"
        )
    return backend


def _options(backend: Any, spec: Spec, role: str) -> BaseModel:
    own, shared = backend.Options.model_fields, set(BackendOptions.model_fields)
    if role == "critic" and not is_agent(spec):
        shared |= set(CriticOptions.model_fields)
        critic_options(spec)
    for key in spec.options:
        if key not in own and key not in shared:
            known = {*own, *shared}
            raise ConfigurationError(f"{spec.name!r} has no option {key!r}. {did_you_mean(key, known)}")
    shared_options(spec)
    return _validated(backend.Options, spec, {key: spec.options[key] for key in spec.options if key in own})


def shared_options(spec: str | Spec) -> BackendOptions:
    """Return the options of a spec that every backend accepts."""
    return cast(BackendOptions, _some_options(BackendOptions, spec))


def critic_options(spec: str | Spec) -> CriticOptions:
    """Return the options of a spec that every vision-language model accepts as a critic."""
    return cast(CriticOptions, _some_options(CriticOptions, spec))


def _some_options(model: type[BaseModel], spec: str | Spec) -> BaseModel:
    parsed = _parsed(spec)
    given = {key: value for key, value in parsed.options.items() if key in model.model_fields}
    return _validated(model, parsed, given)


def _validated(model: Any, spec: Spec, values: Mapping[str, str]) -> BaseModel:
    try:
        return cast(BaseModel, model.model_validate(values))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(place) for place in first["loc"])
        raise ConfigurationError(f"option {key!r} of {str(spec)!r}: {problem_with(first)}") from None

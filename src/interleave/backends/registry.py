"""Names to backends: two tables a reader can see, and entry points for everybody else's.

A third-party package adds a backend with an entry point in the group `interleave.generators` or
`interleave.vlms` that names a class like those below: built with the keyword arguments `spec`, `role` and
`options`, where `options` is an instance of its inner `Options` model, which lists the keys it takes.
"""

from __future__ import annotations

import importlib.util
import os
import pkgutil
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import entry_points
from typing import Any, cast

from pydantic import BaseModel, ValidationError

from interleave.backends.protocols import ImageGenerator, VisionLanguageModel
from interleave.config.specs import Spec, parse_spec
from interleave.errors import ConfigurationError, InterleaveError, MissingDependency, did_you_mean
from interleave.types import Request
from interleave.validation_errors import problem_with


@dataclass(frozen=True)
class Row:
    """One backend: where its class is, what it needs, and what a reader of its results must be told."""

    target: str
    summary: str
    needs: tuple[str, ...] = ()
    """Packages that must be importable."""
    extra: str | None = None
    """The extra of this distribution that installs them."""
    takes: str | None = None
    """A function of a request and the spec's options that gives the request as this planner reads it best, or
    raises `InputError` for one it cannot take; asked before it is loaded."""
    draws: str | None = None
    """A function that raises `InputError` for a prompt this generator cannot follow."""
    key: str | None = None
    """The environment variable with the key, where its makers' own service is meant."""
    note: str | None = None
    """Said on every document made with it, when it is not what a reader would take it for; {} is its work."""
    notes_on: Mapping[str, str] = field(default_factory=dict)
    """Said besides, where its spec has this option."""

    @property
    def missing(self) -> tuple[str, ...]:
        return tuple(package for package in self.needs if not _installed(package))

    @property
    def install(self) -> str:
        """The command that installs what it needs."""
        if self.extra:
            return f'pip install "interleavethinker[{self.extra}]"'
        return f"pip install {' '.join(self.needs)}" if self.needs else ""


def _installed(package: str) -> bool:
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # not even the package around it
        return False


WORK_OF = {"planner": "The plan comes", "critic": "The verdicts come", "generator": "The pictures come"}

LOCAL_NEEDS = ("torch", "transformers", "diffusers", "accelerate", "peft")

GENERATORS = {
    "mini": Row(
        "interleave_mini.backends.mini_generator:MiniGenerator",
        "the miniature's own model, a small FLUX.2-klein that ships with this package and runs on a CPU",
        needs=LOCAL_NEEDS,
        extra="local",
        draws="interleave_mini.vocabulary_check:refuse_foreign_prompt",
    ),
    "diffusers": Row(
        "interleave.backends.generators.diffusers:DiffusersGenerator",
        "an image model in this process: FLUX.2 and FLUX.1, Qwen-Image, LongCat-Image, OmniGen",
        needs=LOCAL_NEEDS,
        extra="local",
    ),
    "solid": Row(
        "interleave.backends.generators.solid:SolidGenerator",
        "paints a simple pattern that builds on its source; a double for dry runs and tests",
        note="{} from the built-in double “solid”, which paints patterns; no image model took part.",
    ),
    "world": Row(
        "interleave_mini.backends.world_generator:WorldPainter",
        "the miniature's world as its own perfect painter: draws by rule, not by a model",
        note="{} from “world”, a program that draws the miniature by rule; no image model took part.",
        notes_on={"mistakes": "It errs on purpose now and then."},
    ),
    "openai-images": Row(
        "interleave.backends.generators.openai_images:OpenAIImagesGenerator",
        "OpenAI's image models, and servers that speak their wire: SGLang-Diffusion, vLLM-Omni",
        needs=("openai", "httpx2"),
        extra="api",
        key="OPENAI_API_KEY",
    ),
    "gemini": Row(
        "interleave.backends.generators.gemini:GeminiGenerator",
        "Google's image models: Nano Banana, Nano Banana Pro",
        needs=("google.genai", "httpx2"),
        extra="api",
        key="GEMINI_API_KEY",
    ),
    "http": Row(
        "interleave.backends.generators.http:HttpGenerator",
        "services that speak /edit and /generate: http://host:8011[,http://…] or http:./FILE",
        needs=("httpx2",),
        extra="api",
    ),
    "comfyui": Row(
        "interleave.backends.generators.comfyui:ComfyUIGenerator",
        "a workflow of your own on a ComfyUI server: comfyui:WORKFLOW.json@http://host:8188",
        needs=("httpx2",),
        extra="api",
    ),
}

VLMS = {
    "mini": Row(
        "interleave_mini.backends.mini_vlm:MiniAgent",
        "the miniature's own planner and critic, small Qwen3-VL models that ship with this package",
        needs=LOCAL_NEEDS,
        extra="local",
        note="The miniature's own small models took part: they know its little world alone, and they err.",
        takes="interleave_mini.oracle:suited",
    ),
    "transformers": Row(
        "interleave.backends.vlms.transformers:TransformersVlm",
        "a vision-language model in this process, such as Qwen3-VL",
        needs=LOCAL_NEEDS,
        extra="local",
    ),
    "scripted": Row(
        "interleave.backends.vlms.scripted:ScriptedVlm",
        "answers from a JSONL file, or by a fixed rule; a double for dry runs and tests",
        note="{} from the built-in double “scripted”, which sees nothing and follows a script; "
        "no language model took part.",
    ),
    "openai": Row(
        "interleave.backends.vlms.openai:OpenAIVlm",
        "chat completions of OpenAI, Azure, vLLM, SGLang, Ollama, OpenRouter and so on",
        needs=("openai", "httpx2"),
        extra="api",
        key="OPENAI_API_KEY",
    ),
    "gemini": Row(
        "interleave.backends.vlms.gemini:GeminiVlm",
        "Google's Gemini models",
        needs=("google.genai", "httpx2"),
        extra="api",
        key="GEMINI_API_KEY",
    ),
}

AGENTS = {
    "oracle": Row(
        "interleave_mini.oracle:Oracle",
        "plans, judges and scores by rule in the miniature's world: the teacher and upper bound",
        note="{} from the “oracle”, a program that knows the miniature's language and reads its pictures; "
        "no language model took part.",
        takes="interleave_mini.oracle:suited",
    ),
}
"""Planners, critics and scorers that are no models: they are asked for a plan or a verdict, not for text."""


def load_generator(spec: str | Spec) -> ImageGenerator:
    """Build an image generator from a spec such as ``"solid?delay=0.2"``."""
    return cast(ImageGenerator, _load(spec, known_generators(), "image generator", role="generator"))


def load_vlm(spec: str | Spec, role: str) -> VisionLanguageModel:
    """Build a vision-language model for a role (`planner`, `critic`, `scorer`, …) from a spec."""
    return cast(VisionLanguageModel, _load(spec, known_vlms(), "vision-language model", role=role))


def load_agent(spec: str | Spec, role: str) -> Any:
    """Build what plays a role: an agent that computes, or a vision-language model that is prompted."""
    return _load(spec, known_vlms() | AGENTS, role, role=role)


def check_generator(spec: str | Spec) -> None:
    """Refuse a name nobody has, options it does not take, a package that is missing; loads no weights."""
    _look_up(spec, known_generators(), "image generator")


def check_agent(spec: str | Spec, role: str) -> None:
    """The same for what plays a role."""
    _look_up(spec, known_vlms() | AGENTS, role)


def suited(request: Request, planner: str | Spec) -> Request:
    """The request as this planner reads it best; raises `InputError` when it says that it cannot take it."""
    parsed = planner if isinstance(planner, Spec) else parse_spec(planner)
    row = (known_vlms() | AGENTS).get(parsed.name)
    if row is None or not row.takes:
        return request
    return cast(Request, pkgutil.resolve_name(row.takes)(request, parsed.options))


def refuse_undrawable(prompts: Iterable[str], generator: str | Spec) -> None:
    """Raise `InputError` when this generator says beforehand that it cannot follow one of the prompts."""
    parsed = generator if isinstance(generator, Spec) else parse_spec(generator)
    row = known_generators().get(parsed.name)
    if row is not None and row.draws:
        refuse = pkgutil.resolve_name(row.draws)
        for prompt in prompts:
            refuse(prompt)


def known_generators() -> dict[str, Row]:
    """Every generator by name, ours and those of installed packages; no package can take a name of ours."""
    return _entry_points("interleave.generators") | GENERATORS


def known_vlms() -> dict[str, Row]:
    """Every vision-language model by name, in the same way."""
    return _entry_points("interleave.vlms") | VLMS


def note_for(spec: str | Spec, *, role: str) -> str | None:
    """What a reader of a document must be told about this backend, if anything."""
    parsed = spec if isinstance(spec, Spec) else parse_spec(spec)
    rows = known_generators() if role == "generator" else known_vlms() | AGENTS
    row = rows.get(parsed.name)
    if row is None or row.note is None:
        return None
    more = (said for option, said in row.notes_on.items() if option in parsed.options)
    return " ".join([row.note.format(WORK_OF.get(role, "This comes")), *more])


def _entry_points(group: str) -> dict[str, Row]:
    return dict(_declared(group, tuple((folder, _changed_at(folder)) for folder in sys.path)))


@lru_cache(maxsize=16)
def _declared(group: str, folders: tuple[tuple[str, int], ...]) -> Mapping[str, Row]:
    """Remembered until a package comes or goes: looking through all of them takes longer than a short run."""
    return {
        point.name: Row(point.value, f"from the package {point.dist.name if point.dist else 'unknown'}")
        for point in entry_points(group=group)
    }


def _changed_at(folder: str) -> int:
    """When something was last put into a folder of the path, or taken out of it."""
    try:
        return os.stat(folder or ".").st_mtime_ns
    except OSError:
        return 0


def _load(spec: str | Spec, rows: Mapping[str, Row], kind: str, *, role: str) -> object:
    backend, parsed, options = _look_up(spec, rows, kind)
    return backend(spec=parsed, role=role, options=options)


def _look_up(spec: str | Spec, rows: Mapping[str, Row], kind: str) -> tuple[Any, Spec, BaseModel]:
    """The class a spec names, and the spec's options as that class reads them."""
    parsed = spec if isinstance(spec, Spec) else parse_spec(spec)
    if parsed.name not in rows:
        raise ConfigurationError(
            f"no {kind} named {parsed.name!r} (from {str(spec)!r}). {did_you_mean(parsed.name, rows)}"
        )
    backend = _import(rows[parsed.name], f"the {kind} {parsed.name!r}")
    return backend, parsed, _options(backend, parsed)


def _import(row: Row, what: str) -> Any:
    if row.missing:
        raise MissingDependency(
            f"{what} needs the package {row.missing[0]!r}, which is not installed. "
            f"Install it with: {row.install}"
        )
    # Somebody else's package may raise anything at all while it is imported.
    try:
        backend = pkgutil.resolve_name(row.target.partition("[")[0].strip())
    except InterleaveError:
        raise
    except Exception as error:
        raise ConfigurationError(
            f"{what} ({row.summary}) cannot be loaded from {row.target!r}: {type(error).__name__}: {error}"
        ) from error
    if not hasattr(backend, "Options"):
        raise ConfigurationError(f"{what}: {row.target!r} has no inner class Options, so it is not a backend")
    return backend


def _options(backend: Any, spec: Spec) -> BaseModel:
    known = backend.Options.model_fields
    for key in spec.options:
        if key not in known:
            raise ConfigurationError(f"{spec.name!r} has no option {key!r}. {did_you_mean(key, known)}")
    try:
        return cast(BaseModel, backend.Options.model_validate(spec.options))
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(place) for place in first["loc"])
        raise ConfigurationError(f"option {key!r} of {str(spec)!r}: {problem_with(first)}") from None

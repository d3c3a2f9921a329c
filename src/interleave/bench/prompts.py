"""A judge's prompts: ours (labelled "reworded"), or those of a checkout of the benchmark.

Ours are in `judge_prompts/NAME.toml` next to the benchmark's module, in this package or another: one template
per key, with `{gaps}`. A checkout is parsed, never executed: string constants of its Python files are taken
by name, texts of its JSON files by key, and text files whole.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from interleave import ConfigurationError, InputError, Text
from interleave.plugin import Part, files

OURS = (Path(__file__).parent / "benchmarks",)
"""The folder of this package's benchmarks."""
REWORDED = "reworded"
OFFICIAL = "official"
IMPORTED = "imported"
_GAP = re.compile(r"\{(\w+)\}")
MAX_SOURCE_BYTES = 5_000_000


@dataclass(frozen=True)
class JudgePrompts:
    """Templates by name."""

    label: str
    """`reworded`, `official`, or `imported` for judgements made elsewhere."""
    templates: Mapping[str, str]

    @cached_property
    def digest(self) -> str:
        """Eight hex digits that identify the templates."""
        written = json.dumps([self.label == OFFICIAL, sorted(self.templates.items())])
        return hashlib.sha256(written.encode()).hexdigest()[:8]

    @property
    def identity(self) -> str:
        return f"{self.label}-{self.digest}"

    def fill(self, name: str, **gaps: object) -> str:
        """Fill the gaps of a template. Other braces, such as those of JSON, stay."""
        if name not in self.templates:
            known = ", ".join(sorted(self.templates)) or "none"
            raise ConfigurationError(f"no judge prompt {name!r}: the templates are {known}")
        return _GAP.sub(lambda gap: str(gaps.get(gap[1], gap[0])), self.templates[name])


def on_lines(parts: Iterable[Part]) -> tuple[Part, ...]:
    """Return the parts of a question with adjacent texts joined by newlines."""
    lined: list[Part] = []
    for part in parts:
        last = lined[-1] if lined else None
        if isinstance(part, Text) and isinstance(last, Text):
            lined[-1] = Text(f"{last.text}\n{part.text}")
        else:
            lined.append(part)
    return tuple(lined)


def reworded_prompts(benchmark: str, folders: Sequence[Path] = OURS) -> JudgePrompts:
    """Return the prompts that ship with a benchmark, from the first folder that has them."""
    path = file_of(benchmark, "judge_prompts", folders)
    if path is None:
        raise ConfigurationError(
            f"the benchmark {benchmark!r} has no judge prompts: "
            f"write them into {folders[0] / 'judge_prompts' / benchmark}.toml"
        )
    try:
        templates = tomllib.loads(path.read_text("utf-8"))
    except (OSError, ValueError) as error:
        raise ConfigurationError(f"cannot read {path} ({files.why(error)})") from None
    if other := [key for key, text in templates.items() if not isinstance(text, str)]:
        raise ConfigurationError(f"{path}: {other[0]!r} is not a string; every key must be a template")
    return JudgePrompts(REWORDED, templates)


def file_of(benchmark: str, kind: str, folders: Sequence[Path]) -> Path | None:
    """Return `KIND/NAME.toml` in the first of these folders that has it."""
    paths = (folder / kind / f"{benchmark}.toml" for folder in folders)
    return next((path for path in paths if path.is_file()), None)


@dataclass(frozen=True)
class Constant:
    """The location of a template in a checkout: a name in a Python file, a JSON key, or a whole file."""

    file: str
    name: str | None = None
    gaps: Mapping[str, str] | None = None
    """Upstream's gap names, mapped to ours."""
    text: int | None = None
    """The index of a "text" in the messages of the function of that name, if no constant is assigned."""
    formatted: bool = False
    """Whether upstream fills it with `str.format`, where two braces stand for one."""


def official_prompts(checkout: Path, places: Mapping[str, Constant]) -> JudgePrompts:
    """Read the prompts of a user's checkout. Raises `InputError` naming what is missing."""
    found = {}
    for key, place in places.items():
        text = _constant(checkout, place)
        if place.formatted:
            text = text.replace("{{", "{").replace("}}", "}")
        for theirs, ours in (place.gaps or {}).items():
            text = text.replace(theirs, "{" + ours + "}")
        found[key] = text
    return JudgePrompts(OFFICIAL, found)


def _constant(checkout: Path, place: Constant) -> str:
    path = checkout / place.file
    try:
        source = files.read_bytes(path, most_bytes=MAX_SOURCE_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"cannot read {path} ({files.why(error)}): give a checkout of the benchmark"
        ) from None
    if place.name is None:
        return source
    if path.suffix == ".json":
        return _json_text(source, path, place.name)
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{path} is not a Python file ({error})") from None
    if place.text is not None:
        texts = _message_texts(tree, place.name)
        if place.text < len(texts):
            return texts[place.text]
        raise InputError(f"{path}: {place.name} has no such text: use another version of the checkout")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name == place.name:
            for each in node.body:
                if isinstance(each, ast.Return) and each.value is not None:
                    text = _string(each.value)
                    if text is not None:
                        return text
        if isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Name) and target.id == place.name for target in node.targets
        ):
            text = _string(node.value)
            if text is not None:
                return text
    raise InputError(f"{path} assigns no string to {place.name}: use another version of the checkout")


def _message_texts(tree: ast.Module, function: str) -> list[str]:
    """Return the values of "text" in a function's dictionaries, in file order."""
    found = [
        (value.lineno, text)
        for definition in ast.walk(tree)
        if isinstance(definition, ast.FunctionDef) and definition.name == function
        for node in ast.walk(definition)
        if isinstance(node, ast.Dict)
        for key, value in zip(node.keys, node.values, strict=True)
        if isinstance(key, ast.Constant) and key.value == "text" and (text := _string(value)) is not None
    ]
    return [text for _, text in sorted(found)]


def _json_text(source: str, path: Path, name: str) -> str:
    try:
        found = json.loads(source)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON ({error})") from None
    if not isinstance(found, dict) or not isinstance(found.get(name), str):
        raise InputError(f"{path} has no string {name!r}: use another version of the checkout")
    return str(found[name])


def _string(node: ast.expr) -> str | None:
    """Return a constant string, also through .strip(), or an f-string with its gaps named by their source."""
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.Call(func=ast.Attribute(value=inner, attr="strip"), args=[]):
            stripped = _string(inner)
            return None if stripped is None else stripped.strip()
        case ast.BinOp(left=left, op=ast.Add(), right=right):
            first, second = _string(left), _string(right)
            return None if first is None or second is None else first + second
        case ast.JoinedStr(values=values):
            parts = [
                part.value if isinstance(part, ast.Constant) else "{" + ast.unparse(part.value) + "}"
                for part in values
                if isinstance(part, ast.Constant | ast.FormattedValue)
            ]
            return "".join(map(str, parts))
    return None

"""The words a judge is asked with: ours (labelled "reworded"), or those of a checkout of the benchmark.

Ours lie in `judge_prompts/NAME.toml`: one template a key, with `{gaps}`. A checkout is parsed, never
executed: we take string constants of its Python files by name, or whole text files.
"""

from __future__ import annotations

import ast
import hashlib
import json
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import resources
from pathlib import Path

from interleave.errors import InputError
from interleave.files import read_bytes, why

REWORDED = "reworded"
OFFICIAL = "official"
_GAP = re.compile(r"\{(\w+)\}")
MAX_SOURCE_BYTES = 5_000_000


@dataclass(frozen=True)
class JudgePrompts:
    """Templates by name."""

    label: str
    """`reworded`, or `official`."""
    templates: Mapping[str, str]

    @cached_property
    def digest(self) -> str:
        """Eight digits that change with any letter of any template."""
        written = json.dumps([self.label == OFFICIAL, sorted(self.templates.items())])
        return hashlib.sha256(written.encode()).hexdigest()[:8]

    @property
    def identity(self) -> str:
        return f"{self.label}-{self.digest}"

    def fill(self, name: str, **gaps: object) -> str:
        """A template with its gaps filled; other braces, as of JSON, stay as they are."""
        return _GAP.sub(lambda gap: str(gaps.get(gap[1], gap[0])), self.templates[name])


def reworded_prompts(benchmark: str) -> JudgePrompts:
    """Our own words for a benchmark."""
    path = resources.files("interleave.benchmarks") / "judge_prompts" / f"{benchmark}.toml"
    return JudgePrompts(REWORDED, tomllib.loads(path.read_text("utf-8")))


@dataclass(frozen=True)
class Constant:
    """Where a template stands in a checkout: a string assigned to a name in a Python file, or a text file."""

    file: str
    name: str | None = None
    gaps: Mapping[str, str] | None = None
    """Upstream's names of gaps, and ours."""


def official_prompts(checkout: Path, places: Mapping[str, Constant]) -> JudgePrompts:
    """The words of a user's own checkout; raises `InputError` naming what is not where it should be."""
    found = {}
    for key, place in places.items():
        text = _constant(checkout, place)
        for theirs, ours in (place.gaps or {}).items():
            text = text.replace(theirs, "{" + ours + "}")
        found[key] = text
    return JudgePrompts(OFFICIAL, found)


def _constant(checkout: Path, place: Constant) -> str:
    path = checkout / place.file
    try:
        source = read_bytes(path, most_bytes=MAX_SOURCE_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} cannot be read ({why(error)}): give a checkout of the benchmark") from None
    if place.name is None:
        return source
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise InputError(f"{path} is no Python file ({error})") from None
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
    raise InputError(f"{path} assigns no text to {place.name}: it is another version of the benchmark")


def _string(node: ast.expr) -> str | None:
    """A constant string, the same through .strip(), or an f-string with its gaps by their source."""
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

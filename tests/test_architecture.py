"""Imports point one way. The layers, lowest first; a file may import its own part and anything below it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent / "src" / "interleave"

LAYERS: list[set[str]] = [
    {"version", "text"},
    {"errors", "step_counts", "validation_errors", "redaction"},
    {"files"},
    {"pictures", "plugins"},
    {"types"},
    {"choice", "needs"},
    {"config"},
    {"events", "backends"},
    {"at_once"},
    {"drift"},
    {"agents"},
    {"sources"},
    {"pipeline"},
    {"runs"},
    {"batches"},
    {"render"},
    {"api"},
    {"judging"},
    {"benchmarks", "data", "robots", "service", "training"},
    {"calibration"},
    {"cli"},
    {"__init__", "__main__"},
]
DEPTH = {part: depth for depth, layer in enumerate(LAYERS) for part in layer}
HEAVY = {
    "torch",
    "transformers",
    "diffusers",
    "trl",
    "datasets",
    "pyarrow",
    "av",
    "rerun",
    "ray",
    "fastapi",
    "openai",
    "google",
}
TRAINING_LOOPS = {
    ROOT / "training" / f"{name}.py"
    for name in (
        "checkpoints",
        "collator",
        "grpo",
        "inspection",
        "logs",
        "models",
        "preflight",
        "rollouts",
        "rows",
        "run",
        "samples_page",
        "sft",
        "verl_rows",
    )
}
"""Imported by a command that trains and by nothing else: these import heavy libraries as any module would."""
LOCAL_MODELS = (
    "backends/local",
    "backends/qwen3_vl",
    "backends/generators/diffusers.py",
    "backends/vlms/transformers.py",
)
"""Imported only when a spec names a model in this process: they may import torch at the top."""
FILES = sorted(ROOT.rglob("*.py"))


def part_of(file: Path) -> str:
    return part_named(".".join(file.relative_to(ROOT).with_suffix("").parts))


def part_named(module: str) -> str:
    """The part of the house a module (without the leading `interleave.`) belongs to."""
    return module.partition(".")[0]


@cache
def tree_of(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


@cache
def nodes_of(file: Path) -> list[ast.AST]:
    """Everything in a file: walking through it takes longer than any test here."""
    return list(ast.walk(tree_of(file)))


@cache
def imported_modules(file: Path) -> set[str]:
    modules: set[str] = set()
    for node in nodes_of(file):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            assert node.level == 0, f"{file}: write imports in full"
            modules |= {f"{node.module}.{alias.name}" for alias in node.names}
    return modules


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_imports_point_one_way(file: Path) -> None:
    own = part_of(file)
    modules = {name for name in imported_modules(file) if name.startswith("interleave.")}
    used = {part_named(name.removeprefix("interleave.")) for name in modules}
    upward = {part for part in used & DEPTH.keys() if part != own and DEPTH[part] >= DEPTH[own]}
    assert not upward, f"{own} must not import {sorted(upward)}"


def test_every_part_has_a_layer() -> None:
    assert {part_of(file) for file in FILES} == set(DEPTH)


@pytest.mark.parametrize(
    "file", sorted({*FILES} - TRAINING_LOOPS), ids=lambda file: str(file.relative_to(ROOT))
)
def test_heavy_libraries_are_imported_only_where_they_are_used(file: Path) -> None:
    top_level = [node for node in tree_of(file).body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {
        (alias.name if isinstance(node, ast.Import) else node.module or "").split(".")[0]
        for node in top_level
        for alias in node.names
    }
    allowed = {"torch"} if str(file.relative_to(ROOT)).startswith(LOCAL_MODELS) else set()
    assert not names & HEAVY - allowed


FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "yaml"}


@pytest.mark.parametrize("file", FILES, ids=lambda file: str(file.relative_to(ROOT)))
def test_L07_no_code_is_run_from_data(file: Path) -> None:
    calls = {
        node.func.id
        for node in nodes_of(file)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    }
    assert not calls & FORBIDDEN_CALLS
    assert not {name.split(".")[0] for name in imported_modules(file)} & FORBIDDEN_MODULES
    bare = [node for node in nodes_of(file) if isinstance(node, ast.ExceptHandler) and node.type is None]
    assert not bare, "name what is caught"
    guards = [node.lineno for node in nodes_of(file) if isinstance(node, ast.Assert)]
    assert not guards, f"assert vanishes under -O: raise instead (line {guards})"


def test_the_algorithm_fits_on_one_page() -> None:
    tree = ast.parse((ROOT / "pipeline.py").read_text("utf-8"))
    loop = next(node for node in tree.body if isinstance(node, ast.AsyncFunctionDef))
    assert loop.end_lineno is not None
    assert loop.end_lineno - loop.lineno < 40

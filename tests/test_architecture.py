"""Imports of the core point one way: a file may import its own part and the layers below it."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parent.parent / "src" / "interleave"

LAYERS: list[set[str]] = [
    {"version", "text", "moved"},
    {"lazy_names"},
    {"errors", "step_counts", "redaction"},
    {"files", "locks"},
    {"images", "entry_points"},
    {"types"},
    {"events"},
    {"config"},
    {"backends"},
    {"agents"},
    {"scheduler"},
    {"sources"},
    {"pipeline"},
    {"drift"},
    {"runs"},
    {"batches"},
    {"request_files"},
    {"render"},
    {"api", "plugin"},
    {"cli"},
    {"__init__", "__main__"},
]
"""Lowest first."""
ROOMS = {
    *(
        "bench",
        "books",
        "diagnostics",
        "local",
        "provenance",
        "remote",
        "robots",
        "safety",
        "service",
        "studio",
        "train",
    )
}
"""They stand above the core; test_rooms.py says what each may import."""
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
    ROOT / "train" / f"{name}.py"
    for name in (
        "checkpoints",
        "collator",
        "grpo",
        "inspection",
        "logs",
        "models",
        "monitor",
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
LOCAL_MODELS = ("local/",)
"""Imported only when a spec names a model in this process: they may import torch at the top."""
ROUTES = {
    *(
        ROOT / "studio" / f"{name}.py"
        for name in ("adoption", "gallery", "indexing", "label_routes", "library", "page", "queue", "reading")
    ),
    *(
        ROOT / "service" / "documents" / f"{name}.py"
        for name in (
            *("app", "bodies", "chat", "decision_routes", "document_routes", "export_routes", "gemini"),
            *("request_handling", "responses", "routes"),
        )
    ),
    ROOT / "service" / "generator" / "app.py",
    ROOT / "service" / "generator" / "routes.py",
    ROOT / "service" / "http" / "routing.py",
    ROOT / "service" / "mcp" / "routes.py",
    ROOT / "robots" / "service_routes.py",
}
"""Routes and what they depend on, imported when a service starts: they may import FastAPI at the top."""
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


def named(file: Path) -> str:
    return str(file.relative_to(ROOT))


def test_imports_point_one_way() -> None:
    upward = {}
    for file in (each for each in FILES if part_of(each) not in ROOMS):
        own = part_of(file)
        modules = {name for name in imported_modules(file) if name.startswith("interleave.")}
        used = {part_named(name.removeprefix("interleave.")) for name in modules}
        upward[named(file)] = {
            part for part in used & DEPTH.keys() if part != own and DEPTH[part] >= DEPTH[own]
        }
    assert {file: parts for file, parts in upward.items() if parts} == {}


def test_every_part_has_a_layer() -> None:
    assert {part_of(file) for file in FILES} == {*DEPTH, *ROOMS}


def test_heavy_libraries_are_imported_only_where_they_are_used() -> None:
    assert {named(file): heavy for file in FILES if (heavy := heavy_imports(file))} == {}


def heavy_imports(file: Path) -> set[str]:
    """The heavy libraries that a file imports when it is itself imported, and may not."""
    if file in TRAINING_LOOPS:
        return set()
    top_level = [node for node in tree_of(file).body if isinstance(node, ast.Import | ast.ImportFrom)]
    names = {
        (alias.name if isinstance(node, ast.Import) else node.module or "").split(".")[0]
        for node in top_level
        for alias in node.names
    }
    allowed = {"torch"} if named(file).startswith(LOCAL_MODELS) else set()
    return names & HEAVY - allowed - ({"fastapi"} if file in ROUTES else set())


FORBIDDEN_CALLS = {"eval", "exec", "compile", "__import__"}
FORBIDDEN_MODULES = {"pickle", "marshal", "shelve", "yaml"}


RESTRICTED = "bench/restricted_pickle.py"


def test_L07_no_code_is_run_from_data() -> None:
    found = {named(file): why for file in FILES if (why := dangers(file))}
    assert found.pop(RESTRICTED) == ["imports pickle"]  # its reader resolves no name: see the next test
    assert found == {}


def test_L07_the_one_reader_of_pickles_resolves_no_name() -> None:
    tree = ast.parse((ROOT / RESTRICTED).read_text("utf-8"))
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "pickle"
    }
    assert used == {"Unpickler", "UnpicklingError"}  # never load or loads
    (reader,) = (node for node in tree.body if isinstance(node, ast.ClassDef))
    hooks = {node.name: node for node in reader.body if isinstance(node, ast.FunctionDef)}
    for name in ("find_class", "persistent_load"):
        assert [type(line) for line in hooks[name].body] == [ast.Raise]


def dangers(file: Path) -> list[str]:
    """What a file does that could run data as code, or hide an error."""
    found = [f"imports {name}" for name in imported_modules(file) if name.split(".")[0] in FORBIDDEN_MODULES]
    for node in nodes_of(file):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in FORBIDDEN_CALLS:
            found.append(f"line {node.lineno}: calls {node.func.id}")
        elif isinstance(node, ast.ExceptHandler) and node.type is None:
            found.append(f"line {node.lineno}: name what is caught")
        elif isinstance(node, ast.Assert):
            found.append(f"line {node.lineno}: assert vanishes under -O: raise instead")
    return found


def test_the_algorithm_fits_on_one_page() -> None:
    tree = ast.parse((ROOT / "pipeline.py").read_text("utf-8"))
    loop = next(node for node in tree.body if isinstance(node, ast.AsyncFunctionDef))
    assert loop.end_lineno is not None
    assert loop.end_lineno - loop.lineno < 40

"""Rooms: folders that import the public surface of the core and the rooms that their README names."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from dataclasses import fields
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "interleave"
SURFACE = {"interleave", "interleave.plugin"}
FOLDERS = {f"interleave.{file.parent.name}": file.parent for file in SOURCE.glob("*/README.md")} | {
    "interleave_mini": ROOT / "mini" / "src" / "interleave_mini",
    "miniature": ROOT / "research" / "miniature" / "src" / "miniature",
}
"""Every room by the name that it is imported by."""
READMES = {
    room: next(
        parent / "README.md" for parent in (folder, *folder.parents) if (parent / "README.md").exists()
    )
    for room, folder in FOLDERS.items()
}
_MODULE = re.compile(r"(interleave|interleave_mini|miniature)(\.\w+)*")


def declared(room: str) -> set[str]:
    """The rooms that the README of a room names after "May import"."""
    (line,) = re.findall(r"^May import: .*(?:\n.+)*", READMES[room].read_text("utf-8"), re.MULTILINE)
    return {name for name in re.findall(r"`([\w.]+)`", line) if name in FOLDERS}


def modules_named(file: Path) -> set[str]:
    """The modules of ours that a file imports, anywhere in it, or names in a string such as "a.b:c"."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "interleave":
            found |= {
                f"interleave.{alias.name}" if is_module(alias.name) else "interleave" for alias in node.names
            }
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            name = node.value.partition(":")[0]
            found |= {name} if _MODULE.fullmatch(name) and is_module(name.partition(".")[2]) else set()
    return {name for name in found if _MODULE.fullmatch(name)}


def is_module(name: str) -> bool:
    outer = name.partition(".")[0]
    return bool(outer) and ((SOURCE / outer).is_dir() or (SOURCE / f"{outer}.py").is_file())


def room_of(module: str) -> str:
    """The room of a module; for a module of the core, its outermost part."""
    outer, _, inner = module.partition(".")
    return module if outer != "interleave" else f"interleave.{inner.partition('.')[0]}" if inner else outer


def is_allowed(module: str, allowed: set[str]) -> bool:
    return module in SURFACE or room_of(module) in allowed or module.partition(".")[0] in allowed


@pytest.mark.parametrize("room", FOLDERS)
def test_a_room_imports_the_surface_and_the_rooms_that_it_declares(room: str) -> None:
    allowed = {room, *declared(room)}
    beyond = {
        str(file.relative_to(ROOT)): others
        for file in FOLDERS[room].rglob("*.py")
        if (others := {name for name in modules_named(file) if not is_allowed(name, allowed)})
    }
    assert beyond == {}


def test_the_core_imports_no_room() -> None:
    core = [
        file
        for file in SOURCE.rglob("*.py")
        if not any(file.is_relative_to(folder) for folder in FOLDERS.values()) and file.name != "moved.py"
    ]
    inward = {
        str(file.relative_to(SOURCE)): rooms
        for file in core
        if (
            rooms := {
                name for name in modules_named(file) if is_allowed(name, set(FOLDERS)) and name not in SURFACE
            }
        )
    }
    assert inward == {}


def test_the_declared_graph_has_no_circle_and_readmes_are_short() -> None:
    TopologicalSorter({room: declared(room) for room in FOLDERS}).prepare()
    assert [room for room, file in READMES.items() if len(file.read_text("utf-8").splitlines()) > 40] == []


def test_the_drawing_of_the_rooms_is_what_they_declare() -> None:
    """In CONTRIBUTING.md; every room stands on the core, which is drawn for those that declare no other."""
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    drawn = {tuple(edge) for edge in re.findall(r"^    ([\w.]+) --> ([\w.]+)$", text, re.MULTILINE)}
    assert drawn == {
        (room.removeprefix("interleave."), other.removeprefix("interleave."))
        for room in FOLDERS
        for other in declared(room) or {"core"}
    }


def test_no_files_import_each_other_in_a_circle() -> None:
    places = {ROOT / "src", ROOT / "mini" / "src", ROOT / "research" / "miniature" / "src"}
    files = {
        ".".join(file.relative_to(place).with_suffix("").parts).removesuffix(".__init__"): file
        for place in places
        for file in place.rglob("*.py")
    }
    graph = {name: imported_files(file, files.keys()) - {name} for name, file in files.items()}
    TopologicalSorter(graph).prepare()


def imported_files(file: Path, known: object) -> set[str]:
    """The modules that a file imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= {name if name in known else node.module for name in inner}  # type: ignore[operator]
    return {name for name in found if name in known}  # type: ignore[operator]


SIZES = tomllib.loads((ROOT / "sizes.toml").read_text("utf-8"))


def lines_of(place: str) -> int:
    path = ROOT / place
    files = path.rglob("*.py") if path.is_dir() else [path]
    return sum(len(file.read_text("utf-8").splitlines()) for file in files)


@pytest.mark.parametrize("part", SIZES)
def test_no_part_is_larger_than_the_size_that_it_has(part: str) -> None:
    """Where one must grow, raise its number in the same commit and say why beside it."""
    lines = sum(map(lines_of, SIZES[part]["paths"])) - sum(map(lines_of, SIZES[part].get("without", ())))
    assert lines <= SIZES[part]["lines"], f"{part} has {lines:,} lines"
    assert lines >= 0.97 * SIZES[part]["lines"], f"{part} has {lines:,} lines: lower its number"


def test_every_file_belongs_to_a_part() -> None:
    places = [ROOT / place for part in SIZES.values() for place in part["paths"]]
    files = [file for folder in ("src", "mini/src", "research") for file in (ROOT / folder).rglob("*.py")]
    assert [file for file in files if not any(file.is_relative_to(place) for place in places)] == []


def test_every_name_of_the_surface_is_imported_and_described() -> None:
    from interleave import BackendInfo, plugin

    page = (ROOT / "docs" / "reference" / "plugin.md").read_text("utf-8")
    assert len(plugin.__all__) <= 60
    assert all(getattr(plugin, name) is not None for name in plugin.__all__)
    assert [name for name in plugin.__all__ if f"| `{name}` |" not in page] == []
    table = page.partition("## What a backend may say")[2].partition("## ")[0]
    assert [field.name for field in fields(BackendInfo) if f"`{field.name}`" not in table] == []


@pytest.mark.parametrize("stub", sorted(SOURCE.glob("*/__init__.pyi")), ids=lambda path: path.parent.name)
def test_every_name_that_a_part_of_the_core_offers_is_there_and_used(stub: Path) -> None:
    part = import_module(f"interleave.{stub.parent.name}")
    assert all(getattr(part, name) is not None for name in part.__all__)
    texts = [file.read_text("utf-8") for folder in FOLDERS.values() for file in folder.rglob("*.py")]
    used = {name for text in texts for name in re.findall(rf"\b{stub.parent.name}\.(\w+)", text)}
    assert set(part.__all__) - used == set()


def test_old_names_of_modules_import_with_a_warning() -> None:
    from interleave.moved import MOVED

    for old, new in MOVED.items():
        with pytest.warns(DeprecationWarning, match=f"{old} is now {new}"):
            assert import_module(old) is import_module(new)
        del sys.modules[old]

"""Rooms: folders that import the public surface of the core and the rooms that their README names."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "interleave"
SURFACE = {"interleave", "interleave.plugin"}
READMES = {file.parent.name: file.read_text("utf-8") for file in SOURCE.glob("*/README.md")}
_MODULE = re.compile(r"interleave(\.\w+)*")


def declared(room: str) -> set[str]:
    """The rooms that the README of a room names after "May import"."""
    (line,) = re.findall(r"^May import: .*(?:\n.+)*", READMES[room], re.MULTILINE)
    return {name for name in re.findall(r"`interleave\.(\w+)`", line) if name in READMES}


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
            found |= {name} if _MODULE.fullmatch(name) and is_module(room_of(name)) else set()
    return {name for name in found if _MODULE.fullmatch(name)}


def is_module(name: str) -> bool:
    return (SOURCE / name).is_dir() or (SOURCE / f"{name}.py").is_file()


def room_of(module: str) -> str:
    return module.partition(".")[2].partition(".")[0]


@pytest.mark.parametrize("room", READMES)
def test_a_room_imports_the_surface_and_the_rooms_that_it_declares(room: str) -> None:
    allowed = {room, *declared(room)}
    beyond = {
        str(file.relative_to(SOURCE)): others
        for file in (SOURCE / room).rglob("*.py")
        if (others := {name for name in modules_named(file) - SURFACE if room_of(name) not in allowed})
    }
    assert beyond == {}


def test_the_core_imports_no_room() -> None:
    core = [file for file in SOURCE.rglob("*.py") if file.relative_to(SOURCE).parts[0] not in READMES]
    inward = {
        str(file.relative_to(SOURCE)): rooms
        for file in core
        if file.name != "moved.py"
        and (rooms := {room_of(name) for name in modules_named(file)} & READMES.keys())
    }
    assert inward == {}


def test_the_declared_graph_has_no_circle_and_readmes_are_short() -> None:
    TopologicalSorter({room: declared(room) for room in READMES}).prepare()
    assert [room for room, text in READMES.items() if len(text.splitlines()) > 40] == []


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
    from interleave import plugin

    page = (ROOT / "docs" / "reference" / "plugin.md").read_text("utf-8")
    assert len(plugin.__all__) <= 60
    assert all(getattr(plugin, name) is not None for name in plugin.__all__)
    assert [name for name in plugin.__all__ if f"| `{name}` |" not in page] == []


def test_old_names_of_modules_import_with_a_warning() -> None:
    from interleave.moved import MOVED

    for old, new in MOVED.items():
        with pytest.warns(DeprecationWarning, match=f"{old} is now {new}"):
            assert import_module(old) is import_module(new)
        del sys.modules[old]

"""What must not change while code moves: commands and their options, routes, prompts, the tests there are.

`python tests/test_goldens.py` writes the files anew, where a change is meant.
"""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

GOLDENS = Path(__file__).parent / "goldens"


def command_options() -> dict[str, list[str]]:
    """The options and arguments of every command."""
    from interleave.cli.main import root_command

    return {path: sorted(names) for path, names in _options_below(root_command(), "")}


def _options_below(command: Any, path: str) -> Iterator[tuple[str, list[str]]]:
    yield path.strip(), [name for each in command.params for name in (*each.opts, *each.secondary_opts)]
    for name in getattr(command, "commands", ()):
        yield from _options_below(command.commands[name], f"{path} {name}")


def routes() -> dict[str, Any]:
    """The routes of both services, with the shapes of what they take and send."""
    from interleave.service.documents import openapi
    from interleave.service.generator.app import GeneratorApp

    return {"generator": GeneratorApp().openapi(), "documents": openapi.openapi()}


def prompt_digests() -> dict[str, str]:
    """A digest of every prompt pack that ships: models were trained with these very words."""
    from interleave.agents.prompts import PROMPTS, ROBOT_PROMPTS, load_pack

    return {name: load_pack(name).digest_of([*PROMPTS, *ROBOT_PROMPTS]) for name in ("default", "mini")}


def test_names() -> list[str]:
    """The names of all test functions, wherever they lie."""
    trees = [ast.parse(file.read_text("utf-8")) for file in Path(__file__).parent.rglob("test_*.py")]
    functions = (node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))
    return sorted({node.name for node in functions if node.name.startswith("test_")})


test_names.__test__ = False  # type: ignore[attr-defined]
MADE = {
    "command_options": command_options,
    "routes": routes,
    "prompt_digests": prompt_digests,
}


@pytest.mark.parametrize("name", MADE)
def test_nothing_that_others_build_on_has_changed(name: str) -> None:
    pytest.importorskip("fastapi")
    assert MADE[name]() == json.loads((GOLDENS / f"{name}.json").read_text("utf-8"))


def test_no_test_is_lost() -> None:
    known = (GOLDENS / "test_names.txt").read_text("utf-8").splitlines()
    assert sorted(set(known) - set(test_names())) == []


if __name__ == "__main__":
    for name, make in MADE.items():
        text = json.dumps(make(), sort_keys=True, ensure_ascii=False)
        (GOLDENS / f"{name}.json").write_text(f"{text}\n", "utf-8")
    (GOLDENS / "test_names.txt").write_text("\n".join(test_names()) + "\n", "utf-8")

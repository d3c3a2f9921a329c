"""The miniature's imports: none in a circle, and few modules for one request."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from graphlib import TopologicalSorter
from pathlib import Path

import interleave_mini

ROOT = Path(interleave_mini.__file__).parent
MODULES = {
    ".".join(("interleave_mini", *file.relative_to(ROOT).with_suffix("").parts)).removesuffix(
        ".__init__"
    ): file
    for file in ROOT.rglob("*.py")
}
ONE_REQUEST = """
import json, sys
from interleave.backends.registry import adapt_request
from interleave.types import Plan, PlanStep, Request
from interleave_mini.requests import PlanCheck
request = adapt_request(Request.of("a cat in the garden"), "mini")
plan = Plan(steps=(PlanStep(number=1, prompt="A meadow with an orange cat in the middle."),), reasoning="")
assert PlanCheck().problem(request, plan) == ""
print(json.dumps([name for name in sys.modules if name.startswith("interleave_mini")]))
"""


def imported(file: Path) -> set[str]:
    """The modules of the miniature that a file imports, inside functions too."""
    found = set()
    for node in ast.walk(ast.parse(file.read_text("utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= names & MODULES.keys() or {node.module} & MODULES.keys()
    return found


def test_no_module_of_the_miniature_imports_itself_by_way_of_others() -> None:
    graph = {name: imported(file) - {name} for name, file in MODULES.items()}
    TopologicalSorter(graph).prepare()
    assert sum(map(len, graph.values())) > 100


def test_one_request_loads_few_modules_and_nothing_that_draws() -> None:
    told = subprocess.run([sys.executable, "-c", ONE_REQUEST], capture_output=True, text=True, check=True)
    modules = json.loads(told.stdout)
    assert len(modules) <= 21, modules
    assert not {"interleave_mini.world.drawing", "interleave_mini.reader"} & set(modules)

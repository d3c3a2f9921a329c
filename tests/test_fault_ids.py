"""The ids in the names of tests are those of FAULTS.md, and each of its ids has a test."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

TESTS = Path(__file__).parent
LISTED = re.findall(r"^\| ([A-M]\d\d) \|", (TESTS / "FAULTS.md").read_text("utf-8"), re.MULTILINE)
IN_A_NAME = re.compile(r"_([A-M]\d\d)(?=_)")
IN_A_CASE = re.compile(r"([A-M]\d\d)[ -]\S")


@cache
def used() -> frozenset[str]:
    return frozenset(_ids())


def _ids() -> Iterator[str]:
    for path in TESTS.rglob("test_*.py"):
        if path == Path(__file__):
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
                yield from IN_A_NAME.findall(node.name)
            elif isinstance(node, ast.Constant) and (found := IN_A_CASE.match(str(node.value))):
                yield found[1]


def test_every_id_of_a_test_is_listed() -> None:
    assert not used() - set(LISTED)


def test_every_listed_id_has_a_test() -> None:
    assert not set(LISTED) - used()


def test_ids_are_listed_once_and_in_order() -> None:
    assert sorted(LISTED) == LISTED
    assert Counter(LISTED).most_common(1)[0][1] == 1

"""No regular expression of the package makes work that grows faster than the text it reads."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import random
import re
import sys
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import interleave
from regex_work import (
    Hard,
    Work,
    compiled,
    growth,
    hard_texts,
    is_endless,
    match_at,
    parsed,
    work_at,
)

AS_THE_TEXT = 1.2
SEARCHES = {"search", "sub", "subn", "finditer", "findall", "split"}
USES = SEARCHES | {"match", "fullmatch"}
STOPS_EARLY = {
    "interleave.agents.literals._MARK": "reading ends at the first quote that is never closed",
    "interleave.agents.literals._PYTHON": "it reads only what _MARK has found to be closed",
}
"""Patterns that could make more work, and why they never do."""


# --- the machine that counts


BAD = {
    r"!\[[^\]\n]*\]\(\s*<?([^)>\n]+?)>?(?:\s+[\"'][^)\n]*)?\s*\)": Hard("![](", " ", ""),
    r"(?m)^(\s*)([-+=]|\d+[.)])(?=\s|$)": Hard("", "\n", "x"),
    r"[!?.]*![!?.]*$": Hard("", "!", "x"),
    r"<\s*/?\s*(?:think|answer)\b[^>]*>": Hard("<", " ", ""),
    r"\s*a?\s*b": Hard("", " ", ""),
}


@pytest.mark.parametrize("pattern", BAD)
def test_bad_patterns_are_seen_to_be_bad(pattern: str) -> None:
    assert growth(re.compile(pattern), BAD[pattern], "search", 1) > 1.5


@pytest.mark.parametrize(
    "pattern",
    [
        r"a*?b|(?:ab)+c?",
        r"(?i)\b(?:step|of)\s*[0-9]+(?!\.)",
        r"(?m)^\s*#+ .*$",
        r"(?<=[.!])\s+|x{2,3}",
        r"\((?:[^()]|\([^()]*+\))*+\)",
        r"(?s)\"[^\"\\]*(?:\\.[^\"\\]*)*\"",
        r"(?>a+)b|(?:a|b?)*c",
    ],
)
def test_the_machine_finds_what_re_finds(pattern: str) -> None:
    expression, draw = re.compile(pattern), random.Random(0)
    program = compiled(expression)
    for _ in range(100):
        text = "".join(draw.choice('aAbcx ()"\\\n.!#1step of') for _ in range(draw.randrange(12)))
        for start in range(len(text) + 1):
            found = expression.match(text, start)
            assert match_at(program, text, start, Work()) == (found.end() if found else None), (text, start)


# --- what was too much once, or could easily become so


KNOWN = [
    ("interleave.request_files", "_MARK", "![", ["![", "]", "\n", "\n ", "\\"]),
    ("interleave.render.markdown", "_LINE_MARKUP", "1", ["\n", " ", "1"]),
    ("interleave.render.word_diff", "_WORDS", "a", ["a", " ", "a "]),
    (
        "interleave.step_counts",
        "_NAMED",
        "in 1 ",
        ["another ", "the next ", "in a set of ", "story with ", "\t"],
    ),
    ("interleave.step_counts", "_ANY_NUMBER", "", ["1", "1,", "twenty-"]),
    ("interleave.agents.strict_form", "*", "<think>", [" ", "<think ", "< / ", "</think><answer>"]),
    ("interleave_mini.requests", "*", "*", ["\n", "*", "---", "# ", "!"]),
    ("miniature.grammar.variants", "_POLITE", "please", ["please ", " "]),
    ("interleave.agents.replies", "_TAG", "<think", ["< ", "<think", " "]),
    ("interleave.agents.replies", "_LABEL", "step 1 of 1", ["step ", "step 1 of ", "1", "(1) ", " "]),
    ("interleave.agents.replies", "_OBJECT_NEXT", "```", ["```", "a", " "]),
    ("interleave.agents.critic", "_JUDGEMENT", '"success":', ['"success"', '"success":', " "]),
    ("interleave.config.specs", "*", "@localhost", ["@localhost", "@a:1/", "\n", "/"]),
    ("interleave.train.launch_files", "_DEFAULT", "${a:-", ["${a:-", "a"]),
    ("interleave.train.launch_files", "_SETTING", "a=", ["a=", " "]),
    ("interleave.train.data.prompts.near_duplicates", "_WORD", "a", ["a", "a'", "'"]),
]


@pytest.mark.parametrize(
    ("module", "name", "begun", "units"), KNOWN, ids=[f"{row[0]}.{row[1]}" for row in KNOWN]
)
def test_work_grows_as_the_text(module: str, name: str, begun: str, units: list[str]) -> None:
    found = list(patterns_in(importlib.import_module(module), names=None if name == "*" else {name}))
    assert found
    for _, pattern, use in found:
        for hard in (Hard(before, unit, "x\n") for before in ("", begun) for unit in units):
            assert growth(pattern, hard, use, 16) < AS_THE_TEXT, hard


@pytest.mark.parametrize(
    "unit",
    [
        "![](",
        "](a ",
        '](a "',
        "](<a",
        "](a(b)",
        "](a(",
        "]('",
        "](  ",
        "](\n",
        "](a](b) ",
        "](\"a'",
        "](a 'x](a \"",
    ],
)
def test_images_of_markdown_that_are_none_cost_no_more_than_text(unit: str) -> None:
    """It is tried at every bracket, and so must end at the next."""
    from interleave.request_files import _TARGET

    def work(times: int) -> int:
        text = "![" + unit * times
        return work_at(_TARGET, text, [match.start() + 1 for match in re.finditer(r"\]\(", text)])

    assert work(80) - work(40) <= 1.1 * 2 * (work(40) - work(20))


# --- every one of them


@pytest.mark.slow
def test_no_pattern_of_the_package_makes_more_work_than_its_text() -> None:
    """Each with texts made of the pieces it looks for; where they are many, some by lot."""
    bad, seen = [], set()
    for module in all_modules():
        for name, pattern, use in patterns_in(module):
            key = (pattern.pattern, pattern.flags, use)
            if key in seen or name in STOPS_EARLY or not is_endless(parsed(pattern)):
                continue
            seen.add(key)
            hard = list(hard_texts(pattern))
            most = 200 if len(pattern.pattern) < 600 else 8
            for each in random.Random(0).sample(hard, most) if len(hard) > most else hard:
                if (grows := growth(pattern, each, use)) > AS_THE_TEXT:
                    bad.append((name, round(grows, 2), each))
                    break
    assert len(seen) > 35, "the patterns were not found"
    assert not bad


def all_modules() -> Iterator[ModuleType]:
    for found in pkgutil.walk_packages(interleave.__path__, "interleave."):
        if not found.name.endswith("__main__"):
            try:
                yield importlib.import_module(found.name)
            except ImportError:  # an extra that is not installed
                continue


def patterns_in(
    module: ModuleType, names: set[str] | None = None
) -> Iterator[tuple[str, re.Pattern[Any], str]]:
    """The patterns of a module, alone, in tables and written where they are used; how each is used."""
    for name, value in vars(module).items():
        if names is None or name in names:
            for pattern, user, place in _patterns(value, module, name, set()):
                kinds = _uses(user)[0][place] or {"search"}
                use = "search" if kinds & SEARCHES else min(kinds, key=("match", "fullmatch").index)
                yield f"{module.__name__}.{name}", pattern, use
    for line, pattern, kind in _uses(module)[1] if names is None else ():
        yield f"{module.__name__}:{line}", re.compile(pattern), "search" if kind in SEARCHES else kind


@cache
def _uses(module: ModuleType) -> tuple[defaultdict[str, set[str]], list[tuple[int, Any, str]]]:
    """Name → the methods called on it, and patterns that stand in a call of `re` itself."""
    used: defaultdict[str, set[str]] = defaultdict(set)
    written = []
    for node in ast.walk(ast.parse(Path(str(module.__file__)).read_text("utf-8"))):
        match node:
            case ast.Call(
                func=ast.Attribute(value=ast.Name(id="re"), attr=kind), args=[ast.Constant(text), *_]
            ):
                if kind in USES:
                    written.append((node.lineno, text, kind))
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name) | ast.Attribute(attr=name), attr=kind)):
                if kind in USES:
                    used[name].add(kind)
    return used, written


def _patterns(
    value: Any, user: ModuleType, name: str, seen: set[int]
) -> Iterator[tuple[re.Pattern[Any], ModuleType, str]]:
    """Patterns in a value, with the module that uses each, and its name there."""
    if isinstance(value, re.Pattern):
        yield value, user, name
    elif id(value) not in seen:
        seen.add(id(value))
        if isinstance(value, dict):
            value = list(value.values())
        if isinstance(value, list | tuple | set | frozenset):
            for each in value:
                yield from _patterns(each, user, "pattern", seen)  # as a loop over them calls each
        elif type(value).__module__.startswith("interleave.") and hasattr(value, "__dict__"):
            for inner, each in vars(value).items():
                yield from _patterns(each, sys.modules[type(value).__module__], inner, seen)

"""What the runtime knows of the grammar: files that the grammar gives again, byte for byte."""

from __future__ import annotations

import ast
from itertools import islice
from pathlib import Path

import pytest

import interleave_mini
from interleave_mini.bench import task_file
from interleave_mini.bench.task_file import find_task, shipped_tasks, write_tasks
from interleave_mini.bench.tasks import ROBOT, SUITES
from interleave_mini.language import vocabulary
from interleave_mini.language.vocabulary import language
from miniature.grammar.benchmark import sampled
from miniature.grammar.language_file import write_language
from miniature.grammar.tasks import tasks

ALL = (*SUITES, ROBOT, task_file.EXAMPLES)


def test_the_grammar_gives_the_words_of_the_runtime_again(tmp_path: Path) -> None:
    write_language(tmp_path / "language.json")
    assert (tmp_path / "language.json").read_bytes() == vocabulary.FILE.read_bytes()


@pytest.mark.parametrize("suite", SUITES)
def test_the_grammar_gives_the_tasks_that_ship_again(suite: str) -> None:
    assert shipped_tasks(suite, 6) == list(islice(tasks(suite, "test"), 6))


@pytest.mark.slow
def test_the_grammar_gives_every_task_that_ships_again(tmp_path: Path) -> None:
    write_tasks(tmp_path / "tasks", sampled(len(shipped_tasks("story"))))
    assert (tmp_path / "tasks").read_bytes() == task_file.FILE.read_bytes()


def test_tasks_are_written_as_they_are_read(tmp_path: Path) -> None:
    every = [task for suite in ALL for task in shipped_tasks(suite)]
    assert len(every) > 7000
    write_tasks(tmp_path / "tasks", every)
    assert (tmp_path / "tasks").read_bytes() == task_file.FILE.read_bytes()


@pytest.mark.parametrize("suite", SUITES)
def test_a_seed_orders_the_tasks_and_keeps_their_mixture(suite: str) -> None:
    one, other = (shipped_tasks(suite, 40, seed=seed) for seed in (1, 2))
    assert one == shipped_tasks(suite, 40, seed=1) and one != other
    assert [bool(task.unseen) for task in one[:4]] == [False, False, True, True]


def test_tasks_are_found_by_their_requests() -> None:
    for suite in ALL:
        for task in shipped_tasks(suite, 5):
            assert find_task(task.parts) is not None
    assert find_task(["  how a FROG grows up, step by step, in four pictures!"]) is not None
    assert find_task(["Nobody has asked for this."]) is None
    assert all(find_task([each.text]) for each in language().examples)


def test_the_runtime_never_imports_the_research_on_it() -> None:
    naming = [
        str(file)
        for file in Path(interleave_mini.__file__).parent.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text("utf-8")))
        if (isinstance(node, ast.Import) and any(each.name.startswith("miniature") for each in node.names))
        or (isinstance(node, ast.ImportFrom) and (node.module or "").startswith("miniature"))
        or (isinstance(node, ast.Constant) and str(node.value).startswith("miniature."))
    ]
    assert naming == []

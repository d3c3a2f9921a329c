"""The tasks that ship with the benchmark: a fixed sample of the test split."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain, islice
from random import Random

from interleave_mini.bench.task_file import EXAMPLES
from interleave_mini.bench.tasks import ROBOT, SUITES, Task
from interleave_mini.language.vocabulary import language
from interleave_mini.requests import EXAMPLES as SHOWN
from miniature.grammar.tasks import parse_task, sample_task, tasks


def sampled(items: int) -> Iterator[Task]:
    """Yield `items` tasks per suite, half as many goals of the gripper, and every suggested request."""
    for suite in SUITES:
        yield from islice(tasks(suite, "test"), items)
    yield from islice(_goals(), items // 2)
    for text in dict.fromkeys(chain(SHOWN, (each.text for each in language().examples))):
        yield replace(parse_task([text]), suite=EXAMPLES)


def _goals() -> Iterator[Task]:
    """Yield distinct goals of the test split, which training never sees."""
    rng, seen = Random("closed loop/0"), set[str]()
    while True:
        task = sample_task(ROBOT, rng)
        if task.split == "test" and task.id not in seen:
            seen.add(task.id)
            yield task

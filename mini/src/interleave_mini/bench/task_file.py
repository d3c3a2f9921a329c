"""The tasks of the test split in `tasks.jsonl.gz`: of every suite, goals of the gripper, examples of topics.

`interleave mini tasks` of the research package samples them from the grammar and writes the file.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import astuple, fields
from functools import cache
from pathlib import Path
from random import Random
from typing import Any

from interleave import ConfigurationError
from interleave_mini.bench.tasks import Step, Task
from interleave_mini.language.patterns import normalised
from interleave_mini.language.words import described, named
from interleave_mini.world import operations
from interleave_mini.world.operations import Operation, apply_all
from interleave_mini.world.scene import Gripper, Scene, Size, Thing

FILE = Path(__file__).parent / "tasks.jsonl.gz"
EXAMPLES = "example"
"""The suite of plain requests."""
_GROUP = 4
"""Tasks come in groups of four: two like those of training, one in a wording and one with a pair of kind and
colour that training never sees."""


def shipped_tasks(suite: str, count: int | None = None, *, seed: int = 0) -> list[Task]:
    """The first tasks of a suite, in the order of a seed; all where no number is given."""
    lines = _lines()[suite]
    if count is not None and count > len(lines):
        raise ConfigurationError(f"the suite {suite!r} has {len(lines):,} tasks: ask for no more of them")
    groups = [lines[first : first + _GROUP] for first in range(0, len(lines), _GROUP)]
    if seed:  # 0 keeps the order of the file
        Random(f"{suite}/{seed}").shuffle(groups)
    ordered = [line for group in groups for line in group]
    return [task_from(json.loads(line)) for line in ordered[:count]]


def find_task(parts: Sequence[str | Scene]) -> Task | None:
    """The task with this request, however it is capitalised and spaced; None where no task has it."""
    for line in _by_text().get(_key(parts), ()):
        task = task_from(json.loads(line))
        if _scenes(task.parts) == _scenes(parts):
            return task
    return None


@cache
def _lines() -> dict[str, list[str]]:
    """The lines of the file by suite: few of them are ever decoded."""
    found: dict[str, list[str]] = {}
    with gzip.open(FILE, "rt", encoding="utf-8") as lines:
        for line in lines:
            found.setdefault(line[len('{"suite": "') : line.index('",')], []).append(line)
    return found


@cache
def _by_text() -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in (line for lines in _lines().values() for line in lines):
        found.setdefault(_key(json.loads(line)["parts"]), []).append(line)
    return found


def _key(parts: Iterable[Any]) -> str:
    return normalised("\n".join(part for part in parts if isinstance(part, str))).lower()


def _scenes(parts: Iterable[str | Scene]) -> list[Scene]:
    return [part for part in parts if isinstance(part, Scene)]


def write_tasks(path: Path, tasks: Iterable[Task]) -> None:
    """Write the file; the same tasks give the same bytes."""
    lines = (json.dumps(_as_json(task), ensure_ascii=False) + "\n" for task in tasks)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress("".join(lines).encode(), mtime=0))


def _as_json(task: Task) -> dict[str, Any]:
    steps, before = [], _last_scene(task.parts)
    for step in task.steps:
        said: dict[str, Any] = {"name": step.name, "caption": step.caption}
        if step.operations:
            said["do"] = [[type(each).__name__, *_values(each)] for each in step.operations]
        if step.before != before:
            said["before"] = step.before and _scene(step.before)
        if step.before is None or apply_all(step.operations, step.before) != step.scene:
            said["scene"] = _scene(step.scene)
        steps.append(said)
        before = step.scene
    return {
        "suite": task.suite,
        "domain": task.domain,
        "topic": task.topic,
        "template": task.template,
        "parts": [part if isinstance(part, str) else _scene(part) for part in task.parts],
        "steps": steps,
        "first": task.first_number,
        "unseen": task.unseen,
    }


def task_from(said: dict[str, Any]) -> Task:
    parts = tuple(part if isinstance(part, str) else _read_scene(part) for part in said["parts"])
    return Task(
        said["suite"],
        said["domain"],
        said["topic"],
        said["template"],
        parts,
        tuple(_read_steps(said["steps"], _last_scene(parts))),
        said["first"],
        tuple(said["unseen"]),
    )


def _read_steps(steps: Iterable[dict[str, Any]], before: Scene | None) -> Iterator[Step]:
    """What a step does not say follows from the scene before it, and from what is done."""
    for said in steps:
        if "before" in said:
            before = said["before"] and _read_scene(said["before"])
        done = tuple(map(_read_operation, said.get("do", ())))
        scene = _read_scene(said["scene"]) if before is None or "scene" in said else apply_all(done, before)
        yield Step(said["name"], said["caption"], scene, done, before)
        before = scene


def _last_scene(parts: Sequence[str | Scene]) -> Scene | None:
    return next(iter(reversed(_scenes(parts))), None)


def _scene(scene: Scene) -> list[Any]:
    things = {str(cell): named(thing) for cell, thing in scene.things.items()}
    return [scene.background, things, *([list(astuple(scene.gripper))] if scene.gripper else [])]


def _read_scene(said: list[Any]) -> Scene:
    background, things, *gripper = said
    return Scene.of(
        background,
        {int(cell): _read_thing(words) for cell, words in things.items()},
        Gripper(*gripper[0]) if gripper else None,
    )


def _values(operation: Operation) -> Iterator[Any]:
    for field in fields(operation):
        value = getattr(operation, field.name)
        yield named(value) if isinstance(value, Thing) else value


def _read_operation(said: list[Any]) -> Operation:
    made, *values = getattr(operations, said[0]), *said[1:]
    read = {"Thing": _read_thing, "Size": Size}
    types = (str(field.type) for field in fields(made))
    done: Operation = made(
        *(read[kind](value) if kind in read else value for kind, value in zip(types, values, strict=True))
    )
    return done


def _read_thing(words: str) -> Thing:
    return described(words).thing()

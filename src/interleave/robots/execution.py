"""A robot's attempts at the sub-tasks of a run: `execution.jsonl` in its folder, and the camera images."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import ValidationError

from interleave import InputError, Verdict
from interleave.plugin import ImageStore, Value, files, folder_lock, write_atomic
from interleave.robots.control_loop import SubTaskAttempt

if TYPE_CHECKING:
    from PIL.Image import Image

EXECUTION_NAME, LOCK_NAME = "execution.jsonl", "execution.lock"


class Execution(Value):
    """One attempt at a sub-task."""

    number: int
    attempt: int
    sub_task: str
    instruction: str
    before: str
    """The name of the camera image before the sub-task in the run's store."""
    after: str
    verdict: Verdict
    check_seconds: float
    time: float
    """Seconds since 1970."""


def keep(run: Path, tried: SubTaskAttempt) -> Execution:
    """Append an attempt to the execution file of a run folder."""
    store = ImageStore(run)
    made = Execution(
        number=tried.number,
        attempt=tried.attempt,
        sub_task=tried.sub_task,
        instruction=tried.instruction,
        before=store.put(tried.before),
        after=store.put(tried.after),
        verdict=tried.verdict,
        check_seconds=round(tried.check_seconds, 4),
        time=round(time.time(), 3),
    )
    with folder_lock(run, LOCK_NAME):
        lines = [*executions(run), made]
        write_atomic(run / EXECUTION_NAME, "".join(f"{each.model_dump_json()}\n" for each in lines).encode())
    return made


def executions(run: Path) -> list[Execution]:
    """Return all attempts in a run folder, in order."""
    path = run / EXECUTION_NAME
    if not path.is_file():
        return []
    found = []
    for number, line in enumerate(files.read_from(path).splitlines(), start=1):
        try:
            found.append(Execution.model_validate_json(line))
        except ValidationError:
            raise InputError(f"{path}, line {number}: not an attempt at a sub-task") from None
    return found


def tries_of(run: Path, number: int) -> list[Execution]:
    return [each for each in executions(run) if each.number == number]


def image(run: Path, name: str) -> Image:
    return ImageStore(run).get(name)

"""Export runs as LeRobot episodes: one episode per run, with a video of its goal or camera images.

Episodes have no actions. Rows have the current sub-task and attempt, language columns the instruction.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from interleave import InputError
from interleave.plugin import ImageStore
from interleave.robots.execution import executions
from interleave.robots.lerobot.new_dataset import NewDataset
from interleave.robots.subgoals import Subgoals, read_subgoals
from interleave.robots.video_segments import Segment

if TYPE_CHECKING:
    from PIL.Image import Image

FRAMES_PER_SECOND = 5
FRAMES_PER_IMAGE = 5
"""Frames that show the same image."""
GOALS, CAMERA = "observation.images.goal", "observation.images.camera"
STATE = ("sub_task", "attempt")


def export_runs(runs: Sequence[Path], out: Path) -> int:
    """Write runs as episodes of a new dataset; return the number of frames.

    All episodes show camera images if every run was carried out, else all show goal images.
    """
    carried_out = all(executions(run) for run in runs)
    camera = CAMERA if carried_out else GOALS
    with NewDataset(
        out, fps=FRAMES_PER_SECOND, camera=camera, features={"observation.state": STATE}, robot="interleave"
    ) as made:
        for run in runs:
            goals = read_subgoals(run)
            shown = _as_seen(run) if carried_out else _as_planned(run, goals)
            frames = [image for image, *_ in shown for _ in range(FRAMES_PER_IMAGE)]
            states = [[number, attempt] for _, number, attempt in shown for _ in range(FRAMES_PER_IMAGE)]
            made.add_episode(
                goals.goal or goals.subgoals[0].text,
                frames,
                {"observation.state": np.array(states, np.float32)},
                _segments(goals, [int(number) for number, _ in states]),
            )
        return made.frames


def _as_planned(run: Path, goals: Subgoals) -> list[tuple[Image, int, int]]:
    """Return the start image and all goal images, each with the next sub-task as the current one."""
    store = ImageStore(run)
    names = [goals.start, *(each.image for each in goals.subgoals)]
    images = [store.get(Path(name).name) for name in names if name is not None]
    if not images:
        raise InputError(f"{run} has no images: its steps are text only")
    last = len(goals.subgoals)
    first = 0 if goals.start is None else 1
    return [(image, min(place + first, last) or 1, 1) for place, image in enumerate(images)]


def _as_seen(run: Path) -> list[tuple[Image, int, int]]:
    """Return the camera images before the first attempt and after each, with the next one as the current."""
    store, tries = ImageStore(run), executions(run)
    shown = [(store.get(tries[0].before), tries[0].number, tries[0].attempt)]
    for this, following in zip(tries, [*tries[1:], tries[-1]], strict=True):
        shown.append((store.get(this.after), following.number, following.attempt))
    return shown


def _segments(goals: Subgoals, numbers: Sequence[int]) -> list[Segment]:
    """Return the sub-tasks of the frames as segments."""
    found: list[Segment] = []
    for place, number in enumerate(numbers):
        if place and number == numbers[place - 1]:
            found[-1] = found[-1].model_copy(update={"end": place + 1})
        else:
            said = goals.subgoals[number - 1].instruction
            found.append(Segment(start=place, end=place + 1, instruction=said))
    return found

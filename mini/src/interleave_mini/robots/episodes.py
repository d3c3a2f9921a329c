"""Episodes of the gripper at work, with every frame and sub-task known exactly; also as a dataset.

A sub-task ends with the shot in which its state is reached: the block is in the gripper, or in its place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any

from interleave_mini.bench.task_file import shipped_tasks
from interleave_mini.bench.tasks import ROBOT, Step, Task
from interleave_mini.language.descriptions import describe
from interleave_mini.language.references import Style
from interleave_mini.language.sentences import say_all
from interleave_mini.world.motion import Frame, Shot, draw_shot, movement, rest_of
from interleave_mini.world.operations import Operation
from interleave_mini.world.scene import Scene
from interleave_mini.world.sprites import CELL

if TYPE_CHECKING:
    from interleave.robots.annotation_file import EpisodeAnnotation

CAMERA = "observation.images.front"
STATE = ("across", "down", "closed")
TRUTH_NAME = "truth.jsonl"
FRAMES_PER_SECOND = 10
PACES = (8, 10, 13, 16)
"""Speeds of the gripper in pixels per frame; each sub-task has one."""
LONGEST_PAUSE = 4


@dataclass(frozen=True)
class SubTask:
    """One sub-task of an episode, from its first frame to the frame before the next sub-task."""

    instruction: str
    start: int
    end: int
    step: Step


@dataclass(frozen=True)
class Episode:
    """A recording of a goal being reached: the frames of the camera, and the sub-tasks."""

    goal: str
    shots: tuple[Shot, ...]
    sub_tasks: tuple[SubTask, ...]

    @property
    def boundaries(self) -> tuple[int, ...]:
        """The first frame of each sub-task after the first."""
        return tuple(each.start for each in self.sub_tasks[1:])


def sample_episode(rng: Random) -> Episode:
    """Return an episode of a random goal with more than one sub-task."""
    goal = rng.choice(_goals())
    first = goal.steps[0]
    return record(goal.text, first.before or first.scene, goal.steps, rng)


@cache
def _goals() -> tuple[Task, ...]:
    return tuple(task for task in shipped_tasks(ROBOT) if len(task.steps) > 1)


def record(goal: str, scene: Scene, steps: Sequence[Step], rng: Random) -> Episode:
    """Return the frames of these sub-tasks, each at its speed, with pauses between them."""
    shots: list[Shot] = [scene] * rng.randint(1, LONGEST_PAUSE)
    reached: list[int] = []
    for step in steps:
        before = step.before or scene
        for operation in step.operations:
            moving = list(movement(operation, before, rng.choice(PACES)))
            before = operation.apply(before)
            reached_now = next(at for at, shot in enumerate(moving) if held(shot) == held(before))
            reached.append(len(shots) + reached_now)
            shots += moving
        shots += [before] * rng.randint(0, LONGEST_PAUSE)
    edges = [0, *reached[:-1], len(shots)]
    sub_tasks = (
        SubTask(in_words(step), start, end, step)
        for step, start, end in zip(steps, edges, edges[1:], strict=False)
    )
    return Episode(goal, tuple(shots), tuple(sub_tasks))


def held(shot: Shot) -> str | None:
    """Return the colour of the block in the gripper."""
    if isinstance(shot, Frame):
        return shot.holds
    return shot.gripper.holds if shot.gripper else None


def in_words(step: Step) -> str:
    """Describe a sub-task: "The gripper picks up the red block."."""
    return say_all(step.operations, step.before or step.scene, Style(way=1))


def what_is_seen(shot: Shot) -> Scene:
    """Return the scene of a frame, with the gripper at rest."""
    return rest_of(shot) if isinstance(shot, Frame) else shot


def described_shots(episode: Episode, places: Sequence[int]) -> tuple[Step, ...]:
    """Return the true captions of some frames: the first scene, then the changes between frames."""
    first = what_is_seen(episode.shots[places[0]])
    steps = [Step("Picture 1", describe(first), first)]
    for number, (earlier, later) in enumerate(pairwise(places), start=2):
        done = [each.step for each in episode.sub_tasks if earlier < reached_at(episode, each) <= later]
        caption = " ".join(map(in_words, done)) or "Nothing changes."
        before = steps[-1].scene
        scene, operations = (done[-1].scene, _all_operations(done)) if done else (before, ())
        steps.append(Step(f"Picture {number}", caption, scene, operations, before))
    return tuple(steps)


def _all_operations(steps: Sequence[Step]) -> tuple[Operation, ...]:
    return tuple(operation for step in steps for operation in step.operations)


def reached_at(episode: Episode, sub_task: SubTask) -> int:
    """Return the first frame in which a sub-task is done."""
    wanted = held(sub_task.step.scene)
    return next(
        at for at in range(sub_task.start + 1, len(episode.shots)) if held(episode.shots[at]) == wanted
    )


# As a LeRobot dataset, with the true sub-tasks in a separate file


def write_episodes(out: Path, count: int, *, seed: int = 0) -> Path:
    """Write `count` episodes to a new dataset and their truth next to its folder; return the truth's path."""
    import numpy as np

    from interleave.plugin import write_atomic
    from interleave.robots.lerobot.new_dataset import NewDataset

    rng = Random(f"episodes/{seed}")
    truth: list[EpisodeAnnotation] = []
    features = {"observation.state": STATE, "action": STATE}
    with NewDataset(
        out, fps=FRAMES_PER_SECOND, camera=CAMERA, features=features, robot="mini_gripper", language=False
    ) as made:
        for number in range(count):
            episode = sample_episode(rng)
            states = np.array([_state(shot) for shot in episode.shots], np.float32)
            actions = np.concatenate([states[1:], states[-1:]])  # the next position
            frames = [draw_shot(shot) for shot in episode.shots]
            made.add_episode(episode.goal, frames, {"observation.state": states, "action": actions})
            truth.append(true_annotation(episode, number))
    path = out.parent / f"{out.name}.{TRUTH_NAME}"
    write_atomic(path, "".join(f"{each.model_dump_json()}\n" for each in truth).encode())
    return path


def true_annotation(episode: Episode, number: int) -> EpisodeAnnotation:
    """Return the true sub-tasks of an episode."""
    from interleave.robots.annotation_file import EpisodeAnnotation
    from interleave.robots.video_segments import Segment

    return EpisodeAnnotation(
        episode=number,
        task=episode.goal,
        frames=len(episode.shots),
        fps=FRAMES_PER_SECOND,
        segments=tuple(
            Segment(start=each.start, end=each.end, instruction=each.instruction)
            for each in episode.sub_tasks
        ),
    )


def _state(shot: Shot) -> tuple[Any, ...]:
    """Return the position of the gripper in cells, and whether it is closed."""
    if isinstance(shot, Frame):
        return shot.across / CELL, shot.down / CELL, float(shot.holds is not None)
    if shot.gripper is None:
        raise ValueError("an episode of the gripper has a gripper in every shot")
    return float(shot.gripper.column), 0.0, float(shot.gripper.holds is not None)

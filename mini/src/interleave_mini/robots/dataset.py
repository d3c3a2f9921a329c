"""Episodes of the gripper as a LeRobot dataset, with the true sub-tasks in a file of their own."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np

from interleave.files import write_atomic
from interleave.robots.annotation_file import EpisodeAnnotation
from interleave.robots.lerobot.new_dataset import NewDataset
from interleave.robots.video_segments import Segment
from interleave_mini.robots.episodes import FRAMES_PER_SECOND, Episode, sample_episode
from interleave_mini.world.motion import Frame, Shot, draw_shot
from interleave_mini.world.sprites import CELL

CAMERA = "observation.images.front"
STATE = ("across", "down", "closed")
TRUTH_NAME = "truth.jsonl"


def write_episodes(out: Path, count: int, *, seed: int = 0) -> Path:
    """Write so many episodes to a new dataset, and the truth beside its folder; returns the truth's path."""
    rng, truth = Random(f"episodes/{seed}"), list[EpisodeAnnotation]()
    features = {"observation.state": STATE, "action": STATE}
    with NewDataset(
        out, fps=FRAMES_PER_SECOND, camera=CAMERA, features=features, robot="mini_gripper", language=False
    ) as made:
        for number in range(count):
            episode = sample_episode(rng)
            states = np.array([_state(shot) for shot in episode.shots], np.float32)
            actions = np.concatenate([states[1:], states[-1:]])  # where it goes next
            frames = [draw_shot(shot) for shot in episode.shots]
            made.add_episode(episode.goal, frames, {"observation.state": states, "action": actions})
            truth.append(true_annotation(episode, number))
    path = out.parent / f"{out.name}.{TRUTH_NAME}"
    write_atomic(path, "".join(f"{each.model_dump_json()}\n" for each in truth).encode())
    return path


def true_annotation(episode: Episode, number: int) -> EpisodeAnnotation:
    """The sub-tasks of an episode as they are."""
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
    """Where the gripper is, in cells, and whether it is closed."""
    if isinstance(shot, Frame):
        return shot.across / CELL, shot.down / CELL, float(shot.holds is not None)
    if shot.gripper is None:
        raise ValueError("an episode of the gripper has a gripper in every shot")
    return float(shot.gripper.column), 0.0, float(shot.gripper.holds is not None)

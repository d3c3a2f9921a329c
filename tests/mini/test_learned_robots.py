"""The learned planner and critic about the gripper: goals, sub-tasks that are done or not, films."""

from __future__ import annotations

import asyncio
from random import Random
from typing import Any

import pytest

pytest.importorskip("diffusers")

from interleave.agents.planner import VlmPlanner
from interleave.agents.prompts import load_pack
from interleave.backends.registry import load_vlm
from interleave.robots.annotator import VlmAnnotator
from interleave.robots.measures import score_annotations
from interleave.robots.sub_task_check import SubTaskInput, VlmSubTaskCheck
from interleave.robots.video_segments import FrameSampling, annotate_video
from interleave_mini.bench.task_file import shipped_tasks
from interleave_mini.bench.tasks import ROBOT
from interleave_mini.robots.episodes import Episode, sample_episode, true_annotation
from interleave_mini.robots.gripper import badly_done
from interleave_mini.world.drawing import draw
from interleave_mini.world.motion import draw_shot

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
PACK = load_pack("mini")
ITEMS = 24


@pytest.fixture(scope="module")
def planner() -> Any:
    return load_vlm("mini?device=cpu", "planner")


@pytest.fixture(scope="module")
def critic() -> Any:
    return load_vlm("mini?device=cpu", "critic")


def test_the_planner_finds_the_sub_tasks_to_goals_that_it_has_never_seen(planner: Any) -> None:
    right = 0
    for task in shipped_tasks(ROBOT, ITEMS, seed=1):
        plan = asyncio.run(VlmPlanner(planner, PACK).plan(task.request()))
        right += [step.prompt for step in plan.steps] == [step.prompt for step in task.steps]
    assert right >= PLANNED


def test_the_critic_tells_done_from_not_done(critic: Any) -> None:
    check, rng = VlmSubTaskCheck(critic, PACK), Random(2)
    accepted, refused = 0, 0
    for task in shipped_tasks(ROBOT, ITEMS, seed=2):
        step = rng.choice(task.steps)
        before = step.before or step.scene
        wrong = badly_done(step.operations[0], before, rng)
        done, not_done = (
            asyncio.run(check.check(SubTaskInput(step.prompt, draw(before), draw(scene))))
            for scene in (step.scene, wrong)
        )
        accepted, refused = accepted + done.accepted, refused + (not not_done.accepted)
    assert accepted >= ACCEPTED
    assert refused >= REFUSED


class Filmed:
    """An episode without a file."""

    def __init__(self, episode: Episode) -> None:
        self.episode, self.length = episode, len(episode.shots)

    def frames(self, places: Any) -> Any:
        return [draw_shot(self.episode.shots[place]) for place in places]


def test_the_planner_finds_most_sub_tasks_in_films(planner: Any) -> None:
    annotator, rng = VlmAnnotator(planner, PACK, columns=None), Random(3)
    episodes = [sample_episode(rng) for _ in range(6)]
    true = {number: true_annotation(episode, number) for number, episode in enumerate(episodes)}
    found = {}
    for number, episode in enumerate(episodes):
        film = annotate_video(annotator, Filmed(episode), episode.goal, FrameSampling(5, 8))
        found[number] = true[number].model_copy(update={"segments": tuple(asyncio.run(film))})
    assert score_annotations(found, true).segment_f1.value >= FOUND


PLANNED, ACCEPTED, REFUSED, FOUND = 14, 22, 18, 0.6
"""Floors against regressions; of the goals, nearly all worded as in no training, 17 were planned right."""

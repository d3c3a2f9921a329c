"""The miniature's robot: goals, films, mistakes and corrections, and the program that reads films."""

from __future__ import annotations

import asyncio
from random import Random

import numpy as np
import pytest

from interleave_mini.bench.task_file import shipped_tasks
from interleave_mini.bench.tasks import ROBOT
from interleave_mini.language.vocabulary import unknown_words
from interleave_mini.oracle import Oracle
from interleave_mini.robots.closed_loop import ClosedLoop, run_episodes
from interleave_mini.robots.episodes import described_shots, held, sample_episode, what_is_seen
from interleave_mini.robots.gripper import badly_done, carry_out, correction, same_state
from interleave_mini.robots.hand_reader import read_hands
from interleave_mini.world.drawing import draw_pixels
from interleave_mini.world.motion import Frame, draw_shot, movement, shot_codes, shot_pixels
from interleave_mini.world.operations import Impossible, Pick, apply_all
from interleave_mini.world.scene import Gripper, Scene, Size, Thing
from miniature.grammar.robot_goals import GOALS, random_bench, read_goal, sample_goal
from miniature.grammar.tasks import parse_task, sample_task, sample_training_task

RNG_SEED = 4


@pytest.mark.parametrize("goal", GOALS, ids=lambda goal: goal.name)
def test_every_goal_is_asked_for_and_read_back(goal: object) -> None:
    rng, seen = Random(RNG_SEED), 0
    while seen < 10:
        asked = sample_goal(rng)
        if asked.goal is not goal:
            continue
        seen += 1
        assert read_goal(asked.text.rstrip(".!?"), asked.scene) == asked.steps
        assert apply_all([each for step in asked.steps for each in step.operations], asked.scene) == (
            asked.steps[-1].scene
        )
        assert not unknown_words(asked.text, with_images=True)


def test_a_goal_and_its_image_are_a_task_also_in_other_words() -> None:
    bench = Scene.of(
        "workbench",
        {6: Thing("block", "red", Size.SMALL), 7: Thing("block", "blue", Size.SMALL)},
        Gripper(0),
    )
    for text in (
        "put the red block on the blue one",
        "Please put the red block on the blue one!",
        "Stack red on blue.",
    ):
        task = parse_task((bench, text))
        assert (task.suite, len(task.steps)) == (ROBOT, 2)
        assert task.steps[-1].scene.cells[4] == Thing("block", "red", Size.SMALL)
    swapped = parse_task((bench, "Swap the red block and the blue block."))
    assert len(swapped.steps) == 6, "the gripper carries one block at a time"


def test_a_goal_that_makes_no_sense_here_is_none() -> None:
    bench = random_bench(Random(1))
    colours = {thing.colour for thing in bench.things.values()}
    missing = next(colour for colour in ("red", "blue", "green", "pink", "orange") if colour not in colours)
    assert read_goal(f"Pick up the {missing} block", bench) is None
    assert read_goal("Put the block down on the left", bench) is None, "it holds none"
    assert read_goal("Pick up the red block", Scene("meadow")) is None, "there is no gripper"


def test_training_never_sees_goals_of_the_test_split() -> None:
    rng = Random(0)
    assert {sample_training_task(ROBOT, rng).split for _ in range(30)} == {"train"}
    assert {task.split for task in shipped_tasks(ROBOT, 10)} == {"test"}


# Films


def test_a_gripper_at_rest_is_drawn_as_in_its_scene() -> None:
    bench = random_bench(Random(2))
    assert bench.gripper is not None
    still = Frame(Scene(bench.background, bench.cells), bench.gripper.column * 80, 0)
    assert (shot_pixels(still) == draw_pixels(bench)).all()


@pytest.mark.slow
def test_torch_paints_films_with_the_same_pixels() -> None:
    torch = pytest.importorskip("torch")
    from interleave_mini.world.drawing import TorchPainter

    shots = sample_episode(Random(3)).shots[::7]
    painted = TorchPainter("cpu").paint(torch.from_numpy(shot_codes(shots))).numpy()
    assert (painted == np.stack([shot_pixels(shot) for shot in shots])).all()


def test_sub_tasks_of_an_episode_follow_each_other_and_end_with_their_state() -> None:
    rng = Random(5)
    for _ in range(10):
        episode = sample_episode(rng)
        edges = [each.start for each in episode.sub_tasks] + [episode.sub_tasks[-1].end]
        assert edges == sorted(edges) and (edges[0], edges[-1]) == (0, len(episode.shots))
        for each, following in zip(episode.sub_tasks, episode.sub_tasks[1:], strict=False):
            assert held(episode.shots[following.start]) == held(each.step.scene)
            assert held(episode.shots[following.start - 1]) != held(each.step.scene)
        assert episode.shots[-1] == episode.sub_tasks[-1].step.scene


def test_only_picking_and_placing_can_be_filmed() -> None:
    with pytest.raises(ValueError, match="picks and places"):
        list(movement(Pick(6), Scene("meadow"), 10))
    with pytest.raises(ValueError, match="up to 160"):
        Frame(Scene("meadow"), 0, 200)


def test_the_hand_reader_sees_every_shot_exactly() -> None:
    shots = [shot for seed in range(4) for shot in sample_episode(Random(seed)).shots[::5]]
    for shot, hand in zip(shots, read_hands([draw_shot(shot) for shot in shots]), strict=True):
        assert hand is not None and hand.holds == held(shot)
        if isinstance(shot, Frame):
            assert (hand.across, hand.down) == (shot.across, shot.down)
    assert read_hands([draw_shot(Scene("meadow"))]) == [None]


def test_captions_of_shots_tell_all_that_happens_between_them() -> None:
    episode = sample_episode(Random(9))
    places = [0, len(episode.shots) // 2, len(episode.shots) - 1]
    first, *later = described_shots(episode, places)
    told = " ".join(step.caption for step in later)
    assert first.scene == what_is_seen(episode.shots[0])
    assert all(each.instruction in told for each in episode.sub_tasks)


# Mistakes and corrections


def test_what_goes_wrong_can_be_put_right() -> None:
    rng, lengths = Random(6), set()
    for _ in range(400):
        step = rng.choice(sample_goal(rng).steps)
        before = step.before or step.scene
        wrong = badly_done(step.operations[0], before, rng)
        assert not same_state(wrong, step.scene)
        to_do = correction(wrong, step.scene)
        lengths.add(len(to_do))
        assert same_state(apply_all(to_do, wrong), step.scene)
    assert {1, 2, 4} <= lengths


def test_instructions_are_followed_and_nonsense_is_left_undone() -> None:
    step = sample_task(ROBOT, Random(7)).steps[0]
    before = step.before or step.scene
    assert carry_out(step.prompt, before, Random(0)) == step.scene
    assert carry_out("Sing a song. Pick up the moon.", before, Random(0)) == before
    assert carry_out(step.prompt, before, Random(0), errs=1.0) != step.scene


def test_a_state_without_room_cannot_be_corrected() -> None:
    block = Thing("block", "red", Size.SMALL)
    full = Scene.of("workbench", dict.fromkeys(range(3, 9), block), Gripper(0, "blue"))
    with pytest.raises(Impossible):
        correction(full, Scene.of("workbench", dict.fromkeys(range(3, 9), block), Gripper(0)))


def test_with_a_critic_that_sees_everything_nearly_all_goals_are_reached() -> None:
    from interleave.config.specs import parse_spec

    oracle = Oracle(spec=parse_spec("oracle"), options=Oracle.Options())

    def success(check: Oracle | None) -> float:
        loop = ClosedLoop(check, errs=0.3)
        return asyncio.run(run_episodes(24, loop, critic="", planner="")).success.mean

    assert success(oracle) >= 0.9 > success(None) + 0.2

"""GRPO over whole stories: trajectories as in use, their rewards, and learning from them."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from sampling import one_in

torch = pytest.importorskip("torch")

from interleave.agents.prompts import load_pack  # noqa: E402
from interleave.agents.replies import render_verdict  # noqa: E402
from interleave.backends.protocols import (  # noqa: E402
    GeneratorCapabilities,
    ImageRequest,
    Message,
    Reply,
    Sampling,
    VlmCapabilities,
)
from interleave.backends.registry import load_generator, load_vlm  # noqa: E402
from interleave.cli.main import run  # noqa: E402
from interleave.types import Outcome, Text, Verdict  # noqa: E402
from interleave_mini.bench.tasks import Task  # noqa: E402
from miniature.train.agent_model import write_fresh_agent  # noqa: E402
from miniature.train.trajectories import (  # noqa: E402
    ImageCache,
    JudgedAttempt,
    Player,
    StepReward,
    Trajectory,
    TrajectoryReward,
    chosen,
)
from miniature.train.trajectory_grpo import TrajectoryTraining, lessons, sample_stories, useful_groups  # noqa: E402
from miniature.train.trajectory_learner import Learner, Lesson  # noqa: E402

ACCEPTED = Verdict(outcome=Outcome.ACCEPTED, reasoning="yes")
REFUSED = Verdict(outcome=Outcome.REJECTED, reasoning="no", refined_prompt="again")
UNREADABLE = Verdict(outcome=Outcome.UNREADABLE)
STEP = TrajectoryTraining(kind="step")


def attempts(*judged: tuple[bool, Verdict], image: Any = None) -> list[JudgedAttempt]:
    return [
        JudgedAttempt(number, (), f"{verdict.outcome}", verdict, image, right)
        for number, (right, verdict) in enumerate(judged, start=1)
    ]


# Rewards


def test_a_reward_is_for_what_was_reached_what_was_kept_and_few_redraws() -> None:
    reward = TrajectoryReward(peak=0.4, kept=0.6, redraw=0.1, false_alarm=0.0)
    at_once = Trajectory(0, [attempts((True, ACCEPTED))])
    repaired = Trajectory(0, [attempts((False, REFUSED), (True, ACCEPTED))])
    redrawn = Trajectory(0, [attempts((True, REFUSED), (True, ACCEPTED))])
    lost = Trajectory(0, [attempts((True, REFUSED), (False, ACCEPTED))])
    missed = Trajectory(0, [attempts((False, ACCEPTED))])
    values = [reward.of(each) for each in (at_once, repaired, redrawn, lost, missed)]
    assert values == pytest.approx([1.0, 0.9, 0.9, 0.3, 0.0])


def test_false_alarms_and_unreadable_replies_cost() -> None:
    reward = TrajectoryReward(redraw=0.0, false_alarm=0.25)
    assert reward.of(Trajectory(0, [attempts((True, REFUSED), (True, ACCEPTED))])) == pytest.approx(0.75)
    assert reward.of(Trajectory(0, [attempts((False, UNREADABLE))])) == pytest.approx(-0.25)


def test_steps_that_were_never_reached_count_as_wrong() -> None:
    ended = Trajectory(0, [attempts((True, ACCEPTED)), attempts((False, ACCEPTED))], planned=4)
    assert TrajectoryReward().of(ended) == pytest.approx(0.25)
    assert not ended.is_right


def test_the_attempt_that_counts_is_that_of_the_product() -> None:
    assert chosen(attempts((True, REFUSED), (False, ACCEPTED))).number == 2
    assert chosen(attempts((True, REFUSED), (False, REFUSED))).number == 2


def test_a_verdict_alone_is_rewarded_for_being_right_and_for_its_prompt() -> None:
    reward = StepReward()
    assert reward.of(attempts((True, ACCEPTED)), 0) == 1
    assert reward.of(attempts((False, ACCEPTED)), 0) == 0
    assert reward.of(attempts((False, REFUSED), (True, ACCEPTED)), 0) == 1
    assert reward.of(attempts((False, REFUSED), (False, ACCEPTED)), 0) == 0.5
    assert reward.of(attempts((False, REFUSED)), 0) == 1  # the last one is not drawn again


def test_a_false_alarm_gains_nothing_by_its_prompt() -> None:
    assert StepReward().of(attempts((True, REFUSED), (True, ACCEPTED)), 0) == -0.5
    assert StepReward().of(attempts((False, UNREADABLE)), 0) == -0.5


# Advantages


def test_trajectories_are_compared_within_their_story() -> None:
    good = Trajectory(0, [attempts((True, ACCEPTED))])
    bad = Trajectory(0, [attempts((False, ACCEPTED))])
    alone = Trajectory(1, [attempts((False, ACCEPTED))])
    made = lessons([good, bad, alone], TrajectoryTraining(), Random(0))
    assert [each.advantage for each in made] == pytest.approx([0.5, -0.5, 0.0])
    assert useful_groups([good, bad, alone], TrajectoryTraining()) == 1.0


def test_verdicts_are_compared_where_they_are_about_the_same_image() -> None:
    one, other = object(), object()
    played = [
        Trajectory(0, [attempts((False, ACCEPTED), image=one)]),
        Trajectory(0, [attempts((False, REFUSED), image=one)]),
        Trajectory(0, [attempts((True, ACCEPTED), image=other)]),
    ]
    made = lessons(played, STEP, Random(0))
    assert sorted(each.advantage for each in made) == pytest.approx([-0.5, 0.0, 0.5])


def test_what_a_mistake_costs_is_not_divided_away() -> None:
    """A false alarm weighs more than a miss, though each is compared with right verdicts only."""
    alarm = [Trajectory(0, [attempts((True, each))]) for each in (ACCEPTED, REFUSED)]
    miss = [Trajectory(1, [attempts((False, each))]) for each in (REFUSED, ACCEPTED)]
    made = {(each.answer, each.advantage) for each in lessons([*alarm, *miss], STEP, Random(0))}
    assert (f"{Outcome.REJECTED}", -0.75) in made and (f"{Outcome.ACCEPTED}", -0.5) in made


def test_nothing_is_learned_where_all_trajectories_are_alike() -> None:
    played = [Trajectory(0, [attempts((True, ACCEPTED))]) for _ in range(3)]
    assert lessons(played, TrajectoryTraining(), Random(0)) == []
    assert useful_groups(played, TrajectoryTraining()) == 0.0


# Playing


class Refuser:
    """A critic that refuses as often as it is told to, and then accepts."""

    capabilities = VlmCapabilities()

    def __init__(self, refusals: int) -> None:
        self.refusals = refusals

    async def complete(self, messages: Any, sampling: Sampling) -> Reply:
        self.refusals -= 1
        return Reply(render_verdict(REFUSED if self.refusals >= 0 else ACCEPTED), "stop")


class Counted:
    """The world's painter, which counts what it draws."""

    capabilities = GeneratorCapabilities()

    def __init__(self, spec: str = "world") -> None:
        self.painter, self.seen = load_generator(spec), list[ImageRequest]()

    async def generate(self, request: ImageRequest) -> Any:
        self.seen.append(request)
        return await self.painter.generate(request)


def play(critic: Any, painter: Any, stories: list[Task], samples: int, **options: Any) -> list[Trajectory]:
    player = Player(critic, [painter], load_pack("mini"), **options)
    return asyncio.run(player.play(stories, samples, 7, ImageCache()))


def a_story() -> Task:
    return next(each for each in sample_stories(40, Random(3)) if len(each.steps) > 2)


def test_trajectories_of_a_story_share_their_images() -> None:
    painter, story = Counted(), a_story()
    played = play(Refuser(0), painter, [story], 3)
    assert len(painter.seen) == len(story.steps)
    assert len({id(each.steps[0][0].image) for each in played}) == 1
    assert all(each.is_right for each in played)


def test_a_trajectory_ends_where_a_wrong_image_was_chosen() -> None:
    [made] = play(Refuser(0), Counted("world?mistakes=1"), [a_story()], 1)
    assert len(made.steps) == 1 and made.length > 1 and not made.is_right


def test_a_refused_image_is_drawn_again_from_the_prompt_of_the_critic() -> None:
    painter = Counted()
    [made] = play(Refuser(1), painter, [a_story()], 1)
    assert [each.prompt for each in painter.seen[:2]] == [a_story().steps[0].prompt, "again"]
    assert len(made.steps[0]) == 2


def test_first_images_may_show_another_step() -> None:
    story = a_story()
    [made] = play(Refuser(0), Counted(), [story], 1, strays=1.0)
    assert not made.steps[0][0].right


# Learning


def learner_of(folder: Path, **options: Any) -> Learner:
    critic: Any = load_vlm(f"transformers:{folder}?dtype=float32&device=cpu", "critic")
    return Learner(critic.loaded.decoder, **options)


def test_learning_makes_the_better_answer_likelier(tmp_path: Path) -> None:
    torch.backends.cuda.enable_cudnn_sdp(True)
    learner = learner_of(write_fresh_agent(tmp_path / "critic", "toy"))
    assert not torch.backends.cuda.cudnn_sdp_enabled(), "its gradients may be no numbers"
    asked = (Message("user", (Text("Judge: a cat."),)),)
    good, bad = (
        Lesson(asked, render_verdict(each), mark) for each, mark in ((ACCEPTED, 1.0), (REFUSED, -1.0))
    )

    def log_probability(lesson: Lesson) -> float:
        with torch.no_grad():
            found, spoken = learner.log_probs([lesson])
        return float((found * spoken).sum())

    before = log_probability(good), log_probability(bad)
    learned = [learner.learn([good, bad], 1e-3) for _ in range(3)]
    after = log_probability(good), log_probability(bad)
    assert after[0] - before[0] > after[1] - before[1]
    assert learned[0]["drift"] == pytest.approx(0.0, abs=1e-6) and learned[2]["drift"] > 0
    assert learner.learn([], 1e-3) == {"lessons": 0}


def test_what_is_held_moves_less(tmp_path: Path) -> None:
    folder = write_fresh_agent(tmp_path / "critic", "toy")
    lesson = Lesson((Message("user", (Text("Judge: a cat."),)),), render_verdict(ACCEPTED), 0.1)
    drifts = []
    for number, hold in enumerate((0.0, 10.0)):
        copy = write_fresh_agent(tmp_path / f"critic-{number}", "toy")
        assert copy != folder  # models of one folder are shared
        learner = learner_of(copy, hold=hold)
        drifts.append([learner.learn([lesson], 1e-3) for _ in range(8)][-1]["drift"])
    assert drifts[1] < drifts[0]


def test_the_answer_is_judged_by_its_own_tokens_alone(tmp_path: Path) -> None:
    """Padding beside a longer answer changes nothing."""
    learner = learner_of(write_fresh_agent(tmp_path / "critic", "toy"))
    short = Lesson((Message("user", (Text("Judge: a cat."),)),), "yes", 1.0)
    long = Lesson((Message("user", (Text("Judge: a cat and a dog on the beach."),)),), "no no no no", 1.0)
    with torch.no_grad():
        alone, there = learner.log_probs([short])
        both, which = learner.log_probs([short, long])
    count = int(there.sum())
    assert torch.allclose(alone[0, :count], both[0, :count], atol=1e-4)
    assert which.sum(dim=1).tolist() == [count, int(learner.log_probs([long])[1].sum())]


# The command


def train(folder: Path, out: Path, *more: str) -> int:
    arguments = ["mini", "train", "trajectories", str(folder), "--out", str(out)]
    sizes = ["--stories", "1", "--samples", "2", "--scouts", "2", "--attempts", "2", "--device", "cpu"]
    return run([*arguments, *sizes, "--generator", "world?mistakes=0.5", *more])


@pytest.mark.parametrize("reward", one_in(2, ["trajectory", "step"]))
def test_the_command_trains_and_saves(reward: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_fresh_agent(tmp_path / "critic", "toy")
    monkeypatch.chdir(tmp_path)  # a relative path is a folder, not a name of the Hub
    assert train(Path("critic"), Path("out"), "--steps", "1", "--reward", reward) == 0
    assert (tmp_path / "out" / "model" / "model.safetensors").is_file()
    [line] = (tmp_path / "out" / "log.jsonl").read_text().splitlines()
    assert {"seconds", "reward", "groups", "false_alarms", "caught", "attempts"} <= json.loads(line).keys()


def test_the_same_command_goes_on(tmp_path: Path) -> None:
    folder = write_fresh_agent(tmp_path / "critic", "toy")
    assert train(folder, tmp_path / "out", "--steps", "1") == 0
    assert train(folder, tmp_path / "out", "--steps", "2") == 0
    lines = [json.loads(line) for line in (tmp_path / "out" / "log.jsonl").read_text().splitlines()]
    assert [each["step"] for each in lines] == [0, 1]
    assert lines[1]["seconds"] > lines[0]["seconds"]


def test_an_unknown_reward_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_fresh_agent(tmp_path / "critic", "toy")
    assert train(folder, tmp_path / "out", "--reward", "both") == 2
    assert "choose trajectory or step" in capsys.readouterr().err

"""GRPO over whole stories: trajectories as in use, their rewards, and learning from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

torch = pytest.importorskip("torch")

from interleave.agents.replies import render_verdict  # noqa: E402
from interleave.cli.main import run  # noqa: E402
from interleave.types import Outcome, Verdict  # noqa: E402
from interleave_mini.train.agent_model import write_fresh_agent  # noqa: E402
from interleave_mini.train.trajectories import (  # noqa: E402
    JudgedAttempt,
    Trajectory,
    TrajectoryReward,
    chosen,
    step_reward,
)
from interleave_mini.train.trajectory_grpo import Learner, Lesson, TrajectoryTraining, lessons  # noqa: E402

ACCEPTED = Verdict(outcome=Outcome.ACCEPTED, reasoning="yes")
REFUSED = Verdict(outcome=Outcome.REJECTED, reasoning="no", refined_prompt="again")


def attempts(*judged: tuple[bool, Verdict]) -> list[JudgedAttempt]:
    picture: Any = None
    return [
        JudgedAttempt(number, (), f"{verdict.outcome}", verdict, picture, right)
        for number, (right, verdict) in enumerate(judged, start=1)
    ]


def test_a_reward_is_for_what_was_reached_what_was_kept_and_few_redraws() -> None:
    reward = TrajectoryReward(peak=0.4, kept=0.6, redraw=0.1)
    at_once = Trajectory(0, [attempts((True, ACCEPTED))])
    repaired = Trajectory(0, [attempts((False, REFUSED), (True, ACCEPTED))])
    false_alarm = Trajectory(0, [attempts((True, REFUSED), (True, ACCEPTED))])
    lost = Trajectory(0, [attempts((True, REFUSED), (False, ACCEPTED))])
    missed = Trajectory(0, [attempts((False, ACCEPTED))])
    values = [reward.of(each) for each in (at_once, repaired, false_alarm, lost, missed)]
    assert values == pytest.approx([1.0, 0.9, 0.9, 0.3, 0.0])


def test_the_attempt_that_counts_is_that_of_the_product() -> None:
    assert chosen(attempts((True, REFUSED), (False, ACCEPTED))).number == 2
    assert chosen(attempts((True, REFUSED), (False, REFUSED))).number == 2


def test_a_verdict_alone_is_rewarded_for_being_right_and_for_its_prompt() -> None:
    assert step_reward(attempts((True, ACCEPTED)), 0) == 1
    assert step_reward(attempts((False, ACCEPTED)), 0) == 0
    assert step_reward(attempts((False, REFUSED), (True, ACCEPTED)), 0) == 1
    assert step_reward(attempts((False, REFUSED), (False, ACCEPTED)), 0) == 0.5


def test_trajectories_are_compared_within_their_story() -> None:
    good = Trajectory(0, [attempts((True, ACCEPTED))])
    bad = Trajectory(0, [attempts((False, ACCEPTED))])
    alone = Trajectory(1, [attempts((False, ACCEPTED))])
    made = lessons([good, bad, alone], TrajectoryTraining())
    assert [each.advantage for each in made] == pytest.approx([1.0, -1.0])


def test_a_long_trajectory_weighs_no_more_in_the_mean_than_a_short_one() -> None:
    long = Trajectory(0, [attempts((False, REFUSED), (False, REFUSED), (False, ACCEPTED))])
    short = Trajectory(0, [attempts((True, ACCEPTED))])
    made = lessons([long, short], TrajectoryTraining())
    assert [each.advantage for each in made] == pytest.approx([-1.0, -1.0, -1.0, 1.0])


def test_learning_makes_the_better_answer_likelier(tmp_path: Path) -> None:
    from interleave.backends.protocols import Message
    from interleave.backends.registry import load_vlm
    from interleave.types import Text

    folder = write_fresh_agent(tmp_path / "critic", "toy")
    critic: Any = load_vlm(f"transformers:{folder}?dtype=float32&device=cpu", "critic")
    learner = Learner(critic.loaded.decoder, TrajectoryTraining(rate=1e-3))
    asked = (Message("user", (Text("Judge: a cat."),)),)
    good, bad = (
        Lesson(asked, render_verdict(each), mark) for each, mark in ((ACCEPTED, 1.0), (REFUSED, -1.0))
    )

    def log_probability(lesson: Lesson) -> float:
        with torch.no_grad():
            found, spoken = learner._log_probs([lesson])
        return float((found * spoken).sum())

    before = log_probability(good), log_probability(bad)
    for _ in range(3):
        learner.learn([good, bad], 1e-3)
    after = log_probability(good), log_probability(bad)
    assert after[0] - before[0] > after[1] - before[1]
    assert learner.learn([], 1e-3) == {"lessons": 0}


def test_the_answer_is_judged_by_its_own_tokens_alone(tmp_path: Path) -> None:
    """Padding beside a longer answer changes nothing."""
    from interleave.backends.protocols import Message
    from interleave.backends.registry import load_vlm
    from interleave.types import Text

    folder = write_fresh_agent(tmp_path / "critic", "toy")
    critic: Any = load_vlm(f"transformers:{folder}?dtype=float32&device=cpu", "critic")
    learner = Learner(critic.loaded.decoder, TrajectoryTraining())
    short = Lesson((Message("user", (Text("Judge: a cat."),)),), "yes", 1.0)
    long = Lesson((Message("user", (Text("Judge: a cat and a dog on the beach."),)),), "no no no no", 1.0)
    with torch.no_grad():
        alone, there = learner._log_probs([short])
        both, which = learner._log_probs([short, long])
    count = int(there.sum())
    assert torch.allclose(alone[0, :count], both[0, :count], atol=1e-4)
    assert which.sum(dim=1).tolist() == [count, int(learner._log_probs([long])[1].sum())]


@pytest.mark.parametrize("reward", ["trajectory", "step"])
def test_the_command_trains_and_saves(reward: str, tmp_path: Path) -> None:
    folder = write_fresh_agent(tmp_path / "critic", "toy")
    arguments = ["mini", "train", "trajectories", str(folder), "--out", str(tmp_path / "out")]
    options = ["--steps", "1", "--stories", "1", "--samples", "2", "--attempts", "2", "--device", "cpu"]
    assert run([*arguments, *options, "--reward", reward, "--generator", "world?mistakes=0.5"]) == 0
    assert (tmp_path / "out" / "model" / "model.safetensors").is_file()
    assert '"verdicts"' in (tmp_path / "out" / "log.jsonl").read_text()


def test_an_unknown_reward_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = write_fresh_agent(tmp_path / "critic", "toy")
    arguments = ["mini", "train", "trajectories", str(folder), "--out", str(tmp_path / "out")]
    assert run([*arguments, "--reward", "both"]) == 2
    assert "choose trajectory or step" in capsys.readouterr().err

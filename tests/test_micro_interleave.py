"""The method in one file: its parts in seconds, the whole run marked slow."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

from work import HANGS_AFTER

FILE = Path(__file__).parent.parent / "examples" / "micro_interleave.py"


def loaded() -> ModuleType:
    spec = importlib.util.spec_from_file_location("micro_interleave", FILE)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


micro: Any = loaded()


def words(text: str) -> list[int]:
    return [micro.WORDS.index(word) for word in text.split()]


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def blank(count: int) -> np.ndarray:
    return np.zeros((count, 9, micro.PIXELS), np.float32)


def in_doubles(tensors: list[Any]) -> None:
    for each in tensors:
        each.value = each.value.astype(np.float64)


def test_the_reader_finds_each_thing_and_refuses_a_smudge() -> None:
    assert micro.read(micro.CELLS).tolist() == list(range(17))
    between = (micro.CELLS[1] + micro.CELLS[16]) / 2
    assert micro.read(between[None]).tolist() == [-1]


def test_a_plan_says_what_its_request_asks_for() -> None:
    requests, plans = micro.ask(200, rng())
    things, places = micro.meaning(plans)
    assert micro.is_prompt(plans).all()
    assert set(things.ravel()) == set(range(1, 17))
    assert (plans[:, :, :2].reshape(200, 6) == requests[:, :6]).all()
    assert (places == micro.LINES[requests[:, 6] - micro.SHAPE]).all()
    thing, place = micro.meaning(np.array([words("emerald cone bottom-left")]))
    assert (thing.tolist(), place.tolist()) == ([1 + 4 * 1 + 2], [6])
    assert not micro.is_prompt(np.array([words("cone emerald bottom-left"), words("reject ball top")])).any()


def slopes_agree(loss: Any, weight: Any, at: tuple[int, int], slope: float) -> None:
    values = []
    for shift in (1e-5, -1e-5):
        weight.value[at] += shift
        values.append(loss())
        weight.value[at] -= shift
    assert (values[0] - values[1]) / 2e-5 == pytest.approx(slope, rel=1e-4, abs=1e-8)


def test_slopes_of_the_writer_are_those_of_differences() -> None:
    writer = micro.Writer(rng(), width=8)
    in_doubles(writer.learned)
    cells = rng(1).random((3, 9, 2 * micro.PIXELS))
    requests, plans = micro.ask(3, rng(2))
    reply = plans[:, 0]

    def loss() -> float:
        scores = writer.scores(cells, np.concatenate([requests, reply[:, :-1]], 1)).softmax().value[:, -3:]
        return -np.log(np.take_along_axis(scores, reply[..., None], -1)).mean()

    writer.learn(cells, requests, reply, 1.0)
    for each in writer.learned:
        row, column = np.unravel_index(np.abs(each.slope).argmax(), each.slope.shape)
        slopes_agree(loss, each, (row, column), each.slope[row, column])


def test_slopes_of_the_generator_are_those_of_differences() -> None:
    generator = micro.Generator(rng(), width=8)
    in_doubles(generator.learned)
    noisy, old, new = rng(1).random((3, 4, micro.PIXELS))
    given = noisy, old, micro.bag(micro.ask(4, rng(2))[0]), np.eye(9)[:4], np.full((4, 1), 0.3)
    guess = generator.guess(*given)
    guess.learn(2 * (guess.value - new))
    for each in generator.learned:
        row, column = np.unravel_index(np.abs(each.slope).argmax(), each.slope.shape)
        slopes_agree(
            lambda: ((generator.guess(*given).value - new) ** 2).sum(),
            each,
            (row, column),
            each.slope[row, column],
        )


def test_a_hundred_steps_teach_the_planner_most_words() -> None:
    planner = micro.fine_tune(lambda: micro.plan_examples(random, 32), 100, random := rng())
    requests, plans = micro.ask(200, rng(1))
    assert (planner.write(None, requests, 9) == plans.reshape(200, 9)).mean() > 0.8


def test_the_generator_draws_the_same_image_from_the_same_noise() -> None:
    generator = micro.train_generator(micro.loose_words(rng()), rng(), steps=60)
    prompts, start = micro.ask(5, rng(1))[1][:, 0], micro.noise(5, rng(2))
    drawn = generator.draw(blank(5), prompts, start)
    assert (drawn == generator.draw(blank(5), prompts, start)).all()
    assert (drawn != generator.draw(blank(5), prompts, micro.noise(5, rng(3)))).any()
    assert drawn.min() >= 0 and drawn.max() <= 2


def test_one_word_of_three_is_never_misused() -> None:
    loose = micro.loose_words(rng()).reshape(-1)
    assert len(loose) == len(micro.WORDS)
    assert (np.sort(loose[: micro.PLACE].reshape(8, 3)) == [0, 0.4, 0.8]).all()
    assert not loose[micro.PLACE :].any()


class Painter:
    """Draws the prompt exactly, or as listed in `wrong` nothing."""

    def __init__(self, *wrong: str) -> None:
        self.wrong = [words(each) for each in wrong]
        self.prompts: list[list[int]] = []

    def draw(self, before: np.ndarray, prompts: np.ndarray, start: np.ndarray) -> np.ndarray:
        after = before.copy()
        for image, prompt in zip(after, prompts.tolist(), strict=True):
            self.prompts.append(prompt)
            if prompt not in self.wrong and micro.is_prompt(np.array(prompt)):
                thing, place = micro.meaning(np.array(prompt))
                image[place] = micro.CELLS[thing]
        return after


def test_rewards_of_every_case() -> None:
    planned = np.array([words("ruby ball top")] * 6)
    right = np.array([True, True, False, False, False, False])
    tried = micro.Attempts(blank(6), blank(6), planned, planned, right)
    reply = np.array(
        [
            words("accept . . ."),
            words("reject red orb top"),
            words("accept . . ."),
            words("reject red orb top"),
            words("reject crimson ball top"),
            words("reject top ball red"),
        ]
    )
    rewards = micro.reward(Painter("crimson ball top"), tried, reply, micro.noise(6, rng()))
    assert rewards == pytest.approx([0.8, 0.7, 0.7, 1.0, 0.8, 0.0])


def test_attempts_are_labelled_by_what_they_show() -> None:
    right = micro.collect(Painter(), rng(), 20)
    assert right.right.all() and len(right.right) == 60
    assert (micro.meaning(right.used)[0] == micro.meaning(right.planned)[0]).all()
    assert (right.used != right.planned).any(1).sum() > 10  # said in other words
    *_, replies = micro.critic_examples(right, rng(), 16)
    assert (replies == micro.ACCEPTANCE).all()
    idle = SimpleNamespace(draw=lambda before, prompts, start: before)
    wrong = micro.collect(idle, rng(), 20)
    assert not wrong.right.any()
    *_, replies = micro.critic_examples(wrong, rng(), 16)
    assert (replies[:, 0] == micro.REJECT).all() and micro.is_prompt(replies[:, 1:]).all()


def test_grpo_learns_from_differences_of_reward_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    painter = Painter(*(f"ruby ball {place}" for place in micro.PLACES))
    attempts = micro.collect(painter, rng(), 100)
    assert 0 < attempts.right.mean() < 1
    critic = micro.Writer(rng(1), width=8)
    started = [each.value.copy() for each in critic.learned]

    def moved() -> bool:
        learned = micro.train_grpo(critic, painter, attempts, rng(2), steps=1).learned
        return any((one.value != other).any() for one, other in zip(learned, started, strict=True))

    monkeypatch.setattr(micro, "reward", lambda generator, tried, reply, start: np.ones(len(reply)))
    assert not moved()
    monkeypatch.setattr(micro, "reward", lambda generator, tried, reply, start: reply[:, 0] == micro.REJECT)
    assert moved()
    assert all((one.value == other).all() for one, other in zip(critic.learned, started, strict=True))


def test_a_reply_better_than_its_group_becomes_likelier() -> None:
    critic = micro.Writer(rng())
    seen = rng(1).random((2, 9, 2 * micro.PIXELS)).astype(np.float32), np.array([words("red ball top")] * 2)
    reply = np.array([words("reject red orb top"), words("accept . . .")])

    def chances() -> np.ndarray:
        scores = critic.scores(seen[0], np.concatenate([seen[1], reply[:, :-1]], 1)).softmax().value[:, -4:]
        return np.take_along_axis(scores, reply[..., None], -1).prod(1)[:, 0]

    before = chances()
    adam = micro.Adam(critic.learned, 1e-3)
    critic.learn(*seen, reply, np.array([[[1.0]], [[-1.0]]]))
    adam.step()
    better, worse = chances() / before
    assert better > 1 > worse


def scripted(*replies: str) -> SimpleNamespace:
    """A critic or planner that writes the next of its replies to all that it sees."""
    left = list(replies)
    return SimpleNamespace(write=lambda cells, seen, count: np.array([words(left.pop(0))] * len(seen)))


PLAN = "red ball top-left blue box top green tent top-right"


def test_a_rejected_image_is_drawn_again_from_the_image_before() -> None:
    requests = np.array([words("red ball blue box green tent top-row")])
    plans = np.array(words(PLAN)).reshape(1, 3, 3)
    painter = Painter("red ball top-left", "blue box top")
    critic = scripted(
        *("reject crimson disc top-left", "accept . . .", "reject ruby orb top"),  # the third counts no more
        *("reject box box box", "reject box box box", "reject azure crate top"),
        *["accept . . ."] * 3,
    )
    images, drawn = micro.make(requests, scripted(PLAN), painter, critic, rng())
    assert [" ".join(micro.WORDS[each] for each in prompt) for prompt in painter.prompts[:6]] == [
        "red ball top-left",
        "crimson disc top-left",
        "red ball top-left",
        *["blue box top"] * 3,  # what is no prompt is not drawn: the plan's is, again
    ]
    assert drawn == 6
    assert [micro.read(image)[0].tolist() for image in images] == [
        [1, 0, 0, 0, 0, 0, 0, 0, 0],
        [1, 0, 0, 0, 0, 0, 0, 0, 0],
        [1, 0, 7, 0, 0, 0, 0, 0, 0],
    ]
    assert micro.strict(plans, images).tolist() == [False]
    good, _ = micro.make(requests, scripted(PLAN), Painter(), None, rng())
    assert micro.strict(plans, good).tolist() == [True]
    assert micro.strict(plans, good[-1:]).tolist() == [True]


def test_nothing_that_makes_a_document_knows_the_truth() -> None:
    truth = {"read", "change", "is_right", "meaning", "strict", "reward", "loose_words", "CELLS"}
    names: set[str] = set()
    todo = ["make"]
    while todo:
        name = todo.pop()
        names.add(name)
        for owner in (micro, micro.Writer, micro.Generator, micro.Tensor):
            code = getattr(getattr(owner, name, None), "__code__", None)
            todo += [each for each in code.co_names if each not in names] if code else []
    assert {"write", "scores", "draw", "guess", "bag", "seen", "is_prompt"} <= names
    assert not truth & names


def test_an_interval_of_a_share() -> None:
    assert micro.interval(np.zeros(500)) == "  0.0 [ 0.0,   0.8]"
    assert micro.interval(np.arange(500) < 250) == " 50.0 [45.6,  54.4]"


@pytest.mark.slow
def test_each_part_of_the_method_helps_and_shuffled_rewards_do_not() -> None:
    ran = subprocess.run(
        [sys.executable, str(FILE)], capture_output=True, text=True, timeout=10 * HANGS_AFTER, check=True
    )
    table = re.findall(r" ([\d.]+) \[ *([\d.]+), +([\d.]+)\]", ran.stdout)
    shares, lows, highs = (list(map(float, column)) for column in zip(*table, strict=True))
    base, plan, sft, grpo, shuffled = range(5)
    for worse, better in ((base, plan), (plan, sft), (sft, grpo), (shuffled, grpo)):
        assert highs[worse] < lows[better], ran.stdout
    assert shares[shuffled] <= highs[sft], ran.stdout

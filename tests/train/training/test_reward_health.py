"""What may be learned when generator or scorer fail: never from the survivors alone, and not for ever."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
from test_rewards import accept, reject, sample
from test_trainers import SPECS, easyr1_record

from interleave.agents.critic import CriticInput
from interleave.backends.protocols import GeneratorCapabilities, ImageRequest
from interleave.errors import BackendError
from interleave.train.rewards.core import RewardCore
from interleave.train.rewards.formula import batch_advantages
from interleave.train.rewards.health import (
    FailureLimits,
    Health,
    RewardUnhealthy,
    Screened,
    filled_with_group_mean,
    screened,
)
from interleave.train.rewards.redraws import Redrawer
from interleave.train.trainers import easyr1, ms_swift, shared
from interleave.train.trainers.trl import ScoredBatch, TrlReward
from interleave.types import Scores

LENIENT = FailureLimits(step=1.0)
GROUP = ["a"] * 8


@pytest.fixture(autouse=True)
def counted_anew() -> Iterator[None]:
    shared.health.cache_clear()
    yield
    shared.health.cache_clear()


# --- the rule


def test_K02_one_failure_of_a_group_is_left_out_alone() -> None:
    totals = [0.7, 0.7, None, 0.9, 0.8, 0.6, 0.9, 0.8]
    step = screened(totals, [False, False, *[True] * 6], GROUP)
    assert step == Screened(tuple(totals), failed=1, needed=6)


def test_the_survivors_of_a_failed_group_teach_nothing() -> None:
    """Six refusals of a wrong image, of which one got a reward, a bad one; two took the image."""
    totals = [None, None, None, None, None, 0.6, 0.7, 0.7]
    drawn = [False] * 5 + [True] + [False] * 2
    advantages = batch_advantages(totals, 8)
    assert advantages[6] == pytest.approx(0.577, abs=1e-3), "so they would be taught to take it"
    step = screened(totals, drawn, GROUP, LENIENT)
    assert step.totals == (None,) * 8
    assert (step.failed, step.needed, step.discarded_groups, step.discarded) == (5, 6, 1, False)


def test_other_groups_of_the_step_are_learned_from_while_the_step_is_below_its_limit() -> None:
    good = [0.9] * 8
    step = screened([None, *[0.7] * 7, *good * 3], [False] * 8 + [True] * 24, [*"a" * 8, *"b" * 24])
    assert step.totals == (*[None] * 8, *good * 3), "the only refusal of the first group failed"
    assert (step.discarded_groups, step.discarded, step.share) == (1, False, 1 / 25)


def test_K05_a_step_above_its_limit_is_discarded_whole() -> None:
    groups = [number // 8 for number in range(64)]
    spread = [None if number % 8 == 0 else 0.5 for number in range(64)]
    step = screened(spread, [number % 8 != 0 for number in range(64)], groups)
    assert step.totals == (None,) * 64
    assert (step.discarded, step.discarded_groups, step.share) == (True, 0, 1 / 8)
    few = [None if number in (0, 8, 16, 24, 32, 40) else 0.5 for number in range(64)]
    step = screened(few, [total is not None for total in few], groups)
    assert not step.discarded
    assert step.totals == tuple(few)


def test_one_failure_in_a_small_step_is_bad_luck_and_two_are_not() -> None:
    assert not screened([None, 0.5, 0.5, 0.5], [False, True, True, True], "aaaa").discarded
    assert screened([None, None, 0.5, 0.5], [False, False, True, True], "aabb").discarded


def test_what_needed_no_drawing_does_not_hide_failures() -> None:
    """Nine tenths took the image: two failures of three are much, and few of all samples."""
    totals: list[float | None] = [0.7] * 61 + [None, None, 0.9]
    step = screened(totals, [False] * 63 + [True], [number // 8 for number in range(64)])
    assert step.discarded
    assert step.share == pytest.approx(2 / 3)


def test_nothing_to_draw_is_nothing_failed() -> None:
    step = screened([0.7, 0.2], [False, False], "aa")
    assert (step.totals, step.share, step.discarded) == ((0.7, 0.2), 0.0, False)


def test_the_mean_of_a_group_stands_in_where_none_can_be_left_out() -> None:
    totals = [0.2, None, 0.4, None, None, 0.5, None]
    kept = [0.2, None, 0.4, None, None, None, None]
    assert filled_with_group_mean(totals, kept, "aaabbcc") == pytest.approx(
        [0.2, 0.3, 0.4, 0.0, 0.0, 0.5, 0.5]
    )


# --- for how long


def steps(health: Health, *failures: int, needed: int = 10) -> None:
    for failed in failures:
        totals = [None] * failed + [0.5] * (needed - failed)
        drawn = [total is not None for total in totals]
        health.note(screened(totals, drawn, range(needed), health.limits), ["the scorer is down"] * failed)


def test_K05_three_discarded_steps_running_are_unhealthy() -> None:
    health = Health()
    steps(health, 2, 2)
    assert not health.unhealthy
    steps(health, 1)
    assert health.bad_steps == 0, "a tenth is still allowed"
    steps(health, 2, 2, 2)
    assert health.unhealthy
    complaint = str(health.complaint())
    assert complaint.startswith("reward_unhealthy: more than 10% of the redraws failed in 3 consecutive")
    assert "Most often: the scorer is down. The state is saved" in complaint


def test_failures_now_and_then_are_unhealthy_when_they_go_on() -> None:
    """Every other step is good, so that none are bad three times running."""
    health = Health(FailureLimits(window=6))
    steps(health, 3, 0, 3, 0, 3)
    assert not health.unhealthy, "the window is not full"
    steps(health, 0)
    assert health.lately == pytest.approx(9 / 60)
    assert health.unhealthy
    assert "more than 10% of the redraws failed over the last 6 steps" in str(health.complaint())
    steps(health, 0, 0, 0)
    assert not health.unhealthy


def test_causes_of_long_ago_are_forgotten() -> None:
    health = Health(FailureLimits(window=2))
    steps(health, 2, 0, 0)
    assert not health.causes
    assert health.lately == 0.0


# --- through the trainers


class Painter:
    capabilities = GeneratorCapabilities()

    async def generate(self, request: ImageRequest) -> Any:
        from PIL import Image

        await asyncio.sleep(0)
        return Image.new("RGB", (8, 8), "red")


class Judge:
    """Marks every image as worse than before, and fails when it is told to."""

    def __init__(self, fails: Callable[[int], bool]) -> None:
        self.calls = 0
        self.fails = fails

    async def score(self, seen: CriticInput) -> Scores:
        self.calls += 1
        if self.fails(self.calls):
            raise BackendError("the scorer is down")
        return Scores(semantics=1.0, quality=6.0)


COLUMNS = {
    name: [getattr(sample(), name)] * 8
    for name in ("id", "planned_prompt", "used_prompt", "sources", "success")
} | {"semantics": [4.0] * 8, "quality": [6.0] * 8}
REPLIES = [*(reject(f"cat {number}") for number in range(6)), accept(), accept()]


def rewards(reward: TrlReward, log: dict[str, float] | None = None) -> list[float | None]:
    def note(name: str, value: float) -> None:
        if log is not None:
            log[name] = value

    return asyncio.run(reward.reward([""] * 8, REPLIES, log_metric=note, **COLUMNS))


def test_trl_is_given_nothing_of_a_group_whose_judge_failed_for_five_of_six() -> None:
    reward = TrlReward(RewardCore(Redrawer(Painter(), Judge(lambda call: call != 3))), patience=0.0)
    scored: list[ScoredBatch] = []
    reward.on_scored = scored.append
    log: dict[str, float] = {}
    assert rewards(reward, log) == [None] * 8
    assert [result.total is None for result in scored[0].results].count(True) == 5
    assert log["redraws/failed"] == pytest.approx(5 / 6)


def test_trl_is_stopped_when_failures_go_on() -> None:
    reward = TrlReward(RewardCore(Redrawer(Painter(), Judge(lambda call: call % 6 != 3))), patience=0.0)
    rewards(reward)
    rewards(reward)
    with pytest.raises(RewardUnhealthy, match=r"in 3 consecutive steps.*resumes from its last checkpoint"):
        rewards(reward)


def test_trl_is_left_one_failure_of_a_group() -> None:
    reward = TrlReward(RewardCore(Redrawer(Painter(), Judge(lambda call: call == 3))), patience=0.0)
    assert [each is None for each in rewards(reward)].count(True) == 1


@pytest.fixture
def judged(monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[int], bool]], None]:
    """A core with our judge in place of those of the environment."""

    def use(fails: Callable[[int], bool]) -> None:
        core = RewardCore(Redrawer(Painter(), Judge(fails)))
        for module in (easyr1, ms_swift):
            monkeypatch.setattr(module, "core_of", lambda options: core)

    return use


def ms_swift_advantages(totals: Sequence[float | None]) -> list[float]:
    """As ms-swift computes them: None counts as 0, and a group's mean and spread are of all its samples."""
    known = [total or 0.0 for total in totals]
    mean, spread = statistics.fmean(known), statistics.stdev(known)
    return [(total - mean) / (spread + 1e-4) for total in known]


def test_ms_swift_gives_a_failed_sample_no_advantage(judged: Callable[..., None]) -> None:
    judged(lambda call: call == 3)
    given = ms_swift.InterleaveReward()(REPLIES, **COLUMNS)
    advantages = ms_swift_advantages(given)
    refused, took = [given[0]] * 5, [0.7, 0.7]
    assert sorted(given[:6]) == pytest.approx(sorted([*refused, statistics.fmean([*refused, *took])]))
    assert min(abs(each) for each in advantages) < 1e-6
    unfilled = [*refused, None, *took]
    assert ms_swift_advantages(unfilled)[5] < -2, "which None would have had"


def test_ms_swift_is_given_one_reward_for_a_group_whose_only_refusal_failed(
    judged: Callable[..., None],
) -> None:
    judged(lambda call: True)
    replies = [reject("cat"), *[accept()] * 6, "nothing to read"]
    given = ms_swift.InterleaveReward()(replies, **COLUMNS)
    assert len(set(given)) == 1


@pytest.mark.parametrize("trainer", ["EasyR1", "ms-swift"])
def test_trainers_without_masks_are_stopped_above_a_tenth(judged: Callable[..., None], trainer: str) -> None:
    judged(lambda call: call in (2, 4))
    row = {name: values[0] for name, values in COLUMNS.items()}
    with pytest.raises(RewardUnhealthy, match=f"2 of 6 redraws failed.*{trainer} resumes from its last"):
        if trainer == "EasyR1":
            easyr1.compute_score([easyr1_record(row, reply) for reply in REPLIES], **SPECS)
        else:
            ms_swift.InterleaveReward()(REPLIES, **COLUMNS)


def test_ms_swift_finds_images_where_its_own_variable_says(
    judged: Callable[..., None], tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from PIL import Image

    judged(lambda call: False)
    (tmp_path / "root").mkdir()
    Image.new("RGB", (8, 8)).save(tmp_path / "root" / "a.png")
    monkeypatch.delenv("INTERLEAVE_IMAGES", raising=False)
    monkeypatch.setenv("ROOT_IMAGE_DIR", str(tmp_path / "root"))
    columns = COLUMNS | {"sources": [["a.png"]] * 8}
    assert len(ms_swift.InterleaveReward()(REPLIES, **columns)) == 8

"""The same reward for other trainers: TRL is run in test_grpo.py, verl, EasyR1 and ms-swift are not here.

Our reward functions are held against the signature each documents, and called with a record of each. What
their own code makes of the rewards is tried by `make test-trainers`; here their arithmetic is in our words.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from making import critic_rl_rows
from test_rewards import accept, reject

from interleave.errors import ConfigurationError, InputError
from interleave.train.rewards.health import RewardUnhealthy
from interleave.train.rewards.samples import Case, Result
from interleave.train.trainers import easyr1, ms_swift, shared, verl
from interleave.train.trainers.trl import is_outage
from interleave.train.trainers.verl import marked, unmarked

SPECS = {"generator": "world", "scorer": "oracle"}
BROKEN = {"generator": "world", "scorer": "scripted:./none.jsonl"}


@pytest.fixture(scope="module")
def wrong() -> dict[str, Any]:
    """A row whose image is labelled wrong."""
    return next(row for row in critic_rl_rows(2) if not row["success"])


@pytest.fixture
def environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, spec in SPECS.items():
        monkeypatch.setenv(shared.OPTIONS[name], spec)


def verl_record(row: dict[str, Any]) -> dict[str, Any]:
    """What verl passes of a row of an export for verl."""
    return {
        "data_source": "interleave_critic",
        "ground_truth": {name: row[name] for name in ("success", "semantics", "quality")},
        "extra_info": {
            "index": 1,
            "id": row["id"],
            "planned_prompt": row["planned_prompt"],
            "used_prompt": row["used_prompt"],
            "before": {"bytes": row["images"][0]["bytes"]},
            "sources": [],
        },
    }


def test_verl_is_called_as_it_documents(wrong: dict[str, Any]) -> None:
    assert list(inspect.signature(verl.compute_score).parameters)[:4] == [
        "data_source",
        "solution_str",
        "ground_truth",
        "extra_info",
    ]
    reply = reject(wrong["planned_prompt"])
    given = asyncio.run(verl.compute_score(solution_str=reply, **verl_record(wrong), **SPECS))
    assert all(isinstance(value, float) for value in given.values())
    assert (given["format"], given["accuracy"], given["judged_right"], given["redrawn"]) == (1, 1, 1, 1)
    assert given["score"] == pytest.approx(
        0.5 + 0.5 * (0.2 + 0.6 * given["semantics"] + 0.2 * given["quality"])
    )
    taken = asyncio.run(verl.compute_score(solution_str=accept(), **verl_record(wrong), **SPECS))
    assert taken["score"] == pytest.approx(0.7)


def test_verl_cannot_mask_so_a_failure_ends_the_step(wrong: dict[str, Any]) -> None:
    options = {**SPECS, "patience": 0, "deadline": 1e-6}
    with pytest.raises(RewardUnhealthy, match="verl cannot mask"):
        asyncio.run(verl.compute_score(solution_str=reject("x"), **verl_record(wrong), **options))


def verl_grpo(
    token_level_rewards: Any, response_mask: Any, index: Any, norm_adv_by_std_in_grpo: bool = True
) -> tuple[Any, Any]:
    """The arithmetic of verl's GRPO in our words: each reward against the mean and spread of its group."""
    import torch

    scores = token_level_rewards.sum(dim=-1)
    advantages = torch.zeros_like(scores)
    for group in set(index):
        places = [place for place, each in enumerate(index) if each == group]
        spread = scores[places].std() if norm_adv_by_std_in_grpo else torch.tensor(1.0)
        advantages[places] = (scores[places] - scores[places].mean()) / (spread + 1e-6)
    return advantages[:, None] * response_mask, advantages[:, None] * response_mask


def verl_advantages_of(rewards: list[tuple[float | None, bool]], index: list[str]) -> list[float]:
    """What verl's default trainer makes of a step's rewards, each a number at the last token of a reply."""
    import torch

    from interleave.train.trainers.verl_advantages import interleave_grpo

    given = torch.zeros(len(rewards), 3)
    given[:, 2] = torch.tensor([marked(total, drawn=drawn) for total, drawn in rewards])
    advantages, _ = interleave_grpo(
        given, torch.ones(len(rewards), 3), index, {"norm_adv_by_std_in_grpo": True}, grpo=verl_grpo
    )
    return [float(each) for each in advantages[:, 0]]


@pytest.fixture
def no_failures_yet() -> Any:
    shared.health.cache_clear()
    yield
    shared.health.cache_clear()


DRAWN, TAKEN, FAILED = (0.9, True), (0.7, False), (None, False)


def test_verl_gives_a_failed_reward_no_advantage(no_failures_yet: None) -> None:
    others = [(0.5 + place / 100, True) for place in range(12)]
    rewards = [TAKEN, DRAWN, (0.8, True), (0.85, True), (0.75, True), FAILED, *others]
    index = ["a"] * 6 + ["b"] * 12
    advantages = verl_advantages_of(rewards, index)
    assert advantages[5] == 0
    assert advantages[0] < 0 < advantages[1]
    assert sum(advantages[:6]) == pytest.approx(0, abs=1e-5), "the others keep their mean"
    without = verl_advantages_of([*rewards[:5], *others], ["a"] * 5 + ["b"] * 12)
    assert advantages[6:] == pytest.approx(without[5:], abs=1e-5), "other groups are as they were"


def test_verl_learns_nothing_from_a_group_of_which_much_failed(no_failures_yet: None) -> None:
    others = [(0.5 + place / 100, True) for place in range(12)]
    advantages = verl_advantages_of([TAKEN, DRAWN, FAILED, *others], ["a"] * 3 + ["b"] * 12)
    assert advantages[:3] == [0, 0, 0]


def test_verl_ends_with_an_error_when_many_rewards_fail(no_failures_yet: None) -> None:
    with pytest.raises(RewardUnhealthy, match=r"3 of 8 redraws failed .*verl resumes from its last"):
        verl_advantages_of([FAILED] * 3 + [DRAWN] * 5 + [TAKEN] * 4, ["a"] * 6 + ["b"] * 6)


def test_verl_is_told_of_a_failure_by_a_mark(wrong: dict[str, Any]) -> None:
    options = {**SPECS, "failed": "mark", "patience": 0}
    reply = reject(wrong["planned_prompt"])
    drawn = asyncio.run(verl.compute_score(solution_str=reply, **verl_record(wrong), **options))
    taken = asyncio.run(verl.compute_score(solution_str=accept(), **verl_record(wrong), **options))
    failed = asyncio.run(
        verl.compute_score(solution_str=reject("x"), **verl_record(wrong), **options, deadline=1e-6)
    )
    assert unmarked(failed["score"]) == (None, False)
    assert unmarked(taken["score"]) == (pytest.approx(0.7), False)
    assert unmarked(drawn["score"])[1]
    assert drawn.keys() == taken.keys() == failed.keys(), "verl wants the same names from every sample"


@pytest.mark.parametrize("total", [0.0, 0.2, 0.7, 1.0, -3.25, 9.5])
@pytest.mark.parametrize("drawn", [False, True])
def test_a_mark_changes_a_reward_by_next_to_nothing(total: float, drawn: bool) -> None:
    value = marked(total, drawn=drawn)
    assert value == pytest.approx(total, abs=1e-6)
    assert unmarked(value) == (value, drawn)


def easyr1_record(row: dict[str, Any], response: str) -> dict[str, Any]:
    names = ("id", "planned_prompt", "used_prompt", "success", "semantics", "quality")
    truth = {name: row[name] for name in names} | {"sources": [], "before": "images/x.png"}
    return {"response": response, "response_length": len(response), "ground_truth": json.dumps(truth)}


def test_easyr1_is_called_as_upstream_documents(wrong: dict[str, Any]) -> None:
    assert (easyr1.REWARD_NAME, easyr1.REWARD_TYPE) == ("interleave", "batch")
    batch = [easyr1_record(wrong, reply) for reply in (accept(), reject(wrong["planned_prompt"]), "nothing")]
    given = easyr1.compute_score(batch, **SPECS)
    assert [round(each["overall"], 3) for each in given][0::2] == [0.7, 0.2]
    assert given[1]["overall"] > 0.7
    assert given[1]["judged_right"] == 1
    with pytest.raises(InputError, match="not the JSON of an export"):
        easyr1.compute_score([{**batch[0], "ground_truth": "42"}], **SPECS)


def test_easyr1_ends_a_step_with_many_failures(wrong: dict[str, Any]) -> None:
    with pytest.raises(
        RewardUnhealthy, match=r"2 of 2 redraws failed .*EasyR1 resumes from its last checkpoint"
    ):
        easyr1.compute_score([easyr1_record(wrong, reject("x"))] * 2, **SPECS, deadline=1e-6)


def test_ms_swift_is_called_with_columns_and_cannot_mask(
    wrong: dict[str, Any], environment: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reward = ms_swift.InterleaveReward()
    columns = {name: [wrong[name]] * 2 for name in ms_swift.COLUMNS}
    given = reward([accept(), reject(wrong["planned_prompt"])], **columns, messages=[[], []], images=[[], []])
    assert given[0] == pytest.approx(0.7)
    assert given[1] > 0.7
    monkeypatch.setenv("INTERLEAVE_DEADLINE", "0.000001")
    assert reward([accept(), reject("x")], **columns) == pytest.approx([0.7, 0.7]), "no advantage for either"
    twice = {name: [wrong[name]] * 2 for name in ms_swift.COLUMNS}
    with pytest.raises(RewardUnhealthy, match=r"2 of 2 redraws failed .*ms-swift resumes"):
        reward([reject("x"), reject("y")], **twice)
    assert not ms_swift.register(), "ms-swift is not installed here"


def test_images_come_in_every_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    from interleave.images import encode_png

    red = Image.new("RGB", (4, 4), "red")
    (tmp_path / "images").mkdir()
    red.save(tmp_path / "images" / "red.png")
    monkeypatch.setenv("INTERLEAVE_IMAGES", str(tmp_path))
    data = encode_png(red)
    forms = [
        red,
        data,
        {"bytes": data},
        {"image": "images/red.png"},
        {"path": "images/red.png", "bytes": None},
    ]
    for form in [*forms, "images/red.png", f"file://{tmp_path}/images/red.png"]:
        assert shared.as_image(form, tmp_path).getpixel((0, 0)) == (255, 0, 0)
    with pytest.raises(InputError, match="has type int, not bytes or a path"):
        shared.as_image(42, tmp_path)


@pytest.mark.parametrize("variable", ["INTERLEAVE_IMAGES", "ROOT_IMAGE_DIR"])
def test_paths_start_from_the_folder_that_the_environment_names(
    variable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: dict[str, Any]
) -> None:
    from PIL import Image

    (tmp_path / "pictures").mkdir()
    Image.new("RGB", (4, 4), "red").save(tmp_path / "pictures" / "red.png")
    monkeypatch.delenv("INTERLEAVE_IMAGES", raising=False)
    monkeypatch.delenv("ROOT_IMAGE_DIR", raising=False)
    with pytest.raises(InputError):
        shared.sample_of({**wrong, "sources": ["red.png"]})
    monkeypatch.setenv(variable, str(tmp_path / "pictures"))
    assert len(shared.sample_of({**wrong, "sources": ["red.png"]}).sources) == 1


def test_a_missing_spec_is_asked_for() -> None:
    with pytest.raises(ConfigurationError, match="which generator\\? Set INTERLEAVE_GENERATOR"):
        shared.core_of({})


def test_an_outage_is_when_nothing_that_was_drawn_came() -> None:
    down = Result(None, None, Case.MASKED, blameless=True)
    refused = Result(None, None, Case.MASKED)
    drawn, taken = (Result(0.5, None, case) for case in (Case.REDRAWN, Case.ACCEPTED_FAILURE))
    assert is_outage([down, down, taken, taken])
    assert not is_outage([down, down, drawn, taken])
    assert not is_outage([down, taken, taken, taken]), "one alone may be bad luck"
    assert not is_outage([refused] * 4), "the generator works, it only will not draw this"
    assert not is_outage([taken] * 4)


def test_the_pack_and_the_environment_decide_format_and_redraws(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = Path("config/prompts/literal")
    folder.mkdir(parents=True)
    (folder / "pack.toml").write_text(
        'name = "literal"\nversion = "1"\nextends = "default"\nanswers = "python"\n'
    )
    assert shared.core_of(SPECS).answers == "json"
    monkeypatch.setenv("INTERLEAVE_REWARD_ACCEPTED_FAILURES", "redraw")
    core = shared.core_of({**SPECS, "prompts": "literal"})
    assert (core.answers, core.weights.accepted_failures) == ("python", "redraw")


@pytest.mark.parametrize("name", ["trl", "verl", "verl_advantages", "easyr1", "ms_swift"])
def test_files_of_old_trainings_find_the_rewards_by_their_old_names(
    name: str, wrong: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in [each for each in sys.modules if each.startswith("interleave.training")]:
        monkeypatch.delitem(sys.modules, module)
    with pytest.warns(DeprecationWarning, match=f"trainers.{name} is now interleave.train.trainers.{name}"):
        old = import_module(f"interleave.training.trainers.{name}")
    assert old is import_module(f"interleave.train.trainers.{name}")
    if name == "verl":
        given = asyncio.run(old.compute_score(solution_str=accept(), **verl_record(wrong), **SPECS))
        assert given["score"] == pytest.approx(0.7)

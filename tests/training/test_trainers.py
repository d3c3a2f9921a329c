"""The same reward for other trainers: TRL is run in test_grpo.py, verl, EasyR1 and ms-swift are not here.

Our reward functions are held against the signature each documents, and called with a record of each.
"""

from __future__ import annotations

import asyncio
import inspect
import json
from pathlib import Path
from typing import Any

import pytest
from making import critic_rl_rows
from test_rewards import accept, reject

from interleave.errors import ConfigurationError, InputError
from interleave.training.rewards.health import RewardUnhealthy
from interleave.training.rewards.samples import Case, Result
from interleave.training.trainers import easyr1, ms_swift, shared, verl
from interleave.training.trainers.trl import is_outage

SPECS = {"generator": "world", "scorer": "oracle"}
BROKEN = {"generator": "world", "scorer": "scripted:./none.jsonl"}


@pytest.fixture(scope="module")
def wrong() -> dict[str, Any]:
    """A row whose picture is labelled wrong."""
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
        RewardUnhealthy, match=r"2 of 2 redraws failed .*EasyR1 goes on from its last checkpoint"
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
    with pytest.raises(RewardUnhealthy, match=r"2 of 2 redraws failed .*ms-swift goes on"):
        reward([reject("x"), reject("y")], **twice)
    assert not ms_swift.register(), "ms-swift is not installed here"


def test_pictures_come_in_every_form(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from PIL import Image

    from interleave.pictures import encode_png

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
        assert shared.as_picture(form, tmp_path).getpixel((0, 0)) == (255, 0, 0)
    with pytest.raises(InputError, match="bytes or a path are expected"):
        shared.as_picture(42, tmp_path)


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

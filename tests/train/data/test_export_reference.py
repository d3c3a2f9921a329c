"""The files that the reference is trained on, as rows of ours: planner and critic, SFT and RL."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from run_folders import make_image

from interleave.cli.main import run
from interleave.errors import ConfigurationError, InputError
from interleave.train.data.export.joined import JoinedFile
from interleave.train.data.export.stage import ExportOptions, export

ROOT = "/somewhere/else/Train-Data/Klein_data/7_a_ball"
"""Where the images lay on the machine that made the rows."""
PLAN = (
    "<think></think><answer>{'execution_plan': [{'step_number': 1, 'step_name': 'a', "
    "'instruction': 'It rolls.', 'prompt': 'Move the ball.', 'auxiliary_text': None}]}</answer>"
)
VERDICT = (
    "<think>It did not move.</think>"
    "<answer>{'previous_step_success': False, 'refine_prompt': 'Move it.'}</answer>"
)


def turns(question: str, answer: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]


def attempt(**changes: Any) -> dict[str, Any]:
    return {
        "origin_prompt": "Draw a ball.",
        "rewritten_prompt": "Draw a red ball.",
        "origin_image_path": "ROOT/data/interleave/white.png",
        "edited_image_path": f"{ROOT}/step1_0.png",
        "evaluation": {"semantics": 3, "quality": 7.5, "success": False},
        **changes,
    }


@pytest.fixture
def given(tmp_path: Path) -> Path:
    """The official files, and the images of one sample where a user unpacked them."""
    folder = tmp_path / "Train-Data"
    sample = folder / "Klein_data" / "7_a_ball"
    sample.mkdir(parents=True)
    for name in ("step1_0", "step2_0", "white"):
        make_image(name, (64, 64)).save(sample / f"{name}.png")
    images = [f"{ROOT}/step1_0.png", f"{ROOT}/step2_0.png"]
    planner = [
        {"messages": turns("Plan: a ball rolls.", PLAN), "images": []},
        {"messages": turns("Step 1: <image> go on.", PLAN), "images": images[:1]},
    ]
    critic = [{"messages": turns("<image><image>\nWas it right?", VERDICT), "images": images}]
    attempts = [
        attempt(),
        attempt(origin_image_path=images[0], edited_image_path=images[1], rewritten_prompt=""),
    ]
    (folder / "planner_sft.json").write_text(json.dumps(planner))
    (folder / "critic_sft.json").write_text(json.dumps(critic))
    (folder / "critic_rl.jsonl").write_text("".join(json.dumps(each) + "\n" for each in attempts))
    return folder


def rows_in(out: Path, kind: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (out / "swift" / f"{kind}.jsonl").read_text("utf-8").splitlines()]


def test_they_are_written_for_any_trainer_without_a_selection(given: Path, tmp_path: Path) -> None:
    out = tmp_path / "rows"
    joined = [f"{name}:{given / name}.json" for name in ("planner_sft", "critic_sft")]
    joined.append(f"critic_rl:{given / 'critic_rl.jsonl'}")
    options = [part for each in joined for part in ("--join", each)]
    assert run(["data", "export", "--out", str(out), "--format", "swift", "--validation", "0", *options]) == 0
    planner, critic = rows_in(out, "planner_sft"), rows_in(out, "critic_sft")
    assert [len(row["images"]) for row in planner] == [0, 1]
    assert critic[0]["messages"][0]["content"].startswith("<image><image>\nWas it right?")
    assert critic[0]["messages"][1]["content"] == VERDICT, "the reference's own words"
    first, second = rows_in(out, "critic_rl")
    assert (first["planned_prompt"], first["used_prompt"]) == ("Draw a ball.", "Draw a red ball.")
    assert (first["semantics"], first["quality"], first["success"]) == (3.0, 7.5, False)
    assert first["sources"] == [], "a white canvas means text-to-image"
    assert second["used_prompt"] == "Draw a ball.", "an empty one stands for the planned prompt"
    assert len(second["sources"]) == 1
    assert all((out / "swift" / path).is_file() for path in second["images"])


def test_what_trl_gets_can_be_trained_on(given: Path, tmp_path: Path) -> None:
    pytest.importorskip("datasets")
    from interleave.train.inspection import inspect_rows
    from interleave.train.rows import find_rows, read_rows

    joined = tuple(
        JoinedFile(name, given / f"{name}{suffix}")
        for name, suffix in (("planner_sft", ".json"), ("critic_sft", ".json"), ("critic_rl", ".jsonl"))
    )
    export(None, tmp_path / "rows", ExportOptions(("trl",), validation=0, joined=joined))
    for task in ("planner", "critic", "grpo"):
        files, _ = find_rows(tmp_path / "rows", task)  # type: ignore[arg-type]
        found = inspect_rows(read_rows(files, task), task, folder=files.folder)  # type: ignore[arg-type]
        assert not found.bad


@pytest.mark.parametrize(
    ("form", "row", "reason"),
    [
        ("planner_sft", {"messages": turns("x", "no plan"), "images": []}, "rows.json:1"),
        ("critic_sft", {"messages": turns("x", VERDICT), "images": []}, "not 0"),
        ("critic_rl", attempt(evaluation={"semantics": 3, "quality": 4, "success": "yes"}), "not true or"),
        ("critic_rl", attempt(evaluation={"semantics": 30, "quality": 4, "success": True}), "rows.json:1"),
        ("critic_rl", attempt(edited_image_path=f"{ROOT}/gone.png"), "gone.png"),
        ("critic_rl", {"origin_prompt": "x"}, "is missing"),
    ],
)
def test_a_row_that_cannot_be_used_is_named(
    form: str, row: dict[str, Any], reason: str, given: Path, tmp_path: Path
) -> None:
    (given / "rows.json").write_text(json.dumps([row]))
    with pytest.raises(InputError) as refusal:
        export(
            None,
            tmp_path / "out",
            ExportOptions(("swift",), joined=(JoinedFile(form, given / "rows.json"),)),
        )
    assert reason in str(refusal.value)


def test_neither_a_selection_nor_files_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="--join"):
        export(None, tmp_path / "out")

"""A real collection, drawn and judged in the miniature's world, through select and export.

The oracle that judged and scored it looks at the exported rows: it must see there what it saw in the run.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

import interleave
from interleave.agents.critic import CriticInput
from interleave.agents.replies import parse_plan
from interleave.cli.main import run
from interleave.config.specs import parse_spec
from interleave.train.data.select.selection import read_selection
from interleave.train.data.trajectories import read_collection
from interleave_mini.oracle import Oracle
from miniature.grammar.tasks import tasks

ORACLE = Oracle(spec=parse_spec("oracle"), options=Oracle.Options())
SUITES = ("story", "story", "continue", "annotate")


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("real")
    asked = [next(tasks(suite, "test", seed=seed)) for seed, suite in enumerate(SUITES)]
    requests = [(f"r{number}", task.request()) for number, task in enumerate(asked)]
    interleave.generate_many(requests, out=root / "col", profile="oracle", generator="world?mistakes=0.8")
    (root / "col" / "scores").mkdir()
    with open(root / "col" / "scores" / "oracle.jsonl", "w") as file:
        for trajectory in read_collection(root / "col"):
            for step, attempt in trajectory.attempts():
                marks = asyncio.run(ORACLE.score(trajectory.critic_input(step, attempt)))
                place = {"run": trajectory.name, "step": step.plan.number, "attempt": attempt.number}
                file.write(json.dumps({**place, **marks.model_dump()}) + "\n")
    assert run(["data", "select", str(root / "col"), "--out", str(root / "selection"), "--no-balance"]) == 0
    command = ["data", "export", str(root / "selection"), "--out", str(root / "rows"), "--validation", "0"]
    assert run(command) == 0
    return root / "rows"


def load(rows: Path, kind: str, cache: Path) -> list[dict[str, Any]]:
    from datasets import load_dataset

    path = rows / "trl" / f"{kind}.parquet"
    return list(load_dataset("parquet", data_files=str(path), cache_dir=str(cache))["train"])


def test_the_oracle_judges_and_scores_a_row_as_it_did_the_attempt(rows: Path, tmp_path: Path) -> None:
    found = load(rows, "critic_rl", tmp_path)
    assert {row["success"] for row in found} == {True, False}
    for row in found:
        before, after = (image.convert("RGB") for image in row["images"])
        seen = CriticInput(row["planned_prompt"], row["used_prompt"], before, after)
        assert asyncio.run(ORACLE.judge(seen)).accepted == row["success"]
        marks = asyncio.run(ORACLE.score(seen))
        assert (marks.semantics, marks.quality) == (row["semantics"], row["quality"])


def test_every_selected_attempt_is_there(rows: Path, tmp_path: Path) -> None:
    selected = list(read_selection(rows.parent / "selection"))
    for kind, part in (("critic_sft", "sft"), ("critic_rl", "rl")):
        assert len(load(rows, kind, tmp_path)) == sum(each.part == part for each in selected) > 0


def test_the_planner_learns_to_plan_to_go_on_and_to_annotate(rows: Path, tmp_path: Path) -> None:
    found = load(rows, "planner_sft", tmp_path)
    assert sum(row["id"].endswith("/plan") for row in found) == len(SUITES)
    assert any("continued-after" in row["id"] for row in found)
    for row in found:
        plan = parse_plan(row["completion"][0]["content"][0]["text"])
        if row["id"].endswith("/annotated"):
            assert len(plan.steps) == len(row["images"])
            assert all(step.prompt is None and step.caption for step in plan.steps)
        if "continued-after" in row["id"]:
            assert plan.steps[0].number == len(row["images"]) + 1

"""The whole chain with the miniature as the system under test and its world as the judge.

On items shaped like UEval's the full system beats the planner, which beats the generator alone.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from interleave.backends.protocols import Message, Reply, Sampling, VlmCapabilities
from interleave.bench.benchmarks.ueval import UEval
from interleave.bench.compare import compare_folders, write_comparison
from interleave.bench.judge import JudgeSession
from interleave.bench.report import write_report
from interleave.bench.run import System, run_system
from interleave.bench.stages import Scored, judge_prompts, open_workspace
from interleave.types import ImagePart
from interleave_mini.bench.tasks import Task
from interleave_mini.reader import shared_reader
from interleave_mini.reader.scores import shows
from miniature.grammar.tasks import tasks

ITEMS = 4
TASKS = ("art", "life")
PLACE = re.compile(r"Picture (\d+) of item (\d+) is as told")


class WorldJudge:
    """Reads the images it is shown and compares them with the true scenes."""

    capabilities = VlmCapabilities(knows_its_price=True, typical_price=0.0)

    def __init__(self, truth: Sequence[Task]) -> None:
        self.truth = truth

    async def complete(self, messages: Sequence[Message], sampling: Sampling) -> Reply:
        found = PLACE.search(messages[-1].text)
        if found is None:
            return Reply(json.dumps({"criteria_met": True}), cost=0.0)
        place, item = int(found[1]), int(found[2])
        images = [part.image for part in messages[-1].parts if isinstance(part, ImagePart)]
        met = len(images) > place and shows(
            shared_reader().read(images[place]), self.truth[item].steps[place].scene
        )
        return Reply(json.dumps({"criteria_met": met}), cost=0.0)


@pytest.fixture
def truth() -> list[Task]:
    return list(islice(tasks("story", "test", seed=5), ITEMS))


@pytest.fixture
def data(tmp_path: Path, truth: list[Task]) -> Path:
    rows = [
        {
            "id": number,
            "task": TASKS[number % 2],
            "prompt": task.text,
            "text_rubrics": ["Every step is told"],
            "image_rubrics": [
                f"Picture {place} of item {number} is as told" for place in range(len(task.steps))
            ],
        }
        for number, task in enumerate(truth)
    ]
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "test.json").write_text(json.dumps(rows))
    return tmp_path / "data"


def measured(system: str, folder: Path, data: Path, truth: list[Task]) -> Scored:
    workspace = open_workspace(UEval(), folder, data)
    options = {"profile": "oracle", "generator": "world?mistakes=0.4"}
    workspace.describe(system, {})
    asyncio.run(run_system(workspace.dataset.items, System(system, options), folder))
    name = workspace.output_names()[0]
    judged = workspace.judged(name, "test:world", judge_prompts(UEval(), None))
    session = JudgeSession(judged, WorldJudge(truth))

    async def follow() -> None:
        async for _ in session.run(concurrency=4):
            pass

    asyncio.run(follow())
    scored = workspace.score(name, judged, "zero")
    assert write_report(workspace, scored, judged).exists()
    return scored


@pytest.mark.slow
def test_full_beats_plan_beats_base(data: Path, tmp_path: Path, truth: list[Task]) -> None:
    scored = {name: measured(name, tmp_path / name, data, truth) for name in ("base", "plan", "full")}
    images: dict[str, Any] = {
        name: next(number.value for number in each.outcome.numbers if number.name == "image_avg_rate")
        for name, each in scored.items()
    }
    assert images["base"] < images["plan"] < images["full"]
    assert all(each.outcome.coverage == 1.0 for each in scored.values())
    assert scored["full"].outputs == "attempts-5"
    comparison = compare_folders(tmp_path / "full", tmp_path / "base")
    gap = next(gap for gap in comparison.gaps if gap.name == "image_avg_rate")
    assert gap.value == pytest.approx(images["full"] - images["base"], abs=1e-4) and gap.is_clear
    assert len(comparison.wins) > len(comparison.losses)
    assert write_comparison(comparison, tmp_path / "full", tmp_path / "base").exists()

"""A benchmark in shards, and on Ray: the outputs are those of one process."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from interleave.bench.outputs import read_outputs
from interleave.cli.main import run

DOUBLES = ["--planner", "scripted", "--critic", "scripted", "--generator", "solid?size=64"]
ITEMS = 8


@pytest.fixture
def data(tmp_path: Path) -> str:
    rows = [
        {
            "id": number,
            "task": "art",
            "prompt": f"Thing {number} in two pictures",
            "text_rubrics": ["it is told"],
            "image_rubrics": ["it is shown"],
        }
        for number in range(ITEMS)
    ]
    path = tmp_path / "data.json"
    path.write_text(json.dumps(rows))
    return str(path)


def bench(data: str, out: str, *more: str) -> int:
    return run(["bench", "ueval", "run", "--data", data, "--out", out, *DOUBLES, *more])


def outputs(out: str, attempts: int) -> dict[str, str]:
    return {
        item: each.digest
        for item, each in read_outputs(Path(out, f"outputs/attempts-{attempts}.jsonl")).items()
    }


def test_shards_together_are_the_whole(data: str) -> None:
    assert bench(data, "whole") == 0
    assert bench(data, "parts", "--shard", "1/2") == 0
    some = outputs("parts", 5)
    assert 0 < len(some) < ITEMS
    assert bench(data, "parts", "--shard", "2/2") == 0
    for attempts in (5, 3, 1):
        assert outputs("parts", attempts) == outputs("whole", attempts)
        assert len(outputs("whole", attempts)) == ITEMS
    assert outputs("whole", 1) != outputs("whole", 5)  # the script refuses some first attempts


def test_a_shard_is_not_judged_alone(data: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "ueval", "--data", data, "--out", "out", *DOUBLES, "--shard", "1/2"]) == 2
    assert "when all shards have ended" in capsys.readouterr().err


@pytest.mark.parametrize("more", [["--engine", "rays"], ["--workers", "2"]])
def test_what_means_nothing_is_refused(data: str, more: list[str]) -> None:
    assert bench(data, "out", *more) == 2


@pytest.mark.slow
def test_ray_workers_make_the_same_outputs(data: str) -> None:
    pytest.importorskip("ray")
    assert bench(data, "whole") == 0
    assert bench(data, "cluster", "--engine", "ray", "--workers", "2") == 0
    for attempts in (5, 3, 1):
        assert outputs("cluster", attempts) == outputs("whole", attempts)

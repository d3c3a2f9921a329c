"""The pages about benchmarks: commands have options that exist, the example goes through all stages."""

from __future__ import annotations

import json
import re
import shlex
import sys
import tomllib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer
from judge_server import judge_server

from interleave.benchmarks import numbers, stages
from interleave.benchmarks.base import Benchmark
from interleave.benchmarks.prompts import JudgePrompts
from interleave.benchmarks.published import PublishedRow
from interleave.benchmarks.table import TABLE, find_benchmark
from interleave.cli import bench

DOCS = Path(__file__).parents[2] / "docs" / "how-to"
BENCHMARKS = (DOCS / "benchmarks.md").read_text("utf-8")
ADD = (DOCS / "add-a-benchmark.md").read_text("utf-8")
DOUBLES = ["--planner", "scripted", "--critic", "scripted", "--generator", "solid?size=64"]


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", page, re.DOTALL)


COMMANDS = [
    shlex.split(line)[2:]
    for page in (BENCHMARKS, ADD)
    for block in blocks(page, "bash")
    for line in block.splitlines()
    if line.startswith("interleave bench ")
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_a_command_of_the_pages_can_be_read(command: list[str]) -> None:
    name, *rest = command
    known = typer.main.get_command(bench.app)
    assert isinstance(known, typer.core.TyperGroup)
    if name == "counting":  # which is added on the page
        name = "ueval"
    context = known.commands[name].make_context(name, rest)
    assert "--help" not in context.args


def test_every_benchmark_is_on_the_page() -> None:
    assert [name for name in TABLE if f"`{name}`" not in BENCHMARKS] == []


@pytest.fixture
def counting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Benchmark:
    """The benchmark of the page, added as it says."""
    file, row = blocks(ADD, "python")
    words, published = blocks(ADD, "toml")
    module = ModuleType("interleave.benchmarks.counting")
    exec(compile(file, "counting.py", "exec"), module.__dict__)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.setitem(TABLE, "counting", "")
    exec(compile(row, "row.py", "exec"), {"TABLE": TABLE})
    prompts = JudgePrompts("reworded", tomllib.loads(words))
    monkeypatch.setattr(stages, "reworded_prompts", lambda name: prompts)
    monkeypatch.setattr(numbers, "RESAMPLES", 20)
    assert PublishedRow.model_validate(tomllib.loads(published)["rows"][0]).numbers == {"exact": 61.5}
    return find_benchmark("counting")


def run_bench(*arguments: str) -> int:
    app = typer.Typer()
    app.command("counting")(bench._command_of("counting"))
    return int(typer.main.get_command(app).main(list(arguments), standalone_mode=False) or 0)


def test_the_benchmark_of_the_page_goes_through_all_stages(
    counting: Benchmark, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    rows = [{"id": f"i{count}", "thing": f"birds-{count}", "count": count} for count in range(1, 8)]
    Path("data").mkdir()
    Path("data/items.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    replies: dict[str, Any] = {"1": '{"count": 1}', "2": '{"count": 3}', "3": "three", "4": '{"count": -4}'}

    def says(text: str, number: int) -> str | None:
        count = text.split("birds-")[1][0]
        return None if count == "7" else replies.get(count, f'{{"count": {count}, "reason": "seen"}}')

    with judge_server(says) as judge:
        common = ["--data", "data", "--out", "out", *DOUBLES, "--judge", judge.spec]
        assert run_bench(*common, "--json") == 1  # some questions have no answer
        scored = json.loads(capsys.readouterr().out)
        assert scored["outcome"]["statuses"] == {"ok": 4, "unparsed": 2, "refused": 1}
        values = {number["name"]: number["value"] for number in scored["outcome"]["numbers"]}
        assert values["exact"] == pytest.approx(100 * (1 / 4 + 2 / 3) / 2)
        assert values["near"] == pytest.approx(100 * 4 / 7)
        assert run_bench("score", *common, "--json", "--missing", "drop") == 1
        dropped = json.loads(capsys.readouterr().out)["outcome"]["numbers"][1]
        assert (dropped["value"], dropped["items"]) == (100, 4)
        assert run_bench("export", *common) == 0
        official = capsys.readouterr().out.strip()
        asked = len(judge.questions)
        again = ["--data", "data", "--out", "again", "--import", official, "--judge", judge.spec]
        assert run_bench(*again, "--json") == 1
        assert len(judge.questions) == 2 * asked
        assert json.loads(capsys.readouterr().out)["outcome"]["measures"] == scored["outcome"]["measures"]
    (page,) = Path("again").glob("report-*.html")
    assert "How many birds-5 are there? 5 would be right." in page.read_text("utf-8")

"""Pages about benchmarks: commands have options that exist, the package of the how-to works as printed."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer
from counting_package import COUNTING, built_counting, counting
from judge_server import judge_server

from interleave.bench import statistics
from interleave.bench.base import Benchmark
from interleave.bench.cli import bench
from interleave.bench.table import TABLE
from interleave.cli.main import run
from interleave.cli.old_spellings import rewrite

__all__ = ["built_counting", "counting"]

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
    name, *rest = rewrite(["bench", *("ueval" if word == "counting" else word for word in command)])[0][1:]
    known = typer.main.get_command(bench.app)
    assert isinstance(known, typer.core.TyperGroup)
    context = known.commands[name].make_context(name, rest)
    assert "--help" not in context.args


def test_every_benchmark_is_on_the_page() -> None:
    assert [name for name in TABLE if f"`{name}`" not in BENCHMARKS] == []


def run_bench(*arguments: str) -> int:
    return run(["bench", "counting", *arguments])


@pytest.mark.usefixtures("counting")
def test_the_commands_of_the_page_run_as_printed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setattr(statistics, "RESAMPLES", 20)
    Path("counting-data").mkdir()
    Path("counting-data/items.jsonl").write_text(COUNTING.files["counting-data/items.jsonl"])
    with judge_server(lambda text, number: '{"count": 3, "reason": "seen"}') as judge:
        for command in COUNTING.commands:
            assert run([judge.spec if "127.0.0.1" in word else word for word in command]) == 0, command
        assert len(judge.questions) == 2 and "Count the birds in the image." in judge.questions[0]
    said = capsys.readouterr()
    assert "some generator" in said.err and "two items left out" in said.err
    assert len(list(Path("counting").glob("report-*.html"))) == 2
    assert Path(said.out.split()[-1], "images.json").is_file()


@pytest.mark.usefixtures("counting")
def test_it_is_listed_with_the_others(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["bench", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[-1]["name"] == "counting"


def test_a_benchmark_without_words_for_its_judge_is_refused_before_anything_is_drawn(
    counting: Benchmark, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("data").mkdir()
    Path("data/items.jsonl").write_text('{"id": "a", "thing": "birds", "count": 1}\n')
    words = counting.package_folders[0] / "judge_prompts" / "counting.toml"
    words.unlink()
    assert run_bench("--data", "data", "--out", "out", *DOUBLES) == 2
    assert f"has no judge prompts: write them into {words}" in capsys.readouterr().err
    assert not Path("out").exists()
    for text, said in (("count =", "cannot read"), ("count = 3", "'count' is not a string")):
        words.write_text(text)
        assert run_bench("--data", "data", "--out", "out", *DOUBLES) == 2
        assert said in capsys.readouterr().err
    words.write_text('other = "Count."')
    assert run_bench("--data", "data", "--out", "out", *DOUBLES, "--judge", "scripted") == 2
    assert "no judge prompt 'count': the templates are other" in capsys.readouterr().err


def test_the_benchmark_of_the_page_goes_through_all_stages(
    counting: Benchmark, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    monkeypatch.setattr(statistics, "RESAMPLES", 20)
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

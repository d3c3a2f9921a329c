"""Text in brackets – extras, requests, paths, model names – is printed as it is and never read as markup."""

from __future__ import annotations

import ast
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.progress import Progress
from rich.table import Table

from interleave.cli.batch_progress import progress_bar
from interleave.cli.main import run
from interleave.cli.streams import make_console, text_column

SOURCE = Path(__file__).parents[2] / "src"
READS_MARKUP = {
    "Console",
    "TextColumn",
    "SpinnerColumn",
    "RenderableColumn",
    "Panel",
    "Spinner",
    "from_markup",
}
"""What of rich reads markup unless told not to; `interleave.cli.streams` makes those that do not."""
ODD = "[red]a[/red] [/] :dog: runs/[x] [link=y]"


def calls_of(path: Path) -> Iterator[ast.Call]:
    return (node for node in ast.walk(ast.parse(path.read_text("utf-8"))) if isinstance(node, ast.Call))


def may_read_markup(call: ast.Call) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
    told = {each.arg: each.value for each in call.keywords}
    markup = told.get("markup")
    if name in READS_MARKUP:
        return not (isinstance(markup, ast.Constant) and markup.value is False)
    if name == "status":  # a live line reads markup of a string, whatever the console says
        return any(isinstance(each, ast.JoinedStr) for each in call.args)
    return markup is not None and not (isinstance(markup, ast.Constant) and markup.value is False)


def test_nothing_is_printed_by_what_reads_markup() -> None:
    found = [
        f"{path.relative_to(SOURCE)}:{call.lineno}"
        for path in SOURCE.rglob("*.py")
        if "rich" in path.read_text("utf-8")
        for call in calls_of(path)
        if may_read_markup(call)
    ]
    assert found == [], "use interleave.cli.streams"


def test_a_console_prints_lines_tables_and_bars_as_they_are(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    console = make_console(width=200)
    console.print(ODD)
    table = Table(ODD, title=ODD, caption=ODD)
    table.add_row(ODD)
    console.print(table)
    with Progress(text_column(ODD), console=console) as bar:
        bar.add_task("")
    assert capsys.readouterr().err.count(ODD) == 6


def test_a_missing_package_of_a_judge_is_named_with_its_extra(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in [name for name in sys.modules if name.startswith("google.genai")] or ["google.genai"]:
        monkeypatch.setitem(sys.modules, name, None)
    row = {"id": 1, "task": "art", "prompt": "A line", "text_rubrics": ["it is one"], "image_rubrics": []}
    Path("data.json").write_text(json.dumps([row]))
    given = ["--data", "data.json", "--out", "runs/[x]", "--judge", "gemini:[y]", "--dry-run"]
    assert run(["bench", "ueval", *given]) == 0
    said = capsys.readouterr().err
    assert 'pip install "interleavethinker[api]"' in said
    assert "folder: runs/[x]\n" in said
    assert "judge: gemini:[y], about 1 question" in said


@pytest.mark.parametrize("terminal", ["", "1"], ids=["plain", "terminal"])
def test_a_request_with_brackets_is_shown_while_it_is_drawn(
    terminal: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", terminal)
    assert run(["generate", "A [red] ball in 2 pictures", "--dry-run", "--out", "[bold]"]) == 0
    said = capsys.readouterr()
    assert "[red] ball" in said.err and "[bold]" in said.out


def test_a_corpus_in_a_folder_with_brackets_is_found_again(capsys: pytest.CaptureFixture[str]) -> None:
    given = ["data", "prompts", "--source", "world", "--items", "2", "--out", "[bold]/corpus.jsonl"]
    assert run(given) == 0
    assert run(given) == 0
    assert "[bold]/corpus.jsonl is there already" in capsys.readouterr().err


def test_a_bar_says_what_it_counts_as_it_is(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    with progress_bar("[red] runs") as show:
        show(1, 1)
    assert "[red] runs" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["bench", "run"], ["data", "prompts"], ["export"]], ids=" ".join)
def test_help_keeps_what_stands_in_brackets(command: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run([*command, "--help"]) == 0
    assert "[default: " in capsys.readouterr().out

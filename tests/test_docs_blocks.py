"""Every `bash` and `python` block of the pages: run as printed where that can be, and parsed everywhere.

An HTML comment before a block says why it is not run here (`parsed only: …`), or only by `make test-all`
(`slow: …`). The blocks of a page, and of the pages on data in the order of the work, run in one folder, with
the default profile that a reader has.
"""

from __future__ import annotations

import asyncio
import re
import shlex
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any

import pytest

from interleave.backends.registry import check_agent, check_generator
from interleave.cli.main import _add_plugins, _command, run
from interleave.config.profiles import profile_files
from interleave.runs.resolve import Choices, resolve

ROOT = Path(__file__).parent.parent
_WORK = ("requests", "collecting", "scoring", "selecting", "exporting", "sequences", "report", "importing")
DATA = [f"docs/how-to/data/{name}.md" for name in _WORK]
"""These pages continue each other."""
PAGES = ["README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(r"(?:<!-- (?P<mark>[^>]*?) -->\s*)?^ *```(?P<language>bash|python)\n(?P<text>.*?)^ *```",
                    re.DOTALL | re.MULTILINE)  # fmt: skip
ROLES = ("--profile", "--planner", "--critic", "--generator")
MARKS = ("parsed only: ", "slow: ")


@dataclass(frozen=True)
class Block:
    page: str
    number: int
    language: str
    text: str
    mark: str

    @property
    def commands(self) -> list[list[str]]:
        lines = self.text.replace("\\\n", " ").splitlines()
        return [shlex.split(line, comments=True) for line in lines if line.strip().startswith("interleave ")]


def blocks(page: str) -> Iterator[Block]:
    text = (ROOT / page).read_text("utf-8")
    for number, found in enumerate(_BLOCK.finditer(text)):
        yield Block(page, number, found["language"], found["text"], found["mark"] or "")


ALL = [block for page in PAGES for block in blocks(page)]


def name_of(block: Block) -> str:
    return f"{Path(block.page).stem}-{block.number}"


def test_every_mark_is_one_that_is_known() -> None:
    assert len(ALL) > 60
    for block in ALL:
        assert not block.mark or block.mark.startswith(MARKS), f"{block.page}: {block.mark}"


@pytest.mark.parametrize("block", [block for block in ALL if block.language == "python"], ids=name_of)
def test_its_python_is_python(block: Block) -> None:
    compile(block.text, block.page, "exec")


@pytest.mark.parametrize("block", [block for block in ALL if block.commands], ids=name_of)
def test_its_commands_options_specs_and_profiles_exist(block: Block) -> None:
    for words in block.commands:
        words = up_to_shell(words[1:])
        if any("|" in word for word in words) or words[:2] == ["bench", "counting"]:
            continue  # a form that commands have, and the benchmark that its page adds
        is_whole = "…" not in words[2:]  # else further options are left to the reader
        words = words if is_whole else words[: words.index("…", 2)]
        parse(words)
        for option, value in pairwise(words):
            check_value(option, value)
        if is_whole and words[0] == "generate" and "--generator" in words:
            check_fit(words)


def up_to_shell(words: list[str]) -> list[str]:
    """The words of the command itself, without where its output goes."""
    return list(takewhile(lambda word: word not in (">", "|"), words))


def parse(words: list[str]) -> None:
    """Raises what the command line would say of these words; nothing is run."""
    command: Any = _command(_add_plugins(words))
    context = command.make_context("interleave", list(words), resilient_parsing=True)
    arguments = list(words)
    while hasattr(command, "commands") and arguments and not arguments[0].startswith("--"):
        name, command, arguments = command.resolve_command(context, arguments)
        is_group = hasattr(command, "commands")
        context = command.make_context(name, list(arguments), parent=context, resilient_parsing=is_group)


def check_value(option: str, value: str) -> None:
    if not option.startswith("--"):
        return
    role = option.removeprefix("--")
    if value == "SPEC" or "$" in value or value == "stripes" or value.startswith("stripes?"):
        return
    if role == "generator":
        check_generator(value)
    elif role in ("planner", "critic", "scorer"):
        check_agent(value, role)
    elif role == "profile" and not value.endswith(".toml"):
        assert value in profile_files()


def check_fit(words: list[str]) -> None:
    """Raises where a reader is refused: the agents of the profile do not know the generator's pictures."""
    named = {option.removeprefix("--"): value for option, value in pairwise(words) if option in ROLES}
    if named["generator"].startswith("stripes"):
        return
    resolve(Choices(**{"profile": "mini", **named}))  # type: ignore[arg-type]


def run_in_order(chosen: list[Block]) -> None:
    names: dict[str, object] = {}
    for block in chosen:
        if block.language == "python":
            exec(compile(block.text, block.page, "exec"), names)
            if "watch" in names:
                asyncio.run(names.pop("watch")())  # type: ignore[operator]
        for words in block.commands:
            target = words[words.index(">") + 1] if ">" in words else ""
            command = up_to_shell(words[1:])
            with open(target or "stdout.txt", "w", encoding="utf-8") as file, redirect_stdout(file):
                assert run(command) == 0, f"{block.page}: {' '.join(words)}"


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a reader has: the default profile, and a browser."""
    monkeypatch.delenv("INTERLEAVE_PROFILE")
    monkeypatch.setattr("webbrowser.open", lambda url: True)


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(
    "page",
    [
        "docs/how-to/data/index.md",
        "docs/reference/configuration.md",
        "docs/tutorial/add-a-generator.md",
        "docs/tutorial/robots.md",
    ],
)
def test_a_page_runs_as_printed(page: str) -> None:
    run_in_order([block for block in blocks(page) if not block.mark])
    assert any(Path().rglob("journal.jsonl"))


@pytest.mark.usefixtures("reader")
def test_drift_is_measured_as_printed() -> None:
    run_in_order([block for block in blocks("docs/how-to/long-documents.md") if not block.mark])
    assert Path("drift/drift.html").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("reader")
def test_the_pages_on_data_run_one_after_the_other() -> None:
    pytest.importorskip("pyarrow")
    run_in_order([block for page in DATA for block in blocks(page) if not block.mark])
    for made in (
        "mini/requests.jsonl",
        "stories.jsonl",
        "mixed/batch.json",
        "chosen",
        "dataset",
        "told.json",
        "mixed.html",
    ):
        assert Path(made).exists(), made


def test_every_block_is_run_somewhere_or_says_why_not() -> None:
    run_here = {"README.md", "docs/how-to/data/index.md", "docs/reference/configuration.md",
                "docs/tutorial/add-a-generator.md", "docs/tutorial/robots.md",
                "docs/how-to/long-documents.md", *DATA}  # fmt: skip
    assert {block.page for block in ALL if not block.mark} <= run_here


@pytest.mark.slow
@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(
    "page", sorted({block.page for block in ALL if block.mark.startswith("slow")} - set(DATA))
)
def test_a_page_runs_as_printed_with_the_miniature(page: str) -> None:
    pytest.importorskip("torch")
    run_in_order([block for block in blocks(page) if not block.mark.startswith("parsed only")])

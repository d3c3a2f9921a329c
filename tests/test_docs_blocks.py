"""Every `bash` and `python` block of the pages: run as printed where that can be, and parsed everywhere.

A paragraph `Needs: …` before a block tells readers, and these tests, what it takes beyond a laptop with the
default installation; such a block is parsed only. An HTML comment says that only `make test-all` runs a block
(`slow: …`), or which other test does (`parsed only: tests/….py …`). The blocks of a page, and of the pages on
data in the order of the work, run in one folder, with the default profile that a reader has.
"""

from __future__ import annotations

import asyncio
import io
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, closing, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from itertools import pairwise, takewhile
from pathlib import Path
from typing import Any, TextIO

import pytest

from interleave.backends.registry import check_agent, check_generator
from interleave.cli.main import root_command, run
from interleave.cli.old_spellings import rewrite
from interleave.config.profiles import profile_files
from interleave.runs.resolve import Choices, resolve

ROOT = Path(__file__).parent.parent
_WORK = ("requests", "collecting", "scoring", "selecting", "exporting", "sequences", "report", "importing")
DATA = [f"docs/how-to/data/{name}.md" for name in _WORK]
"""These pages continue each other."""
PAGES = ["README.md", *sorted(str(page.relative_to(ROOT)) for page in (ROOT / "docs").rglob("*.md"))]
_BLOCK = re.compile(
    r"(?:<!-- (?P<mark>[^>]*?) -->\s*|^Needs: (?P<needs>[^\n]*)\n\s*)?"
    r"^ *```(?P<language>bash|python)\n(?P<text>.*?)^ *```(?:\n\n```\n(?P<printed>.*?)^```)?",
    re.DOTALL | re.MULTILINE,
)
_SET = re.compile(r"^(?:[A-Z_]+=(?:\$\([^)]*\)|\S+) )+")
_BARE = re.compile(r"^```\n(.*?)^```", re.DOTALL | re.MULTILINE)
_COMMAND = re.compile(r"^(?:[A-Z_]+=\S+ )*(?:interleave|curl|pip|python3?|make|export|vllm) ", re.MULTILINE)
_EXIT = re.compile(r"# exit code (\d+)")
ROLES = ("--profile", "--planner", "--critic", "--generator")
THINGS = ("GPU", "key", "server", "cluster", "data", "weights", "program", "package", "hours")
"""What a block may need that a laptop with the default installation has not."""
SERVERS = {("serve", "generator"): 8011, ("serve", "documents"): 8020, ("studio",): 8030}
"""Commands that run until they are stopped, and the port that the pages name."""


@dataclass(frozen=True)
class Block:
    page: str
    number: int
    language: str
    text: str
    mark: str
    needs: str
    printed: str
    """What the page says that it prints."""

    @property
    def lines(self) -> list[str]:
        """The commands of a shell, without the variables set for one of them."""
        joined = re.sub(r"\\\n|\|\n", lambda cut: cut[0].strip("\\\n") + " ", self.text)
        return [_SET.sub("", line.strip()) for line in joined.splitlines()] if self.language == "bash" else []

    @property
    def commands(self) -> list[list[str]]:
        return [shlex.split(line, comments=True) for line in self.lines if line.startswith("interleave ")]

    @property
    def is_quick(self) -> bool:
        return not self.mark and not self.needs

    @property
    def is_run(self) -> bool:
        return self.is_quick or self.mark.startswith("slow: ")


def blocks(page: str) -> Iterator[Block]:
    text = (ROOT / page).read_text("utf-8")
    for number, found in enumerate(_BLOCK.finditer(text)):
        mark, needs, printed = found["mark"] or "", found["needs"] or "", found["printed"] or ""
        yield Block(page, number, found["language"], found["text"], mark, needs, printed)


ALL = [block for page in PAGES for block in blocks(page)]


def name_of(block: Block) -> str:
    return f"{Path(block.page).stem}-{block.number}"


def test_every_mark_is_one_that_is_known() -> None:
    assert len(ALL) > 60
    for block in ALL:
        runner = re.match(r"parsed only: (tests/\S+\.py) ", block.mark)
        assert not runner or (ROOT / runner[1]).is_file(), f"{block.page}: {runner and runner[1]}"
        known = not block.mark or runner or block.mark.startswith("slow: ")
        assert known, f"{block.page}: <!-- {block.mark} -->"


def test_a_block_that_is_not_run_names_a_thing_it_needs() -> None:
    for block in ALL:
        named = any(re.search(rf"\b{thing}", block.needs) for thing in THINGS)
        assert not block.needs or named, f"{block.page}: Needs: {block.needs}"


def test_every_command_is_in_a_block_that_is_tested() -> None:
    for page in PAGES:
        for text in _BARE.findall((ROOT / page).read_text("utf-8")):
            assert not _COMMAND.search(text), f"{page}: {text}"


@pytest.mark.parametrize("block", [block for block in ALL if block.language == "python"], ids=name_of)
def test_its_python_is_python(block: Block) -> None:
    compile(block.text, block.page, "exec")


@pytest.mark.parametrize("block", [block for block in ALL if block.commands], ids=name_of)
def test_its_commands_options_specs_and_profiles_exist(block: Block, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in re.findall(r"^export .*?([A-Z_]+)=(\S+)", block.text, re.MULTILINE):
        monkeypatch.setenv(name, value)
    for words in block.commands:
        words = up_to_shell(words[1:])
        if words[-1].startswith("$") and not words[-2].startswith("--"):
            words.pop()  # further options, told below the block
        if any("|" in word for word in words) or (words[0] == "bench" and "counting" in words):
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
    command: Any = root_command()
    arguments, _ = rewrite(words)
    context = command.make_context("interleave", list(arguments), resilient_parsing=True)
    while hasattr(command, "commands") and arguments and not arguments[0].startswith("--"):
        name, command, arguments = command.resolve_command(context, arguments)
        is_group = hasattr(command, "commands")
        context = command.make_context(name, list(arguments), parent=context, resilient_parsing=is_group)
        if is_group:
            arguments = [*context._protected_args, *context.args]


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
    """Raises where a reader is refused: the agents of the profile do not know the generator's images."""
    named = {option.removeprefix("--"): value for option, value in pairwise(words) if option in ROLES}
    if named["generator"].startswith("stripes"):
        return
    resolve(Choices(**{"profile": "mini", **named}))  # type: ignore[arg-type]


class Reader:
    """Does what a page says, in its order and in one folder; servers take any free port."""

    def __init__(self) -> None:
        self.names: dict[str, object] = {}
        self.addresses: dict[str, str] = {}
        self.servers: dict[int, subprocess.Popen[str]] = {}

    def read(self, block: Block) -> None:
        if block.language == "python":
            exec(compile(self.here(block.text), block.page, "exec"), self.names)
            if "watch" in self.names:
                asyncio.run(self.names.pop("watch")())  # type: ignore[operator]
        said = io.StringIO()
        with redirect_stderr(said):
            for line in block.lines:
                expected = _EXIT.search(line)
                code = self.do(self.here(line), said)
                assert code == (int(expected[1]) if expected else 0), (
                    f"{block.page}: {line}: {said.getvalue()}"
                )
        for line in block.printed.splitlines():
            assert "…" in line or line in said.getvalue(), f"{block.page}: {line}"

    def here(self, text: str) -> str:
        for named, actual in self.addresses.items():
            text = text.replace(named, actual)
        return text

    def do(self, line: str, said: TextIO) -> int:
        if line.startswith(("curl ", "python3 -c ", "python -c ")):
            with_us = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
            shell = ["bash", "-o", "pipefail", "-c", line]
            return subprocess.run(shell, stdout=subprocess.DEVNULL, env=with_us).returncode
        if not line.startswith("interleave "):
            return 0  # it installs, or sets up what the tests have
        words = shlex.split(line, comments=True)[1:]
        for command, port in SERVERS.items():
            if tuple(words[: len(command)]) == command:
                return self.start(words, port)
        with ExitStack() as while_it_runs:
            target = said
            if ">" in words:
                target = while_it_runs.enter_context(open(words[words.index(">") + 1], "w", encoding="utf-8"))
            while_it_runs.enter_context(redirect_stdout(target))
            return run(up_to_shell(words))

    def start(self, words: list[str], port: int) -> int:
        self.stop(port)  # as a reader would who gives the next command in the same terminal
        command = [sys.executable, "-m", "interleave", *words, "--port", "0"]
        quiet = {**os.environ, "BROWSER": "true"}
        server = self.servers[port] = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=quiet)
        assert server.stdout is not None
        address = server.stdout.readline().strip().removeprefix("http://").rstrip("/")
        self.addresses[f"127.0.0.1:{port}"] = address
        return 0 if address else server.wait()

    def stop(self, port: int) -> None:
        if server := self.servers.pop(port, None):
            server.terminate()
            server.communicate(timeout=60)
            assert server.returncode == 0

    def close(self) -> None:
        with ExitStack() as last:  # clients first, then servers, whatever fails
            for port in list(self.servers):
                last.callback(self.stop, port)
            for value in self.names.values():
                if hasattr(value, "close") and not isinstance(value, type):
                    last.callback(value.close)


def run_in_order(chosen: list[Block]) -> None:
    with closing(Reader()) as reader:
        for block in chosen:
            reader.read(block)


@pytest.fixture
def reader(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a reader has: the default profile, and a browser."""
    monkeypatch.delenv("INTERLEAVE_PROFILE")
    monkeypatch.setattr("webbrowser.open", lambda url: True)


@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(
    "page", sorted({block.page for block in ALL if block.is_quick} - {"README.md", *DATA})
)
def test_a_page_runs_as_printed(page: str) -> None:
    run_in_order([block for block in blocks(page) if block.is_quick])


def test_a_run_is_steered_as_printed_with_doubles() -> None:
    """The same commands with the learned models are among the slow ones."""
    chosen = [block for block in blocks("docs/how-to/steer-a-run.md") if block.is_run]
    assert len(chosen) > 6
    run_in_order([replace(block, text=block.text.replace("world", "solid?size=64")) for block in chosen])


@pytest.mark.slow
@pytest.mark.usefixtures("reader")
def test_the_pages_on_data_run_one_after_the_other() -> None:
    pytest.importorskip("pyarrow")
    run_in_order([block for page in DATA for block in blocks(page) if block.is_run])
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


@pytest.mark.slow
@pytest.mark.usefixtures("reader")
@pytest.mark.parametrize(
    "page", sorted({block.page for block in ALL if block.mark.startswith("slow")} - set(DATA))
)
@pytest.mark.filterwarnings("ignore:mkldnn_matmul failed:UserWarning")  # on a CPU without bfloat16
def test_a_page_runs_as_printed_with_the_miniature(page: str) -> None:
    pytest.importorskip("torch")
    run_in_order([block for block in blocks(page) if block.is_run])

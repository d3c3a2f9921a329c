"""Other people's trainers on rows that we export: `make test-trainers` makes environments for them.

Each trainer's own code runs in a process of its environment (`drivers/`), which hands back what it found.
A trainer whose environment is not there is skipped and named at the end.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import environments
import pytest
from driven import Material, Trainer

GENERATOR = ("--generator", "world?mistakes=0.4")
SHORT = ("--config", "debug-sft", "--steps", "1")
MISSING: dict[str, str] = {}
"""The environments that were asked for and are not there, and why."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """They take minutes: `make test` leaves them out."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.slow)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    for name, reason in MISSING.items():
        terminalreporter.write_line(f"not tested: {name} ({reason})")


@pytest.fixture(scope="session")
def trainer() -> Callable[[str], Trainer]:
    """A trainer by the name of its environment; skips where it is not there."""

    def find(name: str) -> Trainer:
        if reason := environments.why_not(name):
            MISSING[name] = reason
            pytest.skip(f"{name}: {reason}")
        return Trainer(name, environments.python_of(name))

    return find


@pytest.fixture(scope="session")
def material(tmp_path_factory: pytest.TempPathFactory) -> Material:
    """Rows of the miniature's world with the prompts for real models: they are as long as real ones."""
    from interleave.local.tiny.vlms import build_tiny_vlm

    folder = tmp_path_factory.mktemp("material")
    build_tiny_vlm(folder / "toy")
    counted = ["--tokenizer", "./toy"]
    formats = [
        word for name in ("trl", "llamafactory", "swift", "verl", "easyr1") for word in ("--format", name)
    ]
    commands = (
        ["data", "prompts", "--source", "mini", "--items", "16", "--out", "requests.jsonl"],
        ["data", "collect", "requests.jsonl", "--out", "runs", "--profile", "oracle", *GENERATOR],
        ["data", "score", "runs", "--scorer", "oracle"],
        ["data", "select", "runs", "--out", "selection"],
        ["data", "export", "selection", "--out", "export", "--prompts", "default", *counted, *formats],
        ["train", "sft", "critic", "--data", "export", "--model", "./toy", *SHORT, "--out", "trained"],
    )
    for words in commands:
        done = subprocess.run([sys.executable, "-m", "interleave", *words], cwd=folder, capture_output=True)
        # The oracle has no rule for some wordings.
        in_other_words = (
            words[1] == "collect" and done.returncode == 2
        )  # some, for which the oracle has no rule
        assert in_other_words or done.returncode == 0, done.stderr.decode()
    return Material(folder / "export", folder / "trained" / "model")

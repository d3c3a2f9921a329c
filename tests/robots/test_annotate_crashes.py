"""kill -9 in the middle of an annotation: nothing that was done is lost or done again."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("av")

from held import wait_until
from interleave.cli.main import run
from interleave.robots.annotation_file import LINES_NAME, read_lines
from interleave_mini.robots.episodes import write_episodes

pytestmark = pytest.mark.slow
EPISODES = 8


def test_an_annotation_that_is_killed_again_and_again_ends_as_an_undisturbed_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write_episodes(tmp_path / "d", EPISODES)
    lines = tmp_path / "killed" / LINES_NAME
    command = ["robot", "annotate", str(tmp_path / "d"), "--annotator", "oracle", "--concurrency", "2"]
    for target in (1, 3, 5):
        process = subprocess.Popen(
            [sys.executable, "-m", "interleave", *command, "--out", str(lines.parent)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

        def has_enough(target: int = target) -> bool:
            return lines.is_file() and lines.read_bytes().count(b"\n") >= target

        try:
            wait_until(has_enough)
        finally:
            process.kill()
            process.wait()
    before = lines.read_bytes()
    assert run([*command, "--out", str(lines.parent), "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert (facts["annotated"], facts["failed"]) == (EPISODES, 0)
    whole = before[: before.rfind(b"\n") + 1]
    assert lines.read_bytes().startswith(whole), "what was on disk stays as it was"
    assert lines.read_bytes().count(b"\n") == EPISODES, "every episode has one line"
    assert run([*command, "--out", str(tmp_path / "undisturbed")]) == 0
    assert read_lines(lines)[0] == read_lines(tmp_path / "undisturbed" / LINES_NAME)[0]

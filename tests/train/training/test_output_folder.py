"""The lock of a training's output folder."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from interleave.errors import FolderInUse
from interleave.train.output_folder import OutputFolder
from interleave.train.recipes import load_recipe

TRAINING = """
import os, sys
from pathlib import Path
from interleave.train.output_folder import OutputFolder
from interleave.train.recipes import load_recipe

with OutputFolder(Path(sys.argv[1])).open("critic", load_recipe("debug-sft", task="sft"), "rows"):
    child = os.fork()
    if child == 0:
        print(os.getpid(), flush=True)
    sys.stdin.read()
"""
"""Holds the folder and waits; its forked child waits as well."""


@pytest.mark.slow
def test_a_killed_training_leaves_no_lock_to_its_forked_children(tmp_path: Path) -> None:
    folder, recipe = OutputFolder(tmp_path / "out"), load_recipe("debug-sft", task="sft")
    command = [sys.executable, "-c", TRAINING, str(folder.folder)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as training:
        assert training.stdout is not None
        child = int(training.stdout.readline())
        with pytest.raises(FolderInUse), folder.open("critic", recipe, "rows"):
            pass  # the child has given up its copy of the lock, not the lock
        training.kill()
        assert training.wait() == -signal.SIGKILL
        os.kill(child, 0)  # it lives
        with folder.open("critic", recipe, "rows"):
            pass
